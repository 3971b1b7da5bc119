//! Starts and stops event loops, for the architectures that have them.

use std::io;
use std::sync::Arc;

use flash_process::Child;

use crate::completion_queue::CompletionQueue;
use crate::control::Control;
use crate::dispatch::Dispatch;
use crate::event_loop::EventLoop;
use crate::listener::Listener;
use crate::poller::Poller;
use crate::server_state::ServerState;
use crate::signals::Signals;

pub(crate) fn serve<P: Poller, D: Dispatch + Send + 'static>(
    loops: usize,
    shared: &Arc<ServerState>,
    listeners: Vec<Arc<Listener>>,
    needed: &[Child],
    control: Control,
    dispatch: impl Fn(Arc<CompletionQueue>) -> D,
    ready: impl FnOnce(),
) -> io::Result<()> {
    let signals = Signals::new()?;
    shared.listen(listeners)?;
    let mut threads = Vec::with_capacity(loops);
    let queues = (0..loops).map(|_| CompletionQueue::new().map(Arc::new)).collect::<io::Result<Vec<_>>>()?;
    shared.set_loops(loops, queues.clone());
    shared.explain_blocks();
    shared.start_logins(None)?;
    for (number, completions) in queues.iter().enumerate() {
        let dispatch = dispatch(Arc::clone(completions));
        let event_loop = EventLoop::<D, P>::new(Arc::clone(shared), Arc::clone(completions), dispatch)?;
        threads.push(event_loop.spawn(number)?);
    }
    let woken = queues.clone();
    let mut controlled =
        control.start(shared, move |_| woken.iter().for_each(|completions| completions.wake()))?;
    ready();
    let stopped = signals.wait_for_stop(shared, needed, &mut controlled);
    shared.drain();
    for completions in &queues {
        completions.wake();
    }
    shared.close_listeners();
    if shared.has_successor() {
        controlled.leave_to_successor();
    }
    shared.helper_kind.tidy_up();
    for thread in threads {
        // A loop that panicked has logged that itself.
        let _ = thread.join();
    }
    shared.close(true);
    stopped
}
