//! The threads that have connections which may give way to a new one, in the order in which they are asked.

use std::sync::Arc;

use crate::completion_queue::CompletionQueue;

pub(crate) struct LoopThreads {
    /// Of these, so many are loops or pools.
    pub(crate) loops: usize,
    pub(crate) queues: Vec<Arc<CompletionQueue>>,
    /// How often each is asked before a connection is turned away.
    pub(crate) rounds: usize,
}

impl LoopThreads {
    /// The next one, unless all have been asked often enough.
    pub(crate) fn after(&self, queue: &Arc<CompletionQueue>, asked: usize) -> Option<&Arc<CompletionQueue>> {
        if asked >= self.queues.len() * self.rounds {
            return None;
        }
        let place = self.queues.iter().position(|other| Arc::ptr_eq(other, queue))?;
        self.queues.get((place + 1) % self.queues.len())
    }
}
