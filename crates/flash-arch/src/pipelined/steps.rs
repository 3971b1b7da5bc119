//! The steps: what each does in a connection's turn, until another step has to go on.

use std::io;
use std::mem;
use std::ops::ControlFlow::{self, Break, Continue};
use std::sync::Arc;

use flash_core::cache::local::LocalCache;
use flash_core::job::{Done, Job, Outcome};
use flash_core::record::counters::Count;
use flash_core::upstream::Arriving;
use flash_core::{Context, ExchangeId, Interest, Want};
use flash_observe::metrics::LoopMetrics;
use flash_os::poller::{Interest as Watched, Poller, Ready};
use slab::Slab;

use crate::amped::Asymmetric;
use crate::completion_queue::CompletionQueue;
use crate::connections::socket::{self, Received, Sent};
use crate::dispatch::Dispatch;
use crate::driver::{Driver, Served, perform};
use crate::fair_queue::ClientNetwork;
use crate::login_pool::LoginPool;
use crate::pipelined::parked::{NEW, Slot, Stream};
use crate::pipelined::queue::With;
use crate::poller::registration::register;
use crate::poller::{Registered, WakeOn};
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
    pub(super) poller: &'a Poller,
    pub(super) metrics: &'a LoopMetrics,
    pub(super) completions: &'a Arc<CompletionQueue>,
}

/// One of the four steps that connections go around.
pub(super) trait Work {
    /// Whether it watches sockets.
    const SOCKETS: bool;

    /// Notes an event of a connection's socket. The connection may be at any step.
    fn notice(&mut self, _token: u64, _ready: Ready) {}

    /// The same of the streams of its upstreams.
    fn notice_streams(&mut self, _token: u64) {}

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
    /// Something has happened since the connection's last turn here. An event is told once, wherever the connection is then.
    happened: bool,
    /// The same of its upstreams' streams.
    streams_happened: bool,
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
            happened: false,
            streams_happened: false,
            readable: true,
            hung_up: false,
            gone: false,
        });
    }

    fn serve(&mut self, slot: &mut Slot, at: &At<'_>, cx: &mut Context<'_>) -> Next {
        let socket = &mut self.sockets[slot.number()];
        if mem::take(&mut socket.happened) {
            slot.connection.client_ready();
        }
        if mem::take(&mut socket.streams_happened) {
            slot.streams_ready();
        }
        if socket.gone {
            slot.connection.abort(cx);
        }
        let token = slot.token;
        for (_, id, opened) in self.opened.extract_if(.., |(of, ..)| *of == token) {
            let stream = tell_opened(&mut slot.connection, id, opened, cx);
            slot.add_stream(id, stream);
        }
        let mut reading = Reading { work: self, slot, at, cx, wants_left: WANTS_PER_TURN };
        while reading.wants_left > 0 {
            reading.wants_left -= 1;
            if let Break(next) = perform(&mut reading) {
                return next;
            }
        }
        Next::Unfinished
    }
}

/// A connection's turn in *read request*.
struct Reading<'a, 'c> {
    work: &'a mut ReadRequest,
    slot: &'a mut Slot,
    at: &'a At<'a>,
    cx: &'a mut Context<'c>,
    wants_left: usize,
}

impl Driver for Reading<'_, '_> {
    type End = Next;
    const CLOSE: Next = Next::Ends;

    fn lend<R>(&mut self, call: impl FnOnce(Served<'_, '_>) -> R) -> R {
        call(self.slot.served(self.cx))
    }

    fn receive(&mut self) -> ControlFlow<Next, bool> {
        let ReadRequest { sockets, buffer, .. } = &mut *self.work;
        let socket = &mut sockets[self.slot.number()];
        let received = match socket.readable {
            true => socket::receive(&self.slot.socket, buffer),
            false => Received::Blocked,
        };
        socket.readable = match received {
            // A short read has emptied the socket. Later bytes are a new event.
            Received::Bytes(count) => count == buffer.len() || socket.hung_up,
            received => received != Received::Blocked,
        };
        Continue(self.slot.served(self.cx).received(received, |count| &buffer[..count]))
    }

