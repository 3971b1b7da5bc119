//! Helpers: threads that do the jobs that would make a loop wait (Flash §3.4), in a pool for each device.
//!
//! A loop submits a job without a lock, and without a system call that could sleep. A device that hangs blocks the
//! helpers of its own pools at most. Listings have a pool of their own. Pools end when their device is no longer mounted.

mod device_breaker;
pub(crate) mod file_service;
mod limits;
mod pool;
mod pool_state;
mod submission;
mod watchdog;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use flash_core::job::Job;
use flash_disk::Device;
use flash_os::cpu_clock::CpuClock;
use flash_os::mpsc;

pub use self::limits::HelperLimits;
use self::pool::Pool;
use self::submission::Submission;
pub(crate) use self::submission::SubmitError;
use self::watchdog::Watchdog;
use crate::admin::snapshot::{DeviceSnapshot, KnowsDevices};
use crate::completion_queue::Waiter;
use crate::server_state::ServerState;

pub(crate) struct Helpers {
    limits: HelperLimits,
    /// A reload changes it.
    helpers_max: AtomicUsize,
    shared: Arc<ServerState>,
    /// The first always exist, and are for devices without pools of their own.
    pools: ArcSwap<Vec<Pools>>,
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

/// More devices than these do not have pools at once, because each pool keeps a helper. An idle one gives way to another. If none is
/// idle, the others share the common pools.
const DEVICES_MAX: usize = 256;
/// Two, so that one long listing does not hold up all others.
const LISTERS_MAX: usize = 2;
const STACK_BYTES: usize = 256 << 10;

impl Helpers {
    pub(crate) fn start(limits: HelperLimits, shared: Arc<ServerState>) -> io::Result<Arc<Self>> {
        let helpers = Arc::new(Self::new(limits, shared)?);
        let known: Arc<dyn KnowsDevices> = helpers.clone();
        helpers.shared.helpers.lock().push(Arc::downgrade(&known));
        let watching = Arc::clone(&helpers);
        let builder = thread::Builder::new().name("pools".into()).stack_size(STACK_BYTES);
        builder.spawn(move || watching.shared.run_vital("pools", || watching.watch_pools()))?;
        Ok(helpers)
    }

    fn new(limits: HelperLimits, shared: Arc<ServerState>) -> io::Result<Self> {
        let watchdog = Arc::new(Watchdog::new(shared.configuration().server.settings.disk_deadline_ms));
        let common = Pools::start(Device::ELSEWHERE, limits, &shared, &watchdog, None)?;
        let helpers_max = AtomicUsize::new(limits.helpers_max);
        let (pools, met) = (ArcSwap::from_pointee(vec![common]), mpsc::Queue::new());
        Ok(Self { limits, helpers_max, shared, pools, met, watchdog })
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
        let pools = self.pools.load();
        let own = pools.iter().find(|pools| pools.are_of(device));
        if own.is_none() && self.met.push(device) {
            self.watchdog.notify();
        }
        then(own.unwrap_or(&pools[0]).of(&job), job)
    }

    /// The body of the thread that opens and closes pools and looks whether devices answer. No loop may do that, because it
    /// takes memory, starts threads and waits for locks.
    fn watch_pools(&self) -> io::Result<()> {
        loop {
            self.watchdog.wait(|now| {
                let watch =
                    |pool: &Arc<Pool>| pool.watch(now, |_, helper| helper.ns(), CpuClock::is_runnable);
                // Watches each pool; `any` would stop at the first.
                let pools = self.pools.load();
                pools.iter().flat_map(Pools::all).map(watch).fold(false, |any, at_work| any | at_work)
            });
            self.update_pools(|device| self.shared.disk.has_device(device));
        }
    }

