//! Programs: begun by a fork helper, watched by a keeper, and talked to by whoever asked for them.
//!
//! [`ForkHelper`] is a small process that begins every program, so that the price does not grow with the server. In each
//! server process a [`Keeper`], a thread, asks it, hears how programs end and what they complain about, and ends them
//! when nobody has a use for them any more. What programs say in answer to requests passes by here: that is the request
//! path's business, in `flash-core`.

#![forbid(unsafe_code)]

mod cgi;
mod guard;
mod helper;
mod keeper;
mod post;
mod script;
mod setup;
mod wire;

pub use cgi::{Account, Cgi};
pub use flash_os::spawn::{Limit, Limited};
pub use guard::ForkHelper;
pub use keeper::{Complaint, Hearing, Keeper, Limits, Order, Running, Say, Started, Stdio, Watcher};
pub use setup::{Command, Folder, Setup};
pub use wire::{Ended, What};
