//! Reloads: another configuration takes the place of the present one, and no request notices.
//!
//! A thread of its own makes the next configuration, because that may wait for the disk. It opens, binds and checks everything
//! before it changes anything. Then it replaces the configuration and wakes the loops. It keeps an earlier configuration until the
//! last loop and the last exchange have let go of it, so that no loop frees much memory. What a configuration consists of is known
//! to [`Configurator`], and mp reloads in its own way.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use flash_core::Server;
use flash_core::record::counters::Count;
use flash_core::site::Site;
use flash_core::site::configuration_number::ConfigurationNumber;
use flash_core::upstream::Upstreams;
use flash_disk::{Disk, NextSites};
use flash_observe::{AccessLogs, ErrorLog, LogSink};
use flash_tls::Endpoint;

use crate::background;
use crate::connections::listener::{Listener, Listeners};
use crate::document_root;
use crate::helper_processes::HelperKind;
use crate::limits::Limits;
use crate::server_state::{ServerParts, ServerState};
use crate::service::configuration::Configuration;
use crate::service::reply::{ReloadRequest, Reply};

/// Makes what processes serve with.
pub trait Configurator: Send {
    /// The parts of the process with this number.
    ///
    /// # Errors
    /// If the process cannot have them.
    fn parts(&self, number: usize) -> io::Result<ServerParts>;

    /// Reads everything again, and makes what a process with threads needs next. Changes nothing. May wait for the disk.
    ///
    /// # Errors
    /// Everything that is wrong, in one line or more.
    fn prepare(&mut self, present: &Present<'_>) -> Result<Next, String>;

    /// What a reload would find wrong, if this is the server's file. Changes nothing. May wait for the disk.
    ///
    /// # Errors
    /// As those of [`Configurator::prepare`].
    fn check(&self, file: &Path) -> Result<(), String>;

    /// The configuration that was prepared last serves from now on.
    fn replaced(&mut self);

    /// Reads everything again and checks it, for a parent that forks its processes. A process of its own does it, because it may wait
    /// for the disk.
    ///
    /// # Errors
    /// Everything that is wrong, in one line or more.
    fn rehearse(&self) -> Result<(), String>;

    /// The same in the parent, after the rehearsal. [`Configurator::parts`] are those of the new configuration from now on.
    ///
    /// # Errors
    /// If something has changed since the rehearsal.
    fn replace(&mut self) -> Result<(Vec<Arc<Listener>>, Limits), String>;

    /// Writes lines to the error log, in a process of its own.
    fn log(&self, lines: &str);
}

/// What a process serves with now.
pub struct Present<'a> {
    pub server: &'a Server,
    pub disk: &'a Disk,
    pub access_logs: &'a AccessLogs,
    pub error_log: &'a ErrorLog,
    pub helper_kind: &'a HelperKind,
    pub upstreams: Option<&'a Arc<dyn Upstreams>>,
}

/// What a process is to serve with.
pub struct Next {
    /// With the caches of the present one.
    pub server: Server,
    pub sites: NextSites,
    pub access_logs: AccessLogs,
    /// Another destination of the error log.
    pub error_sink: Option<LogSink>,
    pub limits: Limits,
    /// How many helpers a device may have, in architectures that have such a limit.
    pub helpers_max: Option<usize>,
    /// All of them. Those that stay are the same.
    pub listeners: Vec<Arc<Listener>>,
    /// What opens the upstreams of its sites.
    pub upstreams: Option<Arc<dyn Upstreams>>,
    /// What answers the TLS handshakes of its sites.
    pub endpoints: Arc<Vec<Arc<Endpoint>>>,
}

type Wake = Box<dyn Fn(&Arc<Listeners>) + Send>;

/// The thread that reloads.
struct Reloader {
    shared: Arc<ServerState>,
    configurator: Box<dyn Configurator>,
    /// Makes the loops look.
    wake: Wake,
    upstreams: Option<Arc<dyn Upstreams>>,
    earlier: Vec<Earlier>,
    /// The disk has earlier sites that are still in use.
    has_earlier_sites: bool,
    /// Unix sockets that were dropped. Their names are removed once no loop holds them.
    dropped: Vec<DroppedSocket>,
}

/// A Unix socket that a reload has dropped.
struct DroppedSocket {
    listener: Weak<Listener>,
    name: PathBuf,
    /// How often the removal of its name is tried. A ring may hold the socket for a moment longer.
    tries_left: u8,
}

/// A configuration that was replaced, and may still be in use.
struct Earlier {
    number: Weak<ConfigurationNumber>,
    /// `None` once no loop holds it any more.
    configuration: Option<Arc<Configuration>>,
    /// Those of its sites that exchanges hold then. So no loop frees one.
    sites: Vec<Arc<Site>>,
    /// Its end waits for a thread, so it must not come in a loop.
    _upstreams: Option<Arc<dyn Upstreams>>,
}

