//! All upstreams of a server process, by the numbers of their routes.

use std::io;
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};

use flash_core::upstream::{self, OnOpened, Open, OpenError, Opened};
use flash_process::{ForkHelper, ProcessMonitor, Reporter};

use crate::app_pool::AppPool;
use crate::background::{BackgroundThread, Command, CommandChannel, Maintained};
use crate::cgi::{Cgi, LogDetached};
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
}

#[derive(Debug)]
enum RouteUpstream {
    Cgi,
    FastCgi(Arc<Server>),
    Application(Arc<AppPool>),
}

impl RouteUpstreams {
    /// `services` stand in the order of their routes' numbers. Without a fork helper, none of them may need one.
    ///
    /// # Errors
    /// When the process cannot have another thread, or a descriptor more.
    pub fn start(
        services: Vec<UpstreamConfig>,
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
        let ready = |(route, service)| match service {
            UpstreamConfig::Cgi { folder } => {
                folders.push((route, folder));
                RouteUpstream::Cgi
            }
            UpstreamConfig::FastCgi(address) => {
                let server = Server::new(address, settings, Arc::clone(&background), Arc::clone(&reporter));
                RouteUpstream::FastCgi(Arc::new(server))
            }
            UpstreamConfig::Application(application) => {
                let (weak, background) = (weak.clone(), Arc::clone(&background));
                RouteUpstream::Application(Arc::new(AppPool::new(
                    application,
                    settings,
                    weak,
                    background,
                    Arc::clone(&reporter),
                )))
            }
        };
        let list: Vec<RouteUpstream> = services.into_iter().enumerate().map(ready).collect();
        let cgi = monitor.map(|monitor| Cgi::new(monitor, folders, settings.silence_max, log_detached));
        let mut background_thread =
            BackgroundThread::new(Arc::clone(&background), maintained(&list), reporter)?;
        let thread =
            thread::Builder::new().name("upstreams".into()).spawn(move || background_thread.run())?;
        Ok(Self { list, background, thread: Some(thread), cgi })
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
