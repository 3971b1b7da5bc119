//! How much is measured.

use std::time::Duration;

/// How much is done for a figure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    /// How often everything is measured.
    pub(super) rounds: u64,
    /// How long servers are asked for the same.
    pub(super) asked: Duration,
}

impl Effort {
    pub(crate) const WHOLE: Effort = Effort { rounds: 5, asked: Duration::from_millis(400) };
    pub(super) const QUICK: Effort = Effort { rounds: 1, asked: Duration::from_millis(100) };
}
