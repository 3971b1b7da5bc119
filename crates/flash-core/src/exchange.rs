//! One request and what answers it, whatever protocol brings it.
//!
//! An exchange is there as long as its request waits for something: for its file to be found, for the next piece of a
//! body, for a program. A request that the caches answer at once never becomes one. An exchange asks for jobs and for an
//! upstream, and takes what comes of them, each time by its [`ExchangeId`]. It does not know how its request arrived, nor
//! how its response is framed: that is its [protocol](crate::protocol)'s business, as is the client's pace.

pub(crate) mod answer;
pub(crate) mod asked;
pub(crate) mod body;
pub(crate) mod lookup;
pub(crate) mod respond;
pub(crate) mod sink;
pub(crate) mod upstream;

use self::body::Body;
use self::lookup::FileLookup;
use self::upstream::UpstreamExchange;
use crate::exchange_id::ExchangeId;
use crate::job::{Done, Job};
use crate::record::{RecordBuilder, Timing};

#[derive(Debug)]
pub(crate) struct Exchange {
    pub(crate) id: ExchangeId,
    pub(crate) state: ExchangeState,
    pub(crate) timing: Timing,
    /// The answer to HEAD ends with its head.
    pub(crate) head_only: bool,
    /// How many programs have sent the request on to here.
    pub(crate) redirects: u8,
    /// For the access log, once the response's head is written.
    pub(crate) record: Option<RecordBuilder>,
}

#[derive(Debug)]
pub(crate) enum ExchangeState {
    /// What the request asks for is looked for.
    Lookup(FileLookup),
    /// The head is written, and the body follows piece by piece.
    Body(Body),
    /// A program answers.
    Upstream(Box<UpstreamExchange>),
}

impl Exchange {
    /// The job that the state asks for, if it has not been handed out.
    pub(crate) fn job(&mut self) -> Option<Job> {
        match &mut self.state {
            ExchangeState::Lookup(lookup) => lookup.ask(),
            ExchangeState::Body(body) => body.ask(),
            ExchangeState::Upstream(upstream) => upstream.job(),
        }
    }

    /// Whether the result of a job is waited for.
    pub(crate) fn awaits_job(&self) -> bool {
        match &self.state {
            ExchangeState::Lookup(lookup) => lookup.awaits_job(),
            ExchangeState::Body(body) => body.awaits_job(),
            ExchangeState::Upstream(upstream) => upstream.awaits_job(),
        }
    }

    /// Whether a job has brought what it is about no further.
    pub(crate) fn stands_still(&self, done: &Done) -> bool {
        matches!(&self.state, ExchangeState::Lookup(lookup) if lookup.stands_still(done))
    }

    pub(crate) fn upstream(&self) -> Option<&UpstreamExchange> {
        match &self.state {
            ExchangeState::Upstream(upstream) => Some(upstream),
            _ => None,
        }
    }

    pub(crate) fn upstream_mut(&mut self) -> Option<&mut UpstreamExchange> {
        match &mut self.state {
            ExchangeState::Upstream(upstream) => Some(upstream),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
