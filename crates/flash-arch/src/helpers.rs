//! Helpers: threads that do the jobs that would make a loop wait (Flash §3.4), in a pool for each device.
//!
//! A loop submits a job without a lock, and without a system call that could sleep. A device that hangs blocks the
//! helpers of its own pools at most. Listings have a pool of their own.

mod device_breaker;
mod limits;
mod pool;
mod pool_state;
mod queue;
mod submission;
mod watchdog;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use arc_swap::ArcSwap;
use flash_core::job::Job;
use flash_disk::Device;
use flash_os::cpu_clock::CpuClock;
use flash_os::mpsc;

pub(crate) use self::limits::HELPER_NICE;
pub use self::limits::{HelperLimits, Offload};
use self::pool::Pool;
pub(crate) use self::queue::{Client, FairQueue, Lane};
use self::submission::Submission;
pub(crate) use self::submission::{SubmitError, Waiter};
use self::watchdog::Watchdog;
use crate::admin::snapshot::{DeviceSnapshot, KnowsDevices};
use crate::server_state::ServerState;

pub(crate) struct Helpers {
    limits: HelperLimits,
    /// A reload changes it.
    helpers_max: AtomicUsize,
    shared: Arc<ServerState>,
    /// For devices without pools of their own. These pools always exist.
    common: Pools,
    others: ArcSwap<Vec<Pools>>,
    /// Devices that jobs have named and that have no pool yet.
    met: mpsc::Queue<Device>,
    watchdog: Arc<Watchdog>,
}

/// The helpers of one device. A folder may take long to read, so listings never take a helper from files.
#[derive(Clone)]
struct Pools {
    files: Arc<Pool>,
    /// Present if folders are listed.
    listings: Option<Arc<Pool>>,
}

/// More devices than these share the common pools, because each pool keeps a helper for ever.
const DEVICES_MAX: usize = 32;
/// Two, so that one long listing does not hold up all others.
const LISTERS_MAX: usize = 2;
const STACK_BYTES: usize = 256 << 10;

impl Helpers {
    pub(crate) fn start(limits: HelperLimits, shared: Arc<ServerState>) -> io::Result<Arc<Self>> {
        let watchdog = Arc::new(Watchdog::new(shared.configuration().server.settings.disk_deadline_ms));
        let common = Pools::start(Device::ELSEWHERE, limits, &shared, &watchdog, None)?;
        let (others, met, shared_state) = (ArcSwap::default(), mpsc::Queue::new(), Arc::clone(&shared));
        let helpers_max = AtomicUsize::new(limits.helpers_max);
        let helpers = Arc::new(Self { limits, helpers_max, shared, common, others, met, watchdog });
        let known: Arc<dyn KnowsDevices> = helpers.clone();
        shared_state.helpers.lock().push(Arc::downgrade(&known));
        let watching = Arc::clone(&helpers);
        let builder = thread::Builder::new().name("pools".into()).stack_size(STACK_BYTES);
        builder.spawn(move || watching.watch_pools())?;
        Ok(helpers)
    }

    /// Submits a job, or returns why it was refused. Never waits.
    pub(crate) fn submit(&self, job: Job, waiter: Option<Waiter>) -> Result<(), SubmitError> {
        self.with_pool(job, |pool, job| pool.submit(Submission { job, waiter, came: Instant::now() }))
    }

    /// Submits a job that may be left undone, such as a copy of a file that is served meanwhile. It is dropped if others wait, so there
    /// are never many.
    pub(crate) fn submit_if_idle(&self, job: Job) {
        self.with_pool(job, |pool, job| {
            if !pool.has_waiting() {
                let _ = pool.submit(Submission { job, waiter: None, came: Instant::now() });
            }
        });
    }

    /// Does something with the pool of the job's device.
    fn with_pool<T>(&self, job: Job, then: impl FnOnce(&Pool, Job) -> T) -> T {
        let device = self.shared.disk.device_for(&job);
        let others = self.others.load();
        if let Some(pools) = others.iter().find(|pools| pools.are_of(device)) {
            return then(pools.of(&job), job);
        }
        if device.number != Device::ELSEWHERE.number && others.len() < DEVICES_MAX && self.met.push(device) {
            self.watchdog.notify();
        }
        then(self.common.of(&job), job)
    }

