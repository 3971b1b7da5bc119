//! Which connections give way when a new one finds all places taken, and in which order.
//!
//! First those that no request is missed from. Then those whose clients have not said what they want. At last those whose clients keep
//! Flash waiting, although it has all that it needs for them. A connection that Flash itself works for stays.

/// Why a connection may be closed for a new one, and since when, in the server's milliseconds. The smallest goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Evictable {
    /// It is between two requests. Its client connects again, and the kernel still delivers what it holds for it.
    Idle(u64),
    /// The client has not sent a whole head: the first one since it has connected, or a later one since it began.
    Unfinished(u64),
    /// The client reads a response or sends a body more slowly than `--send-rate-min`. Since then it has moved as good as nothing.
    Behind(u64),
}

/// A client that has been behind for less keeps its place: its next packet may be on the way.
pub(crate) const BEHIND_MS: u64 = 1_000;
