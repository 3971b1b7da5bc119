//! A sleep of a thread, as a recorder gives it.

/// One sleep of the thread: it left the processor of its own accord, or its cgroup made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sleep {
    /// Addresses of kernel functions, innermost first.
    pub stack: Vec<u64>,
    /// The six arguments of the system call that the thread was in, if it was in one.
    pub arguments: [u64; 6],
    /// Whether the scheduler took the processor away. A thread that only waited for a processor has this too.
    pub preempted: bool,
    /// The processor that it left.
    pub processor: u32,
    /// When it left, by CLOCK_MONOTONIC.
    pub since_ns: u64,
    /// When it ran again; 0 as long as it sleeps.
    pub until_ns: u64,
}

/// Whether a recorder begins to record at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    Enabled,
    /// When it is told to.
    Disabled,
}

/// The thread that asks.
pub const THIS_THREAD: u32 = 0;
