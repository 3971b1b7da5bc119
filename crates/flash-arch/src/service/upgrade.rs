//! Upgrades: another process, usually of a newer program, takes this server's place, and no request is lost.
//!
//! The [upgrader](flash_process::Upgrader) starts it with the listening sockets. Both servers accept for a moment. Once the new one is
//! ready, this one stops to accept and drains. If it never becomes ready, nothing changes here. The thread that waits for signals
//! does all this, and in mp the parent does. How connections come to their end is known to
//! [`Drain`](flash_core::Drain).

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use flash_os::channel::Channel;
use flash_os::waker::Waker;
use flash_process::hot_paths::{self, HOT_PATHS};
use flash_process::{EarlierServers, HotPath, ServiceManager, Upgrade, UpgradeRequest, Upgrader};

use crate::admin::listeners::AdminListeners;
use crate::clock;
use crate::connections::listener::Listener;
use crate::service::reply::Reply;

/// The upgrades of a server, one after the other.
#[derive(Default)]
pub(crate) struct Upgrades {
    /// `None` in processes that a server has for its work.
    upgrader: Option<Upgrader>,
    /// Where administrators are answered. A successor gets it too.
    admin: AdminListeners,
    /// A successor shows them, too.
    earlier: EarlierServers,
    /// An upgrade whose server is not ready yet, and who gets its result.
    under_way: Option<(Upgrade, Option<Reply>)>,
}

/// An administrator's request, and where the answer goes.
pub(crate) struct Asked {
    pub(crate) request: UpgradeRequest,
    pub(crate) reply: Reply,
}

/// Administrators' requests, for the thread that upgrades.
pub(crate) struct UpgradeQueue(Channel<Asked>);

impl UpgradeQueue {
    pub(crate) fn new() -> io::Result<Self> {
        Channel::new().map(Self)
    }

    /// Woken when there is something to [take](Self::take).
    pub(crate) fn waker(&self) -> &Waker {
        self.0.waker()
    }

    /// Wakes the thread that upgrades for another reason.
    pub(crate) fn wake(&self) {
        self.0.wake();
    }

    pub(crate) fn ask(&self, asked: Asked) {
        self.0.send(asked);
    }

    pub(crate) fn take(&self) -> impl Iterator<Item = Asked> {
        // Before the queue is looked at, so that no request is missed.
        self.0.waker().drain();
        self.0.drain()
    }
}

impl Upgrades {
    pub(crate) fn new(upgrader: Option<Upgrader>, admin: AdminListeners, earlier: EarlierServers) -> Self {
        Self { upgrader, admin, earlier, under_way: None }
    }

    /// Servers whose place was taken before.
    pub(crate) fn earlier(&self) -> &EarlierServers {
        &self.earlier
    }

    /// Whether this process can be upgraded at all.
    pub(crate) fn are_possible(&self) -> bool {
        self.upgrader.is_some()
    }

    /// Starts another server that gets these listeners, and the paths that are requested most often. Without `reply`, the log says what came of it.
    pub(crate) fn begin<'l>(
        &mut self,
        request: &UpgradeRequest,
        listeners: impl Iterator<Item = &'l Arc<Listener>>,
        hot: &dyn Fn() -> Vec<HotPath>,
        reply: Option<Reply>,
        log: &dyn Fn(&str),
    ) {
        let begun = match (&self.upgrader, &self.under_way) {
            (Some(_), Some(_)) => Err("another upgrade is under way".to_owned()),
            (None, _) => Err("this process cannot be upgraded".to_owned()),
            (Some(upgrader), None) => {
                let named = |listener: &'l Arc<Listener>| (listener.as_fd(), listener.name().to_owned());
                let admin = self.admin.all().map(|admin| (admin.as_fd(), admin.name().to_owned()));
                // Without memory for them, the successor begins with an empty cache.
                let hot_paths = hot_paths::write(&hot()).ok();
                let hot = hot_paths.iter().map(|memory| (memory.as_fd(), HOT_PATHS.to_owned()));
                let earlier = self.earlier.with(upgrader.this(), clock::unix_ms());
                let sockets = listeners.map(named).chain(admin).collect();
                upgrader
                    .begin(request, sockets, hot.chain(earlier).collect())
                    .map_err(|error| error.to_string())
            }
        };
        match begun {
            Ok(upgrade) => self.under_way = Some((upgrade, reply)),
            Err(why) => answer(reply, Err(why), log),
        }
    }

    /// Ends a new server that is not ready yet.
    pub(crate) fn abandon(&mut self) {
        self.under_way = None;
    }

    /// Readable when there is work for [`Upgrades::turn`].
    pub(crate) fn events(&self) -> Option<BorrowedFd<'_>> {
        self.under_way.as_ref().map(|(upgrade, _)| upgrade.events())
    }

    /// Looks what came of an upgrade. Never waits. Returns whether another server is ready, and this one is to stop. `leave_admin` has
    /// administrators answered by the other one.
    pub(crate) fn turn(
        &mut self,
        manager: &ServiceManager,
        log: &dyn Fn(&str),
        leave_admin: impl FnOnce(),
    ) -> bool {
        let Some(outcome) = self.under_way.as_ref().and_then(|(upgrade, _)| upgrade.outcome()) else {
            return false;
        };
        let Some((upgrade, reply)) = self.under_way.take() else { return false };
        if let Ok(pid) = outcome {
            // Before anybody knows, so that the next request comes to the new server.
            leave_admin();
            self.admin = AdminListeners::default();
            // Before the new server tells the manager anything, which listens only to the main process.
            manager.succeeded_by(pid);
            upgrade.release();
            log(&format!("process {pid} serves from now on: this one finishes the requests under way"));
        }
        let is_ready = outcome.is_ok();
        answer(reply, outcome, log);
        is_ready
    }
}

fn answer(reply: Option<Reply>, outcome: Result<u32, String>, log: &dyn Fn(&str)) {
    if let Err(why) = &outcome {
        log("the upgrade failed, and this process goes on:");
        why.lines().filter(|line| !line.is_empty()).for_each(log);
    }
    if let Some(reply) = reply {
        reply.send(outcome.map(u64::from));
    }
}
