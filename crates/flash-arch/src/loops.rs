//! Starts and stops event loops, for the architectures that have them.

use std::io;
use std::sync::Arc;

use crate::completion_queue::CompletionQueue;
use crate::connections::loop_threads::LoopThreads;
use crate::dispatch::Dispatch;
use crate::event_loop::EventLoop;
use crate::poller::Poller;
use crate::service::Service;

pub(crate) fn serve<P: Poller, D: Dispatch + Send + 'static>(
    loops: usize,
    service: Service<'_>,
    dispatch: impl Fn(Arc<CompletionQueue>) -> D,
) -> io::Result<()> {
    let shared = &service.shared;
    let queues = (0..loops).map(|_| CompletionQueue::new().map(Arc::new)).collect::<io::Result<Vec<_>>>()?;
    shared.set_threads(LoopThreads { loops, queues: queues.clone(), rounds: 1 });
    shared.explain_blocks();
    let mut threads = Vec::with_capacity(loops);
    for (number, completions) in queues.iter().enumerate() {
        let dispatch = dispatch(Arc::clone(completions));
        let event_loop = EventLoop::<D, P>::new(Arc::clone(shared), Arc::clone(completions), dispatch)?;
        threads.push(event_loop.spawn(number)?);
    }
    let wake = move |_: &_| queues.iter().for_each(|completions| completions.wake());
    // A loop that panicked has logged that itself.
    service.run(wake, || threads.into_iter().for_each(|thread| _ = thread.join()))
}
