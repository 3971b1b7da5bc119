//! A request on its way to a program. Its head is kept as long as the exchange lasts.

use std::net::SocketAddr;
use std::sync::Arc;

use flash_cgi::script::Split;
use flash_cgi::variables::Ends;
use flash_cgi::{Server, Variables};
use flash_http::head::{self, Body, Expect, Head, Limits, Parsed, Target, Version};
use flash_http::method::Method;
use flash_http::negotiate::Accepts;
use flash_http::status::Status;

use crate::connection::context::{Context, UpstreamError};
use crate::connection::transport::{ClientCertificate, TransportInfo};
use crate::exchange::answer::Program;
use crate::exchange::decide::Terms;
use crate::exchange::passed_id::PassedId;
use crate::exchange::recording;
use crate::file::entry::Resource;
use crate::file::header;
use crate::path::SitePath;
use crate::record::request_id;
use crate::record::{Peer, RecordBuilder, Timing};
use crate::site::Site;
use crate::site::fallback::Fallback;
use crate::site::proxy_rules::{Patience, ProxyRules};
use crate::site::routes::{Route, RouteMatch, Routed, Routes};
use crate::upstream::{Direct, Open, UpstreamProtocol};

use super::gateway_error::GatewayError;
use super::http_request::{self, Told, ToldBody};
use super::response_changes::ResponseChanges;
use super::trailers;

/// Tells a program that others may have recorded the request, to send it again. A program may answer with 425.
const EARLY_DATA: &[u8] = b"HTTP_EARLY_DATA";

/// What the head says about the length of the request's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestBodyLength {
    /// There is no body.
    None,
    /// The head gives the length.
    Known,
    /// The length is known only at the body's end.
    Unknown,
}

impl RequestBodyLength {
    /// What an HTTP server is told of the body. If it is stored, `stored_bytes` are all of it.
    fn told(self, head: &Head<'_>, stored_bytes: Option<u64>) -> ToldBody {
        // A head of HTTP/2 need not say that there is a body, and the one that a head announces may have been dropped.
        match (self, head.body) {
            (Self::None, _) => ToldBody::None,
            (Self::Known, Body::Length(bytes)) => ToldBody::Length(bytes),
            (Self::Known | Self::Unknown, _) => stored_bytes.map_or(ToldBody::Chunks, ToldBody::Length),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) head: Box<[u8]>,
    version: Version,
    /// The script's name in the site, if the disk was asked for the script.
    script: Option<Box<[u8]>>,
    /// The site's fallback answers, and not what the head's path leads to.
    is_fallback: bool,
    pub(crate) variables: Arc<Variables>,
    /// What an HTTP server is sent in their place.
    pub(super) http_head: Vec<u8>,
    /// The client and the server may go on with WebSocket.
    pub(super) upgrades: bool,
    /// The client waits for leave to send its body, and the server gives it (RFC 9110 §10.1.1).
    pub(crate) expects: bool,
    /// The client takes trailers.
    pub(super) takes_trailers: bool,
    /// Of its route, if that leads to HTTP servers.
    rules: Option<Arc<ProxyRules>>,
    /// What becomes of the fields of an HTTP server's response.
    pub(super) changes: Option<Arc<ResponseChanges>>,
    /// The request's id, if the client and the program get it. Known when the program is asked for.
    pub(crate) id: Option<Arc<[u8]>>,
    name: Arc<str>,
    again: bool,
    /// The server that has not answered it.
    failed: Option<usize>,
    /// The codings that the client takes.
    pub(crate) accepts: Accepts,
    /// The program may write to the client itself.
    pub(crate) is_direct: bool,
    /// The request is idempotent and has no body, so it may be sent twice.
    may_be_repeated: bool,
}

impl Request {
    pub(crate) fn new(head: &Head<'_>, head_bytes: &[u8], program: &Program) -> Self {
        let script = program.script.as_deref().and_then(|entry| match &entry.resource {
            Resource::Script(name) => Some(name.clone()),
            _ => None,
        });
        let version = head.framing.version;
        Self {
            head: head_bytes.into(),
            version,
            script,
            is_fallback: program.is_fallback,
            variables: Arc::default(),
            http_head: Vec::new(),
            upgrades: false,
            expects: false,
            // HTTP/2 has a place for them, and its clients drop what they do not want.
            takes_trailers: version == Version::Http2 || http_request::asks_for_trailers(head),
            rules: None,
            changes: None,
            id: None,
            name: String::from_utf8_lossy(head.framing.request_line).into(),
            again: false,
            failed: None,
            accepts: Accepts::of(head.accept_encoding),
            is_direct: false,
            // RFC 9110 §9.2.1.
            may_be_repeated: head.method.is_retrieval() && head.body == Body::None,
        }
    }

