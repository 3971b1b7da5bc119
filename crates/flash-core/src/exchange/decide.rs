//! One decision for each request: whose rules hold for it, whether they let it pass, and what it leads to.
//!
//! A protocol asks when a head is complete, and again each time that a result has come. A decision has phases, in the order of
//! [`Phases::run`]: the site and its place, access, the look-up, access to what answers, and the content. What answers may lie in
//! another place than the path: an index file, a script before its path info, a fallback. Then the rules of both hold.

use std::sync::Arc;

use flash_http::basic::Credentials;
use flash_http::digest;
use flash_http::head::{Body, Head, Reject, RequestHead};
use flash_http::method::Method;
use flash_http::status::Status;

use super::admission::{Admission, Asker, Passed};
use super::answer::{self, Answer, Answering, Next, Program, What};
use super::asked::{self, Asked, Asking};
use super::login::LoginResult;
use super::lookup::{FileLookup, Lookup};
use super::passed_id::PassedId;
use super::recording;
use super::respond::{Responder, Response};
use super::sink::ResponseSink;
use crate::challenges;
use crate::clients::login::Users;
use crate::clients::pace::{Pace, SaidRate};
use crate::connection::context::Context;
use crate::connection::transport::TransportInfo;
use crate::exchange::body;
use crate::file;
use crate::job::Failure;
use crate::path::SitePath;
use crate::record::refusal::Refusal;
use crate::record::{Peer, RecordBuilder, Timing};
use crate::server::Server;
use crate::site::Site;
use crate::site::fallback::Fallback;
use crate::site::held::HeldSite;
use crate::site::places::Places;
use crate::site::redirect;

/// What a request that has waited brings along. One that has just come brings nothing.
#[derive(Default)]
pub(crate) struct Waited<'w> {
    pub(crate) lookup: Option<&'w FileLookup>,
    /// The users that its log-in was compared with, and the result.
    pub(crate) login: Option<(&'w Arc<dyn Users>, LoginResult)>,
    pub(crate) passed: Passed,
    pub(crate) timing: Option<Timing>,
    pub(crate) redirects: u8,
}

impl Waited<'_> {
    /// Whether what it waited for has taken too long. It may still end.
    pub(crate) fn is_late(&self) -> bool {
        let lookup = self.lookup.map(|lookup| &lookup.state);
        matches!(lookup, Some(Lookup::Failed(Failure::TimedOut)))
            || matches!(self.login, Some((_, Err(Failure::TimedOut))))
    }
}

/// A request about which was decided. A response follows, or an exchange.
#[derive(Debug)]
pub(crate) struct Decision<'s> {
    /// The site of the request's host.
    pub(crate) host: &'s Arc<Site>,
    /// By whose rules the response is written: those of the path, or those that refuse the request.
    pub(crate) site: &'s Arc<Site>,
    pub(crate) terms: Terms,
    pub(crate) passed: Passed,
    pub(crate) timing: Timing,
    pub(crate) redirects: u8,
    /// The request is refused or sent elsewhere. Flash does not wait for its body.
    pub(crate) is_refused: bool,
}

impl<'s> Decision<'s> {
    /// About a request whose upstream has failed.
    pub(crate) fn again(site: &'s HeldSite, terms: Terms, timing: Timing, redirects: u8) -> Self {
        let passed = Passed::default();
        Self { host: site.host(), site, terms, passed, timing, redirects, is_refused: true }
    }

