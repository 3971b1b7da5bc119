//! *mp*: pre-forked processes, each with one connection at a time and small caches of its own.
//!
//! The parent never serves and never starts a thread, so that it can fork again when a worker dies.

use std::collections::HashMap;
use std::io::{self, Write};
use std::process;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use flash_os::fork::{self, Forked};
use flash_process::restart;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, getppid, kill_process, waitpid};

use crate::blocking::Blocking;
use crate::children::{self, Child, Ended};
use crate::limits::Limits;
use crate::listener::Listener;
use crate::server_state::{ServerParts, ServerState};
use crate::signals::{Heard, Signals};

/// After a worker that lived shortly, at most.
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
    let mut workers = HashMap::new();
    let start = |number: usize, workers: &mut HashMap<Pid, (usize, Instant)>| -> io::Result<()> {
        match fork::fork()? {
            Forked::Child => {
                let listener = &listeners[number % listeners.len()];
                let code = work(number, limits, listener, &parts).map_or_else(
                    |error| {
                        log(format_args!("worker {number} cannot start: {error}"));
                        1
                    },
                    |()| 0,
                );
                process::exit(code)
            }
            Forked::Parent { child: worker } => {
                let pid = Pid::from_raw(worker).ok_or(io::ErrorKind::Other)?;
                workers.insert(pid, (number, Instant::now()));
                Ok(())
            }
        }
    };
    for number in 0..processes.max(listeners.len()) {
        start(number, &mut workers)?;
    }
    // Only now, because the workers have signal handlers of their own.
    let mut signals = Signals::new()?;
    ready();
    let lost = loop {
        // Before a signal tells: one may have ended before they were heard.
        if let Some(lost) = children::lost(needed) {
            break Some(lost);
        }
        match signals.next() {
            Heard::Stop => break None,
            Heard::Reopen => signal_all(&workers, Signal::USR1),
            Heard::HangUp => {
                // One of them says so, in the error log.
                let speaker = workers.keys().next().copied();
                for &pid in workers.keys() {
                    signal(pid, if Some(pid) == speaker { Signal::HUP } else { Signal::USR1 });
                }
            }
            Heard::Tell => signal_all(&workers, Signal::USR2),
            Heard::ChildEnded => {
                for (number, since, status) in ended(&mut workers) {
                    log(format_args!("worker {number} ended ({}): replaced", Ended(status)));
                    restart::pause(since, RESTART_PAUSE);
                    start(number, &mut workers)?;
                }
            }
        }
    };
    if let Some(lost) = &lost {
        signals.stopping();
        log(format_args!("{}", lost.farewell()));
    }
    for listener in &listeners {
        listener.shut();
    }
    signal_all(&workers, Signal::TERM);
    let give_up = Instant::now() + limits.drain + Duration::from_secs(1);
    while !workers.is_empty() && Instant::now() < give_up {
        match waitpid(None, WaitOptions::NOHANG) {
            Ok(Some((pid, _))) => drop(workers.remove(&pid)),
            Ok(None) => thread::sleep(Duration::from_millis(10)),
            Err(_) => break,
        }
    }
    signal_all(&workers, Signal::KILL);
    log(format_args!("stopped"));
    lost.map_or(Ok(()), |lost| Err(lost.into()))
}

/// Workers that have ended. No other child is waited for here.
fn ended(workers: &mut HashMap<Pid, (usize, Instant)>) -> Vec<(usize, Instant, WaitStatus)> {
    let look = |pid: &Pid| waitpid(Some(*pid), WaitOptions::NOHANG).ok().flatten();
    let ended: Vec<_> = workers.keys().filter_map(look).collect();
    let known = |(pid, status)| workers.remove(&pid).map(|(number, since)| (number, since, status));
    ended.into_iter().filter_map(known).collect()
}

/// A worker's life.
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
    let mut parts = parts()?;
    // A process is too much to be kept for an idle client for long.
    parts.site.settings.idle_timeout_ms = parts.site.settings.idle_timeout_ms.min(IDLE_MAX_MS);
    let shared = ServerState::new(parts, limits);
    let listening = Arc::clone(&shared);
    let (parent, acceptor) = (getppid(), listener.try_clone()?);
    thread::Builder::new().name("signals".into()).spawn(move || {
        // They are the parent's to wait for.
        let _ = signals.wait_for_stop(&listening, &[]);
        listening.drain();
        if getppid() != parent {
            // It was killed, so nobody else wakes those that wait for a connection.
            acceptor.shut();
        }
    })?;
    Blocking::new(Arc::clone(&shared), listener).run();
    shared.close(false);
    Ok(())
}

fn signal_all(workers: &HashMap<Pid, (usize, Instant)>, signal: Signal) {
    workers.keys().for_each(|&pid| self::signal(pid, signal));
}

fn signal(worker: Pid, signal: Signal) {
    // It may have ended by itself.
    let _ = kill_process(worker, signal);
}

/// The parent has no log writer, because it has no threads; it speaks rarely.
fn log(what: std::fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "flash: {what}");
}
