//! Idle upstream connections, kept for the next request.
//!
//! Loops take and keep connections without blocking each other: a slot whose lock is taken counts as empty, or as full.
//! The number of slots is fixed. The first slots are used first, so that connections in the later ones grow old and are
//! closed when there is less to do.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::RecvFlags;

use crate::counts::{Counted, ProgramCounter};
use flash_core::record::counters::ProgramCount;
use flash_core::upstream::UpstreamSession;

/// A connection, with its session of TLS.
pub(crate) type Kept = (OwnedFd, Option<Box<dyn UpstreamSession>>);

#[derive(Debug)]
pub(crate) struct IdleConnections {
    slots: Box<[Mutex<Option<IdleConnection>>]>,
    counter: Arc<dyn ProgramCounter>,
    /// How many there are, or a little later.
    count: AtomicUsize,
}

#[derive(Debug)]
struct IdleConnection {
    stream: OwnedFd,
    tls: Option<Box<dyn UpstreamSession>>,
    since: Instant,
    _counted: Counted,
}

impl IdleConnections {
    pub(crate) fn new(slots: usize, counter: Arc<dyn ProgramCounter>) -> Self {
        let slots = (0..slots).map(|_| Mutex::default()).collect();
        Self { slots, counter, count: AtomicUsize::new(0) }
    }

    /// A connection that has been idle for less than this, and that the peer has not closed, as far as is known by now.
    pub(crate) fn take(&self, idle: Duration, now: Instant) -> Option<Kept> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        self.slots.iter().find_map(|slot| {
            let is_young = |kept: &mut IdleConnection| now.saturating_duration_since(kept.since) < idle;
            let kept = slot.try_lock().ok()?.take_if(is_young)?;
            self.count.fetch_sub(1, Ordering::Relaxed);
            is_reusable(&kept.stream).then_some((kept.stream, kept.tls))
        })
    }

    /// Closes all of them.
    pub(crate) fn clear(&self) {
        for slot in &self.slots {
            if slot.lock().unwrap_or_else(PoisonError::into_inner).take().is_some() {
                self.count.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    /// Keeps the connection, or closes it when there is no slot left. Returns whether it was kept.
    pub(crate) fn put(&self, (stream, tls): Kept, now: Instant) -> bool {
        for slot in &self.slots {
            if let Ok(mut slot) = slot.try_lock()
                && slot.is_none()
            {
                let counted = Counted::one(&self.counter, ProgramCount::Kept);
                *slot = Some(IdleConnection { stream, tls, since: now, _counted: counted });
                self.count.fetch_add(1, Ordering::Relaxed);
                return true;
            }
        }
        false
    }

    /// Closes connections that were idle for so long, or that the peer has closed. Returns whether any are left.
    pub(crate) fn expire_idle(&self, idle: Duration, now: Instant) -> bool {
        for slot in &self.slots {
            if let Ok(mut slot) = slot.try_lock() {
                let is_of_use = |kept: &IdleConnection| {
                    now.saturating_duration_since(kept.since) < idle && is_reusable(&kept.stream)
                };
                if slot.take_if(|kept| !is_of_use(kept)).is_some() {
                    self.count.fetch_sub(1, Ordering::Relaxed);
                }
            }
        }
        self.count.load(Ordering::Relaxed) > 0
    }
}

/// Whether a stream is open and has nothing to read, as an idle connection must be.
pub(crate) fn is_reusable(stream: &OwnedFd) -> bool {
    let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    let mut byte = [0; 1];
    matches!(rustix::net::recv(stream, &mut byte[..], flags), Err(Errno::AGAIN | Errno::INTR))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    use super::*;

    fn pair() -> (OwnedFd, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        (ours.into(), theirs)
    }

    #[test]
    fn as_many_are_kept_as_there_are_places() {
        let (idle, now) = (IdleConnections::new(2, Arc::new(())), Instant::now());
        let mut others = Vec::new();
        for expected in [true, true, false] {
            let (ours, theirs) = pair();
            others.push(theirs);
            assert_eq!(idle.put((ours, None), now), expected);
        }
        assert!(
            idle.take(Duration::from_secs(9), now).is_some()
                && idle.take(Duration::from_secs(9), now).is_some()
                && idle.take(Duration::from_secs(9), now).is_none()
        );
    }

    #[test]
    fn one_that_the_other_side_has_closed_is_noticed() {
        let (idle, now) = (IdleConnections::new(3, Arc::new(())), Instant::now());
        let ((closed, end), (chatty, mut talker), (good, _keep)) = (pair(), pair(), pair());
        drop(end);
        talker.write_all(b"what nobody asked for").unwrap();
        for stream in [closed, chatty, good] {
            assert!(idle.put((stream, None), now));
        }
        assert!(idle.take(Duration::from_secs(9), now).is_some_and(|(stream, _)| is_reusable(&stream)));
        assert!(idle.take(Duration::from_secs(9), now).is_none());
    }

    #[test]
    fn old_ones_are_left() {
        let (idle, now) = (IdleConnections::new(2, Arc::new(())), Instant::now());
        let (stream, _other) = pair();
        assert!(idle.put((stream, None), now));
        let later = now + Duration::from_secs(1);
        assert!(
            idle.take(Duration::from_secs(1), later).is_none()
                && idle.take(Duration::from_secs(2), later).is_some()
        );
    }

    #[test]
    fn old_ones_are_closed() {
        let (idle, now) = (IdleConnections::new(2, Arc::new(())), Instant::now());
        let ((old, _a), (young, _b)) = (pair(), pair());
        assert!(idle.put((old, None), now) && idle.put((young, None), now + Duration::from_secs(3)));
        assert!(idle.expire_idle(Duration::from_secs(2), now + Duration::from_secs(4)));
        assert!(!idle.expire_idle(Duration::from_secs(2), now + Duration::from_secs(5)));
        assert!(idle.take(Duration::from_secs(9), now).is_none());
    }
}
