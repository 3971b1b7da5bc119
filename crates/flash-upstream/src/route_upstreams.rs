//! All upstreams of a server process, by the numbers of their routes.

use std::fmt;
use std::io;
use std::sync::{Arc, OnceLock, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use flash_core::record::counters::ProgramCount;
use flash_core::upstream::{self, OnOpened, Open, OpenError, Opened, UpstreamProtocol};
use flash_process::{ForkHelper, ProcessMonitor, Reporter};

use crate::app_pool::AppPool;
use crate::background::{BackgroundThread, Command, CommandChannel, Maintained};
use crate::cgi::{Cgi, LogDetached, ScriptFolder};
use crate::connector::Connector;
use crate::counts::{Counted, ProgramCounter};
use crate::http_servers::{HttpServers, TRIED_MAX};
use crate::multiplexer::Multiplexer;
use crate::resolver::Resolver;
use crate::server::{InFlight, Server, Shared, Terms};
use crate::settings::{Member, Settings, UpstreamConfig};

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

/// What an upstream is made of, and where it is counted: each server apart, in their order, or all of it.
pub type CountedUpstream = (UpstreamConfig, Vec<Arc<dyn ProgramCounter>>);

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
    /// What speaks HTTP/2 with servers, once one does.
    multiplexer: OnceLock<Option<Arc<Multiplexer>>>,
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
        let resolver = Resolver::default();
        let multiplexer = OnceLock::new();
        let runtime =
            Runtime { settings, background, thread, monitor, reporter, log_detached, resolver, multiplexer };
        Ok(Self::new(services, Vec::new(), connector.as_ref(), Arc::new(runtime)))
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
        Some(Self::new(services, self.list.clone(), connector, Arc::clone(&self.runtime)))
    }

    fn new(
        services: Vec<CountedUpstream>,
        mut before: Vec<(UpstreamConfig, RouteUpstream)>,
        connector: Option<&Arc<Connector>>,
        runtime: Arc<Runtime>,
    ) -> Self {
        let (mut folders, mut maintained) = (Vec::new(), Vec::new());
        let counters = services.iter().flat_map(|(_, counters)| counters);
        let configured = counters.map(|counter| Counted::one(counter, ProgramCount::Configured));
        let configured = configured.collect();
        let mut shared: Vec<(UpstreamConfig, RouteUpstream)> = Vec::new();
        let ready = |(route, (service, mut counters)): (usize, CountedUpstream)| {
            if let UpstreamConfig::Cgi { folder } = &service {
                let counter = counters.pop().unwrap_or_else(|| Arc::new(()));
                folders.push(ScriptFolder { route, folder: *folder, counter });
                return (service, RouteUpstream::Cgi);
            }
            // One with a name is the same for all its routes.
            let is_named = matches!(&service, UpstreamConfig::Http(all) if all.name.is_some());
            if let Some((_, known)) = shared.iter().find(|(known, _)| is_named && *known == service) {
                return (service, known.clone());
            }
            let one = match before.iter().position(|(known, _)| *known == service) {
                Some(place) => {
                    let kept = before.swap_remove(place);
                    kept.1.use_connector(connector);
                    kept
                }
                None => {
                    let upstream = runtime.upstream(service.clone(), counters, connector);
                    upstream.maintained(&mut maintained);
                    (service, upstream)
                }
            };
            shared.push(one.clone());
            one
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
    fn multiplexer(&self) -> Option<&Arc<Multiplexer>> {
        let start = || match Multiplexer::start() {
            Ok(multiplexer) => Some(Arc::new(multiplexer)),
            Err(error) => {
                self.reporter.log(format_args!("servers of HTTP/2 cannot be asked: {error}"));
                None
            }
        };
        self.multiplexer.get_or_init(start).as_ref()
    }

    fn upstream(
        &self,
        service: UpstreamConfig,
        counters: Vec<Arc<dyn ProgramCounter>>,
        connector: Option<&Arc<Connector>>,
    ) -> RouteUpstream {
        let (mut settings, background, reporter) = (self.settings, &self.background, &self.reporter);
        if let UpstreamConfig::Http(all) = &service {
            // A request that tries several has no more time than with one.
            settings.connect = all.connect / all.servers.len().clamp(1, TRIED_MAX) as u32;
        }
        let mut counters = counters.into_iter();
        let mut counter = || counters.next().unwrap_or_else(|| Arc::new(()));
        let multiplexer = match &service {
            UpstreamConfig::Http(all) if all.servers.iter().any(|member| member.server.is_http2) => {
                self.multiplexer()
            }
            _ => None,
        };
        let shared = Shared { settings: &settings, background, connector, multiplexer, reporter };
        let mut server = |protocol, config, terms| {
            let server = Arc::new(Server::new(protocol, config, terms, &counter(), &shared));
            if connector.is_none() {
                self.resolver.add(&server);
            }
            server
        };
        match service {
            UpstreamConfig::Cgi { .. } => RouteUpstream::Cgi,
            UpstreamConfig::FastCgi(config) => {
                RouteUpstream::FastCgi(server(UpstreamProtocol::FastCgi, config, Terms::ALONE))
            }
            UpstreamConfig::Http(all) => {
                let one = |member: &Member| {
                    let &Member { server: ref config, weight, is_backup, requests_max } = member;
                    let terms = Terms { weight, is_backup, requests_max, slow_start: all.slow_start };
                    server(UpstreamProtocol::Http, config.clone(), terms)
                };
                let servers = all.servers.iter().map(one).collect();
                RouteUpstream::Http(HttpServers::new(servers, all, (background, reporter)))
            }
            UpstreamConfig::Application(application) => {
                let monitor = self.monitor.as_ref().map_or_else(Weak::new, Arc::downgrade);
                let pool = AppPool::new(application, monitor, &counter(), &shared);
                RouteUpstream::Application(Arc::new(pool))
            }
        }
    }
}

impl RouteUpstream {
    /// From now on this connector connects. It knows the same servers, because their configuration is the same.
    fn use_connector(&self, connector: Option<&Arc<Connector>>) {
        match self {
            Self::Cgi => {}
            Self::FastCgi(server) => server.use_connector(connector),
            Self::Http(servers) => {
                servers.servers().iter().for_each(|server| server.use_connector(connector));
            }
            Self::Application(pool) => pool.use_connector(connector),
        }
    }

    /// What the background thread maintains.
    fn maintained(&self, all: &mut Vec<Weak<dyn Maintained>>) {
        fn weak<T: Maintained + 'static>(upstream: &Arc<T>) -> Weak<dyn Maintained> {
            let upstream: Weak<T> = Arc::downgrade(upstream);
            upstream
        }
        match self {
            Self::Cgi => {}
            Self::FastCgi(server) => all.push(weak(server)),
            Self::Http(servers) => {
                all.extend(servers.servers().iter().map(weak));
                all.push(weak(servers));
            }
            Self::Application(pool) => all.push(weak(pool)),
        }
    }
}

impl upstream::Upstreams for RouteUpstreams {
    fn begin(&self, begin: Open, reply: OnOpened) -> Option<Opened> {
        match (self.list.get(begin.route).map(|(_, upstream)| upstream), &self.cgi) {
            (Some(RouteUpstream::Cgi), Some(cgi)) => cgi.begin(begin, reply),
            (Some(RouteUpstream::FastCgi(server)), _) => {
                server.begin(InFlight::new(server, 0), begin, Duration::ZERO, reply)
            }
            (Some(RouteUpstream::Http(servers)), _) => servers.begin(begin, reply),
            (Some(RouteUpstream::Application(pool)), Some(_)) => pool.begin(begin, reply),
            _ => Some(Opened::Failed(OpenError::Broken)),
        }
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        self.background.send(Command::Close);
        if let Some(Some(multiplexer)) = self.multiplexer.get() {
            multiplexer.close();
        }
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