    fn send(&mut self) -> ControlFlow<Next, Option<Sent>> {
        if !self.slot.connection.is_exchanging() {
            return Break(elsewhere(Want::Send, self.slot, self.cx));
        }
        Continue(Some(self.slot.served(self.cx).send_now(Some(self.at.metrics))))
    }

    fn job(&mut self, id: ExchangeId, job: Job) -> ControlFlow<Next> {
        Break(elsewhere(Want::Job(id, job), self.slot, self.cx))
    }

    fn check_login(&mut self, id: ExchangeId) -> ControlFlow<Next> {
        let (completions, token) = (self.at.completions, self.slot.token);
        self.work.logins.check(&mut self.slot.connection, id, completions, token, self.cx);
        Continue(())
    }

    fn upstream(&mut self, id: ExchangeId, want: &Want) -> ControlFlow<Next> {
        if takes_long(want, &self.slot.connection) {
            // What it has made may be sent.
            self.wants_left = self.wants_left.min(1);
        }
        let completions = (self.at.completions, self.slot.token);
        let Slot { connection, transport, socket, streams, .. } = &mut *self.slot;
        let stream = streams.iter().find(|stream| stream.exchange == id).map(|stream| &stream.stream);
        let served = Served { connection, transport, socket, cx: self.cx };
        let opened = self.work.upstream_io.perform(want, served, stream, completions);
        self.slot.add_stream(id, opened);
        Continue(())
    }

    fn release(&mut self) {
        self.slot.release(self.at, self.cx);
    }

    fn wait(&mut self, until: WakeOn) -> ControlFlow<Next> {
        // What a registration does not know anyway is told, if that costs no call.
        let needed = match until {
            WakeOn::Received => Registered::Bytes,
            WakeOn::Writable | WakeOn::Sent => Registered::Room,
            WakeOn::Completed | WakeOn::Paced | WakeOn::NextTurn => Registered::No,
        };
        let socket = &mut self.work.sockets[self.slot.number()];
        let watched = self.slot.watch(socket, needed, self.at);
        Break(if watched.is_ok() { Next::Waits } else { Next::Ends })
    }

    fn wait_io(&mut self, interest: Interest) -> ControlFlow<Next> {
        if self.slot.register_streams(self.at).is_err() {
            return Break(Next::Ends);
        }
        self.wait(if interest.client_out { WakeOn::Writable } else { WakeOn::Received })
    }

    fn forget(&mut self) {
        let _ = self.at.poller.delete(&self.slot.socket);
    }
}

impl Slot {
    fn served<'a, 'c>(&'a mut self, cx: &'a mut Context<'c>) -> Served<'a, 'c> {
        let Self { connection, transport, socket, .. } = self;
        Served { connection, transport, socket, cx }
    }

    fn register_streams(&mut self, at: &At<'_>) -> io::Result<()> {
        for Stream { exchange, stream, registered } in &mut self.streams {
            let (bytes, room) = self.connection.interest_of(*exchange);
            let needed = if room { Registered::Room } else { Registered::Bytes };
            register(at.poller, registered, needed, stream, self.token | OF_STREAM)?;
            at.poller.rearm_wanted(stream, self.token | OF_STREAM, bytes, room)?;
        }
        Ok(())
    }

    fn watch(&self, socket: &mut Socket, needed: Registered, at: &At<'_>) -> io::Result<()> {
        register(at.poller, &mut socket.registered, needed, &self.socket, self.token)?;
        if !socket.gone {
            at.poller.rearm(&self.socket, self.token, !socket.readable, needed == Registered::Room)?;
        }
        Ok(())
    }

    /// No event of it is awaited here any more.
    pub(super) fn disarm(&self, poller: &Poller) {
        poller.disarm(&self.socket);
        self.streams.iter().for_each(|stream| poller.disarm(&stream.stream));
    }