    /// The body of the thread that opens pools and looks whether devices answer. No loop may do that, because it
    /// takes memory, starts threads and waits for locks.
    fn watch_pools(&self) {
        loop {
            self.watchdog.wait(|now| {
                let pools = self.others.load();
                let pools = [&self.common].into_iter().chain(pools.iter()).flat_map(Pools::all);
                let watch =
                    |pool: &Arc<Pool>| pool.watch(now, |_, helper| helper.ns(), CpuClock::is_runnable);
                // Watches each pool; `any` would stop at the first.
                pools.map(watch).fold(false, |any, at_work| any | at_work)
            });
            self.open_pools();
        }
    }

    fn open_pools(&self) {
        for device in self.met.drain() {
            let others = self.others.load();
            if others.len() == DEVICES_MAX || others.iter().any(|pools| pools.are_of(device)) {
                continue;
            }
            match Pools::start(device, self.limits, &self.shared, &self.watchdog, Some(&self.common)) {
                Ok(pools) => {
                    self.others.store(Arc::new(others.iter().cloned().chain([pools.clone()]).collect()));
                    pools.set_helpers_max(self.helpers_max.load(Ordering::SeqCst));
                }
                Err(error) => {
                    self.shared.error_log.log(format_args!("cannot start a helper: {error}"));
                }
            }
        }
    }
}

impl KnowsDevices for Helpers {
    fn devices(&self) -> Vec<DeviceSnapshot> {
        let others = self.others.load();
        let of = |pools: &Pools| {
            let listings = pools.listings.as_ref().map(|pool| pool.snapshot("listings"));
            [pools.files.snapshot("files")].into_iter().chain(listings).collect::<Vec<_>>()
        };
        [&self.common].into_iter().chain(others.iter()).flat_map(of).collect()
    }

    fn set_helpers_max(&self, helpers_max: usize) {
        // Before the pools are looked at: one that is opened meanwhile sees it.
        self.helpers_max.store(helpers_max, Ordering::SeqCst);
        let others = self.others.load();
        [&self.common].into_iter().chain(others.iter()).for_each(|pools| pools.set_helpers_max(helpers_max));
    }
}

impl Pools {
    /// Starts the pools of a device. They hand names that lead to other devices to `elsewhere`.
    fn start(
        device: Device,
        limits: HelperLimits,
        shared: &Arc<ServerState>,
        watchdog: &Arc<Watchdog>,
        elsewhere: Option<&Self>,
    ) -> io::Result<Self> {
        let start = |helpers_max: usize, elsewhere: Option<&Arc<Pool>>| {
            let limits = HelperLimits { helpers_max, ..limits };
            Pool::start(device, limits, Arc::clone(shared), Arc::clone(watchdog), elsewhere.cloned())
        };
        let files = start(limits.helpers_max, elsewhere.map(|pools| &pools.files))?;
        let listings = match shared.configuration().server.lists() {
            true => {
                let elsewhere = elsewhere.and_then(|pools| pools.listings.as_ref());
                Some(start(limits.helpers_max.min(LISTERS_MAX), elsewhere)?)
            }
            false => None,
        };
        Ok(Self { files, listings })
    }

    fn all(&self) -> impl Iterator<Item = &Arc<Pool>> {
        std::iter::once(&self.files).chain(&self.listings)
    }

    fn set_helpers_max(&self, helpers_max: usize) {
        self.files.set_helpers_max(helpers_max);
        self.listings.iter().for_each(|pool| pool.set_helpers_max(helpers_max.min(LISTERS_MAX)));
    }

    fn are_of(&self, device: Device) -> bool {
        self.files.device.number == device.number
    }

    fn of(&self, job: &Job) -> &Pool {
        match (job, &self.listings) {
            (Job::List(_), Some(listings)) => listings,
            _ => &self.files,
        }
    }
}

#[cfg(test)]
mod tests;
