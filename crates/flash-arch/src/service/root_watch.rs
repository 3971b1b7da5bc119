//! The threads that look where DIR leads: often enough that a new root is seen within `--revalidate`.
//!
//! A look is one system call. With several sites each device has a thread of its own, so that a mount that hangs delays no deploy
//! elsewhere. So have the folders that could not be opened, whose device nobody knows. What changes with a new root is the [disk](flash_disk::Disk::look_at_root)'s business.
//!
//! A site that nobody asks for is [idle](flash_disk::Disk::idle_unasked_sites), and nobody looks at it. So many sites cost nothing
//! while nobody asks for them. Three kinds of sites are never idle: those on remote devices, which may hang when they are asked for, those
//! whose folders could not be opened, and those whose programs are found without a look at the disk.

use std::collections::HashSet;
use std::io;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use flash_core::site::id::SiteId;
use parking_lot::Mutex;
use rustix::time::{ClockId, clock_gettime};

use crate::document_root;
use crate::server_state::ServerState;

/// With `--revalidate 0`. So DIR itself is looked at fifty times a second at most.
const PERIOD_MIN_MS: u64 = 20;
const STACK_BYTES: usize = 128 << 10;
/// The roots of more areas than these are left to the first thread.
const THREADS_MAX: usize = 64;

/// A site is idle after so many looks without a request, and this time. Its cached entries are too old by then.
const IDLE_AFTER_LOOKS: u32 = 8;
const IDLE_AFTER_MS: u64 = 10_000;
/// Looks at many sites leave so many parts of the processor to others for each part that they use.
const PARTS_LEFT: u32 = 19;

/// Which roots have a thread of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Area {
    /// Those on a device, by its major and minor number.
    Device(u32, u32),
    /// Folders that could not be opened.
    Unopened,
}

impl Area {
    fn of(site: SiteId, shared: &ServerState) -> Self {
        shared.disk.root_device(site).map_or(Self::Unopened, |(major, minor)| Self::Device(major, minor))
    }
}

/// What such a thread knows.
#[derive(Clone)]
struct Watch {
    state: Weak<ServerState>,
    /// Whether sites may be idle.
    may_idle: bool,
    /// What has a thread.
    watched: Arc<Mutex<HashSet<Area>>>,
    /// Where it looks. `None` for the first thread, which looks at what has no thread, and stays.
    area: Option<Area>,
}

/// The threads end with the state. With `logs` they tell the error log what they see; of several processes one is enough. With
/// `may_idle` nobody looks at sites that nobody asks for.
pub(crate) fn start(shared: &Arc<ServerState>, logs: bool, may_idle: bool) -> io::Result<()> {
    let state = Arc::downgrade(shared);
    let observed = Weak::clone(&state);
    shared.disk.observe_roots(move |site, change, folder| {
        let Some(shared) = observed.upgrade() else { return };
        shared.helper_kind.retire_helpers();
        document_root::tell(site, &shared.disk, &shared.configuration().server.hosts);
        if logs {
            shared.error_log.log(format_args!("{}", change.about(folder)));
        }
    });
    Watch { state, may_idle, watched: Arc::default(), area: None }.start()
}

impl Watch {
    fn start(self) -> io::Result<()> {
        let life = move || {
            while let Some(shared) = self.state.upgrade() {
                let before = processor_time();
                // A folder counts as gone at the second look only.
                let period_ms = (shared.configuration().server.settings.revalidate_ms / 2).max(PERIOD_MIN_MS);
                let stays = match self.area {
                    None => {
                        self.look_at_others(&shared, period_ms);
                        true
                    }
                    Some(area) => self.look_at(&shared, area),
                };
                drop(shared);
                if !stays {
                    return;
                }
                let used = processor_time().saturating_sub(before);
                thread::sleep(Duration::from_millis(period_ms).max(PARTS_LEFT * used));
            }
        };
        thread::Builder::new().name("root".into()).stack_size(STACK_BYTES).spawn(life).map(drop)
    }

    /// Looks at the roots there. If there are none any more, their thread ends.
    fn look_at(&self, shared: &ServerState, area: Area) -> bool {
        let sites = shared.disk.watched_sites();
        let there: Vec<SiteId> = sites.into_iter().filter(|site| Area::of(*site, shared) == area).collect();
        if there.is_empty() {
            self.watched.lock().remove(&area);
            return false;
        }
        there.into_iter().for_each(|site| shared.disk.look_at_root(site));
        true
    }

    /// Looks at the roots that have no thread. If there are several sites, each device gets one.
    fn look_at_others(&self, shared: &ServerState, period_ms: u64) {
        if self.may_idle {
            let hosts = &shared.configuration().server.hosts;
            let calls = (IDLE_AFTER_MS / period_ms) as u32;
            shared.disk.idle_unasked_sites(calls.max(IDLE_AFTER_LOOKS), |site| {
                hosts.routes(site).is_none_or(|routes| !routes.have_prefixes())
            });
        }
        let sites = shared.disk.watched_sites();
        let several = sites.len() > 1;
        let others = sites.into_iter().filter(|site| !self.is_watched(Area::of(*site, shared), several));
        // All threads begin before a look may wait.
        let others: Vec<SiteId> = others.collect();
        others.into_iter().for_each(|site| shared.disk.look_at_root(site));
    }

    /// Whether an area has a thread. If not, it gets one, if it may and can.
    fn is_watched(&self, area: Area, may_begin: bool) -> bool {
        let mut watched = self.watched.lock();
        let begins = |watched: &HashSet<Area>| {
            may_begin
                && watched.len() < THREADS_MAX
                && Self { area: Some(area), ..self.clone() }.start().is_ok()
        };
        watched.contains(&area) || (begins(&watched) && watched.insert(area))
    }
}

/// Of this thread.
fn processor_time() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap_or_default()
}
