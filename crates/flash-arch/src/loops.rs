//! Starting and stopping loops, for the architectures that have them.

use std::io;
use std::sync::Arc;

use crate::accept::Listener;
use crate::children::Child;
use crate::event_loop::{Dispatch, EventLoop};
use crate::inbox::Inbox;
use crate::port::Port;
use crate::shared::Shared;
use crate::signals::Signals;

pub(crate) fn serve<P: Port, D: Dispatch + Send + 'static>(
    loops: usize,
    shared: &Arc<Shared>,
    listeners: Vec<Listener>,
    needed: &[Child],
    dispatch: impl Fn(Arc<Inbox>) -> D,
    ready: impl FnOnce(),
) -> io::Result<()> {
    let signals = Signals::new()?;
    for listener in &listeners {
        listener.set_nonblocking()?;
    }
    let listeners = Arc::new(listeners);
    let mut threads = Vec::with_capacity(loops);
    let inboxes = (0..loops).map(|_| Inbox::new().map(Arc::new)).collect::<io::Result<Vec<_>>>()?;
    shared.seats.set_hosts(inboxes.clone());
    for (number, inbox) in inboxes.iter().enumerate() {
        let dispatch = dispatch(Arc::clone(inbox));
        let event_loop =
            EventLoop::<D, P>::new(Arc::clone(shared), Arc::clone(&listeners), Arc::clone(inbox), dispatch)?;
        threads.push(event_loop.spawn(number)?);
    }
    ready();
    let stopped = signals.wait_for_stop(shared, needed);
    shared.drain();
    for listener in listeners.iter() {
        listener.shut();
    }
    shared.hands.tidy_up();
    for inbox in &inboxes {
        inbox.ring();
    }
    for thread in threads {
        // A loop that panicked has said so itself.
        let _ = thread.join();
    }
    shared.close(true);
    stopped
}