    /// Gives the streams of finished exchanges back to their upstreams.
    pub(super) fn release(&mut self, at: &At<'_>, cx: &mut Context<'_>) {
        for release in cx.tally.released.drain(..) {
            let place = self.streams.iter().position(|stream| stream.exchange == release.exchange);
            let stream = place.map(|place| self.streams.swap_remove(place));
            if let Some(Stream { stream, registered: Registered::Bytes | Registered::Room, .. }) = &stream {
                // A stream that is not registered any more needs no deletion.
                let _ = at.poller.delete(stream);
            }
            release.finish(stream.map(|stream| stream.stream));
        }
    }
}

impl Work for ReadRequest {
    const SOCKETS: bool = true;

    fn notice(&mut self, token: u64, ready: Ready) {
        let socket = self.sockets.get_mut(token as u32 as usize);
        if let Some(socket) = socket.filter(|socket| socket.token == token) {
            socket.happened = true;
            socket.readable |= ready.may_be_read();
            socket.hung_up |= ready.has_ended();
            socket.gone |= ready.is_gone();
        }
    }

    fn notice_streams(&mut self, token: u64) {
        let socket = self.sockets.get_mut(token as u32 as usize);
        if let Some(socket) = socket.filter(|socket| socket.token == token) {
            socket.streams_happened = true;
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
    pub(super) local: LocalCache,
}

impl Work for FindFile {
    const SOCKETS: bool = false;

    fn turn(&mut self, slot: &mut Slot, with: With, at: &At<'_>, cx: &mut Context<'_>) -> Next {
        match with {
            With::Job(id, Job::Find(find)) => match cx.server.look_up(find, &mut self.local, cx.now) {
                Ok(entry) => {
                    cx.tally.counts.add(Count::CacheHits, 1);
                    Next::To(Step::SendHeader, With::Done(id, Done::Found(entry).into()))
                }
                Err(find) => {
                    cx.tally.counts.add(Count::CacheMisses, 1);
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
        match slot.served(cx).send_now(Some(at.metrics)) {
            Sent::Blocked => {}
            sent => _ = slot.served(cx).sent(Some(sent)),
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

    fn go_on(&mut self, slot: &mut Slot, at: &At<'_>, cx: &mut Context<'_>) -> Next {
        for _ in 0..WANTS_PER_TURN {
            match slot.connection.want(cx) {
                Want::Send => {
                    let sent = slot.served(cx).send_now(Some(at.metrics));
                    // A program may be heard meanwhile, which is another step's.
                    if !slot.served(cx).sent(Some(sent)) {
                        if at.watch_room(slot).is_ok() {
                            return Next::Waits;
                        }
                        slot.connection.abort(cx);
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

impl Work for SendData {
    const SOCKETS: bool = true;

    fn turn(&mut self, slot: &mut Slot, with: With, at: &At<'_>, cx: &mut Context<'_>) -> Next {
        match with {
            With::Job(id, job) => self.read(id, job, slot, at, cx),
            With::Done(id, outcome) => slot.connection.completed(id, outcome, cx),
            With::Nothing | With::Opened(..) | With::Poisoned => {}
        }
        let next = self.go_on(slot, at, cx);
        if matches!(next, Next::To(..)) {
            at.poller.disarm(&slot.socket);
        }
        next
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
        Want::WaitJob | Want::Pause => Next::Waits,
        Want::ShutdownWrite => {
            if slot.transport.shutdown(&slot.socket).is_err() {
                slot.connection.abort(cx);
            }
            Next::To(Step::ReadRequest, With::Nothing)
        }
    }
}

impl At<'_> {
    /// Watches for room to send. The registration stays while other steps have the connection.
    fn watch_room(&self, slot: &mut Slot) -> io::Result<()> {
        if !slot.registered {
            self.poller.add(&slot.socket, slot.token, Watched::ROOM.edge())?;
            slot.registered = true;
        }
        Ok(self.poller.rearm(&slot.socket, slot.token, false, true)?)
    }

    /// Does the job now, or leaves it to the step's helper.
    fn dispatch(&self, dispatch: &mut Asymmetric, id: ExchangeId, job: Job, slot: &Slot) -> Option<Outcome> {
        let client = ClientNetwork::of(slot.connection.peer());
        let outcome = dispatch.dispatch(job, slot.token, id, client, self.metrics)?;
        self.metrics.shard.spend(&outcome.spent);
        Some(outcome)
    }
}