    /// Parses the head again. A reload may have lowered the limits since it came.
    pub(crate) fn parse(&self) -> Head<'_> {
        let parsed = match self.version {
            Version::Http2 => head::parse_http2(&self.head, &Limits::NONE).ok(),
            Version::Http10 | Version::Http11 => match head::parse(&self.head, &Limits::NONE) {
                Ok(Parsed::Complete { head, .. }) => Some(head),
                _ => None,
            },
        };
        parsed.expect("the head was parsed when it came")
    }

    /// Its program has done something wrong.
    pub(crate) fn complain(&self, reason: &'static str, cx: &mut Context<'_>) {
        cx.tally.upstream_errors.push(UpstreamError { request: Arc::clone(&self.name), reason });
    }

    /// Begins the record of a response.
    pub(crate) fn record(
        &self,
        (site, terms, timing): (&Site, Terms, Timing),
        transport: &TransportInfo,
        written: (Status, u64),
        cx: &Context<'_>,
    ) -> RecordBuilder {
        let head = self.parse();
        recording::record(&head, (site, transport), written, timing, cx).by(|| terms.user_of(&head))
    }

    pub(crate) fn may_be_repeated(&self) -> bool {
        self.may_be_repeated && !self.again
    }

    pub(crate) fn repeat(&mut self, failed: Option<usize>) {
        (self.again, self.failed) = (true, failed);
    }

    /// Whether its body passes as it comes.
    pub(super) fn streams(&self, head: &Head<'_>, site: &Site) -> bool {
        let Some(routes) = &site.routes else { return false };
        let path = self.path(head, site);
        let routed = path.as_ref().and_then(|path| self.routed(path, routes));
        routed.and_then(|routed| routed.route.proxy.as_ref()).is_some_and(|rules| rules.streams_requests)
    }

    pub(super) fn is_duplex(&self) -> bool {
        self.rules.as_ref().is_some_and(|rules| rules.is_duplex)
    }

    /// How long the servers of its route may be silent.
    pub(super) fn patience(&self) -> Patience {
        self.rules.as_ref().map(|rules| rules.patience).unwrap_or_default()
    }

    /// The lines of trailer fields that its server gets.
    pub(super) fn trailers(&self, lines: &[u8]) -> Vec<u8> {
        let named = |name: &[u8]| self.rules.as_ref().is_some_and(|rules| rules.names(name));
        trailers::passed_on(lines, |name| http_request::may_pass(name) && !named(name))
    }

