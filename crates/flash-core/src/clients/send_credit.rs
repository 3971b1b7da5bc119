//! The credit of a client whose program waits for it: how long it may be silent.
//!
//! Unlike the [credit](crate::clients::deadline) of any client, it has a low limit, whatever the client has sent or received before.
//! A client that goes on reading at the minimum rate keeps its program.

/// What a client has used of its credit.
#[derive(Clone, Copy, Debug, Default)]
pub struct SendCredit {
    used_ms: u64,
}

impl SendCredit {
    /// A program has waited this long.
    pub fn spend(&mut self, ms: u64) {
        self.used_ms = self.used_ms.saturating_add(ms);
    }

    /// The client has received this many bytes.
    pub fn earn(&mut self, bytes: u64, send_rate_min: u64) {
        let earned_ms = match send_rate_min {
            0 if bytes > 0 => u64::MAX,
            0 => 0,
            least => bytes.saturating_mul(1000) / least,
        };
        self.used_ms = self.used_ms.saturating_sub(earned_ms);
    }

    /// What is left of a credit of this size.
    pub fn left_ms(&self, credit_ms: u64) -> u64 {
        credit_ms.saturating_sub(self.used_ms)
    }
}
