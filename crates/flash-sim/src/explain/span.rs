//! A request's life in stretches.

/// What a request does or waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
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

impl State {
    pub(super) const ALL: [State; 7] = [
        State::Queued,
        State::Ready,
        State::Processor,
        State::WaitsForLock,
        State::WaitsForDisk,
        State::Reads,
        State::Wire,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            State::Queued => "in a queue",
            State::Ready => "waits for a processor",
            State::Processor => "on a processor",
            State::WaitsForLock => "waits for a lock",
            State::WaitsForDisk => "in the disk's queue",
            State::Reads => "read from the disk",
            State::Wire => "on the wire",
        }
    }
}

/// A stretch of a request's life.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Span {
    pub(super) state: State,
    pub(super) from_us: f64,
    pub(super) to_us: f64,
}
