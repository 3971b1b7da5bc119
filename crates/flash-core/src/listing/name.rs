//! One name of a folder, and what a look at it finds.

use crate::file::Stamp;
use crate::file::validators::ContentDigest;

/// Longer than any name of a filesystem.
pub const NAME_BYTES_MAX: usize = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name<'a> {
    pub name: &'a [u8],
    /// `None` if the details are looked up when the row is written.
    pub details: Option<Details>,
    pub folder: bool,
}

/// A name's kind, as its folder gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    File,
    Folder,
    /// A symbolic link, or the filesystem does not say.
    Unclear,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Details {
    pub size: u64,
    /// Seconds since the Unix epoch.
    pub modified: i64,
}

/// The result of a look at a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    pub stamp: Stamp,
    pub folder: bool,
    /// The file's digest, if it is known, and told to clients.
    pub digest: Option<ContentDigest>,
}

impl Seen {
    pub(super) fn details(&self) -> Details {
        Details { size: self.stamp.size, modified: self.stamp.modified_seconds() }
    }
}
