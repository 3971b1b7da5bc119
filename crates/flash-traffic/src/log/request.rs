//! A request of a log, and why a log cannot be read.

use std::io;

/// A `log.gz` within a `logs.tar.gz` is packed three times.
pub(super) const DEPTH_MAX: u32 = 5;

/// Longer lines are passed over. Servers refuse targets of a half of this, and the rest is two header fields.
pub const LINE_BYTES_MAX: usize = 64 << 10;

/// One request, as its server logged it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// `GET`, mostly.
    pub method: &'a [u8],
    /// What stood in the request line, whatever it was; empty where the client sent none.
    pub target: &'a [u8],
    /// What it was answered with.
    pub status: u16,
    /// What the reply's body weighed; None where the log has a dash.
    pub bytes: Option<u64>,
    /// Seconds since the beginning of 1970, or where the log has no year and no month, of that month's days.
    pub at_seconds: i64,
}

/// Why a log cannot be read to its end.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The file cannot be opened or read, or is packed and damaged.
    #[error("{name}: {source}")]
    Read {
        /// The file, and within an archive its place there.
        name: String,
        /// What the system or the unpacker said.
        source: io::Error,
    },
    /// No line of it, or too few, are of any known format.
    #[error("{name}: no access log that is known here (common, combined, epa and worldcup are)")]
    Unrecognised {
        /// The file.
        name: String,
    },
    /// Packed again and again.
    #[error("{name}: packed more than {deepest} times", deepest = DEPTH_MAX)]
    TooDeep {
        /// The file, and within an archive its place there.
        name: String,
    },
}