    /// The request's id, if the client gets it.
    pub(crate) fn passed_id<'h>(
        &self,
        head: &RequestHead<'h>,
        transport: &TransportInfo,
        server: &Server,
    ) -> Option<PassedId<'h>> {
        PassedId::of(self.site, transport, head, self.timing.id, server)
    }

    /// How fast the client gets the response. `None` if there is no limit.
    #[inline]
    pub(crate) fn pace(
        &self,
        head: &RequestHead<'_>,
        transport: &TransportInfo,
        cx: &Context<'_>,
    ) -> Option<Box<Pace>> {
        pace(self.site, self.passed.rate(), head, transport, cx)
    }

    /// Begins the response, and its record. Returns the part of the body that is not in the sink.
    #[inline]
    pub(crate) fn respond<S: ResponseSink>(
        &self,
        head: &Head<'_>,
        (mut answer, age_s): (Answer, Option<u64>),
        transport: &TransportInfo,
        sink: &mut S,
        cx: &mut Context<'_>,
    ) -> (Option<body::Body>, RecordBuilder) {
        let Self { site, terms, timing, ref passed, .. } = *self;
        let (is_private, reads_accept) = (terms.are_private_in(site), terms.reads_accept);
        let hand_off = passed.hand_off.as_deref();
        if let Some(hand_off) = hand_off {
            answer = hand_off.answer(answer, cx);
        }
        let handed_on = hand_off.map(|hand_off| (hand_off.status, hand_off.template(&site.template)));
        let responder = Responder::new(site, cx.now, sink);
        let (head_only, handed_on) = (head.method == Method::Head, handed_on.as_ref());
        let wants_digest = site.settings.digests && digest::is_wanted(head.fields);
        let mut responder =
            Responder { head_only, is_private, reads_accept, wants_digest, age_s, handed_on, ..responder };
        let Response { status, head_bytes, rest } = responder.answer(head, answer);
        if let Some(refusal) = responder.refused {
            cx.note_refusal(refusal, (head, transport), site, None);
        }
        cx.tally.responses += 1;
        let record = recording::record(head, (site, transport), (status, head_bytes), timing, cx);
        let record = record.by(|| terms.user_of(head));
        match hand_off {
            Some(hand_off) => (rest, record.of_request(&hand_off.request_line)),
            None => (rest, record),
        }
    }
}

/// How fast the client gets a response of this site. `None` if there is no limit.
#[inline]
pub(crate) fn pace(
    site: &Site,
    said: Option<SaidRate>,
    head: &RequestHead<'_>,
    transport: &TransportInfo,
    cx: &Context<'_>,
) -> Option<Box<Pace>> {
    let rates = site.settings.rates.or_said(said);
    if rates.are_off() {
        return None;
    }
    let settings = &cx.server.settings;
    let client = settings.trusted_proxies.client(transport, head.fields).peer;
    settings.clients.pace(site.limit_group, rates, client, cx.now.us)
}

/// Answers what was no request, and begins the record. `bytes` are the first of it.
pub(crate) fn refuse<S: ResponseSink>(
    reject: Reject,
    bytes: &[u8],
    peer: Peer,
    sink: &mut S,
    cx: &mut Context<'_>,
) -> RecordBuilder {
    let site = cx.server.hosts.unnamed();
    let response = Responder::new(site, cx.now, sink).error(reject.status);
    cx.tally.responses += 1;
    let of = (cx.server.settings.access_log, peer, site.counted_as);
    RecordBuilder::of_refusal(of, reject, bytes, response.head_bytes, cx.now)
}

/// What all rules that hold for a request come to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    pub(crate) body_bytes_max: u64,
    /// The client had to log in, and has.
    pub(crate) has_user: bool,
    /// The response is for this client alone.
    pub(crate) is_private: bool,
    /// Another Accept would have led to another response.
    pub(crate) reads_accept: bool,
}

/// Why a request goes no further: what happens instead, and by whose rules.
type Stop<'s> = (Next, &'s Arc<Site>);

impl Terms {
    /// Before any log-in.
    pub(crate) fn of(site: &Site) -> Self {
        let body_bytes_max = site.settings.body_bytes_max;
        Self { body_bytes_max, has_user: false, is_private: false, reads_accept: false }
    }

    /// The request has passed these rules, too.
    fn add(&mut self, site: &Site) {
        self.body_bytes_max = self.body_bytes_max.min(site.settings.body_bytes_max);
        self.has_user |= site.settings.users().is_some();
        self.is_private |= site.settings.is_private();
    }

