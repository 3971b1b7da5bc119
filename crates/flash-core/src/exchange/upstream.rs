//! An exchange with an upstream: the request's body goes one way, and then the response the other.
//!
//! It replaces the steps *find file* to *send data*. The exchange knows which directions of the upstream's stream would
//! block. The protocol knows that of the client's directions. No program waits for its client's upload, because the
//! request's body is [stored](spool_queue) until it is whole. What the client has not taken of a response is stored too. If that
//! has reached its limit, the program waits, for a [short time](program_deadline). This module does not know how the program
//! was started, or where its stream goes afterwards.

mod coded_body;
mod events;
mod feed;
mod gateway_error;
mod http_request;
mod job_done;
mod outgoing;
mod program_deadline;
mod request;
mod response_changes;
mod response_state;
mod slow_client;
mod spool_queue;
mod trailers;
mod watermark;

use std::net::SocketAddr;
use std::sync::Arc;

use flash_cgi::fastcgi::{Decoder, Encoder};
use flash_http::head::Head;

use crate::connection::context::Context;
use crate::connection::output::Mark;
use crate::connection::transport::{ClientCertificate, TransportInfo};
use crate::connection::want::Direction;
use crate::exchange::decide::Terms;
use crate::exchange::hand_off::HandOff;
use crate::exchange::id::ExchangeId;
use crate::record::Timing;
use crate::record::program_times::ProgramClock;
use crate::site::Site;
use crate::site::proxy_rules::Patience;
use crate::site::routes::Routes;
use crate::upstream::{Open, OpenError, Opened, Release, ReleaseMode, Upstream, UpstreamProtocol};

use self::coded_body::CodedBody;
pub(crate) use self::gateway_error::GatewayError;
pub(crate) use self::job_done::JobDone;
pub(crate) use self::outgoing::OUTGOING_BYTES_MAX;
use self::outgoing::{Outgoing, WriteHalf};
pub(crate) use self::program_deadline::Awaited;
use self::program_deadline::ProgramDeadline;
pub(crate) use self::request::{Request, RequestBodyLength};
pub(crate) use self::response_state::{ResponseState, Writer};
use self::spool_queue::SpoolQueue;
use self::watermark::{RESPONSE_BYTES, Watermark};

/// RFC 3875 §6.2.2 allows a program to redirect to another, and that one back to the first.
pub(crate) const REDIRECTS_MAX: u8 = 10;
/// Where there is little room for a response, fewer bytes are not worth a call.
const PIECE_BYTES_LEAST: usize = 1 << 10;

#[derive(Debug)]
pub(crate) struct UpstreamExchange {
    id: ExchangeId,
    pub(crate) request: Request,
    stage: Stage,
    body: RequestBodyLength,
    /// The request's body passes as it comes, and is not stored.
    streams: bool,
    /// Lines of trailer fields behind it.
    trailers: Vec<u8>,
    /// The request's body has arrived to its end.
    body_has_ended: bool,
    /// The request's body, until the program has been given all of it. A small one may wait where it arrived.
    spooled: Option<Box<SpoolQueue>>,
    outgoing: Outgoing,
    pub(crate) reply: ResponseState,
    /// Where the response begins in the output, and where its head ended when that was written.
    pub(crate) head_at: Option<(Mark, Mark)>,
    /// What is ready to be sent of the response.
    front: Watermark,
    /// What follows, if the client is behind.
    ahead: Option<Box<SpoolQueue>>,
    routes: Option<Arc<Routes>>,
    deadline: ProgramDeadline,
    pub(crate) clock: ProgramClock,
    /// The response may be compressed.
    may_be_coded: bool,
    blocked: Blocked,
    /// A stream that is free, until the driver is told.
    released: Option<Release>,
}

#[derive(Debug)]
enum Stage {
    /// The request's body is stored until it is whole.
    Spooling,
    /// The client's bytes are read first, to notice whether it has left.
    Pending,
    Opening,
    Running(Running),
    /// The program has done its part.
    Over,
}

