//! All upstreams of a server process, by the numbers of their routes.

use std::fmt;
use std::io;
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};

use arc_swap::ArcSwapOption;
use flash_core::record::counters::ProgramCount;
use flash_core::upstream::{self, OnOpened, Open, OpenError, Opened, UpstreamProtocol};
use flash_process::{ForkHelper, ProcessMonitor, Reporter};

use crate::app_pool::AppPool;
use crate::background::{BackgroundThread, Command, CommandChannel, Maintained};
use crate::cgi::{Cgi, LogDetached, ScriptFolder};
use crate::connector::Connector;
use crate::counts::{Counted, ProgramCounter};
use crate::http_servers::{HttpServers, TRIED_MAX};
use crate::resolver::Resolver;
use crate::server::{Server, Shared};
use crate::settings::{Settings, UpstreamConfig};

/// The upstreams of one server process. Dropping the last that share a [`Runtime`] ends all programs that it has started.
#[derive(Debug)]
pub struct RouteUpstreams {
    /// Dropped first. Its end answers requests that wait for one of the others.
    runtime: Arc<Runtime>,
    /// By routes' numbers, each with what it was made of.
    list: Vec<(UpstreamConfig, RouteUpstream)>,
    /// `None` without a fork helper.
    cgi: Option<Cgi>,
    /// Each upstream is configured as long as this lives.
    _configured: Vec<Counted>,
}

#[derive(Clone, Debug)]
enum RouteUpstream {
    Cgi,
    FastCgi(Arc<Server>),
    Http(Arc<HttpServers>),
    Application(Arc<AppPool>),
}

/// What an upstream is made of, and where it is counted.
pub type CountedUpstream = (UpstreamConfig, Arc<dyn ProgramCounter>);

/// What the upstreams of a process share through its reloads.
struct Runtime {
    settings: Settings,
    background: Arc<CommandChannel>,
    thread: Option<JoinHandle<()>>,
    /// Pools need it as well. `None` without a fork helper.
    monitor: Option<Arc<ProcessMonitor>>,
    reporter: Arc<Reporter>,
    log_detached: LogDetached,
    resolver: Resolver,
    /// That of the last configuration. `None` in a process that connects itself.
    connector: Arc<ArcSwapOption<Connector>>,
}

impl RouteUpstreams {
    /// `services` stand in the order of their routes' numbers. Without a fork helper, none of them may need one. With a connector, it
    /// makes all connections.
    ///
    /// # Errors
    /// When the process cannot have another thread, or a descriptor more.
    pub fn start(
        services: Vec<CountedUpstream>,
        helper: Option<&ForkHelper>,
        connector: Option<Arc<Connector>>,
        settings: &Settings,
        reporter: Arc<Reporter>,
        log_detached: LogDetached,
    ) -> io::Result<Self> {
        let keep =
            |helper| ProcessMonitor::start(helper, settings.monitor, Arc::clone(&reporter)).map(Arc::new);
        let monitor = helper.map(keep).transpose()?;
        let background = Arc::new(CommandChannel::new()?);
        let mut background_thread = BackgroundThread::new(Arc::clone(&background), Arc::clone(&reporter))?;
        let thread =
            thread::Builder::new().name("upstreams".into()).spawn(move || background_thread.run())?;
        let (settings, thread) = (*settings, Some(thread));
        let (resolver, connector) = (Resolver::default(), Arc::new(ArcSwapOption::new(connector)));
        let runtime =
            Runtime { settings, background, thread, monitor, reporter, log_detached, resolver, connector };
        Ok(Self::new(services, Vec::new(), Arc::new(runtime)))
    }

    /// The upstreams after a reload. Those that are the same keep their idle connections and their processes. `None` if other
    /// settings hold for all of them.
    #[must_use]
    pub fn next(
        &self,
        services: Vec<CountedUpstream>,
        connector: Option<&Arc<Connector>>,
        settings: &Settings,
    ) -> Option<Self> {
        if self.runtime.settings != *settings {
            return None;
        }
        self.runtime.connector.store(connector.cloned());
        Some(Self::new(services, self.list.clone(), Arc::clone(&self.runtime)))
    }

