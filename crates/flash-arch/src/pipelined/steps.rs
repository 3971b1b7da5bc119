//! The steps: what each does in a connection's turn, until another step has to go on.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use flash_core::job::{Done, Job, Outcome};
use flash_core::upstream::{Arriving, Opened};
use flash_core::{Context, ExchangeId, Want};
use flash_observe::metrics::LoopMetrics;
use rustix::event::epoll::{self, EventFlags};
use slab::Slab;

use crate::amped::Asymmetric;
use crate::completion_queue::{Completion, CompletionQueue};
use crate::dispatch::Dispatch;
use crate::epoll_registration::register;
use crate::helpers::Client;
use crate::login_pool::LoginPool;
use crate::pipelined::parked::{NEW, Slot, Stream};
use crate::pipelined::queue::With;
use crate::poller::Registered;
use crate::socket::{self, Received, Sent};
use crate::upstream_io::{UpstreamIo, takes_long, tell_opened};

/// The steps that connections go around after they were accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    ReadRequest,
    FindFile,
    SendHeader,
    SendData,
}

/// Where a connection goes after its turn.
pub(super) enum Next {
    To(Step, With),
    /// It is parked until its socket is ready, its helper is done, or its deadline has passed.
    Waits,
    /// It could go on, but other connections wait.
    Unfinished,
    Ends,
}

/// What a stage lends to its step.
pub(super) struct At<'a> {
    pub(super) epoll: &'a OwnedFd,
    pub(super) metrics: &'a LoopMetrics,
    pub(super) completions: &'a Arc<CompletionQueue>,
}

/// One of the four steps that connections go around.
pub(super) trait Work {
    /// Whether it watches sockets.
    const SOCKETS: bool;

    /// Notes an event of a connection's socket. The connection may be at any step.
    fn notice(&mut self, _token: u64, _flags: EventFlags) {}

    fn turn(&mut self, slot: &mut Slot, with: With, at: &At<'_>, cx: &mut Context<'_>) -> Next;

    /// Keeps what has come for a connection that another step has.
    fn keep(&mut self, _token: u64, _with: With) {}

    /// Forgets a connection that its stage closes.
    fn forget(&mut self, _slot: &Slot) {}

    /// Whether no connection can come back to this step.
    fn is_over(&self) -> bool {
        true
    }
}

/// The wants of one connection that are performed in a turn.
const WANTS_PER_TURN: usize = 16;
const RECEIVE_BYTES: usize = 64 << 10;

/// A token with this bit names a connection, and means its upstream streams.
pub(super) const OF_STREAM: u64 = 1 << 31;

/// The step *read request*. Connections begin and end here, because most of the time they wait for their client. A
/// connection stays here while an upstream answers, because it waits for both.
pub(super) struct ReadRequest {
    sockets: Slab<Socket>,
    generation: u32,
    buffer: Box<[u8]>,
    upstream_io: UpstreamIo,
    /// Opened for connections that other steps have. Over HTTP/2 other requests go on while an upstream opens.
    opened: Vec<(u64, ExchangeId, Arriving)>,
    logins: Arc<LoginPool>,
}

/// The state of a connection's socket, whichever step has the connection.
#[derive(Clone, Copy)]
struct Socket {
    token: u64,
    registered: Registered,
    /// Whether a read may find bytes.
    readable: bool,
    /// The client has shut its side, so reads go on until they see the end.
    hung_up: bool,
    /// Both directions were shut while another step had the connection.
    gone: bool,
}

impl ReadRequest {
    pub(super) fn new(logins: Arc<LoginPool>) -> Self {
        let buffer = vec![0; RECEIVE_BYTES].into_boxed_slice();
        let upstream_io = UpstreamIo::default();
        Self { sockets: Slab::new(), generation: 0, buffer, upstream_io, opened: Vec::new(), logins }
    }

    fn add_connection(&mut self, slot: &mut Slot) {
        self.generation = (self.generation + 1) % u32::MAX;
        let number = self.sockets.vacant_key();
        slot.token = u64::from(self.generation) << 32 | number as u64;
        // The request may have arrived with the connection.
        self.sockets.insert(Socket {
            token: slot.token,
            registered: Registered::No,
            readable: true,
            hung_up: false,
            gone: false,
        });
    }

