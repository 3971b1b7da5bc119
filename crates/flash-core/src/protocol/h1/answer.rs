//! Answering a head: what it asks for is found, and a response begins, or somebody is asked first.

use std::sync::Arc;

use bytes::Bytes;
use flash_http::head::{self, Expect, Head, Reject, Version};
use flash_http::method::Method;
use flash_http::status::Status;

use super::framing::{Framing, Sink};
use super::persistence::Persistence;
use super::read_request::{self, Asked, DropBody};
use super::request_body::RequestBody;
use super::{Client, Current, Http1, Phase, after};
use crate::context::Context;
use crate::entry::{Entry, Target};
use crate::exchange::lookup::{self, FileLookup, Found, Lookup};
use crate::exchange::respond::{Responder, Response};
use crate::exchange::upstream::{Request, UpstreamExchange};
use crate::exchange::{Exchange, ExchangeId, ExchangeState, Timing};
use crate::job::{Failure, List};
use crate::listing::Listing;
use crate::record::Unfinished;

/// What a head is answered with.
enum Answer {
    Entry(Arc<Entry>),
    /// A folder's listing, and its first page.
    Listing(Arc<Listing>, Bytes),
    /// Whatever stands at the path, a program answers.
    Program,
    Error(Status),
    Options,
}

pub(super) enum Answered {
    /// The head is done with.
    Yes,
    /// It stays where it is until its file has been found.
    NotYet,
}

impl Http1 {
    pub(super) fn answer(&mut self, head: &Head<'_>, head_bytes: &[u8], cx: &mut Context<'_>) -> Answered {
        let mut framing = Framing::new(Persistence::after(head, cx.draining), head.version);
        let mut linger = false;
        let mut timing = Timing::from(cx.now.us);
        let mut age_s = None;
        let asked = read_request::asked(head, cx.site);
        let mut answer = match (asked, self.lookup()) {
            (Asked::Refused(status), _) => {
                // Its body is not waited for, so nobody will know where the next request begins.
                linger = head.body != head::Body::None || head.expect != Expect::None;
                Answer::Error(status)
            }
            (Asked::File(_) | Asked::Options, _)
                if matches!(self.phase, Phase::ReadRequest) && head.body != head::Body::None =>
            {
                return self.drop_body(head, head_bytes, cx);
            }
            (Asked::Options, _) => Answer::Options,
            (Asked::File(_) | Asked::Program(_), Some((lookup, since))) => {
                timing = since;
                match lookup {
                    Lookup::Found(entry) => Answer::Entry(Arc::clone(entry)),
                    Lookup::Stale(entry) => {
                        age_s = Some(entry.age_ms(cx.now.ms()) / 1000);
                        Answer::Entry(Arc::clone(entry))
                    }
                    Lookup::Listed(listing, page) => Answer::Listing(Arc::clone(listing), page.clone()),
                    Lookup::Failed(failure) => {
                        if *failure == Failure::Late {
                            framing.persistence = Persistence::Closes;
                        }
                        Answer::Error(failure.status())
                    }
                    Lookup::Wanted(_) | Lookup::ListWanted(_) | Lookup::Asked => return Answered::NotYet,
                }
            }
            (Asked::File(path) | Asked::Program(path), _) => {
                match lookup::find_file(path, cx.site, cx.local, cx.now) {
                    Found::Entry(entry) => Answer::Entry(entry),
                    Found::Program => Answer::Program,
                    Found::Refused(status) => Answer::Error(status),
                    Found::Unknown(find) => {
                        let lookup = ExchangeState::Lookup(FileLookup::of_file(find));
                        self.begin_exchange(lookup, head, framing, timing);
                        return Answered::NotYet;
                    }
                }
            }
        };
        let script = match &answer {
            Answer::Entry(entry) => match &entry.target {
                Target::Script(name) => Some(Some(&**name)),
                _ => None,
            },
            Answer::Program => Some(None),
            Answer::Listing(..) | Answer::Error(_) | Answer::Options => None,
        };
        match (script, asked) {
            (Some(script), _) => return self.run_program(head, head_bytes, script, framing, timing, cx),
            // There was reason to hope for one.
            (None, Asked::Program(_)) => {
                let waits = self.body_waits(head);
                if head.method.is_retrieval() && waits {
                    return self.drop_body(head, head_bytes, cx);
                }
                linger = waits;
                answer = match answer {
                    Answer::Entry(_) if head.method == Method::Options => Answer::Options,
                    Answer::Entry(entry) if !head.method.is_retrieval() => match entry.target {
                        Target::Refused(status) => Answer::Error(status),
                        _ => Answer::Error(Status::METHOD_NOT_ALLOWED),
                    },
                    answer => answer,
                };
            }
            (None, _) => {}
        }
        if let Answer::Entry(entry) = &answer
            && let Some(list) = self.list_wanted(head, entry, cx)
        {
            let lookup = ExchangeState::Lookup(FileLookup::of_listing(list));
            self.begin_exchange(lookup, head, framing, timing);
            return Answered::NotYet;
        }
        if linger {
            framing.persistence = Persistence::Closes;
        }
        let output = self.output.get_or_insert_with(|| cx.spare.output());
        let head_only = head.method == Method::Head;
        let sink = &mut Sink { output, framing: &mut framing };
        let mut responder = Responder { site: cx.site, now: cx.now, sink, head_only, age_s };
        let response = match answer {
            Answer::Entry(entry) => responder.respond(head, &entry),
            Answer::Listing(listing, page) => responder.listing(Some((&listing, page))),
            Answer::Error(status) => responder.error(status),
            Answer::Options => responder.options(),
            Answer::Program => unreachable!("a program has been sent for"),
        };
        self.answered(head, response, framing, linger, timing, cx);
        Answered::Yes
    }

