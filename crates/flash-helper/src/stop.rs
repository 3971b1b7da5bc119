//! Signals, as descriptors that the loop watches: stop, and log the counters.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use signal_hook::consts::{SIGINT, SIGTERM, SIGUSR2};
use signal_hook::low_level::pipe;

pub(crate) struct Signals {
    stop: UnixStream,
    counters: UnixStream,
}

impl Signals {
    pub(crate) fn new() -> io::Result<Self> {
        let on = |signals: &[i32]| {
            let (read, write) = UnixStream::pair()?;
            read.set_nonblocking(true)?;
            signals.iter().try_for_each(|signal| pipe::register(*signal, write.try_clone()?).map(drop))?;
            Ok::<_, io::Error>(read)
        };
        Ok(Self { stop: on(&[SIGTERM, SIGINT])?, counters: on(&[SIGUSR2])? })
    }

    /// Readable once the daemon shall stop.
    pub(crate) fn stop(&self) -> BorrowedFd<'_> {
        self.stop.as_fd()
    }

    /// Readable when the counters are wanted.
    pub(crate) fn counters(&self) -> BorrowedFd<'_> {
        self.counters.as_fd()
    }

    /// Forgets the wishes for counters that have come.
    pub(crate) fn counters_logged(&self) {
        // One line answers all of them.
        let _ = rustix::net::recv(&self.counters, &mut [0; 64][..], rustix::net::RecvFlags::DONTWAIT);
    }
}
