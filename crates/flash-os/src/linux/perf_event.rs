//! The sleeps of one thread with their kernel stacks, by `perf_event_open`: a software event of context switches.
//!
//! It needs no processor counters, no tracefs and no eBPF. It needs CAP_PERFMON, or `kernel.perf_event_paranoid` of at most 1.
//! The kernel writes records into a [ring](ring) of shared memory. It leaves out names of functions and what they mean.

mod attributes;
mod call;
mod event;
mod record;
mod ring;

use std::io;
use std::os::fd::OwnedFd;

use self::attributes::Attributes;
pub use self::call::CallRecorder;
use self::event::{control, open};
use self::record::Record;
use self::ring::Ring;
pub use crate::sleep::{Begin, Sleep, THIS_THREAD};
use crate::system_calls::{Call, has};

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

impl SleepRecorder {
    /// Records a thread, into a ring of so many pages, a power of two.
    ///
    /// # Errors
    /// EACCES or EPERM without the right to kernel stacks, ESRCH if there is no such thread.
    pub fn open(thread: u32, pages: usize, begin: Begin) -> io::Result<SleepRecorder> {
        if !has(Call::PerfEventOpen) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let event = open(&Attributes::context_switches(begin == Begin::Disabled), thread)?;
        let ring = Ring::map(&event, pages)?;
        Ok(SleepRecorder { event, ring, stack: None, asleep: None, lost: 0 })
    }

    /// Records from now on.
    pub fn enable(&self) {
        control(&self.event, attributes::IOC_ENABLE);
    }

    /// Records nothing more, until it is enabled again.
    pub fn disable(&self) {
        control(&self.event, attributes::IOC_DISABLE);
    }

    /// Gives every sleep that has ended since the last call.
    pub fn read(&mut self, found: &mut dyn FnMut(Sleep)) {
        while let Some(words) = self.ring.next() {
            match Record::read(words) {
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
