//! The limits that all architectures know. Those of helpers are in [`helpers`](crate::helpers).

use std::time::Duration;

/// The lowest priority, for all threads that loops leave their work to. If processors are short, loops run first.
pub(crate) const HELPER_NICE: i32 = 19;

/// The limits of one process that serves.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    pub connections_max: usize,
    /// TLS connections at once whose clients have not finished their handshakes.
    pub handshakes_max: usize,
    /// How long exchanges under way may take after a signal to stop.
    pub drain: Duration,
    /// The same after another server has taken this one's place.
    pub upgrade_drain: Duration,
}
