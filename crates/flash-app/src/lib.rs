//! Programs: begun by a fork helper, watched by a keeper, and talked to by whoever asked for them.
//!
//! [`Programs`] is what the request path asks, whatever a route leads to: scripts ([`Cgi`]), FastCGI servers that
//! somebody else runs, to which connections are kept, and applications that are started here, as many processes as are
//! needed. What programs say in answer to requests passes by here: that is the request path's business, in `flash-core`.
//!
//! [`ForkHelper`] is a small process that begins every program, so that the price does not grow with the server. In each
//! server process a [`Keeper`], a thread, asks it, hears how programs end and what they complain about, and ends them
//! when nobody has a use for them any more. A second thread, the clerk, does what no loop may wait for with connections.

#![forbid(unsafe_code)]

mod address;
mod cgi;
mod clerk;
mod fastcgi;
mod gate;
mod guard;
mod helper;
mod keeper;
mod lines;
mod pool;
mod post;
mod programs;
mod script;
mod setup;
mod shelf;
mod start_record;
mod waits;
mod wire;

pub use address::{Address, UnixAddress};
pub use cgi::{Account, Cgi};
pub use flash_os::spawn::{Limit, Resource};
pub use guard::ForkHelper;
pub use keeper::{Complaint, Hearing, Keeper, Limits, Order, Running, Say, Started, Stdio, Watcher};
pub use programs::{Application, Ears, Heard, Programs, Service, Settings};
pub use setup::{Command, Folder, Setup};
pub use wire::{Ended, What};
