//! A client's connection: bytes in, wants out. It passes every call on to its protocol.
//!
//! A driver performs what [`Connection::want`] returns and reports the result. It repeats this until a want makes it wait.
//! Everything here happens in memory: there is no system call. The protocol knows what the bytes mean. The exchange knows
//! what a request asks for. If a listener requires the [PROXY protocol](crate::clients::proxy_header), its header comes before both.

pub mod buffer_pool;
pub mod context;
pub(crate) mod evictable;
pub(crate) mod idle_state;
pub mod output;
pub mod transport;
mod upstream;
pub mod want;

use std::fmt;
use std::sync::Arc;

use flash_h2::frame::PREFACE;

use crate::clients::login::Check;
use crate::clients::proxy_header::{NoProxyHeader, ProxyHeader, Reader};
use crate::clients::{Counted, TooMany};
use crate::clock::Now;
use crate::connection::context::Context;
use crate::connection::evictable::Evictable;
use crate::connection::idle_state::IdleState;
use crate::connection::output::Output;
use crate::connection::transport::{ApplicationProtocol, ClientCertificate, TlsInfo, TransportInfo};
use crate::connection::want::Want;
use crate::exchange::id::ExchangeId;
use crate::job::Outcome;
use crate::protocol::Protocol;
use crate::protocol::h1::Http1;
use crate::protocol::h2::Http2;
use crate::record::Peer;
use crate::record::refusal::Refusal;
use crate::server::Settings;

/// The target of this length, with the space behind it, makes the preface of HTTP/2 no request of HTTP/1.
const PREFACE_BYTES_OF_NO_REQUEST: usize = b"PRI *".len();

/// A client's connection. Each call goes to the protocol that the client speaks.
#[derive(Debug)]
pub struct Connection {
    protocol: Protocol,
    /// Set until the header of the PROXY protocol is complete.
    proxy_header: Option<Box<Reader>>,
    /// Set if its client's connections are limited.
    counted: Option<Counted>,
    /// Its client has too many connections, and is yet to be told.
    is_one_too_many: bool,
    /// What the client has shown in its TLS handshake.
    certificate: Option<Arc<ClientCertificate>>,
    /// No byte has come that only HTTP/1 begins with.
    is_new: bool,
}

impl Connection {
    pub fn new(transport: TransportInfo, settings: &Settings, now: &Now) -> Self {
        let counted = settings.count_connection(&transport);
        let is_one_too_many = counted.is_err();
        Self { is_one_too_many, ..Self::with(transport, counted.ok().flatten(), settings, now) }
    }

    fn with(transport: TransportInfo, counted: Option<Counted>, settings: &Settings, now: &Now) -> Self {
        let proxy_header = transport.proxy_header.then(Box::default);
        let protocol = match transport.tls {
            Some(TlsInfo { protocol: ApplicationProtocol::Http2, .. }) => {
                Protocol::H2(Box::new(Http2::new(transport, settings, now)))
            }
            _ => Protocol::H1(Http1::new(transport, settings, now)),
        };
        // With TLS, the handshake has told (RFC 9113 §3.2).
        Self {
            protocol,
            is_new: transport.tls.is_none(),
            proxy_header,
            counted,
            is_one_too_many: false,
            certificate: None,
        }
    }

    /// The TLS handshake has agreed on what it is about. Nothing has been received before.
    pub fn secured(&mut self, tls: TlsInfo, certificate: Option<Arc<ClientCertificate>>, cx: &Context<'_>) {
        let (transport, is_one_too_many) = (*self.protocol.transport(), self.is_one_too_many);
        let secured = Self::with(transport.secured(tls), self.counted.take(), &cx.server.settings, cx.now);
        *self = Self { is_one_too_many, certificate, ..secured };
    }

    /// The TLS handshake is complete, which was not when it was [secured](Connection::secured). What comes now is no repetition.
    pub fn confirmed(&mut self) {
        if let Some(tls) = &mut self.protocol.transport_mut().tls {
            tls.is_early = false;
        }
    }

    /// Whether nothing more is received or sent.
    pub fn is_over(&self) -> bool {
        self.protocol.ask(Http1::is_over, Http2::is_over)
    }

    pub fn is_http2(&self) -> bool {
        matches!(self.protocol, Protocol::H2(_))
    }

    /// What another process needs to go on with the connection. `None` unless it is between two requests.
    pub fn idle_state(&self) -> Option<IdleState> {
        if self.proxy_header.is_some() {
            return None;
        }
        // The tables of HTTP/2 cannot go elsewhere.
        let state = self.protocol.ask(Http1::idle_state, |_| None);
        state.map(|state| state.counted_at(self.counted_at()))
    }

    /// Goes on with a connection that was idle in another process.
    pub fn from_idle(state: IdleState, settings: &Settings) -> Option<Self> {
        let (h1, counted) = (Http1::from_idle(state)?, state.counted(&settings.clients));
        let is_new = h1.has_received_nothing();
        let protocol = Protocol::H1(h1);
        Some(Self {
            protocol,
            is_new,
            proxy_header: None,
            counted,
            is_one_too_many: false,
            certificate: None,
        })
    }

