//! A client that speaks HTTP/2, and a driver for its connection. Many jobs and programs are under way at a time.

use std::collections::BTreeMap;
use std::io::IoSlice;

use flash_h2::frame::{FrameHeader, HEADER_BYTES, PREFACE, flag, kind};
use flash_h2::hpack::decoder::Decoder;
use flash_h2::hpack::encoder;

use crate::connection::Connection;
use crate::connection::context::Context;
use crate::connection::output::Front;
use crate::connection::want::{Direction, Want};
use crate::exchange::id::ExchangeId;
use crate::job::{Done, Job};
use crate::testing::{Client, Jobs, Program, Waits, World};
use crate::upstream::{Open, Opened};

/// What has come on a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    pub(crate) trailers: Vec<(String, String)>,
    pub(crate) has_ended: bool,
    /// The code of a reset.
    pub(crate) reset: Option<u32>,
    /// Statuses of interim responses.
    pub(crate) interim: Vec<String>,
}

pub(crate) struct H2Client {
    client: Client,
    decoder: Decoder,
    /// How much of what has come has been taken apart.
    seen: usize,
    pub(crate) answers: BTreeMap<u32, Answer>,
    /// Streams in the order of their frames.
    pub(crate) order: Vec<u32>,
    /// Codes, and the last streams.
    pub(crate) goaways: Vec<(u32, u32)>,
    pub(crate) pings: Vec<Vec<u8>>,
    pub(crate) jobs: Vec<(ExchangeId, Job)>,
    pub(crate) opens: Vec<(ExchangeId, Open)>,
    pub(crate) programs: Vec<Program>,
    /// How many bytes the wire takes before it blocks.
    pub(crate) room: usize,
    /// By how much the server has opened the window of each stream, and the client those of its own.
    updates: BTreeMap<u32, usize>,
    /// How much of bodies the client has sent on each stream, and on all of them.
    uploaded: BTreeMap<u32, usize>,
    granted: BTreeMap<u32, u64>,
}

/// RFC 9113 §6.9.2.
const INITIAL_WINDOW: usize = 65_535;
/// The client's DATA frames have no more.
const DATA_BYTES: usize = 16_000;

pub(crate) fn raw(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let header = FrameHeader { length: payload.len() as u32, kind, flags, stream };
    [&header.to_bytes()[..], payload].concat()
}

impl Answer {
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(other, _)| other == name).map(|(_, value)| &**value)
    }

    pub(crate) fn status(&self) -> &str {
        self.field(":status").unwrap_or("none")
    }
}

impl H2Client {
    /// The server ends the connection at once.
    pub(crate) fn abort(&mut self, world: &mut World) {
        world.with(&mut self.client, |connection, cx| connection.abort(cx));
    }

    /// A client that has sent its preface and settings, with this initial window.
    pub(crate) fn connect(world: &mut World, window: u32) -> Self {
        let mut client = Self {
            client: world.connect(),
            decoder: Decoder::new(4096),
            seen: 0,
            answers: BTreeMap::new(),
            order: Vec::new(),
            goaways: Vec::new(),
            pings: Vec::new(),
            jobs: Vec::new(),
            opens: Vec::new(),
            programs: Vec::new(),
            room: usize::MAX,
            updates: BTreeMap::new(),
            uploaded: BTreeMap::new(),
            granted: BTreeMap::new(),
        };
        let settings = [&[0, 4][..], &window.to_be_bytes()].concat();
        client.send(world, &[&PREFACE[..], &raw(kind::SETTINGS, 0, 0, &settings)].concat());
        client
    }

    pub(crate) fn request(
        stream: u32,
        method: &str,
        path: &str,
        fields: &[(&str, &str)],
        flags: u8,
    ) -> Vec<u8> {
        let mut block = Vec::new();
        let pseudo = [(":method", method), (":scheme", "http"), (":path", path), (":authority", "a")];
        for (name, value) in pseudo.iter().chain(fields) {
            encoder::indexed(&mut block, name.as_bytes(), value.as_bytes());
        }
        raw(kind::HEADERS, flags | flag::END_HEADERS, stream, &block)
    }

    pub(crate) fn get(&mut self, world: &mut World, stream: u32, path: &str) -> Waits {
        self.send(world, &Self::request(stream, "GET", path, &[], flag::END_STREAM))
    }

