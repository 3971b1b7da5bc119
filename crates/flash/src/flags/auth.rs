//! Who has to log in.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The value of `--auth`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Auth {
    /// Nobody. In a place, although its site has users.
    Off,
    File(PathBuf),
}

impl From<OsString> for Auth {
    /// A file that is really called `off` is reached as `./off`.
    fn from(text: OsString) -> Self {
        if text == "off" { Self::Off } else { Self::File(text.into()) }
    }
}

impl Auth {
    pub(crate) fn file(&self) -> Option<&Path> {
        match self {
            Self::Off => None,
            Self::File(path) => Some(path),
        }
    }
}
