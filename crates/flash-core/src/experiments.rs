//! Switches for people who study servers. Each switch removes one technique of Flash, or restores the technique of an earlier
//! server. The defaults are Flash as it is.

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Experiments {
    pub file_cache: FileCache,
    /// Make the head of a file again for every response (Flash §5.3 without its cache).
    pub header_uncached: bool,
    /// Pad heads of files to a multiple of 32 bytes (Flash §5.5, byte position alignment).
    pub header_padding: bool,
    pub offload: Offload,
    /// Assume that a file's pages are in memory, so that the sender may have to wait.
    pub residency_assumed: bool,
}

/// How the content of files is cached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FileCache {
    #[default]
    Memory,
    /// As an open file, whose pages are sent by `sendfile`.
    Descriptor,
    /// As an open file, whose pages are sent through a map, as in the Flash of 1999.
    Mapped,
    /// Not at all: the file is opened again for each piece that is sent.
    Off,
}

/// Which jobs go to helpers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Offload {
    /// Jobs that would make the loop wait.
    #[default]
    Needed,
    /// All jobs, though many could be done at once.
    Always,
    /// All jobs but finding and opening files. The loop waits for these, as in the Flash of 1999.
    NotOpening,
}