    /// What is known of what the request at the front of the input asks for, if that is looked up already.
    fn lookup(&self) -> Option<(&Lookup, Timing)> {
        match &self.phase {
            Phase::Exchange(current) => match &current.exchange.state {
                ExchangeState::Lookup(lookup) => Some((&lookup.state, current.exchange.timing)),
                ExchangeState::Body(_) | ExchangeState::Upstream(_) => None,
            },
            _ => None,
        }
    }

    /// The listing that answers, if the entry is a folder. An answer to HEAD needs none.
    fn list_wanted(&self, head: &Head<'_>, entry: &Entry, cx: &Context<'_>) -> Option<List> {
        match (&entry.target, head.method, head.target) {
            (Target::Folder, Method::Get, head::Target::Origin { path, query }) if cx.site.settings.list => {
                lookup::list(path, query, cx.now)
            }
            _ => None,
        }
    }

    /// Its body is of no use, but has to be out of the way.
    fn drop_body(&mut self, head: &Head<'_>, head_bytes: &[u8], cx: &mut Context<'_>) -> Answered {
        if head.expect == Expect::Continue {
            self.tell_to_continue(cx);
        }
        self.phase = Phase::DropBody(Box::new(DropBody::new(head, head_bytes)));
        Answered::Yes
    }