    /// What to open for the request; `None` if no route of its site leads there. `stored_bytes` of its body are stored, if it does not
    /// pass as it comes.
    pub(crate) fn begin(
        &mut self,
        (site, terms, timing): (&Site, Terms, Timing),
        (transport, certificate): (&TransportInfo, Option<&ClientCertificate>),
        local: Option<SocketAddr>,
        may_have_client: bool,
        (body, stored_bytes): (RequestBodyLength, Option<u64>),
        cx: &mut Context<'_>,
    ) -> Result<Open, GatewayError> {
        let no_route = || GatewayError::of_program("stands where no route leads");
        let routes = site.routes.as_ref().ok_or_else(no_route)?;
        let head = self.parse();
        let path = self.path(&head, site).ok_or_else(no_route)?;
        let Routed { route, split } = self.routed(&path, routes).ok_or_else(no_route)?;
        if route.proxy.is_some() && http_request::is_ambiguous(&path) {
            return Err(GatewayError::with(Status::BAD_REQUEST));
        }
        let id = PassedId::of(site, transport, &head, timing.id, cx.server);
        let upgrades = route.proxy.is_some() && http_request::asks_for_websocket(&head, self.version);
        let expects =
            stored_bytes.is_none() && head.expect == Expect::Continue && body != RequestBodyLength::None;
        let (mut variables, mut http_head, mut hash) = (Variables::default(), Vec::new(), None);
        let mut changes = None;
        match &route.proxy {
            Some(rules) => {
                let client = cx.server.settings.trusted_proxies.client(transport, head.fields);
                hash = rules.hash.as_ref().and_then(|by| by.of(&path, &head, client.peer));
                changes = ResponseChanges::new(rules, routes.strip_prefix(), &head, &client, cx.now);
                let told = Told {
                    rules,
                    path: &path,
                    upgrades,
                    strip_prefix: routes.strip_prefix(),
                    client,
                    believed: cx.server.settings.trusted_proxies.believed_of(transport.peer),
                    peer: transport.peer,
                    version: self.version,
                    request_id: id.as_ref().map(PassedId::as_bytes),
                    trace: cx.server.settings.trace_context.told(&head, timing.id),
                    expects,
                    body: body.told(&head, stored_bytes),
                };
                http_head = http_request::write(&head, &told);
            }
            None => {
                let place = routes.place();
                variables = variables_of(&head, &place.server, (transport, certificate), local, cx);
                tell(&mut variables, &head, id.as_ref(), (terms, timing), cx);
                if body == RequestBodyLength::Unknown {
                    variables.add_content_length(stored_bytes.unwrap_or_default());
                }
                tell_route(&mut variables, (routes, route), &split);
            }
        }
        let is_direct = route.direct && self.may_be_direct(transport, &head, may_have_client, cx);
        let direct = is_direct.then(|| Box::new(self.direct((site, terms, transport), &head, timing, cx)));
        let begin = Open {
            route: route.number,
            path: path.clone(),
            variables: Arc::new(variables),
            name: Arc::clone(&self.name),
            again: self.again,
            may_be_repeated: self.may_be_repeated,
            failed: self.failed,
            hash,
            sticky: changes.as_ref().and_then(ResponseChanges::server),
            direct,
            upstreams: routes.upstreams.clone(),
        };
        let rules = route.proxy.clone();
        self.id = id.map(|id| id.as_bytes().into());
        self.is_direct = begin.direct.is_some();
        (self.upgrades, self.expects, self.rules) = (upgrades, expects, rules);
        self.changes = changes.map(Arc::new);
        (self.variables, self.http_head) = (Arc::clone(&begin.variables), http_head);
        Ok(begin)
    }

    /// Whether a program may answer the client itself. Says it if not.
    fn may_be_direct(
        &self,
        transport: &TransportInfo,
        head: &Head<'_>,
        may_have_client: bool,
        cx: &mut Context<'_>,
    ) -> bool {
        // A Unix socket does not tell how many bytes its client has read.
        let is_inet = matches!(transport.peer, Peer::Inet(_)) && transport.tls.is_none();
        let is_get = head.method == Method::Get && head.body == Body::None;
        let may_be = may_have_client && is_inet && is_get;
        if !may_be {
            let reason = "answers through the server: it has more to take than a GET, or the client more to get, or no address, or TLS, or a rate";
            self.complain(reason, cx);
        }
        may_be
    }

    /// The path that a route is looked for by.
    fn path(&self, head: &Head<'_>, site: &Site) -> Option<SitePath<'static>> {
        let fallback = site.settings.fallback.as_ref().filter(|_| self.is_fallback);
        match (fallback.and_then(Fallback::path), head.target) {
            // The head's own target stays in REQUEST_URI.
            (Some(path), _) => Some(path.clone()),
            (None, Target::Origin { path, .. }) => Some(SitePath::parse(path).ok()?.into_owned()),
            (None, _) => None,
        }
    }

    fn routed<'a>(&'a self, path: &'a SitePath<'_>, routes: &'a Routes) -> Option<Routed<'a, 'a>> {
        match self.script.as_deref() {
            Some(name) => {
                // An index file lies below the path, so no path follows the script's name.
                let info = path.as_bytes().strip_prefix(name).unwrap_or_default();
                Some(Routed { route: routes.of_script(name)?, split: Split { name, info } })
            }
            None => routes.of(path).or_else(|| {
                let route = routes.rest().filter(|_| self.is_fallback)?;
                Some(Routed { route, split: Split { name: path.as_bytes(), info: b"" } })
            }),
        }
    }

