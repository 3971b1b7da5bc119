//! A limit of a disk's reads a second, as cgroups and clouds have it. Reads beyond it wait. What was not used is kept for a moment.

use crate::engine::Time;

/// What was not used can be used so much later: the slice of `blk-throttle` for disks that turn.
const SLICE_NS: Time = 100_000_000;

#[derive(Clone, Copy, Debug)]
pub(super) struct Throttle {
    /// A read's share of a second; 0 without a limit.
    each_ns: Time,
    /// When all reads so far are within the limit.
    paid_until: Time,
}

impl Throttle {
    pub(super) fn new(reads_per_s_max: Option<f64>) -> Throttle {
        Throttle { each_ns: reads_per_s_max.map_or(0, |reads| (1e9 / reads).round() as Time), paid_until: 0 }
    }

    /// How long so many reads have to wait that come now.
    pub(super) fn wait(&mut self, reads: u64, now: Time) -> Time {
        if self.each_ns == 0 {
            return 0;
        }
        self.paid_until = self.paid_until.max(now.saturating_sub(SLICE_NS)) + reads * self.each_ns;
        self.paid_until.saturating_sub(now)
    }
}

#[test]
fn reads_within_the_limit_do_not_wait_and_others_keep_its_pace() {
    let second = 1_000_000_000;
    let mut throttle = Throttle::new(Some(1000.0));
    // A tenth of a second's reads at once, and then one each millisecond.
    assert!((0..100).all(|_| throttle.wait(1, second) == 0));
    assert_eq!(throttle.wait(1, second), 1_000_000);
    assert_eq!(throttle.wait(2, second), 3_000_000);
    // Half as many as are allowed never wait.
    let mut throttle = Throttle::new(Some(1000.0));
    assert!((0..5000).all(|read| throttle.wait(1, second + 2 * read * 1_000_000) == 0));
    assert_eq!(Throttle::new(None).wait(1_000_000, 0), 0);
}
