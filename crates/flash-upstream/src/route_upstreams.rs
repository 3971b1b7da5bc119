//! All upstreams of a server process, by the numbers of their routes.

use std::io;
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};

use flash_core::upstream::{self, OnOpened, Open, OpenError, Opened};
use flash_process::{ForkHelper, ProcessMonitor, Reporter};

use crate::app_pool::AppPool;
use crate::background::{BackgroundThread, Command, CommandChannel, Maintained};
use crate::cgi::{Cgi, LogDetached, ScriptFolder};
use crate::counts::{Counted, ProgramCount, ProgramCounter};
use crate::fastcgi::Server;
use crate::settings::{Settings, UpstreamConfig};

/// The upstreams of one server process. Dropping this ends all programs that it has started.
#[derive(Debug)]
pub struct RouteUpstreams {
    /// By routes' numbers.
    list: Vec<RouteUpstream>,
    background: Arc<CommandChannel>,
    thread: Option<JoinHandle<()>>,
    /// Holds the process monitor, which pools need as well. `None` without a fork helper.
    cgi: Option<Cgi>,
    /// Each upstream is configured as long as this lives.
    _configured: Vec<Counted>,
}

#[derive(Debug)]
enum RouteUpstream {
    Cgi,
    FastCgi(Arc<Server>),
    Application(Arc<AppPool>),
}

impl RouteUpstreams {
    /// `services` stand in the order of their routes' numbers, each with where it is counted. Without a fork helper, none of them may need one.
    ///
    /// # Errors
    /// When the process cannot have another thread, or a descriptor more.
    pub fn start(
        services: Vec<(UpstreamConfig, Arc<dyn ProgramCounter>)>,
        helper: Option<&ForkHelper>,
        settings: &Settings,
        reporter: Arc<Reporter>,
        log_detached: LogDetached,
    ) -> io::Result<Self> {
        let keep =
            |helper| ProcessMonitor::start(helper, settings.monitor, Arc::clone(&reporter)).map(Arc::new);
        let monitor = helper.map(keep).transpose()?;
        let weak = monitor.as_ref().map_or_else(Weak::new, Arc::downgrade);
        let background = Arc::new(CommandChannel::new()?);
        let mut folders = Vec::new();
        let configured = services.iter().map(|(_, counter)| Counted::one(counter, ProgramCount::Configured));
        let configured = configured.collect();
        let ready = |(route, (service, counter))| match service {
            UpstreamConfig::Cgi { folder } => {
                folders.push(ScriptFolder { route, folder, counter });
                RouteUpstream::Cgi
            }
            UpstreamConfig::FastCgi(address) => {
                let (background, reporter) = (Arc::clone(&background), Arc::clone(&reporter));
                RouteUpstream::FastCgi(Arc::new(Server::new(
                    address, settings, background, reporter, counter,
                )))
            }
            UpstreamConfig::Application(application) => {
                let (weak, background) = (weak.clone(), Arc::clone(&background));
                RouteUpstream::Application(Arc::new(AppPool::new(
                    application,
                    settings,
                    weak,
                    background,
                    Arc::clone(&reporter),
                    counter,
                )))
            }
        };
        let list: Vec<RouteUpstream> = services.into_iter().enumerate().map(ready).collect();
        let cgi = monitor.map(|monitor| Cgi::new(monitor, folders, settings.silence_max, log_detached));
        let mut background_thread =
            BackgroundThread::new(Arc::clone(&background), maintained(&list), reporter)?;
        let thread =
            thread::Builder::new().name("upstreams".into()).spawn(move || background_thread.run())?;
        Ok(Self { list, background, thread: Some(thread), cgi, _configured: configured })
    }
}

/// What the background thread maintains.
fn maintained(list: &[RouteUpstream]) -> Vec<Arc<dyn Maintained>> {
    let maintained = |ready: &RouteUpstream| -> Option<Arc<dyn Maintained>> {
        match ready {
            RouteUpstream::Cgi => None,
            RouteUpstream::FastCgi(server) => Some(Arc::<Server>::clone(server)),
            RouteUpstream::Application(pool) => Some(Arc::<AppPool>::clone(pool)),
        }
    };
    list.iter().filter_map(maintained).collect()
}

impl upstream::Upstreams for RouteUpstreams {
    fn begin(&self, begin: Open, reply: OnOpened) -> Option<Opened> {
        match (self.list.get(begin.route), &self.cgi) {
            (Some(RouteUpstream::Cgi), Some(cgi)) => cgi.begin(begin, reply),
            (Some(RouteUpstream::FastCgi(server)), _) => server.begin(begin, reply),
            (Some(RouteUpstream::Application(pool)), Some(_)) => pool.begin(begin, reply),
            _ => Some(Opened::Failed(OpenError::Broken)),
        }
    }
}

impl Drop for RouteUpstreams {
    fn drop(&mut self) {
        self.background.send(Command::Close);
        if let Some(thread) = self.thread.take() {
            // It has said why, if it ended otherwise.
            let _ = thread.join();
        }
    }
}
