//! A driver for tests. It performs a connection's wants, one connection at a time, and stops where a loop would wait.

use std::io::IoSlice;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::Arc;

use crate::cache::PathCache;
use crate::cache::local::LocalCache;
use crate::clients::login::Check;
use crate::clock::Now;
use crate::connection::Connection;
use crate::connection::buffer_pool::BufferPool;
use crate::connection::context::{Context, Drain, Tally};
use crate::connection::output::{Front, Output};
use crate::connection::transport::TransportInfo;
use crate::connection::want::{Direction, Interest, Want};
use crate::exchange::id::ExchangeId;
use crate::job::{Done, Failure, Job, Outcome};
use crate::record::Peer;
use crate::record::log_choice::LogChoice;
use crate::record::refusal_log::RefusalLog;
use crate::server::{Server, Settings};
use crate::site::hosts::Hosts;
use crate::site::routes::Routes;
use crate::site::{Site, SiteSettings};
use crate::testing::{CACHE_LIMITS, Disk, Manner, Program, Socket};
use crate::upstream::{Open, OpenError, Opened};

/// A site on a disk, and the other state of a server's thread.
pub(crate) struct World {
    pub(crate) server: Server,
    pub(crate) disk: Disk,
    pub(crate) now: Now,
    pub(crate) local: Option<LocalCache>,
    pub(crate) buffers: BufferPool,
    pub(crate) tally: Tally,
    pub(crate) ids: crate::record::request_id::RequestIds,
    pub(crate) drain: Drain,
    pub(crate) jobs: Jobs,
    /// How long the driver is busy with a job that it does itself. Then it looks at the deadline.
    pub(crate) busy_ms: u64,
    /// What carries the bytes of the next clients.
    pub(crate) transport: TransportInfo,
    /// How programs behave. If `None`, a program starts only when the test says so.
    pub(crate) manner: Option<Manner>,
}

/// Who does the jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Jobs {
    /// The disk at once, if the job needs no waiting; otherwise when the test calls [`World::complete`].
    AtOnceOrLater,
    /// The disk, when the test says so.
    Later,
    /// The driver, which waits for each job.
    AtOnce,
}

/// One client with its connection and its end of the wire.
pub(crate) struct Client {
    pub(crate) connection: Connection,
    pub(crate) socket: Socket,
    /// The bytes that arrived over the wire.
    pub(crate) got: Vec<u8>,
    /// A job of this connection that is not done yet.
    pub(crate) pending: Option<(ExchangeId, Job)>,
    /// Jobs that took too long, and are not done yet.
    pub(crate) late: Vec<(ExchangeId, Job)>,
    /// A check of its log-in that is not done yet.
    pub(crate) check: Option<(ExchangeId, Box<dyn Check>)>,
    pub(crate) write_is_shut: bool,
    /// The server reset the connection.
    pub(crate) is_reset: bool,
    /// The client has closed its side, which the driver has not noticed yet.
    pub(crate) leaves: bool,
    /// What has to be opened, and for which exchange.
    pub(crate) begin: Option<(ExchangeId, Open)>,
    /// The program that runs for the client, or the last one that did.
    pub(crate) program: Option<Program>,
    /// Earlier programs.
    pub(crate) past: Vec<Program>,
}

/// Why the driver stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waits {
    ForBytes,
    ForRoom,
    ForJob,
    /// Waits until its client's rate allows more.
    ForRate,
    /// Waits for a program to start, or for a socket.
    ForProgram(Interest),
    Detached,
    Closed,
}

/// A client on another machine.
const PEER: Peer = Peer::Inet(SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 7), 1024)));

impl Client {
    /// Whether a program has a stream to the server.
    pub(crate) fn has_stream(&self) -> bool {
        self.program.as_ref().is_some_and(|program| program.stream.is_some())
    }

    /// The program of this exchange, which has a stream.
    #[track_caller]
    fn program_of(&mut self, id: ExchangeId) -> &mut Program {
        let program = self.program.as_mut().expect("a program runs");
        assert!(program.exchange == id && program.stream.is_some(), "another exchange's: {program:?}");
        program
    }
}

impl World {
    /// 2001-09-09 01:46:40 UTC, five seconds after the server's start. The site lists its folders.
    pub(crate) fn new(settings: Settings, disk: Disk) -> Self {
        let access_log = LogChoice { log: settings.access_log, statuses: Box::default() };
        let settings_of_site = SiteSettings { list: true, access_log, ..SiteSettings::default() };
        Self {
            server: Server {
                number: Default::default(),
                settings,
                hosts: Hosts::one(Site { settings: settings_of_site.into(), ..Site::default() }),
                paths: PathCache::new(CACHE_LIMITS).into(),
                refusals: RefusalLog::default().into(),
            },
            disk,
            now: Now::new(5_000_000, 1_000_000_000_000),
            local: Some(LocalCache::new(1 << 20)),
            buffers: BufferPool::default(),
            tally: Tally::default(),
            ids: crate::record::request_id::RequestIds::new([1, 2]),
            drain: Drain::No,
            jobs: Jobs::AtOnceOrLater,
            busy_ms: 0,
            transport: TransportInfo::plain(PEER),
            manner: None,
        }
    }

