//! The head of a request as an HTTP/1.1 server behind this one gets it.
//!
//! It is written anew, so nothing of the client's framing gets there (RFC 9112 §11.2), nor what a client says in place of a proxy
//! (RFC 9110 §7.6).

use std::net::Ipv6Addr;

use flash_http::head::{Body, RequestHead, Version};
use flash_http::method::Method;
use flash_http::{percent, scan};

use crate::clients::forwarded::ForwardedField;
use crate::connection::transport::TransportInfo;
use crate::file::header::field;
use crate::path::SitePath;
use crate::record::{Peer, trace};
use crate::site::proxy_rules::ProxyRules;

/// What the server behind is told of a request.
#[derive(Clone)]
pub(super) struct Told<'a> {
    pub(super) rules: &'a ProxyRules,
    /// The path that rules were asked about.
    pub(super) path: &'a SitePath<'a>,
    /// What the path begins with that it does not see.
    pub(super) strip_prefix: &'a [u8],
    /// Who is connected, and the field that is believed if that is a trusted proxy. It is passed on.
    pub(super) peer: Peer,
    pub(super) believed: Option<ForwardedField>,
    /// Whose request it is.
    pub(super) client: TransportInfo,
    pub(super) version: Version,
    pub(super) request_id: Option<&'a [u8]>,
    pub(super) trace: trace::Told,
    /// The client asks for WebSocket.
    pub(super) upgrades: bool,
    /// The client waits for leave to send the body.
    pub(super) expects: bool,
    pub(super) body: ToldBody,
}

/// How a body's end is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ToldBody {
    /// There is no body.
    None,
    Length(u64),
    Chunks,
}

/// Fields of one connection (RFC 9110 §7.6.1), and those that are written anew.
const REPLACED: [&str; 18] = [
    "connection",
    "content-length",
    "cookie",
    "expect",
    "host",
    "http2-settings",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "x-real-ip",
    "x-request-id",
    // Some frameworks take them for the path, about which no rule was asked.
    "x-original-url",
    "x-rewrite-url",
];
/// Whatever follows: a client could say any of them.
const FORWARDED: &str = "x-forwarded-";

/// Whether the client asks for a connection of WebSocket (RFC 6455 §4.1).
pub(super) fn asks_for_websocket(head: &RequestHead<'_>, version: Version) -> bool {
    version == Version::Http11
        && head.method == Method::Get
        && head.body == Body::None
        && options(head).any(|option| option.eq_ignore_ascii_case(b"upgrade"))
        && values(head, "upgrade").any(is_websocket)
}

/// Whether an `Upgrade` field names it.
pub(super) fn is_websocket(value: &[u8]) -> bool {
    value.split(|&byte| byte == b',').any(|name| name.trim_ascii().eq_ignore_ascii_case(b"websocket"))
}

/// Whether the client takes trailers (RFC 9110 §10.1.4).
pub(super) fn asks_for_trailers(head: &RequestHead<'_>) -> bool {
    let words = values(head, "te").flat_map(|value| value.split(|&byte| byte == b','));
    words.map(<[u8]>::trim_ascii).any(|word| word.eq_ignore_ascii_case(b"trailers"))
}

/// Whether a field of this name may be the client's.
pub(super) fn may_pass(name: &[u8]) -> bool {
    let is_replaced = REPLACED.iter().any(|other| name.eq_ignore_ascii_case(other.as_bytes()));
    let start = name.get(..FORWARDED.len());
    let is_forwarded = start.is_some_and(|start| start.eq_ignore_ascii_case(FORWARDED.as_bytes()));
    // Most servers cannot tell an underscore from a dash.
    !is_replaced && !is_forwarded && !name.contains(&b'_')
}

