//! What controls a server from outside: the thread that reloads, and the admin socket.

use std::io;
use std::sync::Arc;

use flash_observe::metrics::MetricsMemory;
use flash_process::{HotPath, ServiceManager, Upgrader};

use crate::admin::{self, AdminThread};
use crate::admin_listeners::AdminListeners;
use crate::listener::Listeners;
use crate::reload::{self, Configurator};
use crate::server_state::{ServerParts, ServerState};
use crate::service_watchdog;
use crate::upgrade::{UpgradeQueue, Upgrades};

/// What goes on with a server that serves.
#[derive(Default)]
pub(crate) struct Controlled {
    /// The admin socket is closed when this is dropped.
    pub(crate) admin: Vec<AdminThread>,
    pub(crate) upgrades: Upgrades,
}

impl Controlled {
    /// A server with a successor may end soon, and whoever has asked for that gets the answer before.
    pub(crate) fn leave_to_successor(&self) {
        self.admin.iter().for_each(AdminThread::wait_for_clients);
    }
}

/// How a server is configured, and where administrators reach it.
pub struct Control {
    pub configurator: Box<dyn Configurator>,
    pub admin: AdminListeners,
    /// What has started the server, if it wants to know how it does.
    pub manager: ServiceManager,
    /// Where all processes of the server count.
    pub metrics_memory: Arc<MetricsMemory>,
    /// What starts the server that takes this one's place in an upgrade.
    pub upgrader: Option<Upgrader>,
    /// What its predecessor was asked for most often.
    pub hot_paths: Vec<HotPath>,
}

impl Control {
    pub(crate) fn parts(&self) -> io::Result<ServerParts> {
        self.configurator.parts(0)
    }

    /// Starts the threads. `wake` makes the loops look for listeners and for the configuration.
    pub(crate) fn start(
        self,
        shared: &Arc<ServerState>,
        wake: impl Fn(&Arc<Listeners>) + Send + 'static,
    ) -> io::Result<Controlled> {
        shared.set_manager(self.manager);
        service_watchdog::start(shared)?;
        reload::start(shared, self.configurator, wake)?;
        let again = self.admin.try_clone()?;
        let _ = shared.upgrades.set(UpgradeQueue::new()?);
        let upgrades = Upgrades::new(self.upgrader, again);
        let admin = admin::start(self.admin, shared)?;
        Ok(Controlled { admin, upgrades })
    }
}