    /// The site, to be changed before the first request.
    pub(crate) fn site(&mut self) -> &mut Site {
        self.server.hosts.only_mut()
    }

    /// Its rules, as long as no connection has seen them.
    pub(crate) fn rules(&mut self) -> &mut SiteSettings {
        Arc::get_mut(&mut self.site().settings).expect("no other site has them")
    }

    /// Its routes, as long as no connection has seen them.
    pub(crate) fn routes(&mut self) -> &mut Routes {
        let routes = self.site().routes.as_mut().expect("it has routes");
        Arc::get_mut(routes).expect("no other site has them")
    }

    pub(crate) fn connect(&mut self) -> Client {
        let mut client = self.open();
        assert_eq!(self.turn(&mut client), Waits::ForBytes);
        client
    }

    /// A client whose connection has had no turn.
    pub(crate) fn open(&self) -> Client {
        Client {
            connection: Connection::new(self.transport, &self.server.settings, &self.now),
            socket: Socket::WIDE,
            got: Vec::new(),
            pending: None,
            late: Vec::new(),
            check: None,
            write_is_shut: false,
            is_reset: false,
            leaves: false,
            begin: None,
            program: None,
            past: Vec::new(),
        }
    }

    pub(crate) fn with<T>(
        &mut self,
        client: &mut Client,
        what: impl FnOnce(&mut Connection, &mut Context<'_>) -> T,
    ) -> T {
        let Self { server, now, local, buffers, tally, ids, drain, .. } = self;
        let local = local.as_mut();
        let cx = &mut Context { server, now, local, buffers, tally, ids, drain: *drain };
        let result = what(&mut client.connection, cx);
        // As drivers do, before anything else happens to the connection.
        for release in tally.released.drain(..) {
            let program = client.program.as_mut().filter(|program| program.exchange == release.exchange);
            release.finish(program.and_then(|program| program.stream.take()));
        }
        result
    }

    /// Bytes arrive, in one piece.
    pub(crate) fn receive(&mut self, client: &mut Client, bytes: &[u8]) -> Waits {
        self.with(client, |connection, cx| {
            connection.client_ready();
            connection.received(bytes, cx);
        });
        self.turn(client)
    }

    /// The client shuts its side.
    pub(crate) fn end(&mut self, client: &mut Client) -> Waits {
        client.leaves = true;
        client.connection.client_ready();
        self.turn(client)
    }

    /// The test acts on the client's program, and then the driver reads what the program wrote.
    pub(crate) fn hear(&mut self, client: &mut Client, what: impl FnOnce(&mut Program)) -> Waits {
        what(client.program.as_mut().expect("a program runs"));
        let exchange = client.program.as_ref().expect("a program runs").exchange;
        client.connection.upstream_ready(exchange);
        self.turn(client)
    }

    /// The program that was asked for starts.
    pub(crate) fn begin(&mut self, client: &mut Client, manner: Manner) -> Waits {
        let (id, begin) = client.begin.take().expect("a program is wanted");
        let (program, backend) = Program::new(id, begin, manner);
        client.past.extend(client.program.replace(program));
        let taken =
            self.with(client, |connection, cx| connection.begun(id, Opened::Running((), backend), cx));
        if let Some(program) = client.program.as_mut().filter(|_| !taken) {
            program.stream = None;
        }
        self.turn(client)
    }

    /// The program fails to start.
    pub(crate) fn refuse(&mut self, client: &mut Client, refusal: OpenError) -> Waits {
        let (id, _) = client.begin.take().expect("a program is wanted");
        self.with(client, |connection, cx| connection.begun(id, Opened::Failed(refusal), cx));
        self.turn(client)
    }

    /// Sends a new client's bytes. Returns all that comes back until only the client can continue.
    pub(crate) fn ask(&mut self, request: impl AsRef<[u8]>) -> Vec<u8> {
        let mut client = self.connect();
        self.receive(&mut client, request.as_ref());
        self.complete_all(&mut client);
        client.got
    }

    /// A new client whose bytes arrive in pieces of these sizes. Its wire takes this many bytes at a time and blocks in
    /// between; sizes repeat from the start. Jobs are done when nothing else can be done.
    pub(crate) fn exchange(&mut self, input: &[u8], pieces: &[usize], rooms: &[usize]) -> Client {
        let mut client = self.connect();
        client.socket = Socket::FULL;
        let (mut pieces, mut rooms) = (pieces.iter().cycle(), rooms.iter().cycle());
        let mut rest = input;
        let mut waits = Waits::ForBytes;
        loop {
            waits = match waits {
                Waits::ForBytes if rest.is_empty() => return client,
                Waits::ForBytes => {
                    let size = pieces.next().map_or(rest.len(), |size| rest.len().min(*size));
                    let (piece, after) = rest.split_at(size);
                    rest = after;
                    self.receive(&mut client, piece)
                }
                Waits::ForRoom => self.make_room(&mut client, rooms.next().copied().unwrap_or(1 << 30)),
                Waits::ForJob => self.complete(&mut client),
                Waits::ForRate => self.pass_ms(&mut client, 10),
                Waits::ForProgram(awaited) => {
                    let lives = client.program.as_mut().is_some_and(Program::live);
                    match () {
                        () if lives => self.hear(&mut client, |_| {}),
                        () if awaited.client_out => {
                            client.connection.client_ready();
                            self.make_room(&mut client, rooms.next().copied().unwrap_or(1 << 30))
                        }
                        () if rest.is_empty() || !awaited.client_in => return client,
                        () => Waits::ForBytes,
                    }
                }
                Waits::Closed | Waits::Detached => return client,
            }
        }
    }

    /// Does the pending job of a connection.
    pub(crate) fn complete(&mut self, client: &mut Client) -> Waits {
        let (id, job) = client.pending.take().expect("a job is pending");
        let done = self.disk.help(&job);
        self.server.cache_result(&job, &done);
        self.finish(client, id, done)
    }

    /// Does a job that took too long.
    pub(crate) fn complete_late(&mut self, client: &mut Client) -> Waits {
        let (id, job) = client.late.pop().expect("a job is late");
        let done = self.disk.help(&job);
        self.finish(client, id, done)
    }

    /// Ends the pending job of a connection with this failure.
    pub(crate) fn fail(&mut self, client: &mut Client, failure: Failure) -> Waits {
        let (id, _) = client.pending.take().expect("a job is pending");
        self.finish(client, id, Done::Failed(failure))
    }

    pub(crate) fn finish(
        &mut self,
        client: &mut Client,
        id: ExchangeId,
        outcome: impl Into<Outcome>,
    ) -> Waits {
        self.with(client, |connection, cx| connection.completed(id, outcome.into(), cx));
        self.turn(client)
    }

    pub(crate) fn complete_all(&mut self, client: &mut Client) -> Waits {
        let mut waits = self.turn(client);
        while client.pending.is_some() {
            waits = self.complete(client);
        }
        waits
    }

    /// The wire takes this much more.
    pub(crate) fn make_room(&mut self, client: &mut Client, bytes: usize) -> Waits {
        client.socket.room_bytes = Some(client.socket.room_bytes.unwrap_or(0) + bytes);
        self.turn(client)
    }

    /// Time passes, and then the connection's deadline is checked.
    pub(crate) fn pass_ms(&mut self, client: &mut Client, ms: u64) -> Waits {
        let later = self.now.us + ms * 1000;
        self.now.advance(later);
        self.disk.forget_vouched();
        let unacknowledged = client.socket.unacknowledged;
        self.with(client, |connection, cx| connection.expire(cx, || unacknowledged));
        self.turn(client)
    }

    /// How long until the connection's deadline.
    pub(crate) fn left_ms(&self, client: &Client) -> u64 {
        client.connection.deadline_ms().saturating_sub(self.now.ms())
    }

    /// Performs wants until there is one to wait for.
    pub(crate) fn turn(&mut self, client: &mut Client) -> Waits {
        // A request path that wants for ever would hang the tests.
        for _ in 0..1_000_000 {
            match self.with(client, |connection, cx| connection.want(cx)) {
                Want::Receive if client.leaves => {
                    self.with(client, |connection, cx| connection.received_end(cx));
                }
                Want::Receive => {
                    if !client.connection.receive_blocked() {
                        return Waits::ForBytes;
                    }
                }
                Want::OpenUpstream(id) => {
                    let local = "127.0.0.1:80".parse().expect("it is an address");
                    let begin = self.with(client, |connection, cx| connection.begin(id, Some(local), cx));
                    client.begin = begin.map(|begin| (id, begin));
                    if let (Some(manner), true) = (self.manner.clone(), client.begin.is_some()) {
                        return self.begin(client, manner);
                    }
                }
                Want::SendUpstream(id) => self.send_upstream(client, id),
                Want::ReceiveUpstream(id) => self.receive_upstream(client, id),
                Want::ShutdownUpstream(id) => {
                    client.program_of(id).told_end = true;
                    client.connection.upstream_shut(id);
                }
                Want::Detach => return Waits::Detached,
                Want::WaitIo(awaited) => return Waits::ForProgram(awaited),
                Want::Send => {
                    if !self.send(client) && !client.connection.send_blocked() {
                        self.disk.forget_vouched();
                        return Waits::ForRoom;
                    }
                }
                Want::Job(id, job) => self.dispatch(client, id, job),
                Want::CheckLogin(id) => self.check_wanted(client, id),
                Want::Pause => return Waits::ForRate,
                Want::WaitJob if client.check.is_some() => return Waits::ForJob,
                Want::WaitJob => {
                    assert!(client.pending.is_some(), "a completion is awaited that nobody was asked for");
                    return Waits::ForJob;
                }
                Want::ShutdownWrite => client.write_is_shut = true,
                Want::Close => return Waits::Closed,
                Want::Reset => {
                    client.is_reset = true;
                    return Waits::Closed;
                }
            }
        }
        panic!("the connection never comes to rest: {:?}", client.connection);
    }

    fn dispatch(&mut self, client: &mut Client, id: ExchangeId, mut job: Job) {
        client.late.extend(client.pending.take());
        if let Job::Find(find) = &mut job
            && self.local.is_none()
        {
            let output = client.connection.output();
            assert!(output.is_none_or(Output::is_empty), "answers would wait where nobody sends them");
            match self.server.look_up(find.clone(), &mut LocalCache::new(0), &self.now) {
                Ok(entry) => {
                    let found = Done::Found(entry).into();
                    return self.with(client, |connection, cx| connection.completed(id, found, cx));
                }
                Err(missed) => *find = missed,
            }
        }
        let done = match self.jobs {
            Jobs::Later => None,
            Jobs::AtOnceOrLater => self.disk.try_now(&job),
            Jobs::AtOnce => self.disk.try_now(&job).or_else(|| Some(self.disk.help(&job))),
        };
        match done {
            None => client.pending = Some((id, job)),
            Some(done) => {
                self.server.cache_result(&job, &done);
                self.now.advance(self.now.us + self.busy_ms * 1000);
                self.with(client, |connection, cx| connection.completed(id, done.into(), cx));
                self.was_busy(client);
            }
        }
    }

    pub(crate) fn was_busy(&mut self, client: &mut Client) {
        if self.busy_ms > 0 && client.connection.deadline_ms() <= self.now.ms() {
            self.with(client, |connection, cx| connection.expire(cx, || 0));
        }
    }

    fn send_upstream(&mut self, client: &mut Client, id: ExchangeId) {
        let Client { program, connection, .. } = client;
        let program = program.as_mut().filter(|program| program.exchange == id).expect("it runs");
        let count = program.take(connection.to_upstream(id));
        match program.deaf {
            true => self.with(client, |connection, cx| connection.upstream_refuses(id, cx)),
            false if count == 0 => {
                self.with(client, |connection, cx| connection.upstream_blocked(id, Direction::Out, cx))
            }
            false => self.with(client, |connection, cx| connection.upstream_sent(id, count, cx)),
        }
    }

    fn receive_upstream(&mut self, client: &mut Client, id: ExchangeId) {
        let program = client.program_of(id);
        match (program.says.pop_front(), program.ended) {
            (Some(mut bytes), _) => {
                let most = client.connection.piece_bytes(id).expect("it runs");
                let rest = bytes.split_off(most.min(bytes.len()));
                if !rest.is_empty() {
                    client.program_of(id).says.push_front(rest);
                }
                self.with(client, |connection, cx| connection.upstream_received(id, &bytes, cx))
            }
            (None, true) => self.with(client, |connection, cx| connection.upstream_ended(id, cx)),
            (None, false) => {
                self.with(client, |connection, cx| connection.upstream_blocked(id, Direction::In, cx))
            }
        }
    }

    /// Shows the output to the wire. `false` if it takes nothing.
    fn send(&mut self, client: &mut Client) -> bool {
        let output = client.connection.output().expect("there is an output where sending is wanted");
        let most = client.socket.most();
        let mut slices = [IoSlice::new(&[]); 4];
        let before = client.got.len();
        match output.front(&mut slices) {
            Front::Nothing => panic!("sending is wanted, and there is nothing to send"),
            Front::Slices { count, .. } => {
                let mut room = most;
                for slice in &slices[..count] {
                    let taken = slice.len().min(room);
                    client.got.extend_from_slice(&slice[..taken]);
                    room -= taken;
                }
            }
            Front::File(file, range) if most > 0 => {
                let end = range.end.min(range.start.saturating_add(most as u64));
                client.got.extend_from_slice(self.disk.vouched_bytes(file, range.start..end));
            }
            Front::File(..) => {}
        }
        let sent = client.got.len() - before;
        if sent == 0 {
            return false;
        }
        client.socket.take(sent);
        self.with(client, |connection, cx| connection.sent(sent as u64, cx));
        true
    }
}
