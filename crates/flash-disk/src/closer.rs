//! A thread that closes files and gives back the blocks of request bodies. Both may free blocks on the disk, and wait
//! for it.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use flash_os::mpsc;
use flash_os::semaphore::Semaphore;

use crate::spool::blocks::Blocks;

/// A handle; the thread ends with it.
#[derive(Debug)]
pub struct Closer(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    // Its bound is the number of descriptors and of requests.
    items: mpsc::Queue<Item>,
    work: Semaphore,
    ends: AtomicBool,
}

/// What is to be dropped. Dropping it may wait for the disk.
#[derive(Debug)]
#[expect(dead_code, reason = "all that is ever done with it is to drop it")]
enum Item {
    File(OwnedFd),
    Counted(OwnedFd, Count),
    Body(Blocks),
}

/// It counts as long as it lives, which is longer than the file before it.
#[derive(Debug)]
struct Count(Arc<AtomicUsize>);

impl Drop for Count {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Any long time will do, because the first file of an empty queue posts the semaphore.
const IDLE_MAX: Duration = Duration::from_secs(3600);

/// How long the thread lets files gather, so that a loop that closes many wakes it seldom.
const GATHERING: Duration = Duration::from_millis(2);

impl Closer {
    /// # Errors
    /// If there can be no thread.
    pub fn start(name: &str) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let closer = Self(Arc::clone(&shared));
        thread::Builder::new().name(name.into()).stack_size(64 << 10).spawn(move || shared.close_all())?;
        Ok(closer)
    }

    /// Closes a file later. Never waits.
    pub fn close(&self, file: OwnedFd) {
        self.put(Item::File(file));
    }

    /// The same. Until the file is closed it counts in `unclosed`.
    pub fn close_counted(&self, file: OwnedFd, unclosed: &Arc<AtomicUsize>) {
        unclosed.fetch_add(1, Ordering::Relaxed);
        self.put(Item::Counted(file, Count(Arc::clone(unclosed))));
    }

    /// Gives back the blocks of a request body later. Never waits.
    pub(crate) fn give_back(&self, body: Blocks) {
        self.put(Item::Body(body));
    }

    fn put(&self, item: Item) {
        if self.0.items.push(item) {
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
            thread::sleep(GATHERING);
            self.items.drain().for_each(drop);
        }
    }
}
