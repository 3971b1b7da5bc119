//! A thread that closes files, because the last close of a deleted file frees its blocks.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use flash_os::mailbox::Mailbox;
use flash_os::semaphore::Semaphore;

/// A handle; the thread ends with it.
#[derive(Debug)]
pub(crate) struct Closer(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    // As many as there are descriptors: that is its bound.
    files: Mailbox<OwnedFd>,
    work: Semaphore,
    ends: AtomicBool,
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
        if self.0.files.put(file) {
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
            self.files.take_all().for_each(drop);
        }
    }
}
