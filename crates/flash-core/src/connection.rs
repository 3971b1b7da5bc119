//! A connection: the state machine that takes a client's bytes through the steps of its requests.
//!
//! A driver performs what [`Connection::want`] returns, tells the outcome, and asks again, until the want is one
//! that it has to wait for. Everything here happens in memory: see the crate's opening words for what is absent.

mod answer;
mod exchanging;
mod expiry;

use flash_http::head::{self, Parsed};

use crate::clock::Now;
use crate::context::Context;
use crate::deadline::{Deadline, Waiting};
use crate::exchange::{Awaited, Exchange, Way};
use crate::header;
use crate::job::{Job, Outcome};
use crate::output::Output;
use crate::record::{Peer, Unfinished};
use crate::site::Site;
use crate::steps::find_file::{Finding, Lookup};
use crate::steps::read_file::{Body, Phase};
use crate::steps::read_request::{DropBody, Dropped};

use self::answer::Answered;

/// The one thing that a connection needs next.
#[derive(Debug)]
pub enum Want {
    /// More bytes from the client: call [`Connection::received`] or [`Connection::received_end`].
    Receive,
    /// Bytes to the client: show [`Connection::output`] to the socket and call [`Connection::sent`].
    Send,
    /// The only thing that may wait for a disk: call [`Connection::completed`].
    Job(Job),
    /// A program: hand [`Connection::begin`] to [`Programs`](crate::program::Programs), and call [`Connection::begun`].
    Begin,
    /// Show [`Connection::to_backend`] to [`Connection::backend`]: call [`Connection::backend_sent`], and so on.
    SendBackend,
    /// The program's bytes: call [`Connection::backend_received`], [`Connection::backend_ended`], and so on.
    ReceiveBackend,
    /// The program is to see the end of what it is told: shut that direction of its stream.
    ShutdownBackend,
    /// Stop watching the program's stream, and finish what [`Connection::release`] returns.
    Release,
    /// The client's socket is its program's: forget it, and close it here without a word.
    HandOver,
    /// Nothing, until a socket is ready that was found blocked: call [`Connection::client_ready`] or
    /// [`Connection::backend_ready`].
    Exchange(Awaited),
    /// The result of the job that was handed out.
    Completion,
    /// No more sending; the client may still be, and is to be listened to for a moment.
    ShutdownWrite,
    Close,
    /// The client is too slow: close, and have the kernel forget what it still has for it.
    Reset,
}

#[derive(Debug)]
pub struct Connection {
    state: State,
    /// Bytes of a request that cannot be answered yet. Empty, without memory, on an idle connection.
    input: Vec<u8>,
    /// Present only while there is something to send.
    output: Option<Box<Output>>,
    deadline: Deadline,
    peer: Peer,
}

#[derive(Debug)]
enum State {
    /// Between requests, or within a head.
    ReadRequest,
    /// A request's body, of no use to a file, is dropped as it comes.
    DropBody(Box<DropBody>),
    /// That was it: the head, back at the front of `input`, can be answered.
    BodyDropped,
    /// The head lies at the front of `input`; its file is looked for.
    FindFile(Box<Finding>),
    SendBody(Box<Sending>),
    /// A program answers.
    RunProgram(Box<Exchange>),
    /// The head at the front of `input` stands in place of one that a program has answered, by naming it.
    Redirected {
        redirects: u8,
    },
    /// A program writes to the client itself.
    HandedOver,
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

#[derive(Debug)]
struct Sending {
    body: Body,
    connection: header::Connection,
    record: Option<Unfinished>,
}

/// What a lingering client may still send before it is cut off.
const LINGER_BYTES_MAX: usize = 1 << 20;

impl Connection {
    pub fn new(peer: Peer, site: &Site, now: &Now) -> Self {
        let mut deadline = Deadline::default();
        deadline.start(Waiting::Head, now.ms(), &site.settings);
        Self { state: State::ReadRequest, input: Vec::new(), output: None, deadline, peer }
    }

    pub fn peer(&self) -> Peer {
        self.peer
    }

    pub fn output(&self) -> Option<&Output> {
        self.output.as_deref()
    }

