//! How often a thread has slept and faulted, by the kernel's own count (`getrusage`).

use crate::system;

/// Counts since the thread's start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadUsage {
    /// Voluntary context switches: the thread slept in a system call or a page fault.
    pub voluntary_switches: u64,
    /// Page faults that had to read from a disk.
    pub major_faults: u64,
    /// Units of 512 bytes that file systems have read for it from a device.
    pub sectors_read: u64,
}

/// The calling thread's counts. On macOS they are those of all threads together.
pub fn current() -> ThreadUsage {
    // SAFETY: `rusage` is plain numbers, for which all zeroes is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is a valid place to write to; nobody else is asked about.
    let result = unsafe { libc::getrusage(system::process::THREAD_USAGE, &mut usage) };
    debug_assert_eq!(result, 0, "getrusage of the calling thread cannot fail");
    ThreadUsage {
        voluntary_switches: usage.ru_nvcsw as u64,
        major_faults: usage.ru_majflt as u64,
        sectors_read: usage.ru_inblock as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleep_is_a_voluntary_switch() {
        let before = current();
        std::thread::sleep(std::time::Duration::from_millis(2));
        assert!(current().voluntary_switches > before.voluntary_switches);
    }
}