    /// What a program gets to write straight to the client. The program continues this head.
    fn direct(
        &self,
        (site, terms, transport): (&Site, Terms, &TransportInfo),
        head: &Head<'_>,
        timing: Timing,
        cx: &Context<'_>,
    ) -> Direct {
        let mut bytes = Vec::new();
        header::begin(&mut bytes, Status::OK, Status::OK.reason().as_bytes(), &cx.now.date);
        bytes.extend_from_slice(&site.template.fields);
        if let Some(id) = PassedId::of(site, transport, head, timing.id, cx.server) {
            header::field(&mut bytes, request_id::FIELD, id.as_bytes());
        }
        header::field(&mut bytes, b"Connection", b"close");
        let written = (Status::OK, bytes.len() as u64);
        let record = self.record((site, terms, timing), transport, written, cx);
        Direct { head: bytes, socket: None, record }
    }

    /// The head that replaces this one after a local redirection (RFC 3875 §6.2.2). It asks for another path, and has no
    /// body.
    pub(crate) fn redirected(&self, target: &[u8]) -> Vec<u8> {
        let head = self.parse();
        let method: &[u8] = if head.method == Method::Head { b"HEAD " } else { b"GET " };
        let version = head.framing.version.name().as_bytes();
        let mut new = [method, target, b" ", version, b"\r\n"].concat();
        // An absolute target's host took the place of the field (RFC 9112 §3.2.2). The new target is not absolute.
        if let Some(host) = head.host {
            header::field(&mut new, b"Host", host);
        }
        let left_out: [&[u8]; 6] =
            [b"host", b"content-length", b"transfer-encoding", b"content-type", b"expect", b"trailer"];
        for (name, value) in head.fields {
            if !left_out.iter().any(|other| name.eq_ignore_ascii_case(other)) {
                header::field(&mut new, name, value);
            }
        }
        new.extend_from_slice(b"\r\n");
        new
    }
}
/// Who asks, and by which name the request is known elsewhere.
fn tell(
    variables: &mut Variables,
    head: &Head<'_>,
    id: Option<&PassedId<'_>>,
    (terms, timing): (Terms, Timing),
    cx: &Context<'_>,
) {
    if let Some(id) = id {
        variables.set(request_id::VARIABLE, id.as_bytes());
    }
    cx.server.settings.trace_context.tell(variables, head, timing.id);
    if let Some(user) = terms.user_of(head) {
        variables.log_in(user.user());
    }
}

/// Which script it is, and what the operator says to FastCGI servers.
fn tell_route(variables: &mut Variables, (routes, route): (&Routes, &Route), split: &Split<'_>) {
    let is_cgi = matches!(route.protocol, UpstreamProtocol::Cgi | UpstreamProtocol::Nph);
    // Below a prefix, the opener finds the CGI script.
    if !(is_cgi && matches!(route.matches, RouteMatch::Prefix(_))) {
        let file = [&*routes.place().document_root, routes.file_of(split.name)].concat();
        variables.add_script(split, Some(&file));
    }
    if route.protocol == UpstreamProtocol::FastCgi {
        routes.params.iter().for_each(|(name, value)| variables.set(name, value));
    }
}

/// The variables that follow from the head and from the client's connection.
fn variables_of(
    head: &Head<'_>,
    server: &Server,
    (transport, certificate): (&TransportInfo, Option<&ClientCertificate>),
    local: Option<SocketAddr>,
    cx: &Context<'_>,
) -> Variables {
    let client = cx.server.settings.trusted_proxies.client(transport, head.fields);
    let ends = match (client.peer, local) {
        (Peer::Inet(peer), Some(local)) => Ends::Inet { local, peer },
        (Peer::Inet(client), None) => Ends::Proxied { client: client.ip() },
        (Peer::Unix, _) => Ends::Unix,
    };
    let mut variables =
        Variables::of_request(head, head.framing.version.name(), client.scheme, server, &ends);
    if let Some(tls) = transport.tls {
        variables.add_tls(tls.version_name(), tls.cipher_name());
        if tls.is_early {
            // RFC 8470 §5.1, whatever the client says.
            variables.set(EARLY_DATA, b"1");
        }
        variables.add_client(certificate.map(ClientCertificate::variables).as_ref().map(<[_; 6]>::as_slice));
    }
    variables
}
