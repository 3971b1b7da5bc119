//! The only code that may wait for a disk: it does the jobs that the request path asks for.
//!
//! A job can be done in three ways. [`Disk::run`] waits for the disk. [`Disk::try_now`] does a job only if it need
//! not wait. [`Disk::help`] waits for a loop, which must not. `flash-arch` decides which of them is called.

#![forbid(unsafe_code)]

mod access_rules;
mod adopt;
mod blocking;
mod call_timer;
mod closer;
mod compress;
mod destination;
mod digest;
mod digest_store;
mod disk;
mod error_pages;
mod find;
mod identity;
mod known_digests;
mod list;
mod listings;
mod lookup_error;
mod mounts;
mod names;
mod open_at;
mod open_file;
mod open_roots;
mod read;
mod readers;
mod recent;
pub mod remote;
mod retry;
mod root;
mod run;
mod scripts;
mod settings;
mod site_root;
mod sites;
mod snapshot;
mod spool;
mod stat;
mod target;
mod times;
mod users;

pub use crate::call_timer::{LongestCall, longest_call};
pub use crate::closer::Closer;
pub use crate::digest_store::DigestStore;
pub use crate::disk::Disk;
pub use crate::error_pages::error_pages;
pub use crate::identity::{Opened, open_root, real_path};
pub use crate::mounts::{Capabilities, Device, DeviceClass, NameRule};
pub use crate::open_at::open_again;
pub use crate::retry::again_if;
pub use crate::settings::{FollowLinks, Settings, SiteSettings};
pub use crate::site_root::{OpensHere, RootChange, RootOpener, SiteRoot};
pub use crate::sites::NextSites;
pub use crate::spool::Spool;
pub use crate::users::users_folders;

#[cfg(test)]
mod tests;
