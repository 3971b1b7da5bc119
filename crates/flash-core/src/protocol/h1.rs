//! HTTP/1 on one connection: a request is read, its exchange is answered, and the next request follows.
//!
//! Here is what only HTTP/1 knows: bytes received that make no whole request yet, bytes to be sent, where a body ends on
//! the wire, whether the connection stays open, and how it is closed so that the client has everything.

mod answer;
mod client;
mod drop_body;
mod expiry;
mod framing;
mod persistence;
mod request_body;
mod upstream;

use flash_http::head::{self, Parsed};

use crate::clock::Now;
use crate::context::Context;
use crate::deadline::{Deadline, Waiting};
use crate::exchange::body::Piece;
use crate::exchange::id::ExchangeId;
use crate::exchange::{Exchange, ExchangeState};
use crate::job::{Job, Outcome};
use crate::output::Output;
use crate::record::Peer;
use crate::site::Site;
use crate::transport::TransportInfo;
use crate::want::{Direction, Want};

use self::answer::Answered;
use self::client::Client;
use self::drop_body::{DropBody, Dropped};
use self::framing::{Framing, Sink};
use self::persistence::Persistence;
use self::request_body::RequestBody;

#[derive(Debug)]
pub(crate) struct Http1 {
    transport: TransportInfo,
    phase: Phase,
    /// Of the last exchange.
    last_id: ExchangeId,
    /// Bytes of a request that cannot be answered yet. Empty, without memory, on an idle connection.
    input: Vec<u8>,
    /// Present only while there is something to send.
    output: Option<Box<Output>>,
    deadline: Deadline,
}

/// Where the connection is, from a request's first byte to the end of its response, and in its end.
#[derive(Debug)]
enum Phase {
    /// Between requests, or within a head.
    ReadRequest,
    /// A request's body, of no use to a file, is dropped as it comes.
    DropBody(Box<DropBody>),
    /// That was it: the head, back at the front of `input`, can be answered.
    BodyDropped,
    /// A request waits for something. While that is looked up, its head lies at the front of `input`.
    Exchange(Box<Current>),
    /// The head at the front of `input` stands in place of one that a program has answered, by naming it.
    Redirected {
        redirects: u8,
    },
    /// A program writes to the client itself.
    Detached,
    /// What is in the output is the last.
    Closing {
        linger: bool,
    },
    /// RFC 9112 §9.6: closing with bytes unread would make the kernel reset the connection under the response.
    Lingering {
        bytes_left: usize,
        why: Why,
    },
    Closed,
    /// Its client was too slow.
    CutOff,
}

/// Why a connection stays open after its last byte has been sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    /// The client may be sending still.
    Unread,
    /// The kernel has much of the response, and it matters how fast the client takes it.
    Unflushed,
}

/// The exchange under way, and what only HTTP/1 has to know about it.
#[derive(Debug)]
struct Current {
    exchange: Exchange,
    /// What is missing of the request's body.
    body: RequestBody,
    /// What the request allows its response, and what that makes of the connection.
    framing: Framing,
    /// Which of the client's two directions are of use while an upstream answers.
    client: Client,
}

/// What a lingering client may still send before it is cut off.
const LINGER_BYTES_MAX: usize = 1 << 20;

impl Http1 {
    pub(crate) fn new(transport: TransportInfo, site: &Site, now: &Now) -> Self {
        let mut deadline = Deadline::default();
        deadline.start(Waiting::Head, now.ms(), &site.settings);
        Self {
            transport,
            phase: Phase::ReadRequest,
            last_id: ExchangeId::default(),
            input: Vec::new(),
            output: None,
            deadline,
        }
    }

    pub(crate) fn peer(&self) -> Peer {
        self.transport.peer
    }

    pub(crate) fn output(&self) -> Option<&Output> {
        self.output.as_deref()
    }