    pub(crate) fn trailers(stream: u32, fields: &[(&str, &str)]) -> Vec<u8> {
        let mut block = Vec::new();
        fields
            .iter()
            .for_each(|(name, value)| encoder::indexed(&mut block, name.as_bytes(), value.as_bytes()));
        raw(kind::HEADERS, flag::END_STREAM | flag::END_HEADERS, stream, &block)
    }

    pub(crate) fn data(stream: u32, bytes: &[u8], flags: u8) -> Vec<u8> {
        raw(kind::DATA, flags, stream, bytes)
    }

    pub(crate) fn window(stream: u32, increment: u32) -> Vec<u8> {
        raw(kind::WINDOW_UPDATE, 0, stream, &increment.to_be_bytes())
    }

    pub(crate) fn connection(&self) -> &Connection {
        &self.client.connection
    }

    /// The answer on a stream, which has to be whole.
    #[track_caller]
    pub(crate) fn answer(&self, stream: u32) -> &Answer {
        let answer = &self.answers[&stream];
        assert!(
            answer.has_ended && answer.reset.is_none(),
            "{stream}: {:?} {:?}",
            answer.fields,
            answer.reset
        );
        answer
    }

    pub(crate) fn with<T>(
        &mut self,
        world: &mut World,
        what: impl FnOnce(&mut Connection, &mut Context<'_>) -> T,
    ) -> T {
        let World { server, now, local, buffers, tally, ids, drain, .. } = world;
        let local = local.as_mut();
        let cx = &mut Context { server, now, local, buffers, tally, ids, drain: *drain };
        let result = what(&mut self.client.connection, cx);
        for release in tally.released.drain(..) {
            let program = self.programs.iter_mut().find(|program| program.exchange == release.exchange);
            release.finish(program.and_then(|program| program.stream.take()));
        }
        result
    }

    /// Bytes arrive, in one piece.
    pub(crate) fn send(&mut self, world: &mut World, bytes: &[u8]) -> Waits {
        self.with(world, |connection, cx| {
            connection.client_ready();
            connection.received(bytes, cx);
        });
        self.turn(world)
    }

    pub(crate) fn end(&mut self, world: &mut World) -> Waits {
        self.with(world, |connection, cx| connection.received_end(cx));
        self.turn(world)
    }

    /// The wire takes this many bytes more.
    pub(crate) fn make_room(&mut self, world: &mut World, bytes: usize) -> Waits {
        self.room = self.room.saturating_add(bytes);
        self.client.connection.client_ready();
        self.turn(world)
    }

    /// Time passes, and then the deadline is looked at.
    pub(crate) fn pass_ms(&mut self, world: &mut World, ms: u64) -> Waits {
        let later = world.now.us + ms * 1000;
        world.now.advance(later);
        world.disk.forget_vouched();
        self.with(world, |connection, cx| connection.expire(cx, || 0));
        self.turn(world)
    }

    /// Does the job at this place of the list.
    pub(crate) fn complete(&mut self, world: &mut World, place: usize) -> Waits {
        let (id, job) = self.jobs.swap_remove(place);
        let done = world.disk.help(&job);
        world.server.cache_result(&job, &done);
        self.finish(world, id, done)
    }

    pub(crate) fn finish(&mut self, world: &mut World, id: ExchangeId, done: Done) -> Waits {
        self.with(world, |connection, cx| connection.completed(id, done.into(), cx));
        self.turn(world)
    }

    /// The program acts, and the driver reads what it wrote.
    pub(crate) fn hear(&mut self, world: &mut World, stream: u32, what: impl FnOnce(&mut Program)) -> Waits {
        let id = ExchangeId::of_stream(stream);
        what(self.programs.iter_mut().find(|program| program.exchange == id).expect("it runs"));
        self.client.connection.upstream_ready(id);
        self.turn(world)
    }

    fn program(&mut self, id: ExchangeId) -> &mut Program {
        let runs = |program: &&mut Program| program.exchange == id && program.stream.is_some();
        self.programs.iter_mut().find(runs).expect("a program runs")
    }

    /// Performs wants until there is one to wait for.
    pub(crate) fn turn(&mut self, world: &mut World) -> Waits {
        let waits = self.perform(world);
        world.disk.forget_vouched();
        self.take_apart();
        waits
    }

    #[expect(clippy::too_many_lines, reason = "a table of the wants")]
    fn perform(&mut self, world: &mut World) -> Waits {
        for _ in 0..1_000_000 {
            match self.with(world, |connection, cx| connection.want(cx)) {
                Want::Receive => {
                    if !self.client.connection.receive_blocked() {
                        return Waits::ForBytes;
                    }
                }
                Want::Send => {
                    if !self.take(world) && !self.client.connection.send_blocked() {
                        return Waits::ForRoom;
                    }
                }
                Want::Job(id, job) => {
                    let done = match world.jobs {
                        Jobs::Later => None,
                        Jobs::AtOnceOrLater => world.disk.try_now(&job),
                        Jobs::AtOnce => world.disk.try_now(&job).or_else(|| Some(world.disk.help(&job))),
                    };
                    match done {
                        None => self.jobs.push((id, job)),
                        Some(done) => {
                            world.server.cache_result(&job, &done);
                            world.now.advance(world.now.us + world.busy_ms * 1000);
                            self.with(world, |connection, cx| connection.completed(id, done.into(), cx));
                            world.was_busy(&mut self.client);
                        }
                    }
                }
                Want::CheckLogin(id) => {
                    let check = self.client.connection.check(id).expect("it wants a check");
                    let checked = Done::Checked(check.run(world.now.ms()));
                    self.with(world, |connection, cx| connection.completed(id, checked.into(), cx));
                }
                Want::OpenUpstream(id) => self.open(world, id),
                Want::SendUpstream(id) => {
                    let bytes = self.client.connection.to_upstream(id).to_vec();
                    let program = self.program(id);
                    let count = program.take(&bytes);
                    match program.deaf {
                        true => self.with(world, |connection, cx| connection.upstream_refuses(id, cx)),
                        false if count == 0 => {
                            self.with(world, |connection, cx| {
                                connection.upstream_blocked(id, Direction::Out, cx)
                            });
                        }
                        false => self.with(world, |connection, cx| connection.upstream_sent(id, count, cx)),
                    }
                }
                Want::ReceiveUpstream(id) => {
                    let program = self.program(id);
                    match (program.says.pop_front(), program.ended) {
                        (Some(mut bytes), _) => {
                            let most = self.client.connection.piece_bytes(id).expect("it runs");
                            let rest = bytes.split_off(most.min(bytes.len()));
                            if !rest.is_empty() {
                                self.program(id).says.push_front(rest);
                            }
                            self.with(world, |connection, cx| connection.upstream_received(id, &bytes, cx));
                        }
                        (None, true) => self.with(world, |connection, cx| connection.upstream_ended(id, cx)),
                        (None, false) => self
                            .with(world, |connection, cx| connection.upstream_blocked(id, Direction::In, cx)),
                    }
                }
                Want::ShutdownUpstream(id) => {
                    self.program(id).told_end = true;
                    self.client.connection.upstream_shut(id);
                }
                Want::WaitIo(interest) => return Waits::ForProgram(interest),
                Want::Pause => panic!("a stream waits for its rate, and others go on"),
                Want::WaitJob => return Waits::ForJob,
                Want::ShutdownWrite => self.client.write_is_shut = true,
                Want::Detach => panic!("a program never gets a socket that many responses share"),
                Want::Close => return Waits::Closed,
                Want::Reset => {
                    self.client.is_reset = true;
                    return Waits::Closed;
                }
            }
        }
        panic!("the connection never comes to rest: {:?}", self.client.connection);
    }

    /// By how much the server has opened a stream's window.
    pub(crate) fn updates(&self, stream: u32) -> usize {
        self.updates.get(&stream).copied().unwrap_or_default()
    }

    /// How much the server's windows let the client send on a stream.
    pub(crate) fn upload_room(&self, stream: u32) -> usize {
        let room_of = |id| INITIAL_WINDOW + self.updates(id) - self.uploaded.get(&id).copied().unwrap_or(0);
        room_of(stream).min(room_of(0))
    }

    /// Sends at most so many bytes of the rest of a body, as far as the windows allow. Returns how many. The last byte ends
    /// the stream.
    pub(crate) fn upload(&mut self, world: &mut World, stream: u32, rest: &[u8], most: usize) -> usize {
        let mut sent = 0;
        while sent < rest.len().min(most) && self.upload_room(stream) > 0 {
            let count = (rest.len().min(most) - sent).min(self.upload_room(stream)).min(DATA_BYTES);
            let flags = if sent + count == rest.len() { flag::END_STREAM } else { 0 };
            for id in [0, stream] {
                *self.uploaded.entry(id).or_default() += count;
            }
            self.send(world, &Self::data(stream, &rest[sent..sent + count], flags));
            sent += count;
        }
        sent
    }

    /// By how much the client has opened a window.
    pub(crate) fn granted(&self, stream: u32) -> u64 {
        self.granted.get(&stream).copied().unwrap_or_default()
    }

    pub(crate) fn grant(&mut self, world: &mut World, stream: u32, increment: u32) -> Waits {
        *self.granted.entry(stream).or_default() += u64::from(increment);
        self.send(world, &Self::window(stream, increment))
    }

    /// What the connection keeps for its client.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.client.connection.output().map_or(0, |output| output.waiting_bytes())
    }

