//! A loop's completion queue: finished jobs, opened upstreams, connections without a permit. Pushing wakes the loop.

use std::io;
use std::sync::Arc;

use flash_core::ExchangeId;
use flash_core::job::Outcome;
use flash_core::upstream::Arriving;
use flash_os::channel::Channel;
use flash_os::mpsc::Drain;
use flash_os::waker::Waker;

use crate::connections::permit::WaitingConnection;
use crate::fair_queue::ClientNetwork;

#[derive(Debug)]
pub(crate) struct CompletionQueue(Channel<(u64, Completion)>);

#[derive(Debug)]
pub(crate) enum Completion {
    Done(ExchangeId, Outcome),
    Opened(ExchangeId, Arriving),
    /// A connection that needs the permit of an idle one.
    WaitingConnection(WaitingConnection),
}

#[cfg(test)]
impl Completion {
    pub(crate) fn outcome(self) -> Outcome {
        match self {
            Self::Done(_, outcome) => outcome,
            other => panic!("not a job: {other:?}"),
        }
    }
}

/// Where a job's result goes.
pub(crate) struct Waiter {
    pub(crate) completions: Arc<CompletionQueue>,
    pub(crate) token: u64,
    pub(crate) exchange: ExchangeId,
    pub(crate) client: ClientNetwork,
}

impl Waiter {
    pub(crate) fn tell(self, outcome: Outcome) {
        self.completions.push(self.token, Completion::Done(self.exchange, outcome));
    }
}

impl CompletionQueue {
    pub(crate) fn new() -> io::Result<Self> {
        Channel::new().map(Self)
    }

    /// Woken each time that the loop is to look.
    pub(crate) fn waker(&self) -> &Waker {
        self.0.waker()
    }

    pub(crate) fn push(&self, token: u64, completion: Completion) {
        self.0.send((token, completion));
    }

    pub(crate) fn wake(&self) {
        self.0.wake();
    }

    pub(crate) fn drain(&self) -> Drain<(u64, Completion)> {
        self.0.drain()
    }
}