#[derive(Debug)]
struct Running {
    upstream: Upstream,
    decoder: Decoder,
    /// The upstream has written something.
    heard: bool,
    /// Bytes of the upstream after the end of its response.
    surplus_bytes: usize,
    /// A server of HTTP/1 has said that another request can follow.
    persists: bool,
    /// The server's TLS has said that nothing more follows.
    says_its_end: bool,
}

/// Which directions of the upstream's stream would block, as of the last attempt.
#[derive(Debug, Default)]
struct Blocked {
    upstream_in: bool,
    upstream_out: bool,
}

/// What an upstream exchange needs next.
pub(crate) enum Need {
    Open,
    Send,
    Receive,
    Shutdown,
    /// A job about the body. After it, the exchange first waits for its result.
    Job,
    WaitJob,
}

/// What an upstream has done.
#[derive(Clone, Copy)]
pub(crate) enum UpstreamEvent<'b> {
    Received(&'b [u8]),
    /// It has nothing more to read for now, so the client gets all that was written.
    Paused,
    /// It has closed its side.
    Ended,
    /// Its stream has ended otherwise.
    Broken,
}

/// What the end of the upstream's stream leads to.
pub(crate) enum Ended {
    /// The response is complete, or becomes a redirection.
    Well,
    /// The upstream closed its idle connection before the request came. The request is retried with a new one.
    Retry,
}

