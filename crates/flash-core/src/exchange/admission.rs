//! Whether a request is answered at all, by the [access rules](crate::access) of its site or place.
//!
//! A protocol asks when a head is complete, before it asks for the [answer](super::answer). Each request is counted once.

use flash_http::head::RequestHead;
use flash_http::status::Status;

use super::answer::Answer;
use crate::access::AccessRules;
use crate::context::Context;
use crate::refusal::Refusal;
use crate::site::Site;
use crate::transport::TransportInfo;

#[derive(Debug)]
pub(crate) enum Admission {
    Admitted,
    /// Flash does not wait for the request's body.
    Refused(Answer),
}

/// `is_new` says that the request has not been counted.
#[inline]
pub(crate) fn admit(
    head: &RequestHead<'_>,
    site: &Site,
    transport: &TransportInfo,
    is_new: bool,
    cx: &mut Context<'_>,
) -> Admission {
    match &site.settings.access {
        None => Admission::Admitted,
        Some(rules) => by_rules(head, (rules, site.limit_group), transport, is_new, cx),
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
    let refuse = |refusal, answer| {
        cx.server.refusals.note(refusal, head.target.raw_path(), cx.now.ms());
        Admission::Refused(answer)
    };
    if let (Some(limit), true) = (&rules.limit, is_new)
        && let Err(seconds) = settings.clients.take_request(group, limit, client, cx.now.us)
    {
        return refuse(Refusal::Limit, Answer::TooMany(seconds));
    }
    if !rules.networks.allows(client) {
        return refuse(Refusal::Network, Answer::Error(Status::FORBIDDEN));
    }
    Admission::Admitted
}
