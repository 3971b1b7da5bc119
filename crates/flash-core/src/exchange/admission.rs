//! Whether a request is answered at all, by the [access rules](crate::access) of its site or place.
//!
//! A protocol asks when a head is complete, before it asks for the [answer](super::answer). Each request is counted once.

use flash_http::basic::Credentials;
use flash_http::head::RequestHead;
use flash_http::status::Status;

use super::answer::Answer;
use super::asked::Asked;
use super::login::LoginResult;
use crate::access::AccessRules;
use crate::context::Context;
use crate::login::{Check, Known, Users};
use crate::refusal::Refusal;
use crate::site::Site;
use crate::transport::TransportInfo;

#[derive(Debug)]
pub(crate) enum Admission {
    Admitted,
    /// Flash does not wait for the request's body.
    Refused(Answer),
    /// The request waits until its log-in has been checked.
    Unchecked(Box<dyn Check>),
}

impl Admission {
    /// Whether the client may have what it asks for. A redirection to TLS comes before any log-in.
    pub(crate) fn is_admitted(&self, asked: Asked<'_>) -> bool {
        matches!(self, Self::Admitted) && !asked.comes_before_log_in()
    }
}

/// `is_new` says that the request has not been counted. `login` is what its log-in has led to, if that was checked.
#[inline]
pub(crate) fn admit(
    head: &RequestHead<'_>,
    site: &Site,
    transport: &TransportInfo,
    (asked, login): (Asked<'_>, Option<LoginResult>),
    is_new: bool,
    cx: &mut Context<'_>,
) -> Admission {
    match &site.settings.access {
        None => Admission::Admitted,
        Some(rules) => match by_rules(head, (rules, site.limit_group), transport, is_new, cx) {
            // No password is asked for where others could read it.
            Admission::Admitted if !asked.comes_before_log_in() => match &rules.users {
                None => Admission::Admitted,
                Some(users) => by_login(head, &**users, login, cx),
            },
            admission => admission,
        },
    }
}

fn by_rules(
    head: &RequestHead<'_>,
    (rules, group): (&AccessRules, u32),
    transport: &TransportInfo,
    is_new: bool,
    cx: &mut Context<'_>,
) -> Admission {
    let settings = &cx.server.settings;
    let client = settings.trusted_proxies.client(transport, head.fields).peer;
    let (server, now) = (cx.server, cx.now);
    let refuse = |refusal, answer| {
        server.refusals.note(refusal, head.target.raw_path(), now.ms());
        Admission::Refused(answer)
    };
    if let (Some(limit), true) = (&rules.limit, is_new)
        && let Err(seconds) = settings.clients.take_request(group, limit, client, cx.now.us)
    {
        cx.tally.limited += 1;
        return refuse(Refusal::Limit, Answer::TooMany(seconds));
    }
    if !rules.networks.allows(client) {
        return refuse(Refusal::Network, Answer::Error(Status::FORBIDDEN));
    }
    Admission::Admitted
}

fn by_login(
    head: &RequestHead<'_>,
    users: &dyn Users,
    login: Option<LoginResult>,
    cx: &mut Context<'_>,
) -> Admission {
    let refuse = |refusal, answer| {
        cx.server.refusals.note(refusal, head.target.raw_path(), cx.now.ms());
        Admission::Refused(answer)
    };
    match login {
        Some(Ok(true)) => Admission::Admitted,
        Some(Ok(false)) => refuse(Refusal::WrongLogin, Answer::Unauthorized),
        Some(Err(failure)) => refuse(Refusal::LoginsBusy, Answer::Error(failure.status())),
        None => match Credentials::of(head.fields) {
            // Browsers ask without a password first.
            None => Admission::Refused(Answer::Unauthorized),
            Some(credentials) => match users.ask(&credentials, cx.now.ms()) {
                Known::Right => Admission::Admitted,
                Known::Unchecked(check) => Admission::Unchecked(check),
            },
        },
    }
}