impl UpstreamExchange {
    pub(crate) fn new(
        id: ExchangeId,
        (request, head): (Request, &Head<'_>),
        body: RequestBodyLength,
        site: &Site,
    ) -> Self {
        let streams = body != RequestBodyLength::None && request.streams(head, site);
        let spools = body != RequestBodyLength::None && !streams;
        Self {
            id,
            reply: ResponseState::new(),
            head_at: None,
            request,
            stage: if spools { Stage::Spooling } else { Stage::Pending },
            body,
            streams,
            trailers: Vec::new(),
            body_has_ended: body == RequestBodyLength::None,
            spooled: None,
            outgoing: Outgoing::default(),
            front: Watermark::default(),
            ahead: None,
            routes: site.routes.clone(),
            deadline: ProgramDeadline::default(),
            clock: ProgramClock::default(),
            may_be_coded: false,
            blocked: Blocked::default(),
            released: None,
        }
    }

    /// What the exchange needs before more is read from the client. `in_turn` says whether a job stops everything else.
    pub(crate) fn need_before_reading(&self, in_turn: bool) -> Option<Need> {
        let of_body = self.spooled.as_ref().is_some_and(|spooled| spooled.is_under_way());
        match &self.stage {
            _ if self.wants_job() => Some(Need::Job),
            _ if of_body || in_turn && self.awaits_job() => Some(Need::WaitJob),
            Stage::Running(_) if !self.blocked.upstream_out && self.outgoing.left() > 0 => Some(Need::Send),
            Stage::Running(_)
                if self.outgoing.write_half == WriteHalf::ShutdownDue && self.outgoing.left() == 0 =>
            {
                Some(Need::Shutdown)
            }
            _ => None,
        }
    }

    /// What the exchange needs when the client has nothing to read. `waiting_bytes` have not been sent to the client.
    pub(crate) fn need_after_reading(&self, waiting_bytes: usize) -> Option<Need> {
        match &self.stage {
            Stage::Pending => Some(Need::Open),
            Stage::Running(_) if self.reads(waiting_bytes) && !self.blocked.upstream_in => {
                Some(Need::Receive)
            }
            _ => None,
        }
    }

    /// Which directions of its stream the exchange waits for. `waiting_bytes` have not been sent to the client.
    pub(crate) fn awaited(&self, waiting_bytes: usize) -> (bool, bool) {
        let running = self.is_running();
        (running && self.reads(waiting_bytes), running && self.outgoing.left() > 0)
    }

    fn reads(&self, waiting_bytes: usize) -> bool {
        self.room(waiting_bytes) > 0
    }

    /// The connection is about to wait. `waiting_bytes` have not been sent to the client, which may have `ended` its side. They may
    /// be `paced`: it is not the client that they wait for.
    pub(crate) fn wait(&mut self, waiting_bytes: usize, is_paced: bool, has_ended: bool, cx: &Context<'_>) {
        let awaited = match &self.stage {
            _ if self.wants_job() || self.awaits_job() => Awaited::Nothing,
            Stage::Spooling | Stage::Pending | Stage::Over => Awaited::Nothing,
            Stage::Running(_) if !self.reads(waiting_bytes) && is_paced => Awaited::Nothing,
            Stage::Running(_) if !self.reads(waiting_bytes) => Awaited::Client,
            Stage::Running(_) if self.reply.is_tunnel() => Awaited::Either,
            Stage::Running(_) if self.lacks_body() && self.request.is_duplex() => Awaited::Either,
            Stage::Running(_) if self.awaits_body() => Awaited::Nothing,
            Stage::Opening | Stage::Running(_) => Awaited::Program,
        };
        let Patience { first_byte_ms, idle_ms } = self.request.patience();
        let silence_ms = match &self.stage {
            Stage::Running(_) if self.reply.is_tunnel() => Some(cx.server.settings.tunnel_idle_ms),
            Stage::Running(running) if running.heard => idle_ms,
            Stage::Running(_) => first_byte_ms,
            Stage::Spooling | Stage::Pending | Stage::Opening | Stage::Over => None,
        };
        self.deadline.wait(awaited, has_ended, silence_ms, cx.now.ms(), &cx.server.settings);
    }

    /// The upstream has acted.
    pub(crate) fn program_lives(&mut self, cx: &Context<'_>) {
        self.deadline.end(cx.now.ms());
    }

    pub(crate) fn client_took(&mut self, bytes: u64, cx: &Context<'_>) {
        self.deadline.client_took(bytes, cx.now.ms(), &cx.server.settings);
    }

    pub(crate) fn deadline_ms(&self) -> u64 {
        self.deadline.ms()
    }

    /// Who has not acted in time.
    pub(crate) fn expired(&self, cx: &Context<'_>) -> Option<Awaited> {
        self.deadline.expired(cx.now.ms())
    }

    fn is_http(&self) -> bool {
        matches!(&self.stage, Stage::Running(running) if running.upstream.protocol == UpstreamProtocol::Http)
    }

    /// Whether the upstream and the client have gone on with another protocol.
    pub(crate) fn is_tunnel(&self) -> bool {
        self.is_running() && self.reply.is_tunnel()
    }

    /// The client sends nothing more through the tunnel.
    pub(crate) fn end_tunnel(&mut self) {
        self.outgoing.end_tunnel();
    }

    pub(crate) fn is_running(&self) -> bool {
        matches!(self.stage, Stage::Running(_))
    }

    /// Whether the program has done its part, and nothing of its response is stored.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Over) && self.ahead.is_none()
    }

    /// Whether nothing goes on before more of the request's body has come.
    pub(crate) fn awaits_body(&self) -> bool {
        match &self.stage {
            Stage::Spooling => true,
            Stage::Running(_) => self.lacks_body() && !self.request.is_duplex(),
            Stage::Over => self.is_redirected() && !self.body_has_ended,
            Stage::Pending | Stage::Opening => false,
        }
    }

    /// Whether the upstream has read all that has come of a body that passes as it comes.
    fn lacks_body(&self) -> bool {
        let is_read = self.outgoing.left() == 0 && self.outgoing.write_half != WriteHalf::Refused;
        self.streams && !self.body_has_ended && is_read
    }

    /// Whether something else answers in the upstream's place.
    pub(crate) fn is_redirected(&self) -> bool {
        matches!(self.reply, ResponseState::Redirect { .. })
    }

    /// Whether the request's body is stored until it is whole.
    pub(crate) fn spools(&self) -> bool {
        matches!(self.stage, Stage::Spooling)
    }