    /// Where the connection is counted.
    pub fn counted_at(&self) -> Option<u32> {
        self.counted.as_ref().map(Counted::place)
    }

    /// The connection goes on in another process, which has its [idle state](Connection::idle_state).
    pub fn pass_on(mut self) {
        if let Some(counted) = self.counted.take() {
            counted.pass_on();
        }
    }

    pub fn peer(&self) -> Peer {
        self.protocol.transport().peer
    }

    #[inline]
    pub fn want(&mut self, cx: &mut Context<'_>) -> Want {
        if self.is_one_too_many {
            self.refuse_one_too_many(cx);
        }
        self.protocol.call(cx, Http1::want, Http2::want)
    }

    #[inline]
    pub fn received(&mut self, bytes: &[u8], cx: &mut Context<'_>) {
        if self.proxy_header.is_some() {
            let used = self.take_proxy_header(bytes, cx);
            if used == bytes.len() {
                return;
            }
            return self.received(&bytes[used..], cx);
        }
        if self.is_new {
            self.choose(bytes, cx);
        }
        self.protocol.call(cx, |h1, cx| h1.received(bytes, cx), |h2, cx| h2.received(bytes, cx));
    }

    /// The first bytes tell which protocol the client speaks (RFC 9113 §3.3).
    #[cold]
    fn choose(&mut self, bytes: &[u8], cx: &mut Context<'_>) {
        let Protocol::H1(h1) = &mut self.protocol else { return };
        let first = h1.first_bytes();
        let begins = |begin: &[u8], rest: &[u8]| rest.starts_with(&begin[..begin.len().min(rest.len())]);
        let rest = PREFACE.get(first.len()..).filter(|_| PREFACE.starts_with(first)).unwrap_or_default();
        if rest.is_empty() || !begins(bytes, rest) || !cx.server.settings.http2 {
            self.is_new = false;
        } else if first.len() + bytes.len() > PREFACE_BYTES_OF_NO_REQUEST {
            // No request of HTTP/1 begins so.
            let first = first.to_vec();
            let mut h2 = Box::new(Http2::new(*h1.transport(), &cx.server.settings, cx.now));
            h2.received(&first, cx);
            self.protocol = Protocol::H2(h2);
            self.is_new = false;
        }
    }

    /// Whether the next bytes belong to a header of the PROXY protocol. Encrypted bytes begin behind it.
    pub fn awaits_proxy_header(&self) -> bool {
        self.proxy_header.is_some()
    }

    /// Takes the bytes of the header of the PROXY protocol. Returns how many of these bytes belong to it.
    #[cold]
    pub fn take_proxy_header(&mut self, bytes: &[u8], cx: &mut Context<'_>) -> usize {
        let Some(reader) = &mut self.proxy_header else { return 0 };
        let proxies = &cx.server.settings.trusted_proxies;
        let is_believed = proxies.is_empty() || proxies.trust(self.protocol.transport().peer);
        match reader.take(bytes) {
            _ if !is_believed => self.refuse_proxy(Refusal::UntrustedProxy, cx),
            Err(NoProxyHeader) => self.refuse_proxy(Refusal::NoProxyHeader, cx),
            Ok(None) => {}
            Ok(Some((ProxyHeader { client, scheme }, used))) => {
                self.proxy_header = None;
                let transport = self.protocol.transport_mut();
                transport.peer = client.map_or(transport.peer, Peer::Inet);
                transport.scheme = scheme.unwrap_or(transport.scheme);
                transport.proxy_header = false;
                match cx.server.settings.count_connection(transport) {
                    Ok(counted) => self.counted = counted,
                    Err(TooMany) => {
                        self.refuse_one_too_many(cx);
                        return bytes.len();
                    }
                }
                return used;
            }
        }
        bytes.len()
    }

    #[cold]
    fn refuse_one_too_many(&mut self, cx: &mut Context<'_>) {
        self.is_one_too_many = false;
        cx.server.refusals.note_connection(Refusal::Connections, self.peer(), b"", cx.now.ms());
        self.protocol.call(cx, Http1::refuse_one_too_many, Http2::refuse_one_too_many);
    }

    /// The TLS handshake has failed, because of the client's certificate. `why` says more.
    #[cold]
    pub fn refuse_certificate(&mut self, refusal: Refusal, why: &dyn fmt::Display, cx: &mut Context<'_>) {
        let what = why.to_string();
        cx.server.refusals.note_connection(refusal, self.peer(), what.as_bytes(), cx.now.ms());
    }

    /// Closes the connection without a response, because nobody says whom the response would be for.
    fn refuse_proxy(&mut self, refusal: Refusal, cx: &mut Context<'_>) {
        self.proxy_header = None;
        cx.server.refusals.note_connection(refusal, self.peer(), b"", cx.now.ms());
        self.abort(cx);
    }

    /// The client has closed its sending side. It still gets the responses to its requests.
    pub fn received_end(&mut self, cx: &mut Context<'_>) {
        self.protocol.call(cx, Http1::received_end, Http2::received_end)
    }