    fn serve(&mut self, slot: &mut Slot, at: &At<'_>, cx: &mut Context<'_>) -> Next {
        let socket = &mut self.sockets[slot.number()];
        if socket.gone {
            slot.connection.abort(cx);
        }
        let token = slot.token;
        for (_, id, opened) in self.opened.extract_if(.., |(of, ..)| *of == token) {
            let stream = tell_opened(&mut slot.connection, id, opened, cx);
            slot.add_stream(id, stream);
        }
        let mut left = WANTS_PER_TURN;
        while left > 0 {
            left -= 1;
            if slot.transport.has_step() && !slot.connection.is_over() {
                return Next::Waits;
            }
            if slot.transport.holds_back(&slot.socket, &mut slot.connection, cx) {
                let registered = socket.register(slot, Registered::Room, at);
                return if registered.is_ok() { Next::Waits } else { Next::Ends };
            }
            let want = slot.connection.want(cx);
            slot.release(at, cx);
            match want {
                Want::Receive if !socket.readable => {
                    if !slot.connection.receive_blocked() {
                        let registered = socket.register(slot, Registered::Bytes, at);
                        return if registered.is_ok() { Next::Waits } else { Next::Ends };
                    }
                }
                Want::Receive => match socket::receive(&slot.socket, &mut self.buffer) {
                    Received::Bytes(count) => {
                        // A short read has emptied the socket. Later bytes are a new event.
                        socket.readable = count == self.buffer.len() || socket.hung_up;
                        let bytes = &self.buffer[..count];
                        slot.transport.received(bytes, &slot.socket, &mut slot.connection, cx);
                    }
                    Received::Blocked => socket.readable = false,
                    Received::End => slot.connection.received_end(cx),
                    Received::Gone => slot.connection.abort(cx),
                },
                Want::Send if slot.connection.is_exchanging() => {
                    let Some(output) = slot.connection.output() else { return Next::Ends };
                    match slot.transport.send_now(&slot.socket, output, Some(at.metrics)) {
                        Sent::Bytes(count) => slot.connection.sent(count, cx),
                        Sent::Blocked => {
                            slot.connection.send_blocked();
                        }
                        Sent::Broken => slot.connection.abort(cx),
                    }
                }
                Want::CheckLogin(id) => {
                    let (completions, token) = (at.completions, slot.token);
                    self.logins.check(&mut slot.connection, id, completions, token, cx);
                }
                Want::OpenUpstream(id) => {
                    let (completions, token) = (Arc::clone(at.completions), slot.token);
                    let reply = Box::new(move |opened: Opened| {
                        completions.push(token, Completion::Opened(id, opened.into()))
                    });
                    let stream = self.upstream_io.begin(&mut slot.connection, id, &slot.socket, cx, reply);
                    slot.add_stream(id, stream);
                }
                want @ (Want::SendUpstream(id) | Want::ReceiveUpstream(id) | Want::ShutdownUpstream(id)) => {
                    if takes_long(&want, &mut slot.connection) {
                        // What it has made may be sent.
                        left = left.min(1);
                    }
                    let stream = slot.streams.iter().find(|stream| stream.exchange == id);
                    let stream = stream.map(|stream| &stream.stream);
                    self.upstream_io.perform(&want, &mut slot.connection, stream, cx);
                }
                Want::WaitIo(interest) => {
                    let has_output = interest.client_out || slot.transport.waits();
                    let client = if has_output { Registered::Room } else { Registered::Bytes };
                    let registered = socket.register(slot, client, at);
                    let registered = registered.and_then(|()| slot.register_streams(at));
                    return if registered.is_ok() { Next::Waits } else { Next::Ends };
                }
                Want::Detach => {
                    // The socket stays open in another process. This stage needs none of its events.
                    let _ = epoll::delete(at.epoll, &slot.socket);
                    return Next::Ends;
                }
                Want::Close if slot.transport.close(&slot.socket, &slot.connection) => {
                    let registered = socket.register(slot, Registered::Room, at);
                    return if registered.is_ok() { Next::Waits } else { Next::Ends };
                }
                Want::Close => return Next::Ends,
                Want::Reset => {
                    socket::reset(&slot.socket);
                    return Next::Ends;
                }
                want => return elsewhere(want, slot, cx),
            }
        }
        Next::Unfinished
    }
}

impl Socket {
    fn register(&mut self, slot: &Slot, needed: Registered, at: &At<'_>) -> io::Result<()> {
        register(at.epoll, &mut self.registered, needed, &slot.socket, slot.token)
    }
}

impl Slot {
    fn register_streams(&mut self, at: &At<'_>) -> io::Result<()> {
        for Stream { exchange, stream, registered } in &mut self.streams {
            let (_, room) = self.connection.interest_of(*exchange);
            let needed = if room { Registered::Room } else { Registered::Bytes };
            register(at.epoll, registered, needed, stream, self.token | OF_STREAM)?;
        }
        Ok(())
    }