    /// Who the request is from, if the client had to log in.
    pub(crate) fn user_of(self, head: &RequestHead<'_>) -> Option<Credentials> {
        if self.has_user { Credentials::of(head.fields) } else { None }
    }

    /// Whether the response is for one client, which the rules of its path do not say.
    pub(crate) fn are_private_in(self, site: &Site) -> bool {
        self.is_private && !site.settings.is_private()
    }
}

/// Decides what becomes of a request. `host` is the site that it asked when it came, if it has waited. `body_waits` says that its body
/// has not been read.
#[inline]
pub(crate) fn decide<'s>(
    head: &RequestHead<'_>,
    (host, waited): (Option<&'s Arc<Site>>, Waited<'_>),
    (transport, server): (&TransportInfo, &'s Server),
    body_waits: bool,
    cx: &mut Context<'_>,
) -> (Next, Decision<'s>) {
    let Waited { lookup, login, mut passed, timing, redirects } = waited;
    let Asking { host, own, file, asked } = asked::site_asked(head, host, transport, server);
    if let Some(challenges) = &server.settings.challenges
        && let Some(answer) = challenges::asked(head, &**challenges)
    {
        let timing = timing.unwrap_or_else(|| Timing::begin(cx.ids, cx.now));
        let (terms, is_refused) = (Terms::of(own), false);
        let decision = Decision { host, site: own, terms, passed, timing, redirects, is_refused };
        return (Answer::Challenge(answer).into(), decision);
    }
    if let Some((users, Ok(true))) = login {
        passed.log_in(users);
    }
    let asker = Asker { head, transport, asked, login };
    let mut phases = Phases { asker, host, own, passed, terms: Terms::of(own) };
    let decided = phases.run(file.as_ref(), lookup, body_waits, cx);
    let is_answered = matches!(asked, Asked::File(_) | Asked::Program(_) | Asked::Options);
    let (next, site, is_refused) = match decided {
        Ok(next) => (next, own, !is_answered),
        Err((next @ Next::Login(_), _)) => (next, own, false),
        Err((next, by)) => (next, by, true),
    };
    let timing = timing.unwrap_or_else(|| Timing::begin(cx.ids, cx.now));
    let Phases { passed, terms, .. } = phases;
    (next, Decision { host, site, terms, passed, timing, redirects, is_refused })
}

/// A request whose site and place are known, in the phases of its decision.
struct Phases<'a, 's> {
    asker: Asker<'a>,
    /// The site of the request's host, and that site or the place of the path.
    host: &'s Arc<Site>,
    own: &'s Arc<Site>,
    passed: Passed,
    terms: Terms,
}

/// A path, and the place whose rules hold for it.
type Placed<'s> = (SitePath<'static>, &'s Arc<Site>);

