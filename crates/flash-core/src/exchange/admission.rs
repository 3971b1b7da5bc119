//! Whether a client may have what it asks for, by the [access rules](crate::site::access) of a site or place.
//!
//! A [decision](super::decide) asks for the rules of the path, and for those of what answers. A request is counted once for each
//! limit, however often its decision goes on, and wherever a program redirects it to.

use std::collections::BTreeSet;
use std::sync::Arc;

use flash_http::basic::Credentials;
use flash_http::head::RequestHead;
use flash_http::status::Status;

use super::answer::Answer;
use super::asked::Asked;
use super::hand_off::HandOff;
use super::login::{Login, LoginResult};
use crate::clients::link::{BadLink, Link, Links};
use crate::clients::login::{Known, Users};
use crate::clients::pace::SaidRate;
use crate::clients::{ByteRate, Rate};
use crate::connection::context::Context;
use crate::connection::transport::TransportInfo;
use crate::path::SitePath;
use crate::record::Peer;
use crate::record::counters::Count;
use crate::record::refusal::Refusal;
use crate::site::Site;
use crate::site::access::AccessRules;
use crate::site::field_rules::{FieldVerdict, WordLimit};

#[derive(Debug)]
pub(crate) enum Admission {
    Admitted,
    /// Flash does not wait for the request's body.
    Refused(Answer),
    /// The request waits until its log-in has been checked.
    Unchecked(Login),
}

/// What a request has passed so far. It is kept while the request waits.
#[derive(Debug, Default)]
pub(crate) struct Passed {
    /// The rules of its path.
    pub(crate) own: bool,
    /// The limits that it has been counted for, each with its group. Few requests have two.
    limit: Option<(u32, Rate)>,
    limits: Vec<(u32, Rate)>,
    /// The program that has handed on what it asks for, with what it said.
    pub(crate) hand_off: Option<Box<HandOff>>,
    /// The links that its own is one of, each with the rate that it says there.
    links: Vec<(Arc<dyn Links>, Option<ByteRate>)>,
    /// The same of words in its fields.
    word_limits: BTreeSet<(u32, Arc<WordLimit>)>,
    /// Those who have been found to include its user by a check that it waited for.
    users: Vec<Arc<dyn Users>>,
}

impl Passed {
    /// The same request goes on with another path, be it that of a file that a program hands on.
    pub(crate) fn redirected(self, hand_off: Option<Box<HandOff>>) -> Self {
        Self { own: false, hand_off, ..self }
    }

    /// What was said of the client's rate: by the program, or else by the link.
    #[inline]
    pub(crate) fn rate(&self) -> Option<SaidRate> {
        let by_link = || self.links.iter().rev().find_map(|(_, rate)| *rate).map(Some);
        self.hand_off.as_ref().and_then(|hand_off| hand_off.rate).or_else(by_link)
    }

    /// A check has found the log-in right.
    pub(crate) fn log_in(&mut self, users: &Arc<dyn Users>) {
        self.users.push(Arc::clone(users));
    }

    /// Whether the request has not been counted for this limit. It is from now on.
    fn counts(&mut self, limit: (u32, Rate)) -> bool {
        if self.limit == Some(limit) || self.limits.contains(&limit) {
            return false;
        }
        match self.limit {
            None => self.limit = Some(limit),
            Some(_) => self.limits.push(limit),
        }
        true
    }
}

/// A request as far as its client matters.
pub(crate) struct Asker<'a> {
    pub(crate) head: &'a RequestHead<'a>,
    pub(crate) transport: &'a TransportInfo,
    pub(crate) asked: Asked<'a>,
    /// The users that its log-in was last compared with, and the result.
    pub(crate) login: Option<(&'a Arc<dyn Users>, LoginResult)>,
}

