//! Helpers: threads that do the jobs that would make a loop wait (Flash §3.4), in a pool for each device.
//!
//! A loop hands its jobs over without a lock and without a system call that could sleep; everything else is the
//! helpers' own affair. A device that hangs takes the helpers of its own pool at most.

mod desk;
mod health;
mod pool;

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use flash_core::job::{Failure, Job, Outcome};
use flash_disk::Device;
use flash_os::mailbox::Mailbox;
use flash_os::semaphore::Semaphore;

use self::desk::Arrival;
pub(crate) use self::pool::HELPER_NICE;
use self::pool::Pool;
use crate::inbox::Inbox;
use crate::shared::Shared;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HelperLimits {
    /// Of one device.
    pub helpers_max: usize,
    /// Jobs that wait for a helper of one device; one more is refused.
    pub queue_max: usize,
    /// Do equal jobs once. Off for experiments.
    pub single_flight: bool,
    pub offload: Offload,
}

/// Which jobs go to helpers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Offload {
    /// Those that would make the loop wait.
    #[default]
    Needed,
    /// All, though many could be done at once. For experiments.
    Always,
    /// All but finding and opening files, for which the loop waits: the flaw of the Flash of 1999. For experiments.
    NotOpening,
}

/// Who wants to hear of a job's end.
pub(crate) struct Waiter {
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) token: u64,
}

/// Why a job was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Too many wait already.
    Full,
    /// The device does not answer.
    Sick,
}

pub(crate) struct Helpers {
    limits: HelperLimits,
    shared: Arc<Shared>,
    /// For whatever has no pool of its own; it is always there.
    common: Arc<Pool>,
    others: ArcSwap<Vec<Arc<Pool>>>,
    /// Devices that have been met and have no pool yet.
    met: Mailbox<Device>,
    news: Semaphore,
}

/// Beyond these, devices share the common pool: each has a helper that waits for ever.
const POOLS_MAX: usize = 32;
const STACK_BYTES: usize = 256 << 10;
/// Nothing has to happen without news; it only has to be some time.
const IDLE_MAX: Duration = Duration::from_secs(3600);

impl Helpers {
    pub(crate) fn start(limits: HelperLimits, shared: Arc<Shared>) -> io::Result<Arc<Self>> {
        let common = Pool::start(Device::ELSEWHERE, limits, Arc::clone(&shared), None)?;
        let (others, met, news) = (ArcSwap::default(), Mailbox::new(), Semaphore::default());
        let helpers = Arc::new(Self { limits, shared, common, others, met, news });
        let opener = Arc::clone(&helpers);
        let builder = thread::Builder::new().name("pools".into()).stack_size(STACK_BYTES);
        builder.spawn(move || opener.open_pools())?;
        Ok(helpers)
    }

    /// Takes a job, to be done soon, or says why not. Never waits.
    pub(crate) fn submit(&self, job: Job, waiter: Option<Waiter>) -> Result<(), Refusal> {
        let device = self.shared.disk.device_for(&job);
        let arrival = Arrival { job, waiter, came: Instant::now() };
        let others = self.others.load();
        if let Some(pool) = others.iter().find(|pool| pool.device.number == device.number) {
            return pool.submit(arrival);
        }
        if device.number != Device::ELSEWHERE.number && others.len() < POOLS_MAX && self.met.put(device) {
            self.news.post();
        }
        self.common.submit(arrival)
    }

    /// The life of the thread that opens pools, which no loop may do: it takes memory and starts a thread.
    fn open_pools(&self) {
        loop {
            self.news.wait(IDLE_MAX);
            for device in self.met.take_all() {
                let others = self.others.load();
                if others.len() == POOLS_MAX || others.iter().any(|pool| pool.device.number == device.number)
                {
                    continue;
                }
                let (shared, elsewhere) = (Arc::clone(&self.shared), Some(Arc::clone(&self.common)));
                match Pool::start(device, self.limits, shared, elsewhere) {
                    Ok(pool) => self.others.store(Arc::new(others.iter().cloned().chain([pool]).collect())),
                    Err(error) => {
                        self.shared.error_log.say(format_args!("cannot start a helper: {error}"));
                    }
                }
            }
        }
    }
}

impl Refusal {
    pub(crate) fn failure(self) -> Failure {
        match self {
            Self::Full => Failure::Busy,
            Self::Sick => Failure::Sick,
        }
    }
}

impl Waiter {
    fn tell(self, outcome: Outcome) {
        self.inbox.put(self.token, outcome);
    }
}