    pub fn want(&mut self, cx: &mut Context<'_>) -> Want {
        if let State::RunProgram(_) = self.state {
            return self.want_of_exchange(cx);
        }
        if let Some(job) = self.job(cx.site) {
            return Want::Job(job);
        }
        if let Some(output) = self.output.as_mut().filter(|output| !output.is_empty()) {
            output.shown(cx.now.us);
            self.deadline.wait(Waiting::Send, cx.now.ms(), &cx.site.settings);
            return Want::Send;
        }
        let waiting = match &self.state {
            State::ReadRequest if self.input.is_empty() && cx.draining => {
                self.state = State::Closed;
                return Want::Close;
            }
            // A client that connects and says nothing is not an idle one: its first head is due.
            State::ReadRequest if self.input.is_empty() && !self.deadline.is_for(Waiting::Head) => {
                Waiting::Idle
            }
            State::ReadRequest => Waiting::Head,
            State::DropBody(_) => Waiting::Body,
            // The kernel goes on without the server.
            State::Lingering { why: Why::Unflushed, .. } if cx.draining => {
                self.state = State::Closed;
                return Want::Close;
            }
            State::Lingering { .. } => Waiting::Linger,
            State::BodyDropped
            | State::Redirected { .. }
            | State::FindFile(_)
            | State::SendBody(_)
            | State::RunProgram(_) => {
                self.deadline.wait(Waiting::Completion, cx.now.ms(), &cx.site.settings);
                return Want::Completion;
            }
            State::Closing { linger } if *linger || self.deadline.may_have_to_flush() => {
                let why = if *linger { Why::Unread } else { Why::Unflushed };
                self.state = State::Lingering { bytes_left: LINGER_BYTES_MAX, why };
                return Want::ShutdownWrite;
            }
            State::HandedOver => return Want::HandOver,
            State::Closing { .. } | State::Closed => return Want::Close,
            State::CutOff => return Want::Reset,
        };
        self.deadline.wait(waiting, cx.now.ms(), &cx.site.settings);
        Want::Receive
    }

    /// The job that the state asks for, if it has not been handed out.
    fn job(&mut self, site: &Site) -> Option<Job> {
        match &mut self.state {
            // It leaves for another thread. What was answered before goes out first, and does not wait there with it.
            State::FindFile(_) if site.settings.finds_apart && self.output.is_some() => None,
            State::FindFile(finding) => finding.ask(),
            State::SendBody(sending) => sending.body.ask(),
            _ => None,
        }
    }

    pub fn received(&mut self, bytes: &[u8], cx: &mut Context<'_>) {
        match &mut self.state {
            // The common case: whole requests, answered out of the driver's own buffer.
            State::ReadRequest if self.input.is_empty() => {
                let used = self.read_requests(bytes, cx);
                let rest = &bytes[used..];
                match self.state {
                    State::DropBody(_) => {
                        self.drop_bytes(rest, cx);
                        self.resume(cx);
                    }
                    _ if rest.is_empty() || !self.goes_on() => {}
                    State::RunProgram(_) => {
                        self.keep(rest, cx);
                        self.feed(cx);
                    }
                    _ => self.keep(rest, cx),
                }
            }
            State::DropBody(_) => {
                self.drop_bytes(bytes, cx);
                self.resume(cx);
            }
            State::ReadRequest => {
                let seen = self.input.len();
                self.input.extend_from_slice(bytes);
                if head::may_progress(&self.input, seen, &cx.site.settings.head) {
                    self.resume(cx);
                }
            }
            State::Lingering { bytes_left, .. } => {
                *bytes_left = bytes_left.saturating_sub(bytes.len());
                if *bytes_left == 0 {
                    self.state = State::Closed;
                }
            }
            State::Closing { .. } | State::HandedOver | State::Closed | State::CutOff => {}
            State::RunProgram(_) => {
                self.input.extend_from_slice(bytes);
                self.feed(cx);
            }
            _ => {
                self.input.extend_from_slice(bytes);
                self.resume(cx);
            }
        }
    }

    /// The client will send no more. What it has asked for it still gets.
    pub fn received_end(&mut self, cx: &mut Context<'_>) {
        match &mut self.state {
            State::RunProgram(exchange) => {
                if !exchange.client_ended(&self.input) {
                    self.abort(cx);
                }
            }
            State::ReadRequest | State::DropBody(_) | State::Lingering { .. } => self.state = State::Closed,
            State::BodyDropped
            | State::Redirected { .. }
            | State::FindFile(_)
            | State::SendBody(_)
            | State::HandedOver
            | State::Closing { .. }
            | State::Closed
            | State::CutOff => {}
        }
    }

