//! Gates that bound how many processes of mp check a log-in at once.
//!
//! A gate is a lock on a file without a name. The kernel frees the lock of a process that ends, however it ends.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::{FlockOperation, MemfdFlags, fcntl_lock, memfd_create};
use rustix::process::getpid;

/// Processes that are forked share the gates. Each process has one thread at most that passes.
#[derive(Clone)]
pub(crate) struct LoginGates(Arc<[OwnedFd]>);

/// A gate that was passed. Others wait until this value's end.
pub(crate) struct Passed<'g>(&'g OwnedFd);

impl LoginGates {
    pub(crate) fn new(gates: usize) -> io::Result<Self> {
        let gate = |_| Ok(memfd_create(c"flash-log-ins", MemfdFlags::CLOEXEC)?);
        Ok(Self((0..gates.max(1)).map(gate).collect::<io::Result<_>>()?))
    }

    /// Waits until a gate is free.
    pub(crate) fn pass(&self) -> Passed<'_> {
        let free =
            self.0.iter().find(|gate| fcntl_lock(gate, FlockOperation::NonBlockingLockExclusive).is_ok());
        let gate = free.unwrap_or_else(|| {
            let gate = &self.0[getpid().as_raw_nonzero().get() as usize % self.0.len()];
            // Interrupted or refused, the check goes on without it.
            let _ = fcntl_lock(gate, FlockOperation::LockExclusive);
            gate
        });
        Passed(gate)
    }
}

impl Drop for Passed<'_> {
    fn drop(&mut self) {
        let _ = fcntl_lock(self.0, FlockOperation::Unlock);
    }
}