    pub(crate) fn want(&mut self, cx: &mut Context<'_>) -> Want {
        if self.is_exchanging_with_upstream() {
            return self.want_of_upstream(cx);
        }
        if let Some((id, job)) = self.job(cx.site) {
            return Want::Job(id, job);
        }
        if let Some(output) = self.output.as_mut().filter(|output| !output.is_empty()) {
            output.shown(cx.now.us);
            self.deadline.wait(Waiting::Send, cx.now.ms(), &cx.site.settings);
            return Want::Send;
        }
        let waiting = match &self.phase {
            Phase::ReadRequest if self.input.is_empty() && cx.draining => {
                self.phase = Phase::Closed;
                return Want::Close;
            }
            // A client that connects and says nothing is not an idle one: its first head is due.
            Phase::ReadRequest if self.input.is_empty() && !self.deadline.is_for(Waiting::Head) => {
                Waiting::Idle
            }
            Phase::ReadRequest => Waiting::Head,
            Phase::DropBody(_) => Waiting::Body,
            // The kernel goes on without the server.
            Phase::Lingering { why: Why::Unflushed, .. } if cx.draining => {
                self.phase = Phase::Closed;
                return Want::Close;
            }
            Phase::Lingering { .. } => Waiting::Linger,
            Phase::BodyDropped | Phase::Redirected { .. } | Phase::Exchange(_) => {
                self.deadline.wait(Waiting::Completion, cx.now.ms(), &cx.site.settings);
                return Want::WaitJob;
            }
            Phase::Closing { linger } if *linger || self.deadline.may_have_to_flush() => {
                let why = if *linger { Why::Unread } else { Why::Unflushed };
                self.phase = Phase::Lingering { bytes_left: LINGER_BYTES_MAX, why };
                return Want::ShutdownWrite;
            }
            Phase::Detached => return Want::Detach,
            Phase::Closing { .. } | Phase::Closed => return Want::Close,
            Phase::CutOff => return Want::Reset,
        };
        self.deadline.wait(waiting, cx.now.ms(), &cx.site.settings);
        Want::Receive
    }

    /// The job that the state asks for, if it has not been handed out.
    fn job(&mut self, site: &Site) -> Option<(ExchangeId, Job)> {
        match &mut self.phase {
            // It leaves for another thread. What was answered before goes out first, and does not wait there with it.
            Phase::Exchange(current)
                if site.settings.lookup_as_job
                    && self.output.is_some()
                    && matches!(current.exchange.state, ExchangeState::Lookup(_)) =>
            {
                None
            }
            Phase::Exchange(current) => Some((current.exchange.id, current.exchange.job()?)),
            _ => None,
        }
    }

    pub(crate) fn received(&mut self, bytes: &[u8], cx: &mut Context<'_>) {
        match &mut self.phase {
            // The common case: whole requests, answered out of the driver's own buffer.
            Phase::ReadRequest if self.input.is_empty() => {
                let used = self.read_requests(bytes, cx);
                let rest = &bytes[used..];
                match self.phase {
                    Phase::DropBody(_) => {
                        self.drop_bytes(rest, cx);
                        self.resume(cx);
                    }
                    _ if rest.is_empty() || !self.goes_on() => {}
                    _ => {
                        self.keep(rest, cx);
                        self.feed(cx);
                    }
                }
            }
            Phase::DropBody(_) => {
                self.drop_bytes(bytes, cx);
                self.resume(cx);
            }
            Phase::ReadRequest => {
                let seen = self.input.len();
                self.input.extend_from_slice(bytes);
                if head::may_progress(&self.input, seen, &cx.site.settings.head) {
                    self.resume(cx);
                }
            }
            Phase::Lingering { bytes_left, .. } => {
                *bytes_left = bytes_left.saturating_sub(bytes.len());
                if *bytes_left == 0 {
                    self.phase = Phase::Closed;
                }
            }
            Phase::Closing { .. } | Phase::Detached | Phase::Closed | Phase::CutOff => {}
            _ => {
                self.input.extend_from_slice(bytes);
                self.resume(cx);
            }
        }
    }

