//! What may be opened, made and changed with the rights of the start.
//!
//! A server that root starts handles files in folders that other users can write. It must not do for such a user what that user
//! may not. So as root:
//!
//! - no link of another user is followed, unless it leads to a file of that user that is only read;
//! - where another user decides what is there, only that user's own is used, or what everyone may read is read. Such a user can
//!   write a folder on the way, and so move things there, and give them other names;
//! - nothing is made there, and no socket where another user could have the path lead to another folder;
//! - a program is executed only if no other user can write it;
//! - a configuration is used only if root alone can write it, or root and one other user. The server and its programs may not
//!   become that user.
//!
//! A path is walked by descriptors, so that what was looked at is what is used. Another user has no rights to give away: there
//! the kernel alone decides. Which files a server needs is not known here.

#![forbid(unsafe_code)]

mod folder;
mod folder_entry;
mod found;
mod program;
mod read;
mod refusal;
mod socket;
#[cfg(test)]
mod tests;
mod write;

pub use folder::{check_folder, make_folder};
pub use program::program;
pub use read::{Purpose, open, open_configuration, user_of_configuration};
pub use refusal::is_refusal;
pub use socket::{SocketAccess, bind, remove_abandoned, set_access};
pub use write::open_log;
