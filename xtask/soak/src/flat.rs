//! Whether a figure stayed flat: its median in the last quarter of a run beside that in the second. The first quarter is
//! left out, because caches still fill in it.

/// A tenth more is no growth.
const FACTOR: f64 = 1.1;

/// The medians of a figure in two quarters of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Quarters {
    pub(crate) second: u64,
    pub(crate) last: u64,
}

impl Quarters {
    /// Of samples that were taken at equal distances; none if there are fewer than four.
    pub(crate) fn of(samples: &[u64]) -> Option<Quarters> {
        let quarter = samples.len() / 4;
        let second = median(samples.get(quarter..2 * quarter)?)?;
        Some(Quarters { second, last: median(&samples[samples.len() - quarter..])? })
    }

    /// Whether the last is no larger than the second, by more than a tenth and the slack.
    pub(crate) fn are_flat(self, slack: u64) -> bool {
        self.last as f64 <= self.second as f64 * FACTOR + slack as f64
    }
}

fn median(samples: &[u64]) -> Option<u64> {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quarters(samples: impl Iterator<Item = u64>) -> Quarters {
        Quarters::of(&samples.collect::<Vec<_>>()).expect("enough samples")
    }

    #[test]
    fn what_fills_first_is_flat_and_what_goes_on_growing_is_not() {
        // A cache fills within the first quarter.
        let fills = (0..100).map(|second| 1000 + 40 * second.min(25));
        assert!(quarters(fills).are_flat(0));
        // A leak of 1 % of it every second.
        let leaks = quarters((0..100).map(|second| 1000 + 10 * second));
        assert_eq!(leaks, Quarters { second: 1370, last: 1870 });
        assert!(!leaks.are_flat(100));
        assert!(leaks.are_flat(400), "the slack is for small figures");
        assert!(quarters((0..100).map(|second| 1000 - second)).are_flat(0));
    }

    #[test]
    fn peaks_are_no_growth() {
        let peaks = (0..100).map(|second| if second % 3 == 0 { 9000 } else { 1000 });
        assert_eq!(quarters(peaks), Quarters { second: 1000, last: 1000 });
    }

    #[test]
    fn too_few_samples_say_nothing() {
        assert_eq!(Quarters::of(&[1, 2, 3]), None);
        assert_eq!(Quarters::of(&[1, 2, 3, 4]), Some(Quarters { second: 2, last: 4 }));
    }
}