    /// The client will send no more. What it has asked for it still gets.
    pub(crate) fn received_end(&mut self, cx: &mut Context<'_>) {
        match &mut self.phase {
            Phase::Exchange(current) => {
                let Current { exchange, body, client, .. } = &mut **current;
                let Some(upstream) = exchange.upstream() else { return };
                // It may still listen: only sending tells. But no program may take a part of a request for the whole.
                client.has_ended = true;
                if !(body.ends_within(&self.input) || upstream.is_over()) {
                    self.abort(cx);
                }
            }
            Phase::ReadRequest | Phase::DropBody(_) | Phase::Lingering { .. } => self.phase = Phase::Closed,
            Phase::BodyDropped
            | Phase::Redirected { .. }
            | Phase::Detached
            | Phase::Closing { .. }
            | Phase::Closed
            | Phase::CutOff => {}
        }
    }

    /// The socket took so many bytes of the output.
    pub(crate) fn sent(&mut self, bytes: u64, cx: &mut Context<'_>) {
        let Some(output) = &mut self.output else { return };
        output.sent(bytes, cx.now.us, &mut cx.tally.records);
        self.deadline.progressed(bytes);
        if output.is_empty() {
            cx.tally.send_us += output.took_us(cx.now.us);
            self.drained(cx);
        }
    }

    /// The socket takes no more for now. A window in the output is made ready again before the next attempt. Returns
    /// whether something else may be wanted meanwhile.
    pub(crate) fn send_blocked(&mut self) -> bool {
        let Phase::Exchange(current) = &mut self.phase else { return false };
        match (&mut current.exchange.state, &mut self.output) {
            (ExchangeState::Upstream(_), _) => {
                current.client.blocked(Direction::Out);
                return true;
            }
            (ExchangeState::Body(body), Some(output)) => {
                if let Some(range) = output.take_back_window() {
                    body.put_back(range);
                }
            }
            _ => {}
        }
        false
    }

    /// The client has sent nothing more as yet. Returns whether something else may be wanted meanwhile.
    pub(crate) fn receive_blocked(&mut self) -> bool {
        match &mut self.phase {
            Phase::Exchange(current) if current.exchange.upstream().is_some() => {
                current.client.blocked(Direction::In);
                true
            }
            _ => false,
        }
    }

    fn drained(&mut self, cx: &mut Context<'_>) {
        if let (Phase::Exchange(current), Some(output)) = (&mut self.phase, &mut self.output) {
            let Current { exchange, framing, .. } = &mut **current;
            match &mut exchange.state {
                ExchangeState::Lookup(_) => {}
                ExchangeState::Upstream(_) => return self.leave_upstream(cx),
                ExchangeState::Body(body) if body.awaits_job() => return,
                ExchangeState::Body(body) => {
                    let more = body.next(&mut Sink { output, framing });
                    if more || !output.is_empty() {
                        return;
                    }
                    if let Some(unfinished) = exchange.record.take() {
                        cx.tally.records.push(unfinished.finish(output.response_bytes_sent(), cx.now.us));
                    }
                    self.phase = after(framing.persistence);
                }
            }
        }
        if let Some(output) = self.output.take() {
            cx.buffers.give_back_output(output);
        }
        self.resume(cx);
    }

    pub(crate) fn completed(
        &mut self,
        id: ExchangeId,
        Outcome { done, spent }: Outcome,
        cx: &mut Context<'_>,
    ) {
        let Phase::Exchange(current) = &mut self.phase else { return };
        let Current { exchange, framing, .. } = &mut **current;
        if exchange.id != id || !exchange.awaits_job() {
            // Too late: the deadline has answered in its place.
            return;
        }
        self.deadline.job_ended(exchange.stands_still(&done));
        match &mut exchange.state {
            ExchangeState::Lookup(lookup) => {
                exchange.timing.spent += spent;
                lookup.take(done, cx.now.ms(), cx.site.settings.revalidate_ms);
                self.resume(cx);
            }
            ExchangeState::Body(body) => {
                if let Some(record) = &mut exchange.record {
                    record.spend(spent);
                }
                let output = self.output.get_or_insert_with(|| cx.buffers.output());
                if body.take(done, &mut Sink { output, framing }).is_err() {
                    self.abort(cx);
                } else if output.is_empty() && body.piece == Piece::Ready {
                    self.drained(cx);
                }
            }
            ExchangeState::Upstream(_) => self.body_moved(done, cx),
        }
    }