    /// The socket took so many bytes of the output.
    pub fn sent(&mut self, bytes: u64, cx: &mut Context<'_>) {
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
    pub fn send_blocked(&mut self) -> bool {
        match (&mut self.state, &mut self.output) {
            (State::RunProgram(exchange), _) => {
                exchange.client_blocked(Way::Out);
                return true;
            }
            (State::SendBody(sending), Some(output)) => {
                if let Some(range) = output.take_back_window() {
                    sending.body.put_back(range);
                }
            }
            _ => {}
        }
        false
    }

    /// The client has sent nothing more as yet. Returns whether something else may be wanted meanwhile.
    pub fn receive_blocked(&mut self) -> bool {
        match &mut self.state {
            State::RunProgram(exchange) => {
                exchange.client_blocked(Way::In);
                true
            }
            _ => false,
        }
    }

    fn drained(&mut self, cx: &mut Context<'_>) {
        if let State::RunProgram(_) = self.state {
            return self.leave_exchange(cx);
        }
        if let (State::SendBody(sending), Some(output)) = (&mut self.state, &mut self.output) {
            if sending.body.phase == Phase::Asked {
                return;
            }
            let more = sending.body.next(output);
            if more || !output.is_empty() {
                return;
            }
            if let Some(unfinished) = sending.record.take() {
                cx.tally.records.push(unfinished.finish(output.response_bytes_sent(), cx.now.us));
            }
            self.state = after(sending.connection);
        }
        if let Some(output) = self.output.take() {
            cx.spare.give_back_output(output);
        }
        self.resume(cx);
    }

    pub fn completed(&mut self, Outcome { done, spent }: Outcome, cx: &mut Context<'_>) {
        let stands_still = matches!(&self.state, State::FindFile(finding) if finding.stands_still(&done));
        self.deadline.job_ended(stands_still);
        match &mut self.state {
            State::FindFile(finding) if matches!(finding.lookup, Lookup::Asked) => {
                finding.take(done, spent, cx.now.ms(), cx.site.settings.revalidate_ms);
                self.resume(cx);
            }
            State::SendBody(sending) if sending.body.phase == Phase::Asked => {
                if let Some(record) = &mut sending.record {
                    record.spend(spent);
                }
                let output = self.output.get_or_insert_with(|| cx.spare.output());
                if sending.body.take(done, output).is_err() {
                    self.abort(cx);
                } else if output.is_empty() && sending.body.phase == Phase::Ready {
                    self.drained(cx);
                }
            }
            State::RunProgram(exchange) if exchange.awaits_job() => self.body_moved(done, cx),
            // Too late: the deadline has answered in its place.
            _ => {}
        }
    }

    /// Whether bytes behind the current request are worth keeping.
    fn goes_on(&self) -> bool {
        !matches!(self.state, State::Closing { .. } | State::Lingering { .. } | State::Closed | State::CutOff)
    }

    /// Bytes of a request that cannot be answered yet.
    fn keep(&mut self, bytes: &[u8], cx: &mut Context<'_>) {
        if self.input.capacity() == 0 {
            self.input = cx.spare.input();
        }
        self.input.extend_from_slice(bytes);
    }

    /// These bytes have come while a body is dropped: of them only what stands behind it is kept, behind its request's
    /// head.
    fn drop_bytes(&mut self, bytes: &[u8], cx: &mut Context<'_>) {
        let State::DropBody(body) = &mut self.state else { return };
        match body.drop_from(bytes, &cx.site.settings) {
            Dropped::Some => self.deadline.progressed(bytes.len() as u64),
            Dropped::Refused(reject) => {
                let head = body.take_head();
                self.refuse(reject, &head, cx);
            }
            Dropped::All(used) => {
                if let State::DropBody(body) = std::mem::replace(&mut self.state, State::BodyDropped) {
                    self.keep(body.head(), cx);
                    self.keep(&bytes[used..], cx);
                }
            }
        }
    }

    /// Goes on with what is in `input`.
    fn resume(&mut self, cx: &mut Context<'_>) {
        while !self.input.is_empty() {
            if let State::RunProgram(_) = self.state {
                return self.feed(cx);
            }
            let mut input = std::mem::take(&mut self.input);
            if let State::DropBody(_) = self.state {
                self.drop_bytes(&input, cx);
                cx.spare.give_back_input(input);
                continue;
            }
            let used = self.read_requests(&input, cx);
            if used == input.len() || !self.goes_on() {
                return cx.spare.give_back_input(input);
            }
            input.drain(..used);
            self.input = input;
            if !matches!(self.state, State::DropBody(_) | State::RunProgram(_)) {
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
        if let State::Closing { linger } = &mut self.state {
            *linger |= used < input.len();
        }
        used
    }

    fn takes_requests(&self) -> bool {
        match &self.state {
            State::ReadRequest => !self.output.as_ref().is_some_and(|output| output.is_full()),
            State::BodyDropped | State::Redirected { .. } => true,
            State::FindFile(finding) => finding.is_over(),
            _ => false,
        }
    }
}

fn after(connection: header::Connection) -> State {
    if connection.stays_open() { State::ReadRequest } else { State::Closing { linger: false } }
}

#[cfg(test)]
mod tests;
