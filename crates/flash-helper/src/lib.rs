//! `flash helper`: Flash's helpers for other servers, whose workers would wait for the disk themselves.
//!
//! An asker, such as a worker of nginx, sends questions over a Unix socket and gets open files (Flashpache, Ruan and Pai 2006).
//! [`protocol`] is the wire format. [`Daemon`] is the event loop between the askers and the helpers of `flash-arch`. It
//! distrusts its askers: see [`settings`]. How files are found is `flash-disk`'s work, and the flags are `flash`'s.

#![forbid(unsafe_code)]

mod answer;
mod asker;
mod closing;
mod daemon;
mod listener;
pub mod protocol;
mod questions;
mod receive;
mod root;
pub mod settings;
mod stop;

pub use crate::daemon::Daemon;
pub use crate::listener::Listener;
pub use crate::root::Root;
pub use crate::settings::{Quotas, Settings};
