//! A loop's inbox: finished jobs, programs that have begun, connections without a seat, and a bell that wakes it.

use std::io;
use std::os::fd::OwnedFd;

use flash_core::ExchangeId;
use flash_core::job::Outcome;
use flash_core::program::Begun;
use flash_os::channel::Channel;
use flash_os::mpsc::Drain;

use crate::seat::Visitor;

#[derive(Debug)]
pub(crate) struct Inbox(Channel<(u64, Letter)>);

#[derive(Debug)]
pub(crate) enum Letter {
    Done(ExchangeId, Outcome),
    Begun(ExchangeId, Begun),
    /// It looks for an idle connection whose seat it could have.
    Visitor(Visitor),
}

#[cfg(test)]
impl Letter {
    pub(crate) fn outcome(self) -> Outcome {
        match self {
            Self::Done(_, outcome) => outcome,
            other => panic!("not a job: {other:?}"),
        }
    }
}

impl Inbox {
    pub(crate) fn new() -> io::Result<Self> {
        Channel::new().map(Self)
    }

    /// Becomes readable, as an edge, each time it is rung.
    pub(crate) fn bell(&self) -> &OwnedFd {
        self.0.eventfd()
    }

    pub(crate) fn put(&self, token: u64, letter: Letter) {
        self.0.send((token, letter));
    }

    pub(crate) fn ring(&self) {
        self.0.wake();
    }

    pub(crate) fn empty(&self) -> Drain<(u64, Letter)> {
        self.0.drain()
    }
}