/// Writes the head, with its empty line.
pub(super) fn write(head: &RequestHead<'_>, told: &Told<'_>) -> Vec<u8> {
    let rules = told.rules;
    let mut out = Vec::with_capacity(1 << 10);
    out.extend_from_slice(head.method_name);
    out.push(b' ');
    write_target(head, told, &mut out);
    out.extend_from_slice(b" HTTP/1.1\r\n");
    let asked = head.host.unwrap_or_default();
    field(&mut out, b"Host", rules.host.as_deref().unwrap_or(asked));
    let options: Vec<&[u8]> = options(head).collect();
    let is_passed = |name: &[u8]| {
        let is = |other: &[u8]| name.eq_ignore_ascii_case(other);
        let is_announced = told.body == ToldBody::Chunks && is(b"trailer");
        let is_replaced = !(may_pass(name) || is_announced)
            || options.iter().any(|option| is(option))
            || is(b"forwarded") && (rules.forwarded || told.believed != Some(ForwardedField::Forwarded))
            || is(b"early-data") && told.client.is_early()
            || is(b"traceparent") && (told.trace.own.is_some() || !told.trace.is_valid)
            || is(b"tracestate") && !told.trace.is_valid;
        !is_replaced && !rules.names(name)
    };
    for (name, value) in head.fields.filter(|(name, _)| is_passed(name)) {
        field(&mut out, name, value);
    }
    write_own(head, told, &mut out);
    for (name, value) in rules.fields.iter().filter(|(_, value)| !value.is_empty()) {
        field(&mut out, name, value);
    }
    if asks_for_trailers(head) {
        // RFC 9110 §10.1.4
        out.extend_from_slice(b"Connection: TE\r\nTE: trailers\r\n");
    }
    if told.upgrades {
        out.extend_from_slice(b"Connection: Upgrade\r\nUpgrade: websocket\r\n");
    }
    out.extend_from_slice(b"\r\n");
    out
}

/// The fields that Flash itself says.
fn write_own(head: &RequestHead<'_>, told: &Told<'_>, out: &mut Vec<u8>) {
    let mut own = |name: &str, value: &[u8]| {
        if !told.rules.names(name.as_bytes()) {
            field(out, name.as_bytes(), value);
        }
    };
    // RFC 9113 §8.2.3: HTTP/2 may bring it in pieces.
    match values(head, "cookie").collect::<Vec<_>>().join(&b"; "[..]) {
        cookie if cookie.is_empty() => {}
        cookie => own("Cookie", &cookie),
    }
    let is_believed = told.believed == Some(ForwardedField::XForwardedFor);
    let before = values(head, "x-forwarded-for").filter(|_| is_believed).map(<[u8]>::to_vec);
    let peer = matches!(told.peer, Peer::Inet(_)).then(|| told.peer.to_string().into_bytes());
    match (before.chain(peer).collect::<Vec<_>>().join(&b", "[..]), told.rules.forwarded) {
        (chain, true) => own("Forwarded", &forwarded(head, told, &chain)),
        (chain, false) if chain.is_empty() => {}
        (chain, false) => own("X-Forwarded-For", &chain),
    }
    if let Peer::Inet(_) = told.client.peer {
        own("X-Real-IP", told.client.peer.to_string().as_bytes());
    }
    if !told.rules.forwarded {
        own("X-Forwarded-Proto", told.client.scheme.name().as_bytes());
        own("X-Forwarded-Host", head.host.unwrap_or_default());
    }
    own("Via", if told.version == Version::Http2 { b"2 flash" } else { b"1.1 flash" });
    if let Some(id) = told.request_id {
        own("X-Request-Id", id);
    }
    if let Some(parent) = told.trace.own {
        own("traceparent", parent.to_value().as_bytes());
    }
    if told.client.is_early() {
        // RFC 8470 §5.1
        own("Early-Data", b"1");
    }
    if told.expects {
        field(out, b"Expect", b"100-continue");
    }
    match told.body {
        ToldBody::Length(bytes) => field(out, b"Content-Length", bytes.to_string().as_bytes()),
        ToldBody::Chunks => field(out, b"Transfer-Encoding", b"chunked"),
        // RFC 9110 §8.6
        ToldBody::None if matches!(head.method_name, b"POST" | b"PUT" | b"PATCH") => {
            field(out, b"Content-Length", b"0")
        }
        ToldBody::None => {}
    }
}