const REMOVALS_MAX: u8 = 20;
/// How soon earlier configurations are looked at again, while there are any. Each look without a result doubles the pause.
const LOOK_AFTER: Duration = Duration::from_millis(100);
const LOOK_AFTER_MAX: Duration = Duration::from_secs(2);

/// Starts the thread. `wake` makes the loops look for listeners and for the configuration.
pub(crate) fn start(
    shared: &Arc<ServerState>,
    configurator: Box<dyn Configurator>,
    wake: impl Fn(&Arc<Listeners>) + Send + 'static,
) -> io::Result<()> {
    let (sender, requests) = channel();
    let reloader = Reloader {
        shared: Arc::clone(shared),
        configurator,
        wake: Box::new(wake),
        upstreams: shared.take_programs(),
        earlier: Vec::new(),
        has_earlier_sites: false,
        dropped: Vec::new(),
    };
    thread::Builder::new().name("reload".into()).spawn(move || reloader.run(&requests))?;
    shared.set_reloads(sender);
    Ok(())
}

impl Reloader {
    fn run(mut self, requests: &Receiver<ReloadRequest>) {
        let mut pause = LOOK_AFTER;
        loop {
            let waits = !self.earlier.is_empty() || self.has_earlier_sites || !self.dropped.is_empty();
            let request = match !waits {
                true => requests.recv().map_err(|_| RecvTimeoutError::Disconnected),
                false => requests.recv_timeout(pause),
            };
            let is_reloaded = request.is_ok();
            match request {
                Ok(ReloadRequest::Reload(reply)) => self.handle(reply),
                Ok(ReloadRequest::Check(file, reply)) => {
                    reply.send(self.caught(|reloader| reloader.configurator.check(&file).map(|()| 0)));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            pause = match self.forget_unused(is_reloaded) {
                true => LOOK_AFTER,
                false => (2 * pause).min(LOOK_AFTER_MAX),
            };
        }
    }

    fn handle(&mut self, reply: Option<Reply>) {
        let manager = self.shared.manager();
        manager.reloading();
        let reloaded = self.caught(Self::reload);
        match &reloaded {
            Ok(number) => {
                self.shared.error_log.log(format_args!("configuration {number} serves from now on"))
            }
            Err(why) if reply.is_none() => {
                self.shared.error_log.log(format_args!("the configuration stays what it was:"));
                let lines = why.lines().filter(|line| !line.is_empty());
                lines.for_each(|line| self.shared.error_log.log(format_args!("{line}")));
            }
            // The one who asked prints the lines.
            Err(_) => {
                self.shared
                    .error_log
                    .log(format_args!("a reload failed: the configuration stays what it was"));
            }
        }
        let failed = if reloaded.is_err() { "; a reload failed" } else { "" };
        manager.ready(format_args!("{}{failed}", self.shared.shown()));
        if let Some(reply) = reply {
            reply.send(reloaded);
        }
    }

    fn caught(&mut self, work: impl FnOnce(&mut Self) -> Result<u64, String>) -> Result<u64, String> {
        catch_unwind(AssertUnwindSafe(|| work(self))).unwrap_or_else(|_| {
            self.shared.metrics.add(Count::Panics, 1);
            Err("an internal error, which standard error tells".into())
        })
    }

    fn reload(&mut self) -> Result<u64, String> {
        let shared = &self.shared;
        if shared.is_draining() {
            return Err("the server is stopping".into());
        }
        let configuration = shared.configuration();
        let present = Present {
            server: &configuration.server,
            disk: &shared.disk,
            access_logs: &configuration.access_logs,
            error_log: &shared.error_log,
            helper_kind: &shared.helper_kind,
            upstreams: self.upstreams.as_ref(),
        };
        let next = self.configurator.prepare(&present)?;
        let listeners = Arc::new(placed(&shared.listeners.load(), next.listeners));
        for listener in listeners.iter().flatten() {
            let why = |error| format!("cannot listen at {listener}: {error}");
            listener.set_nonblocking().map_err(why)?;
        }
        drop(configuration);
        let why = |error| format!("cannot start a thread that checks log-ins: {error}");
        shared.logins.start_for(&next.server, None).map_err(why)?;
        self.configurator.replaced();
        // Nothing fails from here on.
        if let Some(sink) = next.error_sink {
            shared.error_log.redirect(sink);
        }
        shared.permits.set_connections_max(next.limits.connections_max);
        shared.disk.replace_sites(next.sites);
        let before = shared.listeners.swap(Arc::clone(&listeners));
        let is_left =
            |left: &&Arc<Listener>| !listeners.iter().flatten().any(|other| Arc::ptr_eq(left, other));
        let names = before.iter().flatten().filter(is_left);
        let names = names.filter_map(|left| {
            let (listener, name) = (Arc::downgrade(left), left.own_name()?.to_owned());
            Some(DroppedSocket { listener, name, tries_left: REMOVALS_MAX })
        });
        self.dropped.extend(names);
        drop(before);
        // A loop knows its sites' endpoints by their numbers, whichever configuration it holds.
        shared.tls.replace(next.endpoints.iter().chain(&*shared.tls.all()));
        let number = next.server.number.number;
        document_root::tell_all(&shared.disk, &next.server.hosts);
        let before = shared.replace_configuration(Configuration {
            server: next.server,
            access_logs: next.access_logs,
            limits: next.limits,
            endpoints: next.endpoints,
        });
        if let Some(helpers_max) = next.helpers_max {
            let helpers: Vec<_> = shared.helpers.lock().iter().filter_map(Weak::upgrade).collect();
            helpers.iter().for_each(|helpers| helpers.reloaded(helpers_max));
        }
        // A root that was replaced meanwhile was told to the configuration before.
        document_root::tell_all(&shared.disk, &shared.configuration().server.hosts);
        if let Err(error) = background::start(shared) {
            shared.error_log.log(format_args!("cannot work in the background: {error}"));
        }
        (self.wake)(&listeners);
        self.earlier.push(Earlier {
            number: Arc::downgrade(&before.server.number),
            configuration: Some(before),
            sites: Vec::new(),
            _upstreams: std::mem::replace(&mut self.upstreams, next.upstreams),
        });
        Ok(number)
    }

    /// Frees what no loop and no exchange holds any more. Returns whether more may soon be free.
    fn forget_unused(&mut self, is_reloaded: bool) -> bool {
        self.dropped.retain_mut(|dropped| {
            if dropped.listener.strong_count() > 0 {
                return true;
            }
            // One that stays is taken over by the next server.
            let _ = flash_trust::remove_abandoned(&dropped.name);
            dropped.tries_left -= 1;
            dropped.tries_left > 0 && dropped.name.exists()
        });
        if self.earlier.is_empty() && !self.has_earlier_sites {
            return !self.dropped.is_empty();
        }
        let mut has_freed = false;
        for earlier in &mut self.earlier {
            earlier.sites.retain(|site| Arc::strong_count(site) > 1);
            let is_free = |held: &mut Arc<Configuration>| Arc::strong_count(held) == 1;
            let Some(configuration) = earlier.configuration.take_if(is_free) else { continue };
            has_freed = true;
            earlier.sites = configuration.server.hosts.held();
        }
        if has_freed {
            self.forget_unused_endpoints();
        }
        let before = self.earlier.len();
        self.earlier.retain(|earlier| earlier.number.strong_count() > 0);
        let Self { shared, .. } = self;
        if self.earlier.is_empty() {
            shared.configuration().access_logs.close_left();
        }
        self.has_earlier_sites = shared.disk.forget_unused_sites();
        shared.helper_kind.retire_helpers();
        let is_over = self.earlier.len() < before;
        // A look at all paths is for those of sites that are gone, and of requests that went on with them.
        if is_reloaded || is_over {
            shared.configuration().server.paths.retain_sites(|site| shared.disk.is_present(site));
        }
        is_reloaded || is_over || has_freed || !self.dropped.is_empty()
    }

    fn forget_unused_endpoints(&self) {
        let held = self.earlier.iter().rev().filter_map(|earlier| earlier.configuration.as_ref());
        let held: Vec<_> = held.map(|configuration| Arc::clone(&configuration.endpoints)).collect();
        let present = Arc::clone(&self.shared.configuration().endpoints);
        self.shared.tls.replace([&present].into_iter().chain(&held).flat_map(|endpoints| endpoints.iter()));
    }
}

/// Gives listeners their numbers: those that stay keep theirs. No number is used again, because a loop may still have an event of
/// the listener that had it.
fn placed(present: &Listeners, next: Vec<Arc<Listener>>) -> Listeners {
    let is_kept = |listener: &Arc<Listener>| next.iter().any(|other| Arc::ptr_eq(other, listener));
    let mut placed: Listeners = present.iter().map(|listener| listener.clone().filter(is_kept)).collect();
    for listener in next {
        if placed.iter().flatten().any(|other| Arc::ptr_eq(other, &listener)) {
            continue;
        }
        placed.push(Some(listener));
    }
    placed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listeners_that_stay_keep_their_numbers_and_no_number_is_used_again() {
        let listener = || Arc::new(Listener::inet("127.0.0.1:0".parse().unwrap()).unwrap());
        let [a, b, c, d] = [listener(), listener(), listener(), listener()];
        let some = |listener: &Arc<Listener>| Some(Arc::clone(listener));
        let shown = |listeners: &Listeners| -> Vec<Option<String>> {
            listeners.iter().map(|listener| listener.as_ref().map(ToString::to_string)).collect()
        };
        let present = vec![some(&a), some(&b)];
        let next = placed(&present, vec![Arc::clone(&b)]);
        assert_eq!(shown(&next), shown(&vec![None, some(&b)]));
        let next = placed(&next, vec![Arc::clone(&c), Arc::clone(&b), Arc::clone(&d)]);
        assert_eq!(shown(&next), shown(&vec![None, some(&b), some(&c), some(&d)]));
    }
}
