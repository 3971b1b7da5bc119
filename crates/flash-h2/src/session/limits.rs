//! What a client may cost. The user of a session decides it.

use crate::request::HeadLimits;

/// What a client may cost.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub streams_max: u32,
    pub head: HeadLimits,
    /// Resets of either side, at once and each second.
    pub resets: (u32, u32),
    /// Frames without use, at once and each second: pings, settings, priorities, empty data, small windows.
    pub idle_frames: (u32, u32),
}