    /// Whether bytes behind the current request are worth keeping.
    fn goes_on(&self) -> bool {
        !matches!(self.phase, Phase::Closing { .. } | Phase::Lingering { .. } | Phase::Closed | Phase::CutOff)
    }

    /// Bytes of a request that cannot be answered yet.
    fn keep(&mut self, bytes: &[u8], cx: &mut Context<'_>) {
        if self.input.capacity() == 0 {
            self.input = cx.buffers.input();
        }
        self.input.extend_from_slice(bytes);
    }

    /// These bytes have come while a body is dropped: of them only what stands behind it is kept, behind its request's
    /// head.
    fn drop_bytes(&mut self, bytes: &[u8], cx: &mut Context<'_>) {
        let Phase::DropBody(body) = &mut self.phase else { return };
        match body.drop_from(bytes, &cx.site.settings) {
            Dropped::Some => self.deadline.progressed(bytes.len() as u64),
            Dropped::Refused(reject) => {
                let head = body.take_head();
                self.refuse(reject, &head, cx);
            }
            Dropped::All(used) => {
                if let Phase::DropBody(body) = std::mem::replace(&mut self.phase, Phase::BodyDropped) {
                    self.keep(body.head(), cx);
                    self.keep(&bytes[used..], cx);
                }
            }
        }
    }

    /// Goes on with what is in `input`.
    fn resume(&mut self, cx: &mut Context<'_>) {
        while !self.input.is_empty() {
            if self.is_exchanging_with_upstream() {
                return self.feed(cx);
            }
            let mut input = std::mem::take(&mut self.input);
            if let Phase::DropBody(_) = self.phase {
                self.drop_bytes(&input, cx);
                cx.buffers.give_back_input(input);
                continue;
            }
            let used = self.read_requests(&input, cx);
            if used == input.len() || !self.goes_on() {
                return cx.buffers.give_back_input(input);
            }
            input.drain(..used);
            self.input = input;
            if !matches!(self.phase, Phase::DropBody(_)) && !self.is_exchanging_with_upstream() {
                return;
            }
        }
    }

    /// Answers the requests at the front of `input`, as far as that goes. Returns the bytes that are done with.
    fn read_requests(&mut self, input: &[u8], cx: &mut Context<'_>) -> usize {
        let mut used = 0;
        while used < input.len() && self.takes_requests() {
            match head::parse(&input[used..], &cx.site.settings.head) {
                Ok(Parsed::Incomplete) => break,
                Ok(Parsed::Complete { head, bytes }) => {
                    match self.answer(&head, &input[used..used + bytes], cx) {
                        Answered::Yes => used += bytes,
                        Answered::NotYet => break,
                    }
                }
                Err(reject) => {
                    self.refuse(reject, &input[used..], cx);
                    used = input.len();
                }
            }
        }
        if let Phase::Closing { linger } = &mut self.phase {
            *linger |= used < input.len();
        }
        used
    }

    fn takes_requests(&self) -> bool {
        match &self.phase {
            Phase::ReadRequest => !self.output.as_ref().is_some_and(|output| output.is_full()),
            Phase::BodyDropped | Phase::Redirected { .. } => true,
            Phase::Exchange(current) => match &current.exchange.state {
                ExchangeState::Lookup(lookup) => lookup.is_over(),
                ExchangeState::Body(_) | ExchangeState::Upstream(_) => false,
            },
            _ => false,
        }
    }
}

fn after(persistence: Persistence) -> Phase {
    if persistence.stays_open() { Phase::ReadRequest } else { Phase::Closing { linger: false } }
}

/// What tests look at.
#[cfg(test)]
impl Http1 {
    pub(crate) fn input(&self) -> &Vec<u8> {
        &self.input
    }

    pub(crate) fn holds_output(&self) -> bool {
        self.output.is_some()
    }

    pub(crate) fn is_closing(&self) -> bool {
        matches!(self.phase, Phase::Closing { .. } | Phase::Closed)
    }

    pub(crate) fn set_peer(&mut self, peer: Peer) {
        self.transport.peer = peer;
    }
}
