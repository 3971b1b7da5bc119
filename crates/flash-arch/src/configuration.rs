//! The configuration of a process that serves: what a reload replaces as a whole, and which configurations are in use.
//!
//! A reader takes the present configuration without a lock. A loop looks once a turn whether there is another one, and a worker
//! that blocks looks when it takes a connection. An exchange holds its site, which holds the number of its configuration. So a
//! configuration is in use until its last response has ended. How a configuration is made is not known here.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use arc_swap::{ArcSwap, Guard};
use flash_core::Server;
use flash_core::configuration_number::ConfigurationNumber;
use flash_observe::AccessLog;
use flash_tls::Endpoint;
use parking_lot::Mutex;

use crate::limits::Limits;

/// What a reload replaces.
pub(crate) struct Configuration {
    pub(crate) server: Server,
    pub(crate) access_log: Option<AccessLog>,
    pub(crate) limits: Limits,
    /// What answers the TLS handshakes of its sites.
    pub(crate) endpoints: Arc<Vec<Arc<Endpoint>>>,
}

/// The present configuration of a process.
pub(crate) struct PresentConfiguration {
    present: ArcSwap<Configuration>,
    /// Counts the changes, so that a loop need not touch the configuration to see that it is the same.
    version: AtomicU64,
    /// Those of all configurations that may be in use.
    numbers: Mutex<Vec<Weak<ConfigurationNumber>>>,
}

/// A thread's own handle of the configuration that it works with.
pub(crate) struct ConfigurationHandle {
    held: Option<Arc<Configuration>>,
    version: u64,
}

impl PresentConfiguration {
    pub(crate) fn new(configuration: Configuration) -> Self {
        let numbers = Mutex::new(vec![Arc::downgrade(&configuration.server.number)]);
        Self { present: ArcSwap::from_pointee(configuration), version: AtomicU64::new(0), numbers }
    }

    /// The numbers of the configurations that are in use, the present one last.
    pub(crate) fn in_use(&self) -> Vec<u64> {
        let mut numbers = self.numbers.lock();
        numbers.retain(|number| number.strong_count() > 0);
        numbers.iter().filter_map(Weak::upgrade).map(|number| number.0).collect()
    }

    /// The present one, for a call that does not last.
    pub(crate) fn load(&self) -> Guard<Arc<Configuration>> {
        self.present.load()
    }

    /// Replaces the configuration, and returns the one before.
    pub(crate) fn replace(&self, next: Configuration) -> Arc<Configuration> {
        let mut numbers = self.numbers.lock();
        numbers.retain(|number| number.strong_count() > 0);
        numbers.push(Arc::downgrade(&next.server.number));
        drop(numbers);
        let before = self.present.swap(Arc::new(next));
        // Afterwards, so that a thread that sees the version sees the configuration too.
        self.version.fetch_add(1, Ordering::Release);
        before
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
