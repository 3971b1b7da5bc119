//! Reloads of the real program: what changes, what stays, and that no request notices.

#![forbid(unsafe_code)]

mod admin;
mod listeners;
mod loads;
mod settings;
mod setup;
