//! The sleeps of one thread with their kernel stacks, by `perf_event_open`: a software event of context switches.
//!
//! It needs no processor counters, no tracefs and no eBPF. It needs CAP_PERFMON, or `kernel.perf_event_paranoid` of at most 1.
//! The kernel writes records into a [ring](ring) of shared memory. It leaves out names of functions and what they mean.

mod attributes;
mod record;
mod ring;
mod sleep;

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use self::attributes::Attributes;
use self::record::Record;
use self::ring::Ring;
pub use self::sleep::Sleep;

/// Records the context switches of one thread.
#[derive(Debug)]
pub struct SleepRecorder {
    event: OwnedFd,
    ring: Ring,
    /// The stack of a switch whose direction has not been read yet.
    stack: Option<Sleep>,
    asleep: Option<Sleep>,
    lost: u64,
}

/// Whether a recorder begins to record at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    Enabled,
    /// After [`SleepRecorder::enable`].
    Disabled,
}

/// The thread that asks.
pub const THIS_THREAD: u32 = 0;

impl SleepRecorder {
    /// Records a thread, into a ring of so many pages, a power of two.
    ///
    /// # Errors
    /// EACCES or EPERM without the right to kernel stacks, ESRCH if there is no such thread.
    pub fn open(thread: u32, pages: usize, begin: Begin) -> io::Result<SleepRecorder> {
        let attributes = Attributes::context_switches(begin == Begin::Disabled);
        let (any_processor, no_group): (libc::c_int, libc::c_int) = (-1, -1);
        // SAFETY: `attributes` is a whole `perf_event_attr` that says its size; the kernel only reads it.
        let event = unsafe {
            libc::syscall(
                libc::SYS_perf_event_open,
                &raw const attributes,
                thread as libc::pid_t,
                any_processor,
                no_group,
                attributes::FLAG_FD_CLOEXEC,
            )
        };
        if event < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just opened it, for us alone.
        let event = unsafe { OwnedFd::from_raw_fd(event as RawFd) };
        let ring = Ring::map(&event, pages)?;
        Ok(SleepRecorder { event, ring, stack: None, asleep: None, lost: 0 })
    }

    /// Records from now on.
    pub fn enable(&self) {
        self.control(attributes::IOC_ENABLE);
    }

    /// Records nothing more, until it is enabled again.
    pub fn disable(&self) {
        self.control(attributes::IOC_DISABLE);
    }

    fn control(&self, request: libc::c_ulong) {
        // SAFETY: both requests take no memory, only the number 0.
        let result = unsafe { libc::ioctl(self.event.as_raw_fd(), request as _, 0) };
        debug_assert_eq!(result, 0, "an open event can be enabled and disabled");
    }

    /// Gives every sleep that has ended since the last call.
    pub fn read(&mut self, found: &mut dyn FnMut(Sleep)) {
        while let Some(record) = self.ring.next() {
            match record {
                Record::Stack(sleep) => self.stack = Some(sleep),
                Record::Leaves { preempted } => {
                    self.asleep = self.stack.take().map(|sleep| Sleep { preempted, ..sleep });
                }
                Record::Arrives { time_ns } => {
                    if let Some(sleep) = self.asleep.take() {
                        found(Sleep { until_ns: time_ns, ..sleep });
                    }
                }
                // A record whose other half is lost is dropped with it.
                Record::Lost(count) => {
                    self.lost += count;
                    (self.stack, self.asleep) = (None, None);
                }
                Record::Other => {}
            }
        }
    }

    /// The sleep that had not ended at the last [`read`](Self::read).
    pub fn asleep(&self) -> Option<&Sleep> {
        self.asleep.as_ref()
    }

    /// Records that found the ring full. A sleep has three of them.
    pub fn lost(&self) -> u64 {
        self.lost
    }
}

#[cfg(test)]
mod tests;
