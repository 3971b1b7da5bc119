//! Which site answers a head, and what the head asks of it, before any look-up.

use std::sync::Arc;

use flash_http::Scheme;
use flash_http::head::{Body, Expect, RequestHead, Target};
use flash_http::method::Method;
use flash_http::status::Status;

use crate::connection::transport::TransportInfo;
use crate::path::SitePath;
use crate::server::Server;
use crate::site::Site;

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
    /// The site or place answers all requests alike.
    Fixed,
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

/// Whom a request asks, and for what.
pub(crate) struct Asking<'s, 'b> {
    /// The site of its host.
    pub(crate) host: &'s Arc<Site>,
    /// That site, or the place in it that the path belongs to.
    pub(crate) own: &'s Arc<Site>,
    /// If the path is that of a file's compressed copy: the file's path, and its place, if that is another one.
    pub(crate) file: Option<(SitePath<'static>, &'s Arc<Site>)>,
    pub(crate) asked: Asked<'b>,
}

/// Which site a request asks, and for what. `host` is the site of a request that has waited.
#[inline]
pub(crate) fn site_asked<'s, 'b>(
    head: &RequestHead<'b>,
    host: Option<&'s Arc<Site>>,
    transport: &TransportInfo,
    server: &'s Server,
) -> Asking<'s, 'b> {
    let found = host.or_else(|| server.hosts.find(head.host));
    let Some(host) = found.filter(|host| host.is_served_over(transport)) else {
        let host = server.hosts.unnamed();
        let asked = Asked::Refused(Status::MISDIRECTED_REQUEST);
        return Asking { host, own: host, file: None, asked };
    };
    let (own, file) = host.of_target(head.target);
    // Who asks, be it of a proxy.
    let client = || server.settings.trusted_proxies.client(transport, head.fields);
    let is_insecure = || client().scheme == Scheme::Http;
    let respond = own.settings.respond.as_ref();
    let asked = match () {
        // RFC 8470 §5.2: the client sends it again when the handshake is complete.
        () if transport.is_early() && !head.method.is_retrieval() => Asked::Refused(Status::TOO_EARLY),
        () if own.requires_client_certificate && !transport.has_client_certificate() => {
            if is_insecure() {
                Asked::ToHttps
            } else {
                Asked::NoCertificate
            }
        }
        () if own.https_port.is_some() && is_insecure() => Asked::ToHttps,
        () if respond.is_some_and(|respond| respond.is_for(client().peer)) => {
            own.settings.refusal(head.method).map_or(Asked::Fixed, Asked::Refused)
        }
        () => asked(head, own),
    };
    Asking { host, own, file, asked }
}

pub(crate) fn asked<'b>(head: &RequestHead<'b>, site: &Site) -> Asked<'b> {
    let program = || match head.target {
        Target::Origin { path, .. } => site.may_lead_to_program(path).then_some(path),
        _ => None,
    };
    let settings = &*site.settings;
    if let Some(status) = settings.refusal(head.method) {
        return Asked::Refused(status);
    }
    match (head.method, head.expect, head.body) {
        _ if settings.redirect.is_some() || settings.moved(head).is_some() => Asked::Redirect,
        (Method::Known(_), ..) if program().is_none() => Asked::Refused(Status::METHOD_NOT_ALLOWED),
        (Method::Unknown, ..) if program().is_none() => Asked::Refused(Status::NOT_IMPLEMENTED),
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
        _ => match (program(), head.target) {
            (Some(path), _) => Asked::Program(path),
            (None, Target::Origin { path, .. }) => Asked::File(path),
            (None, Target::Asterisk | Target::Authority(_)) => Asked::Refused(Status::BAD_REQUEST),
        },
    }
}
