//! *mt*: a pool of threads, each with one connection at a time, on shared caches.

use std::io;
use std::sync::Arc;
use std::thread;

use flash_process::Child;

use crate::blocking::{Blocking, LOOK_UP};
use crate::limits::Limits;
use crate::listener::Listener;
use crate::root_watch;
use crate::server_state::{ServerParts, ServerState};
use crate::signals::Signals;

const STACK_BYTES: usize = 256 << 10;

pub(crate) fn serve(
    threads: usize,
    limits: Limits,
    listeners: Vec<Listener>,
    needed: &[Child],
    parts: ServerParts,
    ready: impl FnOnce(),
) -> io::Result<()> {
    let signals = Signals::new()?;
    let shared = ServerState::new(parts, limits);
    root_watch::start(&shared, true)?;
    let listeners = Arc::new(listeners);
    // Each listener needs a thread that waits for it.
    for number in 0..threads.max(listeners.len()) {
        let (shared, listeners) = (Arc::clone(&shared), Arc::clone(&listeners));
        let builder = thread::Builder::new().name(format!("worker-{number}")).stack_size(STACK_BYTES);
        builder.spawn(move || {
            Blocking::new(shared, &listeners[number % listeners.len()]).run();
        })?;
    }
    ready();
    let stopped = signals.wait_for_stop(&shared, needed);
    shared.drain();
    for listener in listeners.iter() {
        listener.shut();
    }
    shared.wait_for_connections(LOOK_UP * 2);
    shared.close(true);
    stopped
}
