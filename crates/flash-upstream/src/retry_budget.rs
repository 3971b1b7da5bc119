//! How many requests are sent to a second server. A failing application gets little more of them than there are.

use std::sync::atomic::{AtomicU32, Ordering};

/// In hundredths of a retry.
#[derive(Debug)]
pub(crate) struct RetryBudget(AtomicU32);

/// What each request adds: a tenth of a retry.
const OF_REQUEST: u32 = 10;
const OF_RETRY: u32 = 100;
/// As many can be saved. There are as many at the beginning.
const SAVED_MAX: u32 = 10 * OF_RETRY;

impl RetryBudget {
    pub(crate) fn new() -> Self {
        Self(AtomicU32::new(SAVED_MAX))
    }

    /// A request has come.
    pub(crate) fn earn(&self) {
        // Looking first keeps the cache line with all who look.
        if self.0.load(Ordering::Relaxed) < SAVED_MAX {
            let earn = |saved: u32| Some((saved + OF_REQUEST).min(SAVED_MAX));
            let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, earn);
        }
    }

    /// Whether a request may be sent again.
    pub(crate) fn spend(&self) -> bool {
        let spend = |saved: u32| saved.checked_sub(OF_RETRY);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, spend).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenth_of_the_requests_is_sent_again() {
        let budget = RetryBudget::new();
        let spent = |requests: usize| {
            let one = |_: &usize| {
                budget.earn();
                budget.spend()
            };
            (0..requests).filter(one).count()
        };
        // Ten that were saved, and a tenth of the rest: the first adds nothing to what is saved.
        assert_eq!(spent(1000), 10 + 99);
        assert_eq!(spent(1000), 100);
        (0..100_000).for_each(|_| budget.earn());
        assert_eq!((0..100).filter(|_| budget.spend()).count(), 10);
    }
}