    /// Opens the pools of devices that jobs have named, and closes those of devices that are gone.
    fn update_pools(&self, is_there: impl Fn(Device) -> bool) {
        let mut next = Vec::clone(&self.pools.load());
        let mut closed: Vec<Pools> = next.extract_if(1.., |pools| !is_there(pools.files.device)).collect();
        let mut is_changed = !closed.is_empty();
        for device in self.met.drain() {
            if !is_there(device) || next.iter().any(|pools| pools.are_of(device)) {
                continue;
            }
            if next.len() > DEVICES_MAX {
                let Some(idle) = next[1..].iter().position(Pools::are_idle) else { continue };
                closed.push(next.remove(1 + idle));
            }
            let pools = Pools::start(device, self.limits, &self.shared, &self.watchdog, Some(&next[0]));
            next.extend(self.started(pools));
            is_changed = true;
        }
        if self.shared.configuration().server.lists() {
            for place in 0..next.len() {
                if next[place].listings.is_some() {
                    continue;
                }
                let (device, common) = (next[place].files.device, (place > 0).then_some(&next[0]));
                let pool = Pools::start_listings(device, self.limits, &self.shared, &self.watchdog, common);
                next[place].listings = self.started(pool);
                is_changed = true;
            }
        }
        if !is_changed {
            return;
        }
        let before = self.pools.swap(Arc::new(next));
        self.set_limits();
        // A loop that has found a pool in the list may still submit a job to it.
        while !closed.is_empty() && Arc::strong_count(&before) > 1 {
            thread::sleep(Duration::from_millis(1));
        }
        closed.iter().flat_map(Pools::all).for_each(|pool| pool.close());
    }

    fn started<T>(&self, result: io::Result<T>) -> Option<T> {
        result.inspect_err(|error| pool::log_unstarted(&self.shared, error)).ok()
    }

    fn set_limits(&self) {
        let helpers_max = self.helpers_max.load(Ordering::SeqCst);
        self.pools.load().iter().for_each(|pools| pools.set_helpers_max(helpers_max));
    }
}

impl KnowsDevices for Helpers {
    fn devices(&self) -> Vec<DeviceSnapshot> {
        let of = |pools: &Pools| {
            let listings = pools.listings.as_ref().map(|pool| pool.snapshot("listings"));
            [pools.files.snapshot("files")].into_iter().chain(listings).collect::<Vec<_>>()
        };
        self.pools.load().iter().flat_map(of).collect()
    }

    fn reloaded(&self, helpers_max: usize) {
        // Before the pools are looked at: one that is opened meanwhile sees it.
        self.helpers_max.store(helpers_max, Ordering::SeqCst);
        self.set_limits();
        // Sites may have listings now.
        self.watchdog.notify();
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
        let files = Pool::start(
            device,
            limits,
            Arc::clone(shared),
            Arc::clone(watchdog),
            elsewhere.map(|pools| Arc::clone(&pools.files)),
        )?;
        let mut pools = Self { files, listings: None };
        if shared.configuration().server.lists() {
            let listings = Self::start_listings(device, limits, shared, watchdog, elsewhere);
            pools.listings = Some(listings.inspect_err(|_| pools.files.close())?);
        }
        Ok(pools)
    }

    fn start_listings(
        device: Device,
        limits: HelperLimits,
        shared: &Arc<ServerState>,
        watchdog: &Arc<Watchdog>,
        elsewhere: Option<&Self>,
    ) -> io::Result<Arc<Pool>> {
        let limits = HelperLimits { helpers_max: limits.helpers_max.min(LISTERS_MAX), ..limits };
        let elsewhere = elsewhere.and_then(|pools| pools.listings.clone());
        Pool::start(device, limits, Arc::clone(shared), Arc::clone(watchdog), elsewhere)
    }

    fn all(&self) -> impl Iterator<Item = &Arc<Pool>> {
        std::iter::once(&self.files).chain(&self.listings)
    }

    fn set_helpers_max(&self, helpers_max: usize) {
        self.files.set_helpers_max(helpers_max);
        self.listings.iter().for_each(|pool| pool.set_helpers_max(helpers_max.min(LISTERS_MAX)));
    }

    fn are_idle(&self) -> bool {
        self.all().all(|pool| pool.is_idle())
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
