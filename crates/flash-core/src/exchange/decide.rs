//! One decision for each request: whose rules hold for it, whether they let it pass, and what it leads to.
//!
//! A protocol asks when a head is complete, and again each time that a result has come. The phases follow each other: the site,
//! the place, the rules about clients, TLS, the log-in, the method, a redirection, and the look-up. What finally answers may lie in
//! another place than the path: an index file, a script before its path info, a fallback. So its rules follow, and both hold.

use std::sync::Arc;

use flash_http::basic::Credentials;
use flash_http::head::{Body, RequestHead};
use flash_http::status::Status;

use super::admission::{Admission, Asker, Passed};
use super::answer::{self, Answer, Answering, Next, Program, What};
use super::asked::{self, Asked, Asking};
use super::login::LoginResult;
use super::lookup::{FileLookup, Lookup};
use crate::context::Context;
use crate::fallback::Fallback;
use crate::job::Failure;
use crate::login::Users;
use crate::path::SitePath;
use crate::places::Places;
use crate::redirect;
use crate::refusal::Refusal;
use crate::server::Server;
use crate::site::Site;
use crate::transport::TransportInfo;

/// What is known of a request that has waited.
#[derive(Clone, Copy, Default)]
pub(crate) struct Waited<'w> {
    pub(crate) lookup: Option<&'w FileLookup>,
    /// The users that its log-in was compared with, and the result.
    pub(crate) login: Option<(&'w Arc<dyn Users>, LoginResult)>,
}

impl Waited<'_> {
    /// Whether what it waited for has taken too long. It may still end.
    pub(crate) fn is_late(&self) -> bool {
        let lookup = self.lookup.map(|lookup| &lookup.state);
        matches!(lookup, Some(Lookup::Failed(Failure::TimedOut)))
            || matches!(self.login, Some((_, Err(Failure::TimedOut))))
    }
}

/// What was decided.
#[derive(Debug)]
pub(crate) struct Decision<'s> {
    pub(crate) next: Next,
    /// The site of the request's host.
    pub(crate) host: &'s Arc<Site>,
    /// By whose rules the response is written: those of the path, or those that refuse the request.
    pub(crate) site: &'s Arc<Site>,
    pub(crate) terms: Terms,
    /// The request is refused or sent elsewhere. Flash does not wait for its body.
    pub(crate) is_refused: bool,
}

/// What all rules that hold for a request come to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    pub(crate) body_bytes_max: u64,
    /// The client had to log in, and has.
    has_user: bool,
    /// Another Accept would have led to another response.
    pub(crate) reads_accept: bool,
}

/// Why a request goes no further: what happens instead, and by whose rules.
type Stop<'s> = (Next, &'s Arc<Site>);

impl Terms {
    /// Before any log-in.
    pub(crate) fn of(site: &Site) -> Self {
        Self { body_bytes_max: site.settings.body_bytes_max, has_user: false, reads_accept: false }
    }

    /// The request has passed these rules, too.
    fn add(&mut self, site: &Site) {
        self.body_bytes_max = self.body_bytes_max.min(site.settings.body_bytes_max);
        self.has_user |= site.settings.users().is_some();
    }

    /// Who the request is from, if the client had to log in.
    pub(crate) fn user_of(self, head: &RequestHead<'_>) -> Option<Credentials> {
        if self.has_user { Credentials::of(head.fields) } else { None }
    }

    /// Whether the response is for one user, which the rules of its path do not say.
    pub(crate) fn are_private_in(self, site: &Site) -> bool {
        self.has_user && site.settings.users().is_none()
    }
}

/// Decides what becomes of a request. `host` is the site that it asked when it came, if it has waited. `body_waits` says that its body
/// has not been read.
#[inline]
pub(crate) fn decide<'s>(
    head: &RequestHead<'_>,
    (host, waited): (Option<&'s Arc<Site>>, Waited<'_>),
    passed: &mut Passed,
    (transport, server): (&TransportInfo, &'s Server),
    body_waits: bool,
    cx: &mut Context<'_>,
) -> Decision<'s> {
    let asking = asked::site_asked(head, host, transport, server);
    if let Some((users, Ok(true))) = waited.login {
        passed.log_in(users);
    }
    let asker = Asker { head, transport, asked: asking.asked, login: waited.login };
    let mut terms = Terms::of(asking.own);
    let decided = phases(&asker, &asking, waited.lookup, passed, &mut terms, body_waits, cx);
    let Asking { host, own, asked, .. } = asking;
    let is_answered = matches!(asked, Asked::File(_) | Asked::Program(_) | Asked::Options);
    let (next, site, is_refused) = match decided {
        Ok(next) => (next, own, !is_answered),
        Err((next @ Next::Login(_), _)) => (next, own, false),
        Err((next, by)) => (next, by, true),
    };
    Decision { next, host, site, terms, is_refused }
}

