//! Where the access log goes, and how its lines look.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::ValueEnum;
use flash_observe::{Destination, Format};

/// The value of `--access-log`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LogTo {
    Off,
    Stdout,
    File(PathBuf),
}

impl From<OsString> for LogTo {
    /// A file that is really called `off` is reached as `./off`.
    fn from(text: OsString) -> LogTo {
        match text.as_encoded_bytes() {
            b"off" => LogTo::Off,
            b"-" => LogTo::Stdout,
            _ => LogTo::File(text.into()),
        }
    }
}

impl LogTo {
    pub(crate) fn destination(&self) -> Option<Destination> {
        match self {
            LogTo::Off => None,
            LogTo::Stdout => Some(Destination::Stdout),
            LogTo::File(path) => Some(Destination::Path(path.clone())),
        }
    }
}

/// The value of `--log-format`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// Apache's combined format, which every log analyser reads
    Combined,
    /// One JSON object a line
    Json,
    /// Status, request, size and time, for a person
    Short,
}

impl From<LogFormat> for Format {
    fn from(format: LogFormat) -> Format {
        match format {
            LogFormat::Combined => Format::Combined,
            LogFormat::Json => Format::Json,
            LogFormat::Short => Format::Short,
        }
    }
}
