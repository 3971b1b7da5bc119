//! A limit of a disk's reads a second, as Linux' cgroups have it (`blk-throttle`).
//!
//! Time is cut into slices. In each, so many reads may begin as are allowed for it, as fast as the disk does them. The others wait for
//! the next slice. What a slice does not use is lost (`tg_within_iops_limit`, `throtl_trim_slice`).

use crate::engine::Time;

/// A tenth of a second: `DFL_THROTL_SLICE_HD`.
const SLICE_NS: Time = 100_000_000;

#[derive(Clone, Copy, Debug)]
pub(super) struct Throttle {
    /// Reads of each slice; 0 without a limit.
    each_slice: u64,
    /// Of the slice that is now, as far as reads tell.
    begin: Time,
    /// Reads of this slice and of those to come.
    reads: u64,
}

impl Throttle {
    pub(super) fn new(reads_per_s_max: Option<f64>) -> Throttle {
        let each_slice = |reads: f64| ((reads * SLICE_NS as f64 / 1e9).round() as u64).max(1);
        Throttle { each_slice: reads_per_s_max.map_or(0, each_slice), begin: 0, reads: 0 }
    }

    /// How long so many reads have to wait that come now.
    pub(super) fn wait(&mut self, reads: u64, now: Time) -> Time {
        if self.each_slice == 0 {
            return 0;
        }
        let slices = now.saturating_sub(self.begin) / SLICE_NS;
        self.begin += slices * SLICE_NS;
        self.reads = self.reads.saturating_sub(slices * self.each_slice) + reads;
        let later = self.reads.saturating_sub(1) / self.each_slice;
        if later == 0 { 0 } else { self.begin + later * SLICE_NS - now }
    }
}

#[test]
fn reads_beyond_a_slice_wait_for_the_next() {
    let second = 1_000_000_000;
    let mut throttle = Throttle::new(Some(1000.0));
    // A tenth of a second's reads at once, and then none before the next.
    assert!((0..100).all(|_| throttle.wait(1, second) == 0));
    assert_eq!(throttle.wait(1, second), SLICE_NS);
    assert_eq!(throttle.wait(2, second + 30_000_000), 70_000_000);
    // That one is used in part. What was not used of others is lost.
    assert!((0..97).all(|_| throttle.wait(1, second + SLICE_NS) == 0));
    assert_eq!(throttle.wait(1, second + SLICE_NS), SLICE_NS);
    assert!((0..100).all(|_| throttle.wait(1, 9 * second) == 0));
    assert_eq!(throttle.wait(100, 9 * second), SLICE_NS);
    assert_eq!(throttle.wait(100, 9 * second), 2 * SLICE_NS);
    assert_eq!(Throttle::new(None).wait(1_000_000, 0), 0);
}
