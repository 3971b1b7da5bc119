//! Reloads of the real program: what changes, what stays, and that no request notices.

#![forbid(unsafe_code)]

mod admin;
mod certificates;
#[path = "../tls/client.rs"]
#[allow(dead_code, reason = "not all of it is needed here")]
mod client;
mod confined;
mod listeners;
mod loads;
mod secured;
mod settings;
mod setup;
mod watched;
