//! Service inversion (Ruan and Pai, 2006): how far the order of responses differs from the order of their sizes. A server that
//! never blocks sends small responses before large ones. In a server that blocks, small responses wait behind large ones.
//!
//! A window is a thousand responses that ended one after the other. In it, each response has a rank by its wait and one by its
//! size. The distances between the two ranks are added up. The sum is divided by the same sum for responses in the reversed
//! order of their sizes. 0 is the order of sizes, 1 the reverse, and 2/3 the result of chance. The order among responses of
//! equal size does not count.

/// Answers that are ranked together.
const WINDOW: usize = 1000;
/// Windows that a thread keeps. When there are more, every second one goes, and from then on only every second is kept.
const WINDOWS_MAX: usize = 512;

/// The windows of a thread.
pub(crate) struct Windows {
    kept: Vec<Vec<(u64, u64)>>,
    open: Vec<(u64, u64)>,
    /// One window in so many is kept.
    stride: u64,
    seen: u64,
}

impl Default for Windows {
    fn default() -> Windows {
        Windows { kept: Vec::new(), open: Vec::with_capacity(WINDOW), stride: 1, seen: 0 }
    }
}

impl Windows {
    /// An answer has come: its size, and its wait.
    pub(crate) fn push(&mut self, bytes: u64, wait_ns: u64) {
        self.open.push((bytes, wait_ns));
        if self.open.len() < WINDOW {
            return;
        }
        if self.seen.is_multiple_of(self.stride) {
            self.kept.push(std::mem::replace(&mut self.open, Vec::with_capacity(WINDOW)));
        }
        self.open.clear();
        self.seen += 1;
        if self.kept.len() > WINDOWS_MAX {
            self.stride *= 2;
            let mut place = 0;
            self.kept.retain(|_| {
                place += 1;
                place % 2 == 1
            });
        }
    }

    pub(crate) fn merge(&mut self, other: Windows) {
        self.kept.extend(other.kept);
        if self.open.len() < other.open.len() {
            self.open = other.open;
        }
    }

    /// Over all windows; none where all sizes are the same. A run with no whole window has the longest that was begun.
    pub(crate) fn inversion(&self) -> Option<f64> {
        let begun = std::slice::from_ref(&self.open);
        let windows = if self.kept.is_empty() { begun } else { &self.kept };
        let (found, reversed) = windows
            .iter()
            .map(|window| distances(window))
            .fold((0, 0), |sum, window| (sum.0 + window.0, sum.1 + window.1));
        (reversed > 0).then(|| found as f64 / reversed as f64)
    }
}

/// The sum of distances of one window, and that of the reversed order.
fn distances(window: &[(u64, u64)]) -> (u64, u64) {
    let mut by_size = window.to_vec();
    by_size.sort_unstable();
    // Equal sizes stand in the order of their waits, so that they cost nothing.
    let mut by_wait: Vec<(u64, usize)> =
        by_size.iter().enumerate().map(|(rank, (_, wait))| (*wait, rank)).collect();
    by_wait.sort_unstable();
    let found = by_wait.iter().enumerate().map(|(rank, (_, ideal))| rank.abs_diff(*ideal) as u64).sum();
    // In the reversed order, a group of equal sizes lies as far from the end as it should from the beginning.
    let mut reversed = 0;
    let mut from = 0;
    for group in by_size.chunk_by(|one, other| one.0 == other.0) {
        let to = from + group.len();
        reversed += group.len() as u64 * (from + to).abs_diff(window.len()) as u64;
        from = to;
    }
    (found, reversed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inversion(answers: impl IntoIterator<Item = (u64, u64)>) -> Option<f64> {
        let mut windows = Windows::default();
        answers.into_iter().for_each(|(bytes, wait)| windows.push(bytes, wait));
        windows.inversion()
    }

    #[test]
    fn order_reverse_and_chance() {
        assert_eq!(inversion((0..5000).map(|n| (n % 1000, n % 1000 + 7))), Some(0.0));
        assert_eq!(inversion((0..5000).map(|n| (n % 1000, 1000 - n % 1000))), Some(1.0));
        // Small, large, small: by hand, 0 1 2 instead of 0 2 1 is two places off, of the four that the reverse has.
        assert_eq!(inversion([(10, 1), (30, 2), (20, 3)]), Some(0.5));
        let mut random = fastrand::Rng::with_seed(3);
        let chance = inversion((0..100_000).map(|n| (n, random.u64(..)))).unwrap_or_default();
        assert!((chance - 2.0 / 3.0).abs() < 0.01, "{chance}");
    }

    #[test]
    fn equal_sizes_are_not_out_of_order() {
        assert_eq!(inversion((0..5000).map(|n| (1024, n % 17))), None);
        let two = |n: u64, slow: bool| {
            (if n.is_multiple_of(2) { 1 } else { 1000 }, u64::from(n.is_multiple_of(2) == slow))
        };
        assert_eq!(inversion((0..4000).map(|n| two(n, false))), Some(0.0));
        assert_eq!(inversion((0..4000).map(|n| two(n, true))), Some(1.0));
    }

    #[test]
    fn a_long_run_keeps_a_bounded_number_of_windows_from_all_of_it() {
        let mut windows = Windows::default();
        (0..3_000_000).for_each(|n| windows.push(n, n));
        assert!(
            windows.kept.len() <= WINDOWS_MAX && windows.kept.len() > WINDOWS_MAX / 4,
            "{}",
            windows.kept.len()
        );
        let last = windows.kept.last().and_then(|window| window.first()).map(|answer| answer.0);
        assert!(last > Some(2_900_000), "{last:?}");
    }
}