    /// The socket has nothing to read for now. Returns whether the connection may want something else meanwhile.
    #[inline]
    pub fn receive_blocked(&mut self) -> bool {
        self.protocol.call((), |h1, ()| h1.receive_blocked(), |h2, ()| h2.receive_blocked())
    }

    #[inline]
    pub fn output(&self) -> Option<&Output> {
        self.protocol.ask(Http1::output, Http2::output)
    }

    /// The socket took this many bytes of the output.
    #[inline]
    pub fn sent(&mut self, bytes: u64, cx: &mut Context<'_>) {
        self.protocol.call(cx, |h1, cx| h1.sent(bytes, cx), |h2, cx| h2.sent(bytes, cx));
    }

    /// The socket takes no more for now. If a window of a file is in the output, it is made ready again before the next
    /// attempt. Returns whether the connection may want something else meanwhile.
    pub fn send_blocked(&mut self) -> bool {
        self.protocol.call((), |h1, ()| h1.send_blocked(), |h2, ()| h2.send_blocked())
    }

    /// The client's socket may be ready.
    pub fn client_ready(&mut self) {
        self.protocol.call((), |h1, ()| h1.client_ready(), |h2, ()| h2.client_ready());
    }

    /// The result of an exchange's job.
    pub fn completed(&mut self, id: ExchangeId, outcome: Outcome, cx: &mut Context<'_>) {
        self.protocol.call(
            (outcome, cx),
            |h1, (outcome, cx)| h1.completed(id, outcome, cx),
            |h2, (outcome, cx)| h2.completed(id, outcome, cx),
        );
    }

    /// The check of a log-in that an exchange wants. Its result goes to [`Connection::completed`], as [`Done::Checked`](crate::job::Done).
    pub fn check(&mut self, id: ExchangeId) -> Option<Box<dyn Check>> {
        self.protocol.exchange_mut(id)?.check()
    }

    /// Whether a call on the client's socket must not block, because another event may come first.
    #[inline]
    pub fn is_exchanging(&self) -> bool {
        self.protocol.ask(Http1::is_exchanging, Http2::is_exchanging)
    }

    /// When [`Connection::expire`] is due, in the server's milliseconds.
    #[inline]
    pub fn deadline_ms(&self) -> u64 {
        self.protocol.ask(Http1::deadline_ms, Http2::deadline_ms)
    }

    /// When the client's rate allows more, if something waits for that, in the server's milliseconds. The connection is to have its turn
    /// then.
    #[inline]
    pub fn paced_until_ms(&self) -> Option<u64> {
        let until_us = self.protocol.ask(Http1::paced_until_us, Http2::paced_until_us)?;
        Some(until_us.div_ceil(1000))
    }

    /// The deadline has passed. `unacknowledged` returns how many sent bytes the client has not acknowledged. It is called
    /// only if the number matters.
    pub fn expire(&mut self, cx: &mut Context<'_>, unacknowledged: impl Fn() -> u64) {
        if self.proxy_header.as_ref().is_some_and(|reader| !reader.is_empty()) {
            return self.refuse_proxy(Refusal::NoProxyHeader, cx);
        }
        let unacknowledged = &self.unacknowledged(unacknowledged);
        self.protocol.call(
            cx,
            |h1, cx| h1.expire(cx, unacknowledged),
            |h2, cx| h2.expire(cx, unacknowledged),
        );
    }

    /// Whether no request is under way.
    pub fn is_idle(&self) -> bool {
        self.protocol.ask(Http1::is_idle, Http2::is_idle)
    }

    /// Whether a request has been answered, and the next one has not begun.
    pub fn is_between_requests(&self) -> bool {
        self.protocol.ask(Http1::is_between_requests, Http2::is_between_requests)
    }

    /// Whether the connection may be closed for a new one, and how early. `unacknowledged` returns how many sent bytes the client has
    /// not acknowledged.
    pub fn evictable(
        &self,
        now_ms: u64,
        settings: &Settings,
        unacknowledged: impl Fn() -> u64,
    ) -> Option<Evictable> {
        let ask = &self.unacknowledged(unacknowledged);
        self.protocol.ask(|h1| h1.evictable(now_ms, settings, ask), |h2| h2.evictable(now_ms, settings, ask))
    }

    /// Bytes sent over a Unix socket have arrived.
    fn unacknowledged<F: Fn() -> u64>(&self, ask: F) -> impl Fn() -> u64 + use<F> {
        let is_local = matches!(self.peer(), Peer::Unix);
        move || if is_local { 0 } else { ask() }
    }

    /// Ends the connection at once, and records its exchange.
    pub fn abort(&mut self, cx: &mut Context<'_>) {
        self.protocol.call(cx, Http1::abort, Http2::abort)
    }
}

#[cfg(test)]
impl Connection {
    fn h1(&self) -> &Http1 {
        match &self.protocol {
            Protocol::H1(h1) => h1,
            Protocol::H2(_) => panic!("it speaks HTTP/2"),
        }
    }

    fn h1_mut(&mut self) -> &mut Http1 {
        match &mut self.protocol {
            Protocol::H1(h1) => h1,
            Protocol::H2(_) => panic!("it speaks HTTP/2"),
        }
    }
}

#[cfg(test)]
mod tests;
