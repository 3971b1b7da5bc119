//! Retries of what fails for want of descriptors or memory.

use std::thread;
use std::time::Duration;

/// Tries several times if no descriptor or memory is left, because evicted files are closed a moment later. For
/// threads that may wait.
pub fn again_if<T>(is_busy: impl Fn(&T) -> bool, mut attempt: impl FnMut() -> T) -> T {
    for pause in PAUSES_MS {
        match attempt() {
            result if is_busy(&result) => thread::sleep(Duration::from_millis(pause)),
            result => return result,
        }
    }
    attempt()
}

/// A tenth of a second in all.
const PAUSES_MS: [u64; 5] = [1, 4, 15, 30, 50];