impl<'s> Phases<'_, 's> {
    #[inline]
    fn run(
        &mut self,
        file: Option<&Placed<'s>>,
        lookup: Option<&FileLookup>,
        body_waits: bool,
        cx: &mut Context<'_>,
    ) -> Result<Next, Stop<'s>> {
        self.access(file, cx)?;
        let Asker { head, asked, .. } = self.asker;
        let (next, is_fallback) = match answer::find(
            (head, self.asker.transport),
            (self.host, self.own),
            asked,
            lookup,
            body_waits,
            cx,
        ) {
            Err(next) => (next, false),
            Ok(answering) => {
                let answering = self.answer_access(answering, cx)?;
                let is_fallback = answering.is_fallback();
                (answer::finish(answering, head, (self.host, self.own), asked, cx), is_fallback)
            }
        };
        self.terms.reads_accept = answer::reads_accept(&next, is_fallback, head, self.own);
        Ok(match next {
            Next::Lookup(next) => match next.after(lookup) {
                Some(next) => Next::Lookup(next),
                None => Answer::Error(Status::SERVICE_UNAVAILABLE).into(),
            },
            next => next,
        })
    }

    /// Access by the rules of the path. For a file's compressed copy, those of the file hold, too.
    #[inline]
    fn access(&mut self, file: Option<&Placed<'s>>, cx: &mut Context<'_>) -> Result<(), Stop<'s>> {
        if !self.passed.own {
            self.check_hand_off(cx)?;
            self.admit(self.own, cx)?;
            if let Some((path, site)) = file {
                self.admit(site, cx)?;
                if let Some(answer) = self.refusal(site, path, false, cx) {
                    return Err((answer.into(), site));
                }
            }
            self.passed.own = true;
        }
        if !self.asker.asked.comes_before_log_in() {
            self.terms.add(self.own);
            file.iter().for_each(|(_, site)| self.terms.add(site));
        }
        if let Some(hand_off) = &self.passed.hand_off {
            self.terms.has_user |= hand_off.has_user;
            self.terms.is_private |= hand_off.is_private;
        }
        Ok(())
    }

    /// Only what programs hand on may come from internal places, and nothing else may be handed on.
    #[inline]
    fn check_hand_off(&self, cx: &mut Context<'_>) -> Result<(), Stop<'s>> {
        match (&self.passed.hand_off, self.own.settings.internal) {
            (None, false) | (Some(_), true) => Ok(()),
            (None, true) => Err((Answer::Error(Status::NOT_FOUND).into(), self.own)),
            (Some(hand_off), false) => {
                hand_off.complain("hands on what is in none of the folders of files", cx);
                Err((Answer::Error(Status::BAD_GATEWAY).into(), self.own))
            }
        }
    }

    /// Access by the rules of what answers, where they are not those of the path.
    #[inline]
    fn answer_access(&mut self, answering: Answering, cx: &mut Context<'_>) -> Result<Answering, Stop<'s>> {
        let Some(places) = &self.host.places else { return Ok(answering) };
        match self.what_answers(places, &answering, cx) {
            Ok(()) => Ok(answering),
            // As if it were not there.
            Err((Next::Respond { answer: Answer::Error(Status::NOT_FOUND), .. }, _)) => {
                Ok(Answering::nothing())
            }
            Err(stop) => Err(stop),
        }
    }

    fn what_answers(
        &mut self,
        places: &'s Places<Site>,
        answering: &Answering,
        cx: &mut Context<'_>,
    ) -> Result<(), Stop<'s>> {
        let (host, own) = (self.host, self.own);
        let place = |path: &SitePath<'_>| places.find(path).unwrap_or(host);
        let digest_of = match self.asker.asked {
            Asked::File(path) | Asked::Program(path) if answering.is_of_digest() => {
                file::digest::file_of(path).and_then(|path| SitePath::parse(path).ok())
            }
            _ => None,
        };
        let fallback = own.settings.fallback.as_ref().filter(|_| answering.is_fallback());
        let fallback = fallback.and_then(Fallback::path);
        if let Some(path) = fallback {
            self.place_access(path, place(path), answering, cx)?;
        }
        // A compressed copy has the rules of its file, too.
        let copied = digest_of.as_ref().and_then(SitePath::copy_of);
        for path in [&digest_of, &copied].into_iter().flatten() {
            self.place_access(path, place(path), answering, cx)?;
        }
        if let Some(path) = answering.entry().and_then(|entry| entry.found_at()) {
            self.place_access(path, place(path), answering, cx)?;
        }
        if let (What::Program(Program { script: None, .. }), Some(routes)) = (&answering.what, &own.routes) {
            // Which part of the path is the program's name, only the program knows.
            let target = SitePath::parse(self.asker.head.target.raw_path()).ok();
            let path = fallback.or(target.as_ref());
            if let Some((path, routed)) = path.and_then(|path| Some((path, routes.of(path)?))) {
                for part in path.parts_from(routed.split.name.len()) {
                    match places.find_by_end(&part) {
                        // A server behind this one has the whole path, and no part of it is a file.
                        Some(site) if routed.route.proxy.is_some() => {
                            self.place_rules(&part, site, answering, cx)?;
                        }
                        Some(site) => self.place_access(&part, site, answering, cx)?,
                        None => {}
                    }
                }
            }
        }
        Ok(())
    }

    /// Access by the rules of a place, to what answers there.
    fn place_access(
        &mut self,
        path: &SitePath<'_>,
        site: &'s Arc<Site>,
        answering: &Answering,
        cx: &mut Context<'_>,
    ) -> Result<(), Stop<'s>> {
        if Arc::ptr_eq(site, self.own) {
            return Ok(());
        }
        self.place_rules(path, site, answering, cx)?;
        // A script of one place is never a file of the other.
        let is_program = matches!(answering.what, What::Program(_));
        let may_be_program = site.routes.as_ref().is_some_and(|routes| routes.of(path).is_some());
        let is_file = || answering.entry().is_some_and(|entry| entry.variants().is_some());
        if is_program != may_be_program && (is_program || is_file()) {
            cx.note_refusal(Refusal::Program, (self.asker.head, self.asker.transport), site, None);
            return Err((Answer::Error(Status::FORBIDDEN).into(), site));
        }
        Ok(())
    }

    /// The rules of a place, whatever answers there.
    fn place_rules(
        &mut self,
        path: &SitePath<'_>,
        site: &'s Arc<Site>,
        answering: &Answering,
        cx: &mut Context<'_>,
    ) -> Result<(), Stop<'s>> {
        if Arc::ptr_eq(site, self.own) {
            return Ok(());
        }
        self.admit(site, cx)?;
        if let Some(answer) = self.refusal(site, path, answering.is_fallback(), cx) {
            return Err((answer.into(), site));
        }
        self.terms.add(site);
        Ok(())
    }

    /// Whether the site or place admits the client. It may have to log in first.
    #[inline]
    fn admit(&mut self, site: &'s Arc<Site>, cx: &mut Context<'_>) -> Result<(), Stop<'s>> {
        match self.asker.admit(site, &mut self.passed, cx) {
            Admission::Admitted => Ok(()),
            Admission::Refused(answer) => Err((answer.into(), site)),
            Admission::Unchecked(login) => Err((Next::Login(login), site)),
        }
    }

    /// What the rules of `path` answer instead, if a request for another path leads there.
    fn refusal(
        &self,
        site: &Site,
        path: &SitePath<'_>,
        is_fallback: bool,
        cx: &Context<'_>,
    ) -> Option<Answer> {
        let (Asker { head, transport, .. }, Site { settings, .. }) = (&self.asker, site);
        if let Some(status) = settings.refusal(head.method) {
            return Some(Answer::Error(status));
        }
        if let Some(redirect) = &settings.redirect {
            let Some(location) = redirect.location(head, Some(path)) else {
                return Some(Answer::Error(Status::BAD_REQUEST));
            };
            let scheme = cx.server.settings.trusted_proxies.client(transport, head.fields).scheme;
            // Its file may have one name for all, as in a redirection from /index.html to /. That name must not be sent elsewhere.
            let is_own = |to: SitePath<'_>| {
                let own = SitePath::parse(head.target.raw_path()).ok();
                own.is_some_and(|own| own.relative() == to.relative())
                    || (is_fallback && path.folder() == to.relative())
            };
            if !redirect::path_here(&location, head.host, scheme).is_some_and(is_own) {
                return Some(Answer::Redirect(redirect.status(), location));
            }
        }
        if matches!(head.body, Body::Length(bytes) if bytes > settings.body_bytes_max) {
            cx.note_refusal(Refusal::BodyTooLarge, (head, transport), site, None);
            return Some(Answer::Error(Status::CONTENT_TOO_LARGE));
        }
        settings.deny.cover(path).then_some(Answer::Error(Status::NOT_FOUND))
    }
}
