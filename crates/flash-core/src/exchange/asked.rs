//! Which site answers a head, and what the head asks of it, before any look-up.

use std::sync::Arc;

use flash_http::Scheme;
use flash_http::head::{Body, Expect, RequestHead, Target};
use flash_http::method::Method;
use flash_http::status::Status;

use crate::server::Server;
use crate::site::Site;
use crate::transport::TransportInfo;

/// What a well-formed head asks of a site.
#[derive(Clone, Copy)]
pub(crate) enum Asked<'b> {
    /// What this raw path leads to.
    File(&'b [u8]),
    /// The same, if the path leads to a program. A file has no use for the method or the body.
    Program(&'b [u8]),
    Options,
    /// The request is sent elsewhere. Flash does not wait for its body.
    Redirect,
    /// The same with TLS.
    ToHttps,
    /// The site requires a certificate of its clients, and this one can show none: a proxy has ended its TLS.
    NoCertificate,
    /// The request is refused with this status. Flash does not wait for its body.
    Refused(Status),
}

impl Asked<'_> {
    /// Whether its answer asks for no password, because TLS has to come first.
    pub(crate) fn comes_before_log_in(self) -> bool {
        matches!(self, Self::ToHttps | Self::NoCertificate)
    }
}

/// The site that answers a request, and what the request asks of it. `pinned` is the site of the exchange under way.
#[inline]
pub(crate) fn site_asked<'s, 'b>(
    head: &RequestHead<'b>,
    pinned: Option<&'s Arc<Site>>,
    transport: &TransportInfo,
    server: &'s Server,
) -> (&'s Arc<Site>, Asked<'b>) {
    // Whether the client asks without TLS, be it of a proxy.
    let is_insecure =
        || server.settings.trusted_proxies.client(transport, head.fields).scheme == Scheme::Http;
    let found = pinned.or_else(|| server.hosts.answering(head));
    match found.filter(|site| site.is_served_over(transport)) {
        // RFC 8470 §5.2: the client sends it again when the handshake is complete.
        Some(site) if transport.is_early() && !head.method.is_retrieval() => {
            (site, Asked::Refused(Status::TOO_EARLY))
        }
        Some(site) if site.requires_client_certificate && !transport.has_client_certificate() => {
            (site, if is_insecure() { Asked::ToHttps } else { Asked::NoCertificate })
        }
        Some(site) if site.https_port.is_some() && is_insecure() => (site, Asked::ToHttps),
        Some(site) => (site, asked(head, site)),
        None => (server.hosts.unnamed(), Asked::Refused(Status::MISDIRECTED_REQUEST)),
    }
}

pub(crate) fn asked<'b>(head: &RequestHead<'b>, site: &Site) -> Asked<'b> {
    let program = || match head.target {
        Target::Origin { path, .. } => site.may_lead_to_program(path).then_some(path),
        _ => None,
    };
    let settings = &*site.settings;
    match (head.method, head.expect, head.body) {
        (Method::Unknown, ..) => Asked::Refused(Status::NOT_IMPLEMENTED),
        // Both are meant for proxies (RFC 9110 §9.3.6, §9.3.8). A program could misunderstand them.
        (Method::Known("CONNECT" | "TRACE"), ..) => Asked::Refused(Status::METHOD_NOT_ALLOWED),
        (method, ..) if settings.methods.as_ref().is_some_and(|methods| !methods.contain(method)) => {
            Asked::Refused(Status::METHOD_NOT_ALLOWED)
        }
        _ if settings.gone => Asked::Refused(Status::GONE),
        _ if settings.redirect.is_some() => Asked::Redirect,
        (Method::Known(_), ..) if program().is_none() => Asked::Refused(Status::METHOD_NOT_ALLOWED),
        (_, Expect::Other, _) => Asked::Refused(Status::EXPECTATION_FAILED),
        (.., Body::Length(length)) if length > settings.body_bytes_max => {
            Asked::Refused(Status::CONTENT_TOO_LARGE)
        }
        (Method::Options, ..) => program().map_or(Asked::Options, Asked::Program),
        (Method::Get | Method::Head, _, Body::None) => match head.target {
            Target::Origin { path, .. } => Asked::File(path),
            // The parser lets these through with OPTIONS and CONNECT only.
            Target::Asterisk | Target::Authority(_) => Asked::Refused(Status::BAD_REQUEST),
        },
        (Method::Get | Method::Head | Method::Known(_), ..) => match (program(), head.target) {
            (Some(path), _) => Asked::Program(path),
            (None, Target::Origin { path, .. }) => Asked::File(path),
            (None, Target::Asterisk | Target::Authority(_)) => Asked::Refused(Status::BAD_REQUEST),
        },
    }
}