#[inline]
fn phases<'s>(
    asker: &Asker<'_>,
    &Asking { host, own, ref file, asked }: &Asking<'s, '_>,
    lookup: Option<&FileLookup>,
    passed: &mut Passed,
    terms: &mut Terms,
    body_waits: bool,
    cx: &mut Context<'_>,
) -> Result<Next, Stop<'s>> {
    if !passed.own {
        admit(asker, own, passed, cx)?;
        if let Some((path, file)) = file {
            admit(asker, file, passed, cx)?;
            if let Some(answer) = refusal(asker, file, path, false, cx) {
                return Err((answer.into(), file));
            }
        }
        passed.own = true;
    }
    if !asked.comes_before_log_in() {
        terms.add(own);
        file.iter().for_each(|(_, file)| terms.add(file));
    }
    let answering = match answer::find(asker.head, own, asked, lookup, body_waits, cx) {
        Ok(answering) => answering,
        Err(next) => {
            terms.reads_accept = answer::reads_accept(&next, false, asker.head, own);
            return Ok(next);
        }
    };
    let answering = match &host.places {
        None => answering,
        Some(places) => match what_answers(asker, (host, places, own), &answering, passed, terms, cx) {
            Ok(()) => answering,
            // As if it were not there.
            Err((Next::Respond { answer: Answer::Error(Status::NOT_FOUND), .. }, _)) => Answering::nothing(),
            Err(stop) => return Err(stop),
        },
    };
    let is_fallback = answering.is_fallback();
    let next = answer::finish(answering, asker.head, (host, own), asked, cx);
    terms.reads_accept = answer::reads_accept(&next, is_fallback, asker.head, own);
    Ok(next)
}

/// Asks for the rules of what answers, where they are not those of the path.
fn what_answers<'s>(
    asker: &Asker<'_>,
    (host, places, own): (&'s Arc<Site>, &'s Places<Site>, &'s Arc<Site>),
    answering: &Answering,
    passed: &mut Passed,
    terms: &mut Terms,
    cx: &mut Context<'_>,
) -> Result<(), Stop<'s>> {
    let mut ask = |path: &SitePath<'_>, site: &'s Arc<Site>| {
        if Arc::ptr_eq(site, own) {
            return Ok(());
        }
        admit(asker, site, passed, cx)?;
        if let Some(answer) = refusal(asker, site, path, answering.is_fallback(), cx) {
            return Err((answer.into(), site));
        }
        // A script of one place is never a file of the other.
        let is_program = matches!(answering.what, What::Program(_));
        let may_be_program = site.routes.as_ref().is_some_and(|routes| routes.of(path).is_some());
        let is_file = || answering.entry().is_some_and(|entry| entry.variants().is_some());
        if is_program != may_be_program && (is_program || is_file()) {
            cx.server.refusals.note(Refusal::Program, asker.head.target.raw_path(), cx.now.ms());
            return Err((Answer::Error(Status::FORBIDDEN).into(), site));
        }
        terms.add(site);
        Ok(())
    };
    let place = |path: &SitePath<'_>| places.find(path).unwrap_or(host);
    let fallback = own.settings.fallback.as_ref().filter(|_| answering.is_fallback());
    if let Some(fallback) = fallback {
        ask(fallback.path(), place(fallback.path()))?;
    }
    if let Some(path) = answering.entry().and_then(|entry| entry.found_at()) {
        ask(path, place(path))?;
    }
    if let (What::Program(Program { script: None, .. }), Some(routes)) = (&answering.what, &own.routes) {
        // Which part of the path is the program's name, only the program knows.
        let target = SitePath::parse(asker.head.target.raw_path()).ok();
        let path = fallback.map(Fallback::path).or(target.as_ref());
        if let Some((path, routed)) = path.and_then(|path| Some((path, routes.of(path)?))) {
            for part in path.parts_from(routed.split.name.len()) {
                places.find_by_end(&part).map_or(Ok(()), |site| ask(&part, site))?;
            }
        }
    }
    Ok(())
}

fn admit<'s>(
    asker: &Asker<'_>,
    site: &'s Arc<Site>,
    passed: &mut Passed,
    cx: &mut Context<'_>,
) -> Result<(), Stop<'s>> {
    match asker.admit(site, passed, cx) {
        Admission::Admitted => Ok(()),
        Admission::Refused(answer) => Err((answer.into(), site)),
        Admission::Unchecked(login) => Err((Next::Login(login), site)),
    }
}

/// What the rules of `path` answer instead, if a request for another path leads there.
fn refusal(
    Asker { head, transport, .. }: &Asker<'_>,
    site: &Site,
    path: &SitePath<'_>,
    is_fallback: bool,
    cx: &Context<'_>,
) -> Option<Answer> {
    let Site { settings, .. } = site;
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
        cx.server.refusals.note(Refusal::BodyTooLarge, head.target.raw_path(), cx.now.ms());
        return Some(Answer::Error(Status::CONTENT_TOO_LARGE));
    }
    settings.deny.cover(path).then_some(Answer::Error(Status::NOT_FOUND))
}
