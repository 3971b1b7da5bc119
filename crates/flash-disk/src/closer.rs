//! A thread that closes files, because the last close of a deleted file frees its blocks, and that gives back the blocks of
//! request bodies, for the same reason.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use flash_os::mpsc;
use flash_os::semaphore::Semaphore;

use crate::spool::blocks::Blocks;

/// A handle; the thread ends with it.
#[derive(Debug)]
pub(crate) struct Closer(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    // As many as there are descriptors, and requests: that is its bound.
    left: mpsc::Queue<Left>,
    work: Semaphore,
    ends: AtomicBool,
}

/// What somebody has no use for any more. Dropping it takes its time.
#[derive(Debug)]
#[expect(dead_code, reason = "all that is ever done with it is to drop it")]
enum Left {
    File(OwnedFd),
    Body(Blocks),
}

/// Nothing has to happen without a file; it only has to be some time.
const IDLE_MAX: Duration = Duration::from_secs(3600);

impl Closer {
    pub(crate) fn start(name: &str) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let closer = Self(Arc::clone(&shared));
        thread::Builder::new().name(name.into()).stack_size(64 << 10).spawn(move || shared.close_all())?;
        Ok(closer)
    }

    /// Never waits.
    pub(crate) fn close(&self, file: OwnedFd) {
        self.put(Left::File(file));
    }

    /// The same for what a body was kept in.
    pub(crate) fn give_back(&self, body: Blocks) {
        self.put(Left::Body(body));
    }

    fn put(&self, left: Left) {
        if self.0.left.push(left) {
            self.0.work.post();
        }
    }
}

impl Drop for Closer {
    fn drop(&mut self) {
        self.0.ends.store(true, Ordering::Release);
        self.0.work.post();
    }
}

impl Shared {
    fn close_all(&self) {
        while !self.ends.load(Ordering::Acquire) {
            self.work.wait(IDLE_MAX);
            self.left.drain().for_each(drop);
        }
    }
}