    pub(crate) fn is_reset(&self) -> bool {
        self.client.is_reset
    }

    fn open(&mut self, world: &mut World, id: ExchangeId) {
        let local = "127.0.0.1:80".parse().expect("it is an address");
        let Some(open) = self.with(world, |connection, cx| connection.begin(id, Some(local), cx)) else {
            return;
        };
        match world.manner.clone() {
            None => self.opens.push((id, open)),
            Some(manner) => {
                let (program, backend) = Program::new(id, open, manner);
                self.programs.push(program);
                let taken =
                    self.with(world, |connection, cx| connection.begun(id, Opened::Running((), backend), cx));
                assert!(taken, "it was wanted a moment ago");
            }
        }
    }

    /// Shows the output to the wire. `false` if it takes nothing.
    fn take(&mut self, world: &mut World) -> bool {
        let output = self.client.connection.output().expect("there is an output");
        let mut slices = [IoSlice::new(&[]); 6];
        let before = self.client.got.len();
        match output.front(&mut slices) {
            Front::Nothing => panic!("sending is wanted, and there is nothing to send"),
            Front::Slices { count, .. } => {
                let mut room = self.room;
                for slice in &slices[..count] {
                    let taken = slice.len().min(room);
                    self.client.got.extend_from_slice(&slice[..taken]);
                    room -= taken;
                }
            }
            Front::File(file, range) if self.room > 0 => {
                let end = range.end.min(range.start.saturating_add(self.room as u64));
                self.client.got.extend_from_slice(world.disk.vouched_bytes(file, range.start..end));
            }
            Front::File(..) => {}
        }
        let sent = self.client.got.len() - before;
        if self.room != usize::MAX {
            self.room -= sent;
        }
        if sent > 0 {
            self.with(world, |connection, cx| connection.sent(sent as u64, cx));
        }
        sent > 0
    }