impl Asker<'_> {
    /// Whether the rules of this site or place let the client have what it asks for.
    #[inline]
    pub(crate) fn admit(&self, site: &Site, passed: &mut Passed, cx: &mut Context<'_>) -> Admission {
        match &site.settings.access {
            None => Admission::Admitted,
            Some(rules) => match self.by_rules((rules, site), passed, cx) {
                // Nothing secret is asked for where others could read it.
                Admission::Admitted if !self.asked.comes_before_log_in() => {
                    let by_link = rules.links.as_ref().map(|links| self.by_link((links, site), passed, cx));
                    match (by_link, &rules.users) {
                        (Some(Err(refused)), _) => refused,
                        (_, Some(users)) if !rules.needs_no_log_in(self.client(cx).peer) => {
                            self.by_login((users, site), passed, cx)
                        }
                        _ => Admission::Admitted,
                    }
                }
                admission => admission,
            },
        }
    }

    fn by_rules(
        &self,
        (rules, site): (&AccessRules, &Site),
        passed: &mut Passed,
        cx: &mut Context<'_>,
    ) -> Admission {
        let settings = &cx.server.settings;
        let client = self.client(cx).peer;
        if !rules.networks.allows(client) && !rules.may_log_in_instead() {
            return self.refuse(Refusal::Network, site, Answer::Error(Status::FORBIDDEN), cx);
        }
        let group = site.limit_group;
        let found = rules.fields.as_ref().map(|fields| fields.verdict(self.head.fields));
        let words = match found {
            None => Vec::new(),
            Some(FieldVerdict::Limited(words)) => words,
            Some(FieldVerdict::Refused) => {
                return self.refuse(Refusal::Field, site, Answer::Error(Status::FORBIDDEN), cx);
            }
        };
        for word in words {
            // All clients with the word have one limit.
            if passed.word_limits.insert((group, Arc::clone(word)))
                && let Err(seconds) =
                    settings.clients.take_request((group, word), &word.rate, Peer::Unix, cx.now.us)
            {
                return self.too_many(Refusal::FieldLimit, seconds, site, cx);
            }
        }
        if let Some(limit) = &rules.limit
            && passed.counts((group, *limit))
            && let Err(seconds) = settings.clients.take_request(group, limit, client, cx.now.us)
        {
            return self.too_many(Refusal::Limit, seconds, site, cx);
        }
        Admission::Admitted
    }

    fn too_many(&self, refusal: Refusal, seconds: u64, site: &Site, cx: &mut Context<'_>) -> Admission {
        cx.tally.counts.add(Count::Limited, 1);
        self.refuse(refusal, site, Answer::TooMany(seconds), cx)
    }

    /// What a program hands on needs no link: the program has decided. One that expires while the request waits has been right.
    #[allow(clippy::result_large_err, reason = "a refusal does not travel far")]
    fn by_link(
        &self,
        (links, site): (&Arc<dyn Links>, &Site),
        passed: &mut Passed,
        cx: &Context<'_>,
    ) -> Result<(), Admission> {
        if passed.hand_off.is_some() || passed.links.iter().any(|(known, _)| Arc::ptr_eq(known, links)) {
            return Ok(());
        }
        let (target, client) = (self.head.target, self.client(cx).peer);
        let (query, now_s) = (target.query().unwrap_or_default(), cx.now.unix_seconds() as u64);
        let checked = SitePath::parse(target.raw_path())
            .map_err(|_| BadLink::Wrong)
            .and_then(|path| links.check(&Link { path: &path, query, client, now_s }));
        match checked {
            Ok(rate) => {
                passed.links.push((Arc::clone(links), rate));
                Ok(())
            }
            Err(bad) => {
                let refusal = match bad {
                    BadLink::Wrong => Refusal::WrongLink,
                    BadLink::Expired => Refusal::ExpiredLink,
                };
                Err(self.refuse(refusal, site, Answer::BadLink(bad), cx))
            }
        }
    }

    fn by_login(
        &self,
        (users, site): (&Arc<dyn Users>, &Site),
        passed: &Passed,
        cx: &mut Context<'_>,
    ) -> Admission {
        if passed.users.iter().any(|known| Arc::ptr_eq(known, users)) {
            return Admission::Admitted;
        }
        match self.login.filter(|(of, _)| Arc::ptr_eq(of, users)) {
            Some((_, Ok(true))) => Admission::Admitted,
            Some((_, Ok(false))) => self.refuse(Refusal::WrongLogin, site, Answer::Unauthorized, cx),
            Some((_, Err(failure))) => {
                self.refuse(Refusal::LoginsBusy, site, Answer::Error(failure.status()), cx)
            }
            None => match Credentials::of(self.head.fields) {
                // Browsers ask without a password first.
                None => Admission::Refused(Answer::Unauthorized),
                Some(credentials) => match users.ask(&credentials, cx.now.ms()) {
                    Known::Right => Admission::Admitted,
                    Known::Unchecked(check) => Admission::Unchecked(Login::new(users, check)),
                },
            },
        }
    }

    /// Who asks, be it of a proxy.
    fn client(&self, cx: &Context<'_>) -> TransportInfo {
        cx.server.settings.trusted_proxies.client(self.transport, self.head.fields)
    }

    fn refuse(&self, refusal: Refusal, site: &Site, answer: Answer, cx: &Context<'_>) -> Admission {
        let credentials = matches!(refusal, Refusal::WrongLogin).then(|| Credentials::of(self.head.fields));
        let user = credentials.as_ref().and_then(|credentials| Some(credentials.as_ref()?.user()));
        cx.note_refusal(refusal, (self.head, self.transport), site, user);
        Admission::Refused(answer)
    }
}
