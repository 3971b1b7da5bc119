//! The ledger: what the server has done, and whether a loop was ever caught sleeping outside its wait.
//!
//! Rare things any thread counts here. What happens with every request each runner counts in an [`Account`] of its own,
//! so that processors do not wait for each other, and it is summed when somebody asks.

mod account;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub use account::{Account, Turn};
use parking_lot::Mutex;

use crate::error::ErrorLog;

/// Totals since the server's start.
#[derive(Debug, Default)]
pub struct Ledger {
    pub connections: Counter,
    /// Connections turned away because there were too many, or no descriptor for them.
    pub shed: Counter,
    pub helper_jobs: Counter,
    /// Misses that waited for a job already under way.
    pub joined: Counter,
    /// Jobs refused because the helpers' queue was full.
    pub queue_full: Counter,
    pub panics: Counter,
    accounts: Mutex<Vec<Arc<Account>>>,
}

#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Ledger {
    /// An account for one more runner, which says in `error_log` when it was caught sleeping.
    pub fn open_account(&self, error_log: ErrorLog) -> Arc<Account> {
        let account = Arc::new(Account::new(error_log));
        self.accounts.lock().push(Arc::clone(&account));
        account
    }

    pub fn requests(&self) -> u64 {
        self.sum(|account| account.requests.get())
    }

    /// Sleeps of loops outside their wait.
    pub fn loop_blocks(&self) -> u64 {
        self.sum(Account::blocks)
    }

    fn sum(&self, what: impl Fn(&Account) -> u64) -> u64 {
        self.accounts.lock().iter().map(|account| what(account)).sum()
    }

    /// A line for each loop that has turned.
    pub fn loops(&self) -> Vec<String> {
        self.accounts
            .lock()
            .iter()
            .filter(|account| account.turns() > 0)
            .map(|account| account.to_string())
            .collect()
    }
}

/// `requests=… connections=…`.
impl fmt::Display for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = [
            ("requests", self.requests()),
            ("connections", self.connections.get()),
            ("shed", self.shed.get()),
            ("helper_jobs", self.helper_jobs.get()),
            ("joined", self.joined.get()),
            ("queue_full", self.queue_full.get()),
            ("loop_blocks", self.loop_blocks()),
            ("panics", self.panics.get()),
            ("walk_us", self.sum(|account| account.spent().walk_ns) / 1000),
            ("open_us", self.sum(|account| account.spent().open_ns) / 1000),
            ("read_us", self.sum(|account| account.spent().read_ns) / 1000),
            ("queue_us", self.sum(|account| account.spent().queue_ns) / 1000),
            ("help_us", self.sum(|account| account.spent().help_ns) / 1000),
            ("send_us", self.sum(|account| account.send_us.get())),
        ];
        for (number, (name, count)) in counts.into_iter().enumerate() {
            write!(f, "{}{name}={count}", if number == 0 { "" } else { " " })?;
        }
        Ok(())
    }
}
