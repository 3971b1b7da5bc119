//! The thread that reads the list of mounts again whenever the kernel says that it changed.
//!
//! Nothing depends on how soon that is. A loop that looked for itself when it meets an unknown device would have to meet
//! it first, and a helper that did would be lost to it.

use std::fs::File;
use std::io::{self, PipeReader, PipeWriter};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{Mounts, STACK_BYTES, read};

/// Ends the thread when it is dropped.
#[derive(Debug)]
pub(crate) struct Watch {
    _alive: PipeWriter,
}

/// Where mounts come and go all the time, as beside containers, they are not looked at more often than this.
const REST: Duration = Duration::from_millis(50);

impl Watch {
    pub(crate) fn start(mounts: &Arc<Mounts>, list: File) -> io::Result<Self> {
        let (over, alive) = io::pipe()?;
        let mounts = Arc::downgrade(mounts);
        thread::Builder::new()
            .name("mounts".into())
            .stack_size(STACK_BYTES)
            .spawn(move || watch(list, &over, &mounts))?;
        Ok(Self { _alive: alive })
    }
}

fn watch(mut list: File, over: &PipeReader, mounts: &Weak<Mounts>) {
    let rest = Timespec { tv_sec: 0, tv_nsec: REST.as_nanos() as i64 };
    loop {
        let lines = read(&mut list);
        let Some(mounts) = mounts.upgrade() else { return };
        if let Ok(lines) = lines {
            mounts.update(lines);
        }
        drop(mounts);
        // Only the other end's closing ends the rest early. The news is there until somebody asks for it.
        let _ = poll(&mut [PollFd::new(over, PollFlags::empty())], Some(&rest));
        let news = PollFd::new(&list, PollFlags::PRI);
        let _ = poll(&mut [news, PollFd::new(over, PollFlags::empty())], None);
    }
}