    /// Gives the streams of finished exchanges back to their upstreams.
    pub(super) fn release(&mut self, at: &At<'_>, cx: &mut Context<'_>) {
        for release in cx.tally.released.drain(..) {
            let place = self.streams.iter().position(|stream| stream.exchange == release.exchange);
            let stream = place.map(|place| self.streams.swap_remove(place));
            if let Some(Stream { stream, registered: Registered::Bytes | Registered::Room, .. }) = &stream {
                // A stream that is not registered any more needs no deletion.
                let _ = epoll::delete(at.epoll, stream);
            }
            release.finish(stream.map(|stream| stream.stream));
        }
    }
}

impl Work for ReadRequest {
    const SOCKETS: bool = true;

    fn notice(&mut self, token: u64, flags: EventFlags) {
        let socket = self.sockets.get_mut(token as u32 as usize);
        if let Some(socket) = socket.filter(|socket| socket.token == token) {
            let ended = EventFlags::RDHUP | EventFlags::HUP;
            socket.readable |= flags.intersects(EventFlags::IN | EventFlags::ERR | ended);
            socket.hung_up |= flags.intersects(ended);
            socket.gone |= flags.intersects(EventFlags::HUP | EventFlags::ERR);
        }
    }

    fn turn(&mut self, slot: &mut Slot, with: With, at: &At<'_>, cx: &mut Context<'_>) -> Next {
        if slot.token == NEW {
            self.add_connection(slot);
        }
        if let With::Done(id, outcome) = with {
            // Of a log-in: the jobs of files are other steps'.
            slot.connection.completed(id, outcome, cx);
            return self.turn(slot, With::Nothing, at, cx);
        }
        if let With::Opened(id, opened) = with {
            self.opened.push((slot.token, id, opened));
            return self.turn(slot, With::Nothing, at, cx);
        }
        let next = match with {
            With::Poisoned => Next::Ends,
            With::Nothing | With::Job(..) | With::Done(..) | With::Opened(..) => self.serve(slot, at, cx),
        };
        if matches!(next, Next::Ends) {
            self.forget(slot);
        }
        next
    }

    fn keep(&mut self, token: u64, with: With) {
        if let With::Opened(id, opened) = with
            && self.sockets.get(token as u32 as usize).is_some_and(|socket| socket.token == token)
        {
            self.opened.push((token, id, opened));
        }
    }

    fn forget(&mut self, slot: &Slot) {
        self.sockets.remove(slot.number());
        self.opened.retain(|(token, ..)| *token != slot.token);
    }

    fn is_over(&self) -> bool {
        self.sockets.is_empty()
    }
}

/// The step *find file*: in the path cache, or by the helper that translates pathnames.
pub(super) struct FindFile {
    pub(super) dispatch: Asymmetric,
}

impl Work for FindFile {
    const SOCKETS: bool = false;

    fn turn(&mut self, slot: &mut Slot, with: With, at: &At<'_>, cx: &mut Context<'_>) -> Next {
        match with {
            With::Job(id, Job::Find(find)) => match cx.server.look_up(find, cx.local, cx.now) {
                Ok(entry) => {
                    cx.tally.cache_hits += 1;
                    Next::To(Step::SendHeader, With::Done(id, Done::Found(entry).into()))
                }
                Err(find) => {
                    cx.tally.cache_misses += 1;
                    match at.dispatch(&mut self.dispatch, id, Job::Find(find), slot) {
                        Some(outcome) => Next::To(Step::SendHeader, With::Done(id, outcome)),
                        None => elsewhere(slot.connection.want(cx), slot, cx),
                    }
                }
            },
            With::Done(id, outcome) => Next::To(Step::SendHeader, With::Done(id, outcome)),
            With::Nothing | With::Job(..) | With::Opened(..) | With::Poisoned => {
                elsewhere(slot.connection.want(cx), slot, cx)
            }
        }
    }
}

/// The step *send header*: writes the response, and sends its head with the part of the body that is in memory.
pub(super) struct SendHeader;

impl SendHeader {
    /// Tries once. The rest goes to *send data*.
    fn send(slot: &mut Slot, at: &At<'_>, cx: &mut Context<'_>) {
        let Some(output) = slot.connection.output() else { return };
        match slot.transport.send_now(&slot.socket, output, Some(at.metrics)) {
            Sent::Bytes(count) => slot.connection.sent(count, cx),
            Sent::Blocked => {}
            Sent::Broken => slot.connection.abort(cx),
        }
    }
}

impl Work for SendHeader {
    const SOCKETS: bool = false;