    pub(crate) fn upstream_ready(&mut self) {
        (self.blocked.upstream_in, self.blocked.upstream_out) = (false, false);
    }

    pub(crate) fn upstream_blocked(&mut self, direction: Direction) {
        match direction {
            Direction::In => self.blocked.upstream_in = true,
            Direction::Out => self.blocked.upstream_out = true,
        }
    }

    /// What to open, unless no route leads there. `may_have_client` says whether a program may write to the client itself: there is
    /// no other response to receive, and no rate.
    pub(crate) fn begin(
        &mut self,
        (site, terms, timing): (&Site, Terms, Timing),
        transport: (&TransportInfo, Option<&ClientCertificate>),
        local: Option<SocketAddr>,
        may_have_client: bool,
        cx: &mut Context<'_>,
    ) -> Result<Open, GatewayError> {
        let stored_bytes =
            (!self.streams).then(|| self.spooled.as_ref().map_or(0, |spooled| spooled.bytes()));
        let of = (site, terms, timing);
        let begin =
            self.request.begin(of, transport, local, may_have_client, (self.body, stored_bytes), cx)?;
        let codings = self.request.accepts.codings().intersection(site.settings.compress_programs);
        self.may_be_coded = !codings.is_empty();
        self.stage = Stage::Opening;
        self.clock.asks(cx.now);
        Ok(begin)
    }

    pub(crate) fn is_opening(&self) -> bool {
        matches!(self.stage, Stage::Opening)
    }

    /// `Ok` if the program runs. Returns whether its request is on the way; if not, it has the client's socket.
    pub(crate) fn begun(&mut self, begun: Opened<()>, now_s: u64) -> Result<bool, GatewayError> {
        let mut upstream = match begun {
            Opened::Running((), upstream) => upstream,
            Opened::Failed(refusal) => return Err(refusal.into()),
            Opened::Detached if self.request.is_direct => return Ok(false),
            // This exchange did not ask for that.
            Opened::Detached => return Err(OpenError::Broken.into()),
        };
        upstream.lease.begins();
        self.outgoing = Outgoing::through(upstream.tls.take());
        if upstream.protocol == UpstreamProtocol::FastCgi {
            Encoder.begin(&self.request.variables, true, &mut self.outgoing.bytes);
        }
        if upstream.protocol == UpstreamProtocol::Http {
            if let Some(changes) = &mut self.request.changes {
                Arc::make_mut(changes).answered_by(upstream.server, now_s);
            }
            self.outgoing.put(&std::mem::take(&mut self.request.http_head), upstream.protocol);
            self.outgoing.is_chunked = self.streams && self.body == RequestBodyLength::Unknown;
        }
        self.reply = match upstream.protocol {
            UpstreamProtocol::Http => ResponseState::of_server(),
            UpstreamProtocol::Nph => ResponseState::raw(),
            UpstreamProtocol::Cgi | UpstreamProtocol::FastCgi => ResponseState::new(),
        };
        if self.body_has_ended && self.spooled.is_none() {
            let trailers = self.request.trailers(&std::mem::take(&mut self.trailers));
            self.outgoing.end_body(upstream.protocol, &trailers);
        }
        // A program that has read nothing writes nothing, so the first read can wait for an event.
        (self.blocked.upstream_in, self.blocked.upstream_out) = (true, false);
        let (decoder, heard, surplus_bytes) = (Decoder::new(), false, 0);
        let (persists, says_its_end) = (false, false);
        let running = Running { upstream, decoder, heard, surplus_bytes, persists, says_its_end };
        self.stage = Stage::Running(running);
        Ok(true)
    }

    pub(crate) fn to_upstream(&self) -> &[u8] {
        self.outgoing.unsent()
    }

    pub(crate) fn upstream_sent(&mut self, count: usize) {
        self.outgoing.sent(count);
    }

    pub(crate) fn upstream_shut(&mut self) {
        self.outgoing.write_half = WriteHalf::Shut;
    }

