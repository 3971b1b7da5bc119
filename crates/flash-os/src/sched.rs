//! What a thread asks of schedulers: that of the processors for time slices, that of disks to go behind all others.
//!
//! A slice is how long a thread runs before another one's turn. A thread that asks for short slices is also run sooner after it
//! wakes (Linux 6.12; earlier kernels take no notice).

use std::io;

use crate::system;
use crate::system_calls::{Call, has};

/// The shortest slice that the kernel takes.
pub const SLICE_NS_MIN: u64 = 100_000;

/// Asks for time slices of that length for this thread. Its policy and priority stay as they are.
///
/// # Errors
/// Where there are none to ask for.
pub fn set_slice(slice_ns: u64) -> io::Result<()> {
    if has(Call::SchedSetattr) {
        system::sched::set_slice(slice_ns)
    } else {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// This thread's reads go to the disk when nobody else's do, where the disk has a scheduler that can tell. Returns whether the system
/// knows of such a thing.
pub fn read_last() -> bool {
    // Who may not say what a thread needs of processors is not asked about disks either.
    has(Call::SchedSetattr) && system::sched::read_last()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_user_may_set_a_slice() {
        set_slice(SLICE_NS_MIN).unwrap();
    }

    #[test]
    fn every_user_may_read_last() {
        std::thread::spawn(|| assert!(read_last() || cfg!(not(target_os = "linux")))).join().unwrap();
    }
}