    fn turn(&mut self, slot: &mut Slot, with: With, at: &At<'_>, cx: &mut Context<'_>) -> Next {
        if let With::Done(id, outcome) = with {
            slot.connection.completed(id, outcome, cx);
        }
        match slot.connection.want(cx) {
            Want::Send => {
                Self::send(slot, at, cx);
                match slot.connection.want(cx) {
                    Want::Send => Next::To(Step::SendData, With::Nothing),
                    want => elsewhere(want, slot, cx),
                }
            }
            // Another step reads the first window, and the head does not wait for it.
            Want::Job(id, job @ (Job::Load(_) | Job::List(_) | Job::Spool(_))) => {
                Self::send(slot, at, cx);
                Next::To(Step::SendData, With::Job(id, job))
            }
            want => elsewhere(want, slot, cx),
        }
    }
}

/// The step *read file and send data*: window by window. This thread or the helper that reads makes each ready.
pub(super) struct SendData {
    pub(super) dispatch: Asymmetric,
}

impl SendData {
    fn read(&mut self, id: ExchangeId, job: Job, slot: &mut Slot, at: &At<'_>, cx: &mut Context<'_>) {
        if let Some(outcome) = at.dispatch(&mut self.dispatch, id, job, slot) {
            slot.connection.completed(id, outcome, cx);
        }
    }
}

impl Work for SendData {
    const SOCKETS: bool = true;

    fn turn(&mut self, slot: &mut Slot, with: With, at: &At<'_>, cx: &mut Context<'_>) -> Next {
        match with {
            With::Job(id, job) => self.read(id, job, slot, at, cx),
            With::Done(id, outcome) => slot.connection.completed(id, outcome, cx),
            With::Nothing | With::Opened(..) | With::Poisoned => {}
        }
        for _ in 0..WANTS_PER_TURN {
            match slot.connection.want(cx) {
                Want::Send => {
                    let Some(output) = slot.connection.output() else { return Next::Waits };
                    match slot.transport.send_now(&slot.socket, output, Some(at.metrics)) {
                        Sent::Bytes(count) => slot.connection.sent(count, cx),
                        // A program may be heard meanwhile, which is another step's.
                        Sent::Blocked if slot.connection.send_blocked() => {}
                        Sent::Blocked => {
                            if slot.registered {
                                return Next::Waits;
                            }
                            slot.registered = at.watch(slot, EventFlags::OUT | EventFlags::ET).is_ok();
                            if slot.registered {
                                return Next::Waits;
                            }
                            slot.connection.abort(cx);
                        }
                        Sent::Broken => slot.connection.abort(cx),
                    }
                }
                Want::Job(id, job @ (Job::Load(_) | Job::List(_) | Job::Spool(_))) => {
                    self.read(id, job, slot, at, cx)
                }
                want => return elsewhere(want, slot, cx),
            }
        }
        Next::Unfinished
    }
}

/// The step that performs this want, if the present one does not.
fn elsewhere(want: Want, slot: &mut Slot, cx: &mut Context<'_>) -> Next {
    match want {
        Want::Receive
        | Want::Close
        | Want::Reset
        | Want::CheckLogin(_)
        | Want::OpenUpstream(_)
        | Want::SendUpstream(_)
        | Want::ReceiveUpstream(_)
        | Want::ShutdownUpstream(_)
        | Want::Detach
        | Want::WaitIo(_) => Next::To(Step::ReadRequest, With::Nothing),
        Want::Send => Next::To(Step::SendHeader, With::Nothing),
        Want::Job(id, job @ Job::Find(_)) => Next::To(Step::FindFile, With::Job(id, job)),
        Want::Job(id, job) => Next::To(Step::SendData, With::Job(id, job)),
        Want::WaitJob => Next::Waits,
        Want::ShutdownWrite => {
            if slot.transport.shutdown(&slot.socket).is_err() {
                slot.connection.abort(cx);
            }
            Next::To(Step::ReadRequest, With::Nothing)
        }
    }
}

impl At<'_> {
    fn watch(&self, slot: &Slot, flags: EventFlags) -> io::Result<()> {
        Ok(epoll::add(self.epoll, &slot.socket, epoll::EventData::new_u64(slot.token), flags)?)
    }

    /// Does the job now, or leaves it to the step's helper.
    fn dispatch(&self, dispatch: &mut Asymmetric, id: ExchangeId, job: Job, slot: &Slot) -> Option<Outcome> {
        let client = Client::of(slot.connection.peer());
        let outcome = dispatch.dispatch(job, slot.token, id, client, self.metrics)?;
        self.metrics.shard.spend(&outcome.spent);
        Some(outcome)
    }
}
