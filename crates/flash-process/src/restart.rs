//! How long a supervisor waits before it starts a process again.

use std::time::Duration;

/// A process that lived shorter than this is not replaced at once, or a fault at its start would fork without end.
const LIFETIME_MIN: Duration = Duration::from_secs(1);

/// How long after its end a process is replaced that has lived for so long. `pause_max` at most.
pub(crate) fn pause(lifetime: Duration, pause_max: Duration) -> Duration {
    LIFETIME_MIN.saturating_sub(lifetime).min(pause_max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_process_that_lived_shortly_is_waited_for() {
        let ms = Duration::from_millis;
        assert_eq!(pause(ms(0), ms(20)), ms(20));
        assert_eq!(pause(ms(990), ms(20)), ms(10));
        assert_eq!(pause(ms(2000), ms(60_000)), ms(0));
    }
}
