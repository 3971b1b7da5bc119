//! The status page, `flash status` and `flash top` of a server that runs.

#![forbid(unsafe_code)]

mod browser;
mod commands;
mod configurations;
mod live;
mod page;
mod programs;
mod setup;
mod workers;