/// RFC 7239 §4, with what a trusted proxy has said before. `chain` is what `X-Forwarded-For` would be (§7.4).
fn forwarded(head: &RequestHead<'_>, told: &Told<'_>, chain: &[u8]) -> Vec<u8> {
    let is_believed = told.believed == Some(ForwardedField::Forwarded);
    let mut elements: Vec<Vec<u8>> =
        values(head, "forwarded").filter(|_| is_believed).map(<[u8]>::to_vec).collect();
    let nodes = chain.split(|&byte| byte == b',').map(<[u8]>::trim_ascii).filter(|node| !node.is_empty());
    elements.extend(nodes.map(|node| {
        let is_v6 = str::from_utf8(node).is_ok_and(|node| node.parse::<Ipv6Addr>().is_ok());
        let node = if is_v6 { [b"[", node, b"]"].concat() } else { node.to_vec() };
        [b"for=", &quoted(&node)[..]].concat()
    }));
    let (host, scheme) = (quoted(head.host.unwrap_or_default()), told.client.scheme.name().as_bytes());
    let of_this = [b"host=", &host[..], b";proto=", scheme].concat();
    match elements.last_mut().filter(|_| told.peer != Peer::Unix) {
        Some(last) => last.extend([b";", &of_this[..]].concat()),
        None => elements.push(of_this),
    }
    elements.join(&b", "[..])
}

/// A token, or a text in quotes (RFC 9110 §5.6).
fn quoted(text: &[u8]) -> Vec<u8> {
    if !text.is_empty() && scan::token_run(text) == text.len() {
        return text.to_vec();
    }
    let escaped = text.iter().flat_map(|&byte| {
        let is_special = matches!(byte, b'"' | b'\\');
        is_special.then_some(b'\\').into_iter().chain([byte])
    });
    [b'"'].into_iter().chain(escaped).chain([b'"']).collect()
}

/// The path is the one that rules were asked about: as the client has written it, if that has no dots that lead elsewhere.
fn write_target(head: &RequestHead<'_>, told: &Told<'_>, out: &mut Vec<u8>) {
    let raw = head.target.raw_path();
    out.extend_from_slice(&told.rules.base);
    match rest(raw, told.strip_prefix) {
        Some(rest) => {
            // Two slashes begin another server's name (RFC 3986 §4.2).
            let slashes = rest.iter().take_while(|byte| **byte == b'/').count();
            out.push(b'/');
            out.extend_from_slice(&rest[slashes..]);
        }
        None => match told.path.as_bytes().strip_prefix(told.strip_prefix) {
            Some([]) => out.push(b'/'),
            Some(rest @ [b'/', ..]) => percent::encode_path(rest, out),
            _ => percent::encode_path(told.path.as_bytes(), out),
        },
    }
    if let Some(query) = head.target.query() {
        out.push(b'?');
        out.extend_from_slice(query);
    }
}

/// What follows the prefix in a path as it was written. `None` if that is not to be seen there.
fn rest<'r>(raw: &'r [u8], prefix: &[u8]) -> Option<&'r [u8]> {
    let rest =
        raw.strip_prefix(prefix).filter(|rest| prefix.is_empty() || matches!(rest, [] | [b'/', ..]))?;
    let decoded = percent::decode(raw)?;
    let mut segments = decoded.split(|&byte| byte == b'/');
    (!segments.any(|segment| matches!(segment, b"." | b".."))).then_some(rest)
}

/// Whether some servers take the path for another one than rules were asked about: a backslash for a slash, or what follows a semicolon
/// for no part of its segment.
pub(super) fn is_ambiguous(path: &SitePath<'_>) -> bool {
    let mut segments = path.as_bytes().split(|byte| matches!(byte, b'/' | b'\\'));
    segments.any(|segment| matches!(segment.split(|&byte| byte == b';').next(), Some(b"." | b"..")))
}

/// What `Connection` says: words, and names of fields for this connection alone.
fn options<'b>(head: &RequestHead<'b>) -> impl Iterator<Item = &'b [u8]> {
    values(head, "connection").flat_map(|value| value.split(|&byte| byte == b',')).map(<[u8]>::trim_ascii)
}

fn values<'b>(head: &RequestHead<'b>, wanted: &str) -> impl Iterator<Item = &'b [u8]> {
    head.fields.filter(move |(name, _)| name.eq_ignore_ascii_case(wanted.as_bytes())).map(|(_, value)| value)
}

#[cfg(test)]
mod tests;
