//! All programs of a server process, by the numbers of their routes.

use std::fmt;
use std::io;
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use flash_core::program::{self, Begin, Begun, Refusal, Reply};

use crate::address::Address;
use crate::cgi::{Account, Cgi};
use crate::clerk::{Clerk, Letter, Mail};
use crate::fastcgi::Server;
use crate::guard::ForkHelper;
use crate::keeper::{Hearing, Keeper, Limits};
use crate::pool::Pool;

/// What begins programs in one server process. Dropping it ends all that it has begun.
#[derive(Debug)]
pub struct Programs {
    /// By routes' numbers.
    list: Vec<Ready>,
    clerk: Arc<Mail>,
    thread: Option<JoinHandle<()>>,
    /// With the keeper, which pools need as well. `None` without a fork helper.
    cgi: Option<Cgi>,
}

/// What answers a route.
#[derive(Clone, Debug)]
pub enum Service {
    /// Scripts in that folder of the fork helper's.
    Cgi {
        folder: u16,
    },
    FastCgi(Address),
    Application(Application),
}

/// A FastCGI application that is started here.
#[derive(Clone, Debug)]
pub struct Application {
    /// That command of the fork helper's.
    pub command: u16,
    /// For people who read logs.
    pub name: String,
    pub processes_max: usize,
    /// After so many requests a process is replaced.
    pub requests_max: usize,
    /// How long a process may have nothing to do.
    pub idle: Duration,
}

#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Connections that are kept to one FastCGI server while nobody uses them.
    pub kept_max: usize,
    /// How long a connection to one may take.
    pub connect: Duration,
    /// Requests that wait for one service, and for how long: for a connection to a FastCGI server, or a process of an
    /// application.
    pub queue_max: usize,
    pub queue_wait: Duration,
    /// How long a program that writes straight to its client may write nothing.
    pub silence_max: Duration,
    pub keeper: Limits,
}

/// Who hears of programs, on any thread.
pub struct Ears {
    /// A line that a program complains with, and the request that it was about.
    pub complaint: Heard,
    /// What the operator should know.
    pub say: Box<dyn Fn(fmt::Arguments<'_>) + Send + Sync>,
    /// A program that wrote straight to its client has ended, having sent so many bytes, the head's among them.
    pub handed_over: Account,
}

/// Takes a line, and what it is about.
pub type Heard = Box<dyn Fn(&str, &[u8]) + Send + Sync>;

#[derive(Clone)]
pub(crate) struct Hears(Arc<Ears>);

#[derive(Debug)]
enum Ready {
    Cgi,
    FastCgi(Arc<Server>),
    Application(Arc<Pool>),
}

impl Programs {
    /// `services` stand in the order of their routes' numbers. Without a fork helper, none of them may need one.
    ///
    /// # Errors
    /// When the process cannot have another thread, or a descriptor more.
    pub fn start(
        services: Vec<Service>,
        helper: Option<&ForkHelper>,
        settings: &Settings,
        ears: Ears,
    ) -> io::Result<Self> {
        let hears = Hears(Arc::new(ears));
        let keep = |helper| Keeper::start(helper, settings.keeper, hears.hearing()).map(Arc::new);
        let keeper = helper.map(keep).transpose()?;
        let weak = keeper.as_ref().map_or_else(Weak::new, Arc::downgrade);
        let clerk = Arc::new(Mail::new()?);
        let mut folders = Vec::new();
        let ready = |(route, service)| match service {
            Service::Cgi { folder } => {
                folders.push((route, folder));
                Ready::Cgi
            }
            Service::FastCgi(address) => {
                let server = Server::new(address, settings, Arc::clone(&clerk), hears.clone());
                Ready::FastCgi(Arc::new(server))
            }
            Service::Application(application) => {
                let (weak, clerk) = (weak.clone(), Arc::clone(&clerk));
                Ready::Application(Arc::new(Pool::new(application, settings, weak, clerk, hears.clone())))
            }
        };
        let list: Vec<Ready> = services.into_iter().enumerate().map(ready).collect();
        let account = Arc::clone(&hears.0.handed_over);
        let cgi = keeper.map(|keeper| Cgi::new(keeper, folders, settings.silence_max, account));
        let mut at_desk = Clerk::new(Arc::clone(&clerk), to_tidy(&list), hears)?;
        let thread = thread::Builder::new().name("clerk".into()).spawn(move || at_desk.run())?;
        Ok(Self { list, clerk, thread: Some(thread), cgi })
    }
}

/// What the clerk looks after.
fn to_tidy(list: &[Ready]) -> (Vec<Arc<Server>>, Vec<Arc<Pool>>) {
    let (mut servers, mut pools) = (Vec::new(), Vec::new());
    for ready in list {
        match ready {
            Ready::Cgi => {}
            Ready::FastCgi(server) => servers.push(Arc::clone(server)),
            Ready::Application(pool) => pools.push(Arc::clone(pool)),
        }
    }
    (servers, pools)
}

impl program::Programs for Programs {
    fn begin(&self, begin: Begin, reply: Reply) -> Option<Begun> {
        match (self.list.get(begin.route), &self.cgi) {
            (Some(Ready::Cgi), Some(cgi)) => cgi.begin(begin, reply),
            (Some(Ready::FastCgi(server)), _) => server.begin(begin, reply),
            (Some(Ready::Application(pool)), Some(_)) => pool.begin(begin, reply),
            _ => Some(Begun::Failed(Refusal::Broken)),
        }
    }
}

impl Drop for Programs {
    fn drop(&mut self) {
        self.clerk.put(Letter::Close);
        if let Some(thread) = self.thread.take() {
            // It has said why, if it ended otherwise.
            let _ = thread.join();
        }
    }
}

impl Hears {
    pub(crate) fn complaint(&self, name: &str, line: &[u8]) {
        (self.0.complaint)(name, line);
    }

    pub(crate) fn say(&self, what: fmt::Arguments<'_>) {
        (self.0.say)(what);
    }

    fn hearing(&self) -> Hearing {
        let (one, other) = (self.clone(), self.clone());
        Hearing {
            complaint: Box::new(move |name, line| one.complaint(name, line)),
            say: Box::new(move |what| other.say(what)),
        }
    }
}

impl fmt::Debug for Hears {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hears")
    }
}