    /// The upstream reads no more. It may still write.
    pub(crate) fn upstream_refuses(&mut self) {
        self.outgoing = Outgoing::through(self.outgoing.tls.take());
        self.outgoing.write_half = WriteHalf::Refused;
    }

    /// Whether each byte of the upstream may take a loop long.
    pub(crate) fn takes_long(&self) -> bool {
        self.may_be_coded && self.reply.may_be_coded()
    }

    /// How many bytes are read from the upstream at a time. `waiting_bytes` have not been sent to the client.
    pub(crate) fn piece_bytes(&self, waiting_bytes: usize) -> usize {
        let most = if self.takes_long() { coded_body::PIECE_BYTES } else { usize::MAX };
        self.room(waiting_bytes).clamp(PIECE_BYTES_LEAST, most)
    }

    /// Whether the client lacks bytes that the upstream has written before it paused.
    pub(crate) fn holds_back(&self) -> bool {
        self.reply.coded().is_some_and(CodedBody::holds_back)
    }

    fn over(&mut self, how: ReleaseMode) {
        self.leave(Stage::Over, Some(how));
    }

    fn leave(&mut self, next: Stage, how: Option<ReleaseMode>) {
        if let Stage::Running(Running { upstream: Upstream { mut lease, .. }, .. }) =
            std::mem::replace(&mut self.stage, next)
        {
            if let Some(tls) = self.outgoing.tls.take() {
                lease.keep(tls);
            }
            if let Some(times) = self.clock.times() {
                lease.took(&times);
            }
            self.released = Some(Release { exchange: self.id, lease, how });
            self.deadline = ProgramDeadline::default();
        }
    }

    /// Where the request goes on: the head that replaces its own, and the program that has handed a file on, if one has. `None` if
    /// the program has answered.
    pub(crate) fn redirected(&mut self, terms: Terms) -> Option<(Vec<u8>, Option<Box<HandOff>>)> {
        let ResponseState::Redirect { target, hand_off, .. } = &mut self.reply else { return None };
        let mut hand_off = hand_off.take();
        if let Some(hand_off) = &mut hand_off {
            hand_off.request_line = self.request.parse().framing.request_line.into();
            (hand_off.has_user, hand_off.is_private) = (terms.has_user, terms.is_private);
        }
        Some((self.request.redirected(target), hand_off))
    }

    /// A stream that is free, for the driver. Returns it once.
    pub(crate) fn released(&mut self) -> Option<Release> {
        self.released.take()
    }

    /// The exchange fails. If the response is complete all the same, only the program's part ends. Returns whether it is.
    pub(crate) fn fails(&mut self, fault: GatewayError, cx: &mut Context<'_>) -> bool {
        if let Some(reason) = fault.reason {
            self.request.complain(reason, cx);
        }
        if let (Some(failure), Stage::Running(running)) = (fault.failure, &mut self.stage) {
            running.upstream.lease.failed(failure);
        }
        let is_safe = self.is_safe();
        if is_safe {
            self.abandon();
            cx.tally.released.extend(self.released());
        }
        is_safe
    }

    /// Ends the exchange before its end. Returns the request.
    pub(crate) fn break_off(mut self, cx: &mut Context<'_>) -> Request {
        self.abandon();
        cx.tally.released.extend(self.released());
        self.request
    }

    /// Ends the program's part before its end.
    fn abandon(&mut self) {
        let Stage::Running(running) = &self.stage else { return };
        let is_told = match running.upstream.protocol {
            UpstreamProtocol::FastCgi => self.outgoing.is_between_writes(),
            // The end of its connection is all that it can be told.
            UpstreamProtocol::Http => false,
            UpstreamProtocol::Cgi | UpstreamProtocol::Nph => self.outgoing.write_half != WriteHalf::Shut,
        };
        self.leave(Stage::Over, is_told.then_some(ReleaseMode::Aborted));
    }
}

/// For tests.
#[cfg(test)]
impl UpstreamExchange {
    pub(crate) fn outgoing_capacity(&self) -> usize {
        self.outgoing.bytes.capacity()
    }
}
