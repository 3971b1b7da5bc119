//! How long a supervisor waits before it starts a process again.

use std::thread;
use std::time::{Duration, Instant};

/// A process that lived shorter than this is not replaced at once, or a fault at its start would fork without end.
const LIFETIME_MIN: Duration = Duration::from_secs(1);

/// Sleeps until a process that was started then may be replaced, for `pause_max` at most.
pub fn pause(started: Instant, pause_max: Duration) {
    thread::sleep(LIFETIME_MIN.saturating_sub(started.elapsed()).min(pause_max));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_process_that_lived_shortly_is_waited_for() {
        let now = Instant::now();
        pause(now, Duration::from_millis(20));
        assert!(now.elapsed() >= Duration::from_millis(20));
        let long_ago = now.checked_sub(Duration::from_secs(2)).expect("the machine has run for two seconds");
        let before = Instant::now();
        pause(long_ago, Duration::from_secs(60));
        assert!(before.elapsed() < Duration::from_secs(30));
    }
}
