//! One request and its response, over any protocol.
//!
//! An exchange exists while its request waits: for its log-in, its look-up, the next piece of a body, or its upstream. A
//! request that the caches answer at once never becomes an exchange. An exchange asks for jobs and for an upstream, and
//! takes their results by its [`ExchangeId`]. It does not know how its request arrived, how its response is framed, or how
//! fast its client is. The [protocol](crate::protocol) knows that.

pub(crate) mod admission;
pub(crate) mod answer;
pub(crate) mod asked;
pub(crate) mod body;
pub(crate) mod decide;
pub(crate) mod hand_off;
pub(crate) mod id;
pub(crate) mod login;
pub(crate) mod lookup;
pub(crate) mod passed_id;
pub(crate) mod recording;
pub(crate) mod respond;
pub(crate) mod sink;
pub(crate) mod upstream;

use std::sync::Arc;

use flash_http::head::Head;
use flash_http::method::Method;

use self::admission::Passed;
use self::body::Body;
use self::decide::{Decision, Terms, Waited};
use self::login::Login;
use self::lookup::FileLookup;
use self::upstream::UpstreamExchange;
use crate::clients::login::Check;
use crate::exchange::id::ExchangeId;
use crate::job::{Done, Job};
use crate::record::{RecordBuilder, Timing};
use crate::site::Site;
use crate::site::held::HeldSite;

#[derive(Debug)]
pub(crate) struct Exchange {
    pub(crate) id: ExchangeId,
    /// The site that answers, as it was when the request came.
    pub(crate) site: HeldSite,
    pub(crate) terms: Terms,
    pub(crate) passed: Passed,
    pub(crate) state: ExchangeState,
    pub(crate) timing: Timing,
    /// The response to HEAD ends with its head.
    pub(crate) head_only: bool,
    /// How many local redirections of programs have led to this request.
    pub(crate) redirects: u8,
    /// Once the response's head is written, until its end is in the output.
    pub(crate) record: Option<RecordBuilder>,
}

#[derive(Debug)]
pub(crate) enum ExchangeState {
    /// The check of the client's user name and password.
    Login(Login),
    /// The look-up of what the request asks for.
    Lookup(FileLookup),
    /// The head is written, and the body follows in pieces.
    Body(Body),
    /// An upstream answers.
    Upstream(Box<UpstreamExchange>),
}

impl Exchange {
    /// A request that has to wait.
    pub(crate) fn new(decision: Decision<'_>, id: ExchangeId, state: ExchangeState, head: &Head<'_>) -> Self {
        let Decision { host, site, terms, passed, timing, redirects, .. } = decision;
        let (site, head_only) = (HeldSite::new(host, site), head.method == Method::Head);
        Self { id, site, terms, passed, state, timing, head_only, redirects, record: None }
    }

    /// The job that the state needs, if the job has not been handed out. A window has at most this many bytes.
    pub(crate) fn job(&mut self, window_bytes_max: u64) -> Option<Job> {
        match &mut self.state {
            ExchangeState::Login(_) => None,
            ExchangeState::Lookup(lookup) => lookup.ask(),
            ExchangeState::Body(body) => body.ask(self.site.id, window_bytes_max),
            ExchangeState::Upstream(upstream) => upstream.job(),
        }
    }

    /// The check of a log-in that the state needs, if the check has not been handed out.
    pub(crate) fn check(&mut self) -> Option<Box<dyn Check>> {
        match &mut self.state {
            ExchangeState::Login(login) => login.ask(),
            _ => None,
        }
    }

    pub(crate) fn wants_check(&self) -> bool {
        matches!(&self.state, ExchangeState::Login(login) if login.is_wanted())
    }

    /// The site of the request's host, and what is known of the request for its next decision.
    pub(crate) fn waited(&mut self) -> (Option<&Arc<Site>>, Waited<'_>) {
        let Self { site, passed, state, timing, redirects, .. } = self;
        let (lookup, login) = match state {
            ExchangeState::Login(login) => (None, login.result()),
            ExchangeState::Lookup(lookup) => (Some(&*lookup), None),
            ExchangeState::Body(_) | ExchangeState::Upstream(_) => (None, None),
        };
        let (passed, timing, redirects) = (std::mem::take(passed), Some(*timing), *redirects);
        (Some(site.host()), Waited { lookup, login, passed, timing, redirects })
    }

    /// Whether the exchange waits for the result of a job, or of a check.
    pub(crate) fn awaits_job(&self) -> bool {
        match &self.state {
            ExchangeState::Login(login) => login.awaits_check(),
            ExchangeState::Lookup(lookup) => lookup.awaits_job(),
            ExchangeState::Body(body) => body.awaits_job(),
            ExchangeState::Upstream(upstream) => upstream.awaits_job(),
        }
    }

    /// Whether a job has made no progress.
    pub(crate) fn stands_still(&self, done: &Done) -> bool {
        matches!(&self.state, ExchangeState::Lookup(lookup) if lookup.stands_still(done))
    }

    /// Whether the request's body may be of use.
    pub(crate) fn may_take_body(&self) -> bool {
        matches!(self.state, ExchangeState::Login(_) | ExchangeState::Lookup(_) | ExchangeState::Upstream(_))
    }

    /// Whether no byte of a response was written.
    pub(crate) fn has_no_response(&self) -> bool {
        match &self.state {
            ExchangeState::Login(_) | ExchangeState::Lookup(_) => true,
            ExchangeState::Body(_) => false,
            ExchangeState::Upstream(upstream) => !upstream.reply.has_begun(),
        }
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
