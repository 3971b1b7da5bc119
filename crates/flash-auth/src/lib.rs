//! The users of sites and places: password files, their hashes, and the memory of log-ins that were right.
//!
//! A [`PasswordFile`] is read at the start and at each reload. It answers the request path at once if it remembers a log-in, and
//! else with a check, which takes a processor for long. Which thread runs the check is not known here.

#![forbid(unsafe_code)]

mod hash;
mod password_file;
mod successes;

pub use password_file::PasswordFile;
pub use successes::Successes;
