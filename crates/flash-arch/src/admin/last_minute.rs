//! What loops and workers leave for the status page of the last minute, in windows of ten seconds.
//!
//! Each loop adds to a part of its own, on cache lines of its own. None waits: what ends while its part is being read is left out.

use std::collections::VecDeque;

use parking_lot::Mutex;

/// Beyond so many loops or workers, some share a part.
pub(crate) const PARTS: usize = 32;
const WINDOW_MS: u64 = 10_000;
/// The last minute, and the ten seconds that have begun.
const WINDOWS: u64 = 7;

pub(crate) struct LastMinute<T>([Part<T>; PARTS]);

/// The windows, each with its number.
#[repr(align(128))]
struct Part<T>(Mutex<VecDeque<(u64, T)>>);

impl<T> Default for LastMinute<T> {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Part(Mutex::default())))
    }
}

impl<T: Default> LastMinute<T> {
    /// Adds to the window of this time. Never waits.
    pub(crate) fn add(&self, part: usize, unix_ms: u64, add: impl FnOnce(&mut T)) {
        let Some(mut windows) = self.0[part].0.try_lock() else { return };
        let number = unix_ms / WINDOW_MS;
        // Loops differ by one at most. What is later is of a clock that was ahead, and has been set back.
        windows.retain(|(other, _)| other + WINDOWS > number && *other <= number + 1);
        if windows.back().is_none_or(|(latest, _)| *latest < number) {
            windows.push_back((number, T::default()));
        }
        if let Some((_, window)) = windows.back_mut() {
            add(window);
        }
    }

    /// Reads the windows of all parts.
    pub(crate) fn read(&self, now_unix_ms: u64, mut read: impl FnMut(&T)) {
        let is_recent = |(number, _): &&(u64, T)| number + WINDOWS > now_unix_ms / WINDOW_MS;
        for Part(windows) in &self.0 {
            windows.lock().iter().filter(is_recent).for_each(|(_, window)| read(window));
        }
    }

    #[cfg(test)]
    pub(super) fn part(&self, part: usize) -> parking_lot::MutexGuard<'_, VecDeque<(u64, T)>> {
        self.0[part].0.lock()
    }
}
