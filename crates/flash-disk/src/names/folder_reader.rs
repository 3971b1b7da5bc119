//! A thread that reads the names of folders when helpers are too slow.
//!
//! Helpers have the lowest priority. In a flood of new names, loops may fill the helpers' queue before the first
//! helper has run and read the folder. This thread has the priority of a loop. It gets one name at a time, and only
//! if no helper has ended with a name for a while. It also reads a folder that a helper has begun to read.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use flash_core::site::id::SiteId;
use flash_os::mpsc;
use flash_os::sched;
use flash_os::semaphore::Semaphore;

use crate::blocking::Blocking;
use crate::lookup_error::LookupError;
use crate::names::Reader;
use crate::sites::Sites;

/// A handle; the thread ends with it.
#[derive(Debug)]
pub(crate) struct FolderReader(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    sites: Arc<Sites>,
    /// Names that were left to helpers since a helper last ended with one.
    unhelped: AtomicU32,
    /// At most one name.
    names: mpsc::Queue<(SiteId, Box<[u8]>)>,
    is_busy: AtomicBool,
    work: Semaphore,
    ends: AtomicBool,
}

const UNHELPED_MAX: u32 = 64;
/// Any long time will do, because each name posts the semaphore.
const IDLE_MAX: Duration = Duration::from_secs(3600);

impl FolderReader {
    pub(crate) fn start(sites: Arc<Sites>) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            sites,
            unhelped: AtomicU32::new(0),
            names: mpsc::Queue::new(),
            is_busy: AtomicBool::new(false),
            work: Semaphore::default(),
            ends: AtomicBool::new(false),
        });
        let folder_reader = Self(Arc::clone(&shared));
        thread::Builder::new()
            .name("folder-reader".into())
            .stack_size(128 << 10)
            .spawn(move || shared.learn())?;
        Ok(folder_reader)
    }

    /// Notes that a name is left to helpers. Never waits.
    pub(crate) fn left(&self, site: SiteId, name: &[u8]) {
        let unhelped = self.0.unhelped.fetch_add(1, Ordering::Relaxed);
        if unhelped >= UNHELPED_MAX
            && !self.0.is_busy.swap(true, Ordering::Acquire)
            && self.0.names.push((site, name.into()))
        {
            self.0.work.post();
        }
    }

    /// Notes that a helper has looked a name up.
    pub(crate) fn helped(&self) {
        self.0.unhelped.store(0, Ordering::Relaxed);
    }
}

impl Drop for FolderReader {
    fn drop(&mut self) {
        self.0.ends.store(true, Ordering::Release);
        self.0.work.post();
    }
}

impl Shared {
    fn learn(&self) {
        // If the kernel refuses, the thread runs all the same.
        let _ = sched::set_slice(sched::SLICE_NS_MIN);
        while !self.ends.load(Ordering::Acquire) {
            self.work.wait(IDLE_MAX);
            for (site, name) in self.names.drain() {
                if let Some(site) = self.sites.get(site).map(|site| site.current())
                    && matches!(site.root.examine(&name, Blocking::ThisDevice), Err(LookupError::Missing))
                {
                    site.root.learn_names(&name, Reader::FolderReader);
                }
                self.is_busy.store(false, Ordering::Release);
            }
        }
    }
}
