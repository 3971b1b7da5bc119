//! The configuration of a process that serves: what a reload replaces as a whole, and which configurations are in use.
//!
//! A reader takes the present configuration without a lock. A loop looks once a turn whether there is another one, and a worker
//! that blocks looks when it takes a connection. An exchange holds its site, which holds the number of its configuration. So a
//! configuration is in use until its last response has ended. How a configuration is made is not known here.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use arc_swap::{ArcSwap, Guard};
use flash_core::Server;
use flash_core::site::configuration_number::ConfigurationNumber;
use flash_observe::AccessLogs;
use flash_tls::Endpoint;
use parking_lot::Mutex;

use crate::admin::snapshot::ConfigurationSnapshot;
use crate::clock;
use crate::limits::Limits;

/// What a reload replaces.
pub(crate) struct Configuration {
    pub(crate) server: Server,
    pub(crate) access_logs: AccessLogs,
    pub(crate) limits: Limits,
    /// What answers the TLS handshakes of its sites.
    pub(crate) endpoints: Arc<Vec<Arc<Endpoint>>>,
}

/// The present configuration of a process.
pub(crate) struct PresentConfiguration {
    present: ArcSwap<Configuration>,
    /// Counts the changes, so that a loop need not touch the configuration to see that it is the same.
    version: AtomicU64,
    /// All configurations that may be in use.
    used: Mutex<Vec<Used>>,
}

/// A configuration that may be in use.
struct Used {
    number: Weak<ConfigurationNumber>,
    /// When it became the present one.
    since_unix_ms: u64,
}

/// A thread's own handle of the configuration that it works with.
pub(crate) struct ConfigurationHandle {
    held: Option<Arc<Configuration>>,
    version: u64,
}

impl PresentConfiguration {
    pub(crate) fn new(configuration: Configuration) -> Self {
        let used = Mutex::new(vec![Used::since_now(&configuration)]);
        Self { present: ArcSwap::from_pointee(configuration), version: AtomicU64::new(0), used }
    }

    /// The configurations that are in use, the present one last.
    pub(crate) fn in_use(&self) -> Vec<ConfigurationSnapshot> {
        let mut used = self.used.lock();
        used.retain(Used::is_in_use);
        let snapshot = |used: &Used| {
            let held = used.number.upgrade()?;
            let (number, requests, since_unix_ms) = (held.number, held.requests(), used.since_unix_ms);
            Some(ConfigurationSnapshot { number, since_unix_ms, requests, workers: Vec::new() })
        };
        used.iter().filter_map(snapshot).collect()
    }

    /// The present one, for a call that does not last.
    pub(crate) fn load(&self) -> Guard<Arc<Configuration>> {
        self.present.load()
    }

    /// Replaces the configuration, and returns the one before.
    pub(crate) fn replace(&self, next: Configuration) -> Arc<Configuration> {
        let mut used = self.used.lock();
        used.retain(Used::is_in_use);
        used.push(Used::since_now(&next));
        drop(used);
        let before = self.present.swap(Arc::new(next));
        // Afterwards, so that a thread that sees the version sees the configuration too.
        self.version.fetch_add(1, Ordering::Release);
        before
    }
}

impl Used {
    fn since_now(configuration: &Configuration) -> Self {
        Self { number: Arc::downgrade(&configuration.server.number), since_unix_ms: clock::unix_ms() }
    }

    fn is_in_use(&self) -> bool {
        self.number.strong_count() > 0
    }
}

impl ConfigurationHandle {
    /// Holds nothing until it is needed.
    pub(crate) const fn empty() -> Self {
        Self { held: None, version: 0 }
    }

    /// The configuration that is held. Without one, the present one from now on.
    #[inline]
    pub(crate) fn get(&mut self, of: &PresentConfiguration) -> &Configuration {
        self.held.get_or_insert_with(|| {
            self.version = of.version.load(Ordering::Acquire);
            of.present.load_full()
        })
    }

    /// Takes the present configuration, if the one that is held is another. Returns whether it was.
    #[inline]
    pub(crate) fn refresh(&mut self, of: &PresentConfiguration) -> bool {
        if self.held.is_some() && self.version == of.version.load(Ordering::Acquire) {
            return false;
        }
        self.held = None;
        self.get(of);
        true
    }

    /// Holds nothing any more, so that a thread without work keeps no configuration in memory.
    pub(crate) fn release(&mut self) {
        self.held = None;
    }
}
