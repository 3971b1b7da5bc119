//! *mt*: a pool of threads, each with one connection at a time, on shared caches.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::Limits;
use crate::accept::Listener;
use crate::blocking::Blocking;
use crate::shared::{Parts, Shared};
use crate::signals::Signals;

const STACK_BYTES: usize = 256 << 10;

pub(crate) fn serve(
    threads: usize,
    limits: Limits,
    listeners: Vec<Listener>,
    parts: Parts,
    ready: impl FnOnce(),
) -> io::Result<()> {
    let signals = Signals::new()?;
    let shared = Shared::new(parts, limits);
    let listeners = Arc::new(listeners);
    let free = Arc::new(AtomicUsize::new(0));
    // Every listener needs somebody who waits for it.
    for number in 0..threads.max(listeners.len()) {
        let (shared, listeners, free) = (Arc::clone(&shared), Arc::clone(&listeners), Arc::clone(&free));
        let builder = thread::Builder::new().name(format!("worker-{number}")).stack_size(STACK_BYTES);
        free.fetch_add(1, Ordering::Relaxed);
        builder.spawn(move || {
            let is_needed = || free.load(Ordering::Relaxed) == 0;
            let around = |serve: &mut dyn FnMut()| {
                free.fetch_sub(1, Ordering::Relaxed);
                serve();
                free.fetch_add(1, Ordering::Relaxed);
            };
            Blocking::new(shared, &is_needed).run(&listeners[number % listeners.len()], &around);
        })?;
    }
    ready();
    signals.wait_for_stop(&shared);
    shared.drain();
    for listener in listeners.iter() {
        listener.shut();
    }
    shared.wait_for_connections();
    shared.close(true);
    Ok(())
}
