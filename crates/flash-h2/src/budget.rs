//! Budgets for what costs a server work and a client nothing: resets, pings, settings, empty frames, small windows.
//!
//! A budget refills with time. Work that a client has a reason for earns more. Time comes as an argument.

#[derive(Clone, Copy, Debug)]
pub struct Budget {
    left: u32,
    most: u32,
    per_second: u32,
    refilled_ms: u64,
}

impl Budget {
    /// A budget for `most` at once, which refills by `per_second`.
    pub const fn new(most: u32, per_second: u32) -> Self {
        Self { left: most, most, per_second, refilled_ms: 0 }
    }

    /// Takes one. Returns `false` if nothing is left.
    #[must_use]
    pub fn spend(&mut self, now_ms: u64) -> bool {
        match self.left {
            0 => self.refill(now_ms),
            // A full budget does not refill.
            left if left == self.most => self.refilled_ms = now_ms,
            _ => {}
        }
        let has_one = self.left > 0;
        self.left = self.left.saturating_sub(1);
        has_one
    }

    /// Gives some back.
    pub fn earn(&mut self, count: u32) {
        self.left = self.left.saturating_add(count).min(self.most);
    }

    #[cold]
    fn refill(&mut self, now_ms: u64) {
        let passed_ms = now_ms.saturating_sub(self.refilled_ms);
        let refill = passed_ms.saturating_mul(self.per_second.into()) / 1_000;
        if refill > 0 {
            self.refilled_ms = now_ms;
            self.earn(refill.min(u32::MAX.into()) as u32);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_then_a_rate() {
        let mut budget = Budget::new(10, 2);
        let spent = |budget: &mut Budget, ms: u64| (0..100).filter(|_| budget.spend(ms)).count();
        assert_eq!(spent(&mut budget, 0), 10);
        assert_eq!(spent(&mut budget, 499), 0);
        assert_eq!(spent(&mut budget, 500), 1);
        assert_eq!(spent(&mut budget, 1_500), 2);
        budget.earn(3);
        assert_eq!(spent(&mut budget, 1_500), 3);
        assert_eq!(spent(&mut budget, 1_000_000), 10, "no more than the burst");
    }
}
