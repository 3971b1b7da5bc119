//! The thread that reads the list of mounts again when the kernel reports a change.
//!
//! No promise depends on how soon that is. Loops and helpers cannot look themselves: they would notice a new device
//! only by waiting for it.

use std::io::{self, PipeReader, PipeWriter};
use std::thread;
use std::time::Duration;

use flash_os::allocator;
use flash_os::mounts::{MountInfo, MountList};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Ends the thread when it is dropped.
#[derive(Debug)]
pub(crate) struct Watch {
    _alive: PipeWriter,
}

const STACK_BYTES: usize = 64 << 10;

/// The list is not read more often than this, even if mounts come and go all the time.
const REST: Duration = Duration::from_millis(50);

impl Watch {
    /// Calls `update` with the list as it is now, and again after each change.
    pub(crate) fn start(
        list: MountList,
        update: impl Fn(Vec<MountInfo>) + Send + 'static,
    ) -> io::Result<Self> {
        let (over, alive) = io::pipe()?;
        thread::Builder::new()
            .name("mounts".into())
            .stack_size(STACK_BYTES)
            .spawn(move || watch(list, &over, update))?;
        Ok(Self { _alive: alive })
    }
}

fn watch(mut list: MountList, over: &PipeReader, update: impl Fn(Vec<MountInfo>)) {
    let rest = Timespec { tv_sec: 0, tv_nsec: REST.as_nanos() as i64 };
    loop {
        if let Ok(lines) = list.read() {
            update(lines);
        }
        allocator::collect();
        // Only the end of the watch ends this rest early. A change is reported by the next poll.
        let _ = poll(&mut [PollFd::new(over, PollFlags::empty())], Some(&rest));
        if !list.wait(over) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::time::Instant;

    #[test]
    fn the_thread_reads_the_list_at_once_and_ends_with_its_handle() {
        let (told, updates) = mpsc::channel();
        let list = MountList::open().unwrap();
        let watch = Watch::start(list, move |lines| told.send(lines.len()).unwrap()).unwrap();
        assert!(updates.recv_timeout(Duration::from_secs(10)).unwrap() > 0);
        drop(watch);
        let give_up = Instant::now() + Duration::from_secs(10);
        // Other tests' mounts may bring more updates before the end.
        while updates.recv_timeout(Duration::from_secs(10)).is_ok() {
            assert!(Instant::now() < give_up, "the thread goes on");
        }
        let end = updates.recv_timeout(Duration::ZERO);
        assert_eq!(end, Err(mpsc::RecvTimeoutError::Disconnected));
    }
}
