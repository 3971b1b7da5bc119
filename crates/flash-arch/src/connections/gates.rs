//! Gates that bound how many threads or processes work for long at the same time: with a handshake, or with the check of a
//! log-in.
//!
//! A gate between processes is a lock on a byte of a file without a name. The kernel frees the lock of a process that ends, however it ends.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use flash_os::{memory_file, record_lock};
use parking_lot::{FairMutex, FairMutexGuard};
use rustix::process::getpid;

/// Gates between the threads of a process. Those who wait at a gate pass in the order of arrival.
pub(crate) struct ThreadGates {
    gates: Box<[FairMutex<()>]>,
    /// Chooses the gate for a thread that has to wait.
    next: AtomicUsize,
}

/// How many steps of handshakes are taken at once by workers that block: one for each processor.
pub(crate) fn steps_at_once() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

impl ThreadGates {
    pub(crate) fn new(gates: usize) -> Self {
        Self { gates: (0..gates.max(1)).map(|_| FairMutex::new(())).collect(), next: AtomicUsize::new(0) }
    }

    /// Waits until a gate is free, for so long at most. Others wait while the returned value lives.
    pub(crate) fn pass(&self, patience: Duration) -> Option<FairMutexGuard<'_, ()>> {
        self.gates.iter().find_map(FairMutex::try_lock).or_else(|| {
            let gate = self.next.fetch_add(1, Ordering::Relaxed) % self.gates.len();
            self.gates[gate].try_lock_for(patience)
        })
    }
}

/// Processes that are forked share the gates. Each process has one thread at most that passes.
#[derive(Clone)]
pub(crate) struct ProcessGates {
    /// A byte for each gate.
    locks: Arc<OwnedFd>,
    count: usize,
}

/// A gate that was passed. Others wait until this value's end.
pub(crate) struct Passed<'g> {
    gates: &'g ProcessGates,
    gate: usize,
}

impl ProcessGates {
    pub(crate) fn new(gates: usize) -> io::Result<Self> {
        let locks = memory_file::new("flash-gates")?;
        Ok(Self { locks: Arc::new(locks), count: gates.max(1) })
    }

    /// Waits until a gate is free.
    pub(crate) fn pass(&self) -> Passed<'_> {
        let free = (0..self.count).find(|&gate| record_lock::try_lock(&self.locks, gate).is_ok());
        let gate = free.unwrap_or_else(|| {
            let gate = getpid().as_raw_nonzero().get() as usize % self.count;
            // Interrupted or refused, the work goes on without it.
            let _ = record_lock::lock(&self.locks, gate);
            gate
        });
        Passed { gates: self, gate }
    }
}

impl Drop for Passed<'_> {
    fn drop(&mut self) {
        let _ = record_lock::unlock(&self.gates.locks, self.gate);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_threads_pass_than_there_are_gates() {
        let gates = ThreadGates::new(2);
        let passed = [gates.pass(Duration::ZERO), gates.pass(Duration::ZERO)];
        assert!(passed.iter().all(Option::is_some));
        assert!(gates.pass(Duration::from_millis(1)).is_none(), "two have passed");
        thread::scope(|scope| {
            let waiting: Vec<_> = (0..4)
                .map(|_| scope.spawn(|| gates.pass(Duration::from_secs(60)).map(drop).is_some()))
                .collect();
            drop(passed);
            assert!(waiting.into_iter().all(|thread| thread.join().unwrap()));
        });
    }
}
