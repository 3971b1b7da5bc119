//! How much can be seen, by the rights of who asks.

use std::fmt;

/// A way to see sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Programs in the kernel see every sleep.
    Ebpf,
    /// Perf events of context switches: every sleep, but neither wakers nor who waited, and few paths.
    Perf,
    /// Samples of `/proc`: short sleeps are missed, and every figure is an estimate.
    Proc,
}

impl Level {
    /// Its number in flags and reports.
    pub fn number(self) -> u32 {
        match self {
            Level::Ebpf => 1,
            Level::Perf => 2,
            Level::Proc => 3,
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str(match self {
            Level::Ebpf => "level 1 (eBPF: every sleep)",
            Level::Perf => "level 2 (perf events: every sleep, few paths)",
            Level::Proc => "level 3 (/proc: sampled)",
        })
    }
}
