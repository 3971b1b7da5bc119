//! Connections that are kept for the next request.
//!
//! Loops take from here and give back without ever waiting for each other: a place where another thread is busy at this
//! moment counts as empty, or as taken. There are only so many places, and the first ones are used first, so that those
//! further back grow old and are closed when there is less to do.

use std::os::fd::OwnedFd;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::RecvFlags;

#[derive(Debug)]
pub(crate) struct Shelf {
    places: Box<[Mutex<Option<Kept>>]>,
    /// How many there are, or a little later.
    count: AtomicUsize,
}

#[derive(Debug)]
struct Kept {
    stream: OwnedFd,
    since: Instant,
}

impl Shelf {
    pub(crate) fn new(places: usize) -> Self {
        Self { places: (0..places).map(|_| Mutex::default()).collect(), count: AtomicUsize::new(0) }
    }

    /// One that the other side has not closed, as far as is known by now.
    pub(crate) fn take(&self) -> Option<OwnedFd> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        self.places.iter().find_map(|place| {
            let kept = place.try_lock().ok()?.take()?;
            self.count.fetch_sub(1, Ordering::Relaxed);
            is_quiet(&kept.stream).then_some(kept.stream)
        })
    }

    /// Keeps it, or closes it when there is no place left. Tells whether it was kept.
    pub(crate) fn put(&self, stream: OwnedFd, now: Instant) -> bool {
        for place in &self.places {
            if let Ok(mut place) = place.try_lock()
                && place.is_none()
            {
                *place = Some(Kept { stream, since: now });
                self.count.fetch_add(1, Ordering::Relaxed);
                return true;
            }
        }
        false
    }

    /// Closes those that were not used for so long, or that the other side has closed. Tells whether any are left.
    pub(crate) fn tidy(&self, idle: Duration, now: Instant) -> bool {
        for place in &self.places {
            if let Ok(mut place) = place.try_lock() {
                let is_of_use =
                    |kept: &Kept| now.saturating_duration_since(kept.since) < idle && is_quiet(&kept.stream);
                if place.take_if(|kept| !is_of_use(kept)).is_some() {
                    self.count.fetch_sub(1, Ordering::Relaxed);
                }
            }
        }
        self.count.load(Ordering::Relaxed) > 0
    }
}

/// Whether a stream is open and has nothing to read, as one has to be that waits for a request.
pub(crate) fn is_quiet(stream: &OwnedFd) -> bool {
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
        let (shelf, now) = (Shelf::new(2), Instant::now());
        let mut others = Vec::new();
        for expected in [true, true, false] {
            let (ours, theirs) = pair();
            others.push(theirs);
            assert_eq!(shelf.put(ours, now), expected);
        }
        assert!(shelf.take().is_some() && shelf.take().is_some() && shelf.take().is_none());
    }

    #[test]
    fn one_that_the_other_side_has_closed_is_noticed() {
        let (shelf, now) = (Shelf::new(3), Instant::now());
        let ((closed, end), (chatty, mut talker), (good, _keep)) = (pair(), pair(), pair());
        drop(end);
        talker.write_all(b"what nobody asked for").unwrap();
        for stream in [closed, chatty, good] {
            assert!(shelf.put(stream, now));
        }
        assert!(shelf.take().is_some_and(|stream| is_quiet(&stream)));
        assert!(shelf.take().is_none());
    }

    #[test]
    fn old_ones_are_closed() {
        let (shelf, now) = (Shelf::new(2), Instant::now());
        let ((old, _a), (young, _b)) = (pair(), pair());
        assert!(shelf.put(old, now) && shelf.put(young, now + Duration::from_secs(3)));
        assert!(shelf.tidy(Duration::from_secs(2), now + Duration::from_secs(4)));
        assert!(!shelf.tidy(Duration::from_secs(2), now + Duration::from_secs(5)));
        assert!(shelf.take().is_none());
    }
}