    /// Takes the frames apart that have come whole.
    fn take_apart(&mut self) {
        while let Some((header, rest)) = self.client.got[self.seen..].split_first_chunk::<HEADER_BYTES>() {
            let header = FrameHeader::of(header);
            let Some(payload) = rest.get(..header.length as usize) else { return };
            self.seen += HEADER_BYTES + payload.len();
            let code =
                |at: usize| u32::from_be_bytes(payload[at..at + 4].try_into().expect("it is a number"));
            let answer = self.answers.entry(header.stream).or_default();
            match header.kind {
                kind::HEADERS => {
                    assert!(header.has(flag::END_HEADERS) && !answer.has_ended);
                    let mut fields = Vec::new();
                    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("it is text");
                    let take = |name: &[u8], value: &[u8]| fields.push((text(name), text(value)));
                    self.decoder.decode(payload, &mut Vec::new(), take).expect("it is HPACK");
                    match fields[0].1.starts_with('1') {
                        true => answer.interim.push(fields[0].1.clone()),
                        false if answer.fields.is_empty() => answer.fields = fields,
                        false => {
                            assert!(header.has(flag::END_STREAM), "a second head on {}", header.stream);
                            answer.trailers = fields;
                        }
                    }
                    answer.has_ended |= header.has(flag::END_STREAM);
                }
                kind::DATA => {
                    assert!(!answer.has_ended && !answer.fields.is_empty() && answer.reset.is_none());
                    assert!(payload.len() <= 16_384);
                    answer.body.extend_from_slice(payload);
                    answer.has_ended |= header.has(flag::END_STREAM);
                    self.order.push(header.stream);
                }
                kind::RST_STREAM => {
                    assert!(answer.reset.is_none());
                    answer.reset = (code(0) != 0 || !answer.has_ended).then_some(code(0));
                }
                kind::GOAWAY => self.goaways.push((code(4), code(0))),
                kind::PING => self.pings.push(payload.to_vec()),
                kind::WINDOW_UPDATE => *self.updates.entry(header.stream).or_default() += code(0) as usize,
                kind::SETTINGS => {}
                other => panic!("a frame of type {other}"),
            }
        }
    }
}
