//! The last block of each loop, for the status page. A loop leaves it without waiting, and the thread that asks for causes explains
//! it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;

/// The last block of a loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastBlock {
    pub unix_ms: u64,
    pub lasted: Duration,
    /// The system call, and the path that it was about, if that is known.
    pub call: &'static str,
    pub path: Vec<u8>,
    /// Empty until it is known. Flash does not ask for the cause of every block.
    pub cause: String,
}

/// Where a loop leaves its last block, with the time of its end by CLOCK_MONOTONIC.
#[derive(Default)]
pub(super) struct LastBlockCell(Mutex<Option<(u64, LastBlock)>>);

impl LastBlockCell {
    pub(super) fn get(&self) -> Option<LastBlock> {
        self.0.lock().as_ref().map(|(_, block)| block.clone())
    }

    /// Leaves a block that ended just now, at `until_ns`. Never waits.
    pub(super) fn set(&self, until_ns: u64, lasted: Duration, call: &'static str, path: &[u8]) {
        let Some(mut last) = self.0.try_lock() else { return };
        let unix_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_millis() as u64);
        let block = LastBlock { unix_ms, lasted, call, path: path.to_owned(), cause: String::new() };
        *last = Some((until_ns, block));
    }

    /// Explains the block that ended at `until_ns`, if no other one has come since.
    pub(super) fn explain(&self, until_ns: u64, why: &str) {
        if let Some((until, last)) = &mut *self.0.lock()
            && *until == until_ns
        {
            why.clone_into(&mut last.cause);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LASTED: Duration = Duration::from_millis(1);

    #[test]
    fn a_block_is_explained_unless_another_has_come() {
        let cell = LastBlockCell::default();
        assert_eq!(cell.get(), None);
        cell.set(5, LASTED, "openat2", b"/srv/a");
        cell.explain(5, "metadata read");
        let last = cell.get().unwrap();
        assert_eq!((last.lasted, &*last.cause, &*last.path), (LASTED, "metadata read", &b"/srv/a"[..]));
        cell.set(9, LASTED, "openat2", b"/srv/a");
        cell.explain(5, "metadata read");
        assert_eq!(cell.get().unwrap().cause, "");
    }

    #[test]
    fn no_loop_waits_for_a_reader() {
        let cell = LastBlockCell::default();
        let reading = cell.0.lock();
        cell.set(5, LASTED, "openat2", b"/srv/a");
        drop(reading);
        assert_eq!(cell.get(), None);
    }
}
