//! One name of a folder, and what a look at it finds.

/// Longer than any name of a filesystem.
pub const NAME_BYTES_MAX: usize = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name<'a> {
    pub name: &'a [u8],
    /// None if they are looked up when the row is written.
    pub details: Option<Details>,
    pub folder: bool,
}

/// What a folder says about a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    File,
    Folder,
    /// A symbolic link, or the filesystem does not tell.
    Unclear,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Details {
    pub size: u64,
    /// Seconds since the Unix epoch.
    pub modified: i64,
}

/// What a look at a name finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    pub details: Details,
    pub folder: bool,
}
