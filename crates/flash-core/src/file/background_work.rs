//! Work that no client waits for: the request path asks for it, and answers without it meanwhile.
//!
//! In which thread it is done, and in which order, is not known here.

use crate::file::compression::Compression;
use crate::file::digest::Digest;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BackgroundWork {
    Compression(Compression),
    Digest(Digest),
}

impl BackgroundWork {
    /// Whether it is done in a second, more or less.
    pub fn is_short(&self) -> bool {
        match self {
            Self::Compression(_) => true,
            Self::Digest(digest) => digest.is_short(),
        }
    }
}
