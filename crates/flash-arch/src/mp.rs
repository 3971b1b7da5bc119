//! *mp*: pre-forked processes, each with one connection at a time and small caches of its own.
//!
//! The parent never serves and never starts a thread, so that its supervisor can fork again when a worker dies. It has no
//! log writer either: what it logs goes to standard error.

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use flash_core::Connection;
use flash_process::{Child, OnEnd, Role, Supervisor, child};
use rustix::io::Errno;
use rustix::net::SocketFlags;
use rustix::process::{Signal, getppid};

use crate::blocking::{Arrival, Blocking, Client, Source};
use crate::limits::Limits;
use crate::listener::Listener;
use crate::root_watch;
use crate::server_state::{ServerParts, ServerState};
use crate::signals::{SignalEvent, Signals};

/// The longest pause before a worker is restarted that ended soon.
const RESTART_PAUSE: Duration = Duration::from_secs(1);
const IDLE_MAX_MS: u64 = 5_000;

pub(crate) fn serve(
    processes: usize,
    limits: Limits,
    listeners: Vec<Listener>,
    needed: &[Child],
    parts: impl Fn() -> io::Result<ServerParts>,
    ready: impl FnOnce(),
) -> io::Result<()> {
    let mut supervisor = Supervisor::new(needed);
    for number in 0..processes.max(listeners.len()) {
        let (listener, parts) = (&listeners[number % listeners.len()], &parts);
        supervisor.start(Role {
            name: format!("worker {number}").into(),
            on_end: OnEnd::Restart { pause_max: RESTART_PAUSE },
            socket: None,
            main: Rc::new(move || work(number, limits, listener, parts)),
        })?;
    }
    // The workers have signal handlers of their own, so these come after the forks.
    let mut signals = Signals::new()?;
    ready();
    let lost = 'serving: loop {
        // A process may have ended before its signal could be received, so this comes first.
        if let Some(lost) = supervisor.reap() {
            break Some(lost);
        }
        for event in signals.wait(&supervisor)? {
            match event {
                SignalEvent::Stop => break 'serving None,
                SignalEvent::Reopen => supervisor.signal(|_| Signal::USR1),
                // One of them logs it.
                SignalEvent::HangUp => {
                    supervisor.signal(|at| if at == 0 { Signal::HUP } else { Signal::USR1 })
                }
                SignalEvent::LogMetrics => supervisor.signal(|_| Signal::USR2),
            }
        }
    };
    if let Some(lost) = &lost {
        signals.stopping();
        child::log(format_args!("{}", lost.farewell()));
    }
    for listener in &listeners {
        listener.shut();
    }
    supervisor.end(limits.drain + Duration::from_secs(1));
    child::log(format_args!("stopped"));
    lost.map_or(Ok(()), |lost| Err(lost.into()))
}

/// The body of a worker process.
fn work(
    number: usize,
    limits: Limits,
    listener: &Listener,
    parts: &dyn Fn() -> io::Result<ServerParts>,
) -> io::Result<()> {
    if let Ok(name) = std::ffi::CString::new(format!("worker-{number}")) {
        rustix::thread::set_name(&name)?;
    }
    let signals = Signals::new()?;
    let mut parts = parts().map_err(|error| io::Error::other(format!("cannot start: {error}")))?;
    // A process costs too much to wait long for an idle client.
    parts.server.settings.idle_timeout_ms = parts.server.settings.idle_timeout_ms.min(IDLE_MAX_MS);
    let shared = ServerState::new(parts, limits);
    root_watch::start(&shared, number == 0)?;
    let listening = Arc::clone(&shared);
    let (parent, acceptor) = (getppid(), listener.try_clone()?);
    thread::Builder::new().name("signals".into()).spawn(move || {
        // The parent watches the needed processes.
        let _ = signals.wait_for_stop(&listening, &[]);
        listening.drain();
        if getppid() != parent {
            // The parent was killed, so this process has to wake its own accept.
            acceptor.shut();
        }
        // The main thread ends the process when its connection has ended.
        listening.wait_for_connections(Duration::ZERO);
    })?;
    let source = Accepts { shared: Arc::clone(&shared), listener, client_waited: Cell::new(false) };
    Blocking::new(Arc::clone(&shared), source).run();
    shared.close(false);
    Ok(())
}

/// The connections that wait at a listener.
struct Accepts<'a> {
    shared: Arc<ServerState>,
    listener: &'a Listener,
    /// Whether a connection waited to be accepted at the last look.
    client_waited: Cell<bool>,
}

impl Source for Accepts<'_> {
    fn next(&mut self) -> Option<Arrival> {
        while !self.shared.is_draining() {
            self.client_waited.set(false);
            match self.listener.accept(SocketFlags::empty()) {
                Ok((socket, peer)) => return Some(Arrival::New(socket, peer)),
                Err(Errno::INTR | Errno::CONNABORTED | Errno::PROTO) => {}
                Err(Errno::INVAL) => return None,
                Err(error) => return Some(Arrival::Failed(error)),
            }
        }
        None
    }

    fn may_wait(&self) -> bool {
        true
    }

    /// Closes an idle connection, because another client needs this worker. A free worker may be about to accept, so only the
    /// second look in a row counts.
    fn parks(&self, connection: &Connection) -> bool {
        let waits =
            connection.idle_since_ms(&self.shared.server.settings).is_some() && self.listener.has_waiting();
        self.client_waited.replace(waits) && waits
    }

    fn park(&mut self, client: Box<Client>) {
        drop(client);
    }

    fn take_longest_idle(&mut self) -> Option<Box<Client>> {
        None
    }
}
