//! A request's life in stretches.

/// What a request does or waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Activity {
    /// In a queue, until a runner takes it.
    Queued,
    /// Its runner waits for a processor.
    Ready,
    Processor,
    WaitsForLock,
    WaitsForDisk,
    Reads,
    Wire,
}

impl Activity {
    pub(super) const ALL: [Activity; 7] = [
        Activity::Queued,
        Activity::Ready,
        Activity::Processor,
        Activity::WaitsForLock,
        Activity::WaitsForDisk,
        Activity::Reads,
        Activity::Wire,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Activity::Queued => "in a queue",
            Activity::Ready => "waits for a processor",
            Activity::Processor => "on a processor",
            Activity::WaitsForLock => "waits for a lock",
            Activity::WaitsForDisk => "in the disk's queue",
            Activity::Reads => "read from the disk",
            Activity::Wire => "on the wire",
        }
    }
}

/// A stretch of a request's life.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Span {
    pub(super) state: Activity,
    pub(super) from_us: f64,
    pub(super) to_us: f64,
}