    fn new(
        services: Vec<CountedUpstream>,
        mut before: Vec<(UpstreamConfig, RouteUpstream)>,
        runtime: Arc<Runtime>,
    ) -> Self {
        let (mut folders, mut maintained) = (Vec::new(), Vec::new());
        let configured = services.iter().map(|(_, counter)| Counted::one(counter, ProgramCount::Configured));
        let configured = configured.collect();
        let ready = |(route, (service, counter)): (usize, CountedUpstream)| {
            if let UpstreamConfig::Cgi { folder } = &service {
                folders.push(ScriptFolder { route, folder: *folder, counter });
                return (service, RouteUpstream::Cgi);
            }
            match before.iter().position(|(known, _)| *known == service) {
                Some(place) => before.swap_remove(place),
                None => {
                    let upstream = runtime.upstream(service.clone(), counter);
                    upstream.maintained(&mut maintained);
                    (service, upstream)
                }
            }
        };
        let list = services.into_iter().enumerate().map(ready).collect();
        runtime.background.send(Command::Maintain(maintained));
        let cgi = runtime.monitor.as_ref().map(|monitor| {
            let log_detached = Arc::clone(&runtime.log_detached);
            Cgi::new(Arc::clone(monitor), folders, runtime.settings.direct, log_detached)
        });
        Self { runtime, list, cgi, _configured: configured }
    }
}

impl Runtime {
    fn upstream(&self, service: UpstreamConfig, counter: Arc<dyn ProgramCounter>) -> RouteUpstream {
        let (mut settings, background, reporter) = (self.settings, &self.background, &self.reporter);
        if let UpstreamConfig::Http(all) = &service {
            // A request that tries several has no more time than with one.
            settings.connect /= all.servers.len().clamp(1, TRIED_MAX) as u32;
        }
        let connector = &self.connector;
        let shared = Shared { settings: &settings, background, connector, reporter, counter: &counter };
        let server = |protocol, config| {
            let server = Arc::new(Server::new(protocol, config, &shared));
            if self.connector.load().is_none() {
                self.resolver.add(&server);
            }
            server
        };
        match service {
            UpstreamConfig::Cgi { .. } => RouteUpstream::Cgi,
            UpstreamConfig::FastCgi(config) => {
                RouteUpstream::FastCgi(server(UpstreamProtocol::FastCgi, config))
            }
            UpstreamConfig::Http(all) => {
                let one = |config| server(UpstreamProtocol::Http, config);
                let servers = all.servers.into_iter().map(one).collect();
                RouteUpstream::Http(Arc::new(HttpServers::new(servers, all.balance)))
            }
            UpstreamConfig::Application(application) => {
                let monitor = self.monitor.as_ref().map_or_else(Weak::new, Arc::downgrade);
                let pool = AppPool::new(application, monitor, &shared);
                RouteUpstream::Application(Arc::new(pool))
            }
        }
    }
}

impl RouteUpstream {
    /// What the background thread maintains.
    fn maintained(&self, all: &mut Vec<Weak<dyn Maintained>>) {
        fn weak<T: Maintained + 'static>(upstream: &Arc<T>) -> Weak<dyn Maintained> {
            let upstream: Weak<T> = Arc::downgrade(upstream);
            upstream
        }
        match self {
            Self::Cgi => {}
            Self::FastCgi(server) => all.push(weak(server)),
            Self::Http(servers) => all.extend(servers.servers().iter().map(weak)),
            Self::Application(pool) => all.push(weak(pool)),
        }
    }
}

impl upstream::Upstreams for RouteUpstreams {
    fn begin(&self, begin: Open, reply: OnOpened) -> Option<Opened> {
        match (self.list.get(begin.route).map(|(_, upstream)| upstream), &self.cgi) {
            (Some(RouteUpstream::Cgi), Some(cgi)) => cgi.begin(begin, reply),
            (Some(RouteUpstream::FastCgi(server)), _) => server.begin(begin, reply),
            (Some(RouteUpstream::Http(servers)), _) => servers.begin(begin, reply),
            (Some(RouteUpstream::Application(pool)), Some(_)) => pool.begin(begin, reply),
            _ => Some(Opened::Failed(OpenError::Broken)),
        }
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        self.background.send(Command::Close);
        if let Some(thread) = self.thread.take() {
            // It has said why, if it ended otherwise.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime").field("settings", &self.settings).finish_non_exhaustive()
    }
}