    /// RFC 9110 §10.1.1.
    pub(super) fn tell_to_continue(&mut self, cx: &mut Context<'_>) {
        let output = self.output.get_or_insert_with(|| cx.spare.output());
        output.write(|out| out.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n"));
        output.push_interim_end();
    }

    fn run_program(
        &mut self,
        head: &Head<'_>,
        head_bytes: &[u8],
        script: Option<&[u8]>,
        framing: Framing,
        timing: Timing,
        cx: &mut Context<'_>,
    ) -> Answered {
        let request = Request::new(head, head_bytes, script);
        let id = self.exchange_id();
        let mut upstream = UpstreamExchange::new(id, request, self.unread_body(head).length());
        // Such a program begins when its request's body is there, so that its client cannot wait for it.
        let leave = upstream.spools() && std::mem::take(&mut upstream.request.expects);
        self.begin_exchange(ExchangeState::Upstream(Box::new(upstream)), head, framing, timing);
        if leave {
            self.tell_to_continue(cx);
        }
        Answered::Yes
    }

    /// The request has to wait for something: it becomes an exchange, or the one that it is goes on.
    fn begin_exchange(&mut self, state: ExchangeState, head: &Head<'_>, framing: Framing, timing: Timing) {
        match &mut self.phase {
            Phase::Exchange(current) => {
                current.exchange.state = state;
                current.exchange.timing = timing;
                current.framing = framing;
            }
            _ => {
                let (id, redirects) = (self.exchange_id(), self.redirects());
                self.last_id = id;
                let exchange = Exchange {
                    id,
                    state,
                    timing,
                    head_only: head.method == Method::Head,
                    redirects,
                    record: None,
                };
                let (body, client) = (self.unread_body(head), Client::default());
                self.phase = Phase::Exchange(Box::new(Current { exchange, body, framing, client }));
            }
        }
    }

    /// The number of the exchange under way, or of the next one.
    fn exchange_id(&self) -> ExchangeId {
        match &self.phase {
            Phase::Exchange(current) => current.exchange.id,
            _ => self.last_id.next(),
        }
    }

    /// What has not been read of the request's body. Where it was dropped because no program stood there a moment ago, its
    /// end is all that is left of it.
    fn unread_body(&self, head: &Head<'_>) -> RequestBody {
        if self.body_waits(head) { RequestBody::of(head) } else { RequestBody::Complete }
    }

    /// Whether the request's body has not been read.
    fn body_waits(&self, head: &Head<'_>) -> bool {
        match &self.phase {
            Phase::BodyDropped => false,
            Phase::Exchange(current) => !current.body.is_complete(),
            _ => head.body != head::Body::None,
        }
    }

    fn redirects(&self) -> u8 {
        match &self.phase {
            Phase::Redirected { redirects } => *redirects,
            Phase::Exchange(current) => current.exchange.redirects,
            _ => 0,
        }
    }

    /// The head is in the output: records it, and goes on to the body or to the next request.
    pub(super) fn answered(
        &mut self,
        head: &Head<'_>,
        response: Response,
        framing: Framing,
        linger: bool,
        timing: Timing,
        cx: &mut Context<'_>,
    ) {
        let Response { status, head_bytes, rest } = response;
        cx.tally.responses += 1;
        let log = cx.site.settings.log;
        let record =
            log.then(|| Unfinished::new(head, self.transport.peer, (status, head_bytes), timing, cx.now));
        if let Some(body) = rest {
            self.begin_exchange(ExchangeState::Body(body), head, framing, timing);
            if let Phase::Exchange(current) = &mut self.phase {
                current.exchange.record = record;
            }
            return;
        }
        if let (Some(record), Some(output)) = (record, &mut self.output) {
            output.push_end(record);
        }
        self.phase = if linger { Phase::Closing { linger } } else { after(framing.persistence) };
    }

    /// Answers bytes that were no request, or that came too slowly, and closes. The log is shown the first of them.
    pub(super) fn refuse(&mut self, reject: Reject, bytes: &[u8], cx: &mut Context<'_>) {
        let output = self.output.get_or_insert_with(|| cx.spare.output());
        let framing = &mut Framing::new(Persistence::Closes, Version::Http11);
        let sink = &mut Sink { output, framing };
        let response = Responder { site: cx.site, now: cx.now, sink, head_only: false, age_s: None }
            .error(reject.status);
        cx.tally.responses += 1;
        if cx.site.settings.log {
            output.push_end(Unfinished::of_refusal(
                self.transport.peer,
                reject,
                bytes,
                response.head_bytes,
                cx.now,
            ));
        }
        self.input = Vec::new();
        self.phase = Phase::Closing { linger: true };
    }
}
