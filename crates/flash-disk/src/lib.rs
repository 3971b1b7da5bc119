//! The only code that may wait for a disk: it does the jobs that the request path asks for.
//!
//! Each job can be done in three ways. [`Disk::run`] waits where it stands. [`Disk::try_now`] does it only if no
//! waiting is needed. [`Disk::help`] waits on behalf of somebody who must not. Who calls which is `flash-arch`'s
//! business.

#![forbid(unsafe_code)]

mod blocking;
mod call_timer;
mod closer;
mod disk;
mod error_pages;
mod find;
mod list;
mod listings;
mod lookup_error;
mod mounts;
mod names;
mod open_at;
mod open_file;
mod read;
pub mod remote;
mod retry;
mod root;
mod run;
mod scripts;
mod settings;
mod snapshot;
mod spool;
mod stat;
mod users;

pub use crate::call_timer::{LongestCall, longest_call};
pub use crate::disk::Disk;
pub use crate::error_pages::error_pages;
pub use crate::mounts::{Capabilities, Device, DeviceClass, NameRule};
pub use crate::retry::again_if;
pub use crate::settings::{FollowLinks, SendMode, Settings};
pub use crate::spool::Spool;

#[cfg(test)]
mod tests;
