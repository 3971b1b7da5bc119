//! The start and the end that all architectures share: signals, listeners, readiness, the drain, and the thread that reloads.
//!
//! The architectures know what serves connections in between. The parent of mp, which serves none, starts and ends by itself.

pub(crate) mod configuration;
pub(crate) mod reload;
pub(crate) mod reply;
pub(crate) mod root_watch;
pub(crate) mod signals;
pub(crate) mod upgrade;
pub(crate) mod warm_up;
pub(crate) mod watchdog;

use std::io;
use std::mem;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread;

use flash_core::clients::Clients;
use flash_observe::metrics::MetricsMemory;
use flash_os::system_calls::{Call, has};
use flash_process::{Child, EarlierServers, HotPath, ServiceManager, Upgrader};

use crate::admin::listeners::AdminListeners;
use crate::admin::thread::AdminThread;
use crate::background;
use crate::connections::gates::ProcessGates;
use crate::connections::listener::{Listener, Listeners};
use crate::limits::Limits;
use crate::server_state::{ServerParts, ServerState};
use crate::service::reload::Configurator;
use crate::service::signals::Signals;
use crate::service::upgrade::{UpgradeQueue, Upgrades};

/// Says that connections are accepted.
pub type Ready<'a> = Box<dyn FnOnce(&dyn Fn(&str)) + 'a>;

/// What a server begins with.
pub struct Startup<'a> {
    pub limits: Limits,
    /// Counts the connections of each client.
    pub clients: Clients,
    pub listeners: Vec<Arc<Listener>>,
    /// Processes without which the server stops.
    pub needed: &'a [Child],
    /// Each process that serves asks it for its parts.
    pub configurator: Box<dyn Configurator>,
    /// Where administrators reach the server.
    pub admin: AdminListeners,
    /// What has started the server, if it wants to know how it does.
    pub manager: ServiceManager,
    /// Where all processes of the server count.
    pub metrics_memory: Arc<MetricsMemory>,
    /// What starts the server that takes this one's place in an upgrade.
    pub upgrader: Option<Upgrader>,
    /// What its predecessor was asked for most often.
    pub hot_paths: Vec<HotPath>,
    /// Servers whose place was taken before.
    pub earlier_servers: EarlierServers,
    /// Closed once another server has taken this one's place: what only one of them does ends with it.
    pub until_replaced: Option<OwnedFd>,
    /// Called once, when connections are accepted, with what takes its lines for an error log that is not standard error.
    pub ready: Ready<'a>,
}

/// A server that has begun. What its architecture starts serves the connections.
pub(crate) struct Service<'a> {
    pub(crate) shared: Arc<ServerState>,
    signals: Signals,
    startup: Startup<'a>,
}

impl<'a> Startup<'a> {
    /// Begins with the parts as `adapt` leaves them. Nothing accepts yet.
    pub(crate) fn begin(
        mut self,
        adapt: impl FnOnce(&mut ServerParts) -> io::Result<()>,
    ) -> io::Result<Service<'a>> {
        let signals = Signals::new()?;
        let mut parts = self.configurator.parts(0)?;
        adapt(&mut parts)?;
        let shared = ServerState::new(parts, self.limits);
        start_threads(&shared, true, None)?;
        shared.listen(mem::take(&mut self.listeners))?;
        Ok(Service { shared, signals, startup: self })
    }
}

impl Service<'_> {
    /// What the predecessor was asked for most often, for [`warm_up`].
    pub(crate) fn take_hot_paths(&mut self) -> Vec<HotPath> {
        mem::take(&mut self.startup.hot_paths)
    }

    /// Looks these paths up in a thread that waits for the disk.
    pub(crate) fn warm_up(&mut self) {
        let hot_paths = self.take_hot_paths();
        warm_up::with_a_thread(&self.shared, hot_paths);
    }

    /// Says that it serves, and does so until a signal to stop comes, a needed process or thread has ended, or a successor serves.
    /// `wake` has all that serves look at the listeners, the configuration, and whether the server drains. `end` waits for the last
    /// connection.
    pub(crate) fn run(
        self,
        wake: impl Fn(&Arc<Listeners>) + Clone + Send + 'static,
        end: impl FnOnce(),
    ) -> io::Result<()> {
        let Self { shared, mut signals, startup } = self;
        shared.set_manager(startup.manager);
        watchdog::start(&shared)?;
        reload::start(&shared, startup.configurator, wake.clone())?;
        let _ = shared.upgrades.set(UpgradeQueue::new()?);
        let _ = shared.earlier_servers.set(startup.earlier_servers.clone());
        let admin = startup.admin.try_clone()?;
        let mut upgrades = Upgrades::new(startup.upgrader, admin, startup.earlier_servers);
        let is_administered = startup.admin.all().next().is_some();
        let admin = is_administered.then(|| AdminThread::start(startup.admin, &shared)).transpose()?;
        (startup.ready)(&|line| {
            if shared.error_log.is_elsewhere() {
                shared.error_log.log(format_args!("{line}"));
            }
        });
        let stopped = signals.wait_for_stop(&shared, startup.needed, &mut upgrades, admin.as_ref());
        upgrades.abandon();
        shared.drain();
        wake(&shared.listeners.load());
        shared.close_listeners();
        if shared.has_successor() {
            // This server may end soon. Whoever has asked for that gets the answer before.
            admin.iter().for_each(AdminThread::wait_for_clients);
            drop(startup.until_replaced);
        }
        shared.helper_kind.tidy_up();
        let ended_well = finish(&shared, signals, startup.needed, (wake, end));
        if !has(Call::Epoll) {
            // A thread that polled a socket when it was closed kept it open until it looked again.
            shared.listeners.load().iter().flatten().for_each(|listener| listener.remove_name());
        }
        shared.close(true);
        stopped.and(ended_well)
    }
}

/// Waits for the last connection. A server that has a successor may take long, and still reads signals: one to stop has it end as if it
/// had none.
fn finish(
    shared: &ServerState,
    mut signals: Signals,
    needed: &[Child],
    (wake, end): (impl Fn(&Arc<Listeners>) + Send, impl FnOnce()),
) -> io::Result<()> {
    if !shared.has_successor() {
        end();
        return Ok(());
    }
    let watch = move || {
        let stopped = signals.wait_for_stop(shared, needed, &mut Upgrades::default(), None);
        if !shared.is_over() {
            shared.drain_at_once();
            wake(&shared.listeners.load());
        }
        stopped
    };
    thread::scope(|scope| {
        let watching = thread::Builder::new().name("signals".into()).spawn_scoped(scope, watch)?;
        end();
        shared.ends();
        watching.join().unwrap_or(Ok(()))
    })
}

/// Starts the threads of a process that serve no connections. With `is_first` they log what happens to folders. The processes of mp
/// share `gates`.
pub(crate) fn start_threads(
    shared: &Arc<ServerState>,
    is_first: bool,
    gates: Option<&ProcessGates>,
) -> io::Result<()> {
    root_watch::start(shared, is_first, true)?;
    background::start(shared)?;
    shared.start_logins(gates)
}
