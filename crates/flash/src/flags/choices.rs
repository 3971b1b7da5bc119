//! Flags of `flash serve` that choose one of a few ways.

use clap::ValueEnum;
use flash_core::file::validators::TagSource;

/// Where a request runs, and what waits for the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Arch {
    /// Event loops; helper threads do what would block
    Amped,
    /// As amped, on a ring shared with the kernel (io_uring). Without io_uring, as amped
    Uring,
    /// Event loops that wait for the disk themselves
    Sped,
    /// Pools of a thread for each step of a request, with two helper threads
    Pipelined,
    /// A thread per connection
    Mt,
    /// A process per connection
    Mp,
}

/// What helpers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Helpers {
    /// Threads of the server
    Thread,
    /// Processes that pass open files to the server
    Process,
}

/// How much the server gives up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Sandbox {
    /// As much as the kernel allows
    On,
    /// All of it, or do not start
    Required,
    /// Nothing
    Off,
}

/// The field in which trusted proxies name their clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ForwardedField {
    /// Where most proxies do
    XForwardedFor,
    /// Of RFC 7239
    Forwarded,
}

/// Which of several HTTP servers gets a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Balance {
    /// Of two that are taken at random, the one with fewer requests under way
    LeastRequests,
    /// Each in its turn
    RoundRobin,
}

/// What entity tags are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Etag {
    /// The time of the last change and the size. Where the time says nothing, a digest of the content
    Time,
    /// Always a digest of the content
    Digest,
    /// Nothing: there are none
    Off,
}

/// How far symbolic links are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FollowLinks {
    /// As long as they stay below DIR
    Inside,
    /// Wherever they lead
    Anywhere,
}

impl From<Etag> for TagSource {
    fn from(etag: Etag) -> Self {
        match etag {
            Etag::Time => Self::Time,
            Etag::Digest => Self::Digest,
            Etag::Off => Self::Off,
        }
    }
}
