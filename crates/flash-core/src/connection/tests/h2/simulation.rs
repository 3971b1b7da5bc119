//! A connection with many streams, from a seed. Jobs end late and in any order, the socket blocks anywhere, windows open in
//! drops or never, and clients reset. Programs let uploads wait, answer early, and leave without a word. Whatever happens, each
//! stream that was not reset gets its answer. If the client falls silent, the connection ends.

use super::*;
use crate::cache::memory_budget::Budget;
use crate::connection::tests::programs::{manner, world_of_programs};
use crate::record::counters::Count;
use crate::testing::{Manner, Program, Random, STDOUT, body_of, each_seed, end_record, record};
use crate::upstream::UpstreamProtocol;

const FILES: [&str; 6] =
    ["/small.txt", "/middle.txt", "/large.bin", "/one-window.bin", "/empty.txt", "/nothing"];
const STREAMS: u32 = 60;
/// So many uploads may wait for their programs: together they hold less than the connection's window.
const WAITING_MAX: usize = 3;
const STEPS_MAX: u32 = 400_000;

#[test]
fn whatever_happens_each_stream_gets_its_answer() {
    each_seed(1..20, |seed| Life::new(seed).run_to_the_end());
}

#[test]
fn whenever_its_client_falls_silent_a_connection_ends() {
    each_seed(1..40, |seed| Life::new(seed).fall_silent());
}

#[derive(Debug)]
struct Request {
    stream: u32,
    path: &'static str,
    is_head: bool,
    /// How long its body is, and how much of that has been sent.
    body_bytes: usize,
    sent: usize,
    /// Its program does nothing before all other requests are answered.
    waits: bool,
    is_reset: bool,
    response: Response,
}

/// A program's response, as far as the program has written it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Response {
    NotBegun,
    /// The length that its head gives, and how much of that is left.
    Measured(usize, usize),
    Unmeasured,
    Complete(Option<usize>),
}

struct Life {
    seed: u64,
    random: Random,
    world: World,
    client: H2Client,
    requests: Vec<Request>,
    next: u32,
    /// Whether the client ever opens the window of the connection.
    grants: bool,
    /// Which files are asked for, and how many of a hundred requests lead to a program.
    files: &'static [&'static str],
    programs: u64,
}

impl Request {
    fn is_answered(&self, client: &H2Client) -> bool {
        let answer = client.answers.get(&self.stream);
        self.is_reset || answer.is_some_and(|answer| answer.has_ended || answer.reset.is_some())
    }

    /// The program reads, and may write a part of its response.
    fn answer(&mut self, program: &mut Program, random: &mut Random) {
        program.live();
        if matches!(self.response, Response::Complete(_)) {
            return;
        }
        let protocol = program.manner.protocol;
        let told = match protocol {
            UpstreamProtocol::FastCgi => body_of(&program.told),
            _ => Some(program.told.clone()).filter(|_| program.told_end),
        };
        match told {
            Some(told) => assert!(told == text(self.body_bytes), "{self:?}"),
            None if random.chance(95) => return,
            None => {}
        }
        let mut head = Vec::new();
        if self.response == Response::NotBegun {
            let length = random.within(0..60_000) as usize;
            (head, self.response) = match random.chance(50) {
                true => (b"A: b\n\n".to_vec(), Response::Unmeasured),
                false => {
                    (format!("Content-Length: {length}\n\n").into_bytes(), Response::Measured(length, length))
                }
            };
        }
        let most = random.within(1..30_000) as usize;
        let (bytes, response) = match self.response {
            Response::Measured(length, left) if left <= most => (left, Response::Complete(Some(length))),
            Response::Measured(length, left) => (most, Response::Measured(length, left - most)),
            _ if random.chance(30) => (most, Response::Complete(None)),
            other => (most, other),
        };
        self.response = response;
        let said = [&head[..], &vec![b'p'; bytes]].concat();
        let is_complete = matches!(response, Response::Complete(_));
        if protocol != UpstreamProtocol::FastCgi {
            program.say(said);
            program.ended = is_complete;
            return;
        }
        program.say(record(STDOUT, &said));
        match response {
            // The client has everything, so nothing is wrong with that.
            Response::Complete(Some(_)) if random.chance(50) => program.ended = true,
            Response::Complete(_) => program.say(end_record()),
            _ => {}
        }
    }
}

impl Life {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let mut world = world_of_programs();
        world.jobs = Jobs::Later;
        let bytes_max = *random.pick(&[0, 1 << 20, 1 << 30]);
        world.routes().spool = Budget::new(bytes_max);
        let protocol = *random.pick(&[UpstreamProtocol::Cgi, UpstreamProtocol::FastCgi]);
        let room = *random.pick(&[1_000, 20_000, 1 << 20]);
        world.manner = Some(Manner { room, ..manner(protocol) });
        if random.chance(30) {
            world.local = None;
        }
        let window = *random.pick(&[0, 1, 1_000, 65_535, 1 << 20]);
        let mut client = H2Client::connect(&mut world, window);
        client.room = 0;
        let (files, programs) = *random.pick(&[(&FILES[..], 40), (&FILES[..], 80), (&FILES[2..3], 0)]);
        let (requests, next, grants) = (Vec::new(), 1, true);
        Self { seed, random, world, client, requests, next, grants, files, programs }
    }

    fn step(&mut self) {
        let Self { random, world, client, requests, .. } = self;
        if random.chance(2) {
            // A driver may look at a connection without a reason.
            client.turn(world);
        }
        match random.within(0..100) {
            0..10 => self.ask(),
            10..35 => {
                let room = *random.pick(&[1, 9, 100, 5_000, 50_000, 500_000]);
                let room = random.within(0..room + 1) as usize;
                client.make_room(world, room);
            }
            35..52 => {
                let increment = *random.pick(&[1, 100, 20_000, 2_000_000]);
                let stream = match requests.is_empty() || random.chance(40) {
                    true => 0,
                    false => random.pick(requests).stream,
                };
                if (stream > 0 || self.grants) && client.granted(stream) < (1 << 30) {
                    client.grant(world, stream, increment);
                }
            }
            52..55 if !requests.is_empty() => {
                let resets = requests.iter().filter(|request| request.is_reset).count();
                let place = random.within(0..requests.len() as u64) as usize;
                let request = &mut requests[place];
                if resets < 5 && !request.is_reset {
                    request.is_reset = true;
                    client.send(world, &raw(kind::RST_STREAM, 0, request.stream, &[0, 0, 0, 8]));
                }
            }
            55..70 if !client.jobs.is_empty() => self.complete_a_job(),
            70..83 => {
                let left = |request: &&mut Request| request.sent < request.body_bytes && !request.is_reset;
                let mut uploads: Vec<&mut Request> = requests.iter_mut().filter(left).collect();
                if !uploads.is_empty() {
                    let place = random.within(0..uploads.len() as u64) as usize;
                    let request = &mut uploads[place];
                    let most = *random.pick(&[100, 20_000, 200_000]);
                    let rest = &text(request.body_bytes)[request.sent..];
                    request.sent += client.upload(world, request.stream, rest, most);
                }
            }
            83..97 => self.let_a_program_act(),
            _ => world.now.advance(world.now.us + random.within(0..20_000)),
        }
        assert!(self.client.memory_bytes() < 8 << 20);
    }

    /// One more request arrives, cut anywhere.
    fn ask(&mut self) {
        let Self { random, world, client, requests, .. } = self;
        if self.next >= 2 * STREAMS {
            return;
        }
        let is_cgi = world.manner.as_ref().is_some_and(|manner| manner.protocol == UpstreamProtocol::Cgi);
        let of_program = if is_cgi { "/cgi/a" } else { "/app/a" };
        let path = if random.chance(self.programs) { of_program } else { *random.pick(self.files) };
        let waiting = requests.iter().filter(|request| request.waits && !request.is_reset).count();
        let is_upload = path == of_program && random.chance(70);
        let waits = is_upload && waiting < WAITING_MAX && random.chance(40);
        let body_bytes = match is_upload {
            true if waits => 290_000,
            true => random.within(1..200_000) as usize,
            false => 0,
        };
        let is_head = !is_upload && random.chance(10);
        let method = if is_upload {
            "POST"
        } else if is_head {
            "HEAD"
        } else {
            "GET"
        };
        let (urgency, length) = (format!("u={}", random.within(0..8)), body_bytes.to_string());
        let mut fields = vec![("priority", &*urgency)];
        if is_upload && (waits || random.chance(80)) {
            fields.push(("content-length", &*length));
        }
        let flags = if is_upload { 0 } else { flag::END_STREAM };
        let bytes = H2Client::request(self.next, method, path, &fields, flags);
        let cut = random.within(0..bytes.len() as u64) as usize;
        client.send(world, &bytes[..cut]);
        client.send(world, &bytes[cut..]);
        let (stream, response) = (self.next, Response::NotBegun);
        requests.push(Request {
            stream,
            path,
            is_head,
            body_bytes,
            sent: 0,
            waits,
            is_reset: false,
            response,
        });
        self.next += 2;
    }

    fn complete_a_job(&mut self) {
        let Self { random, world, client, .. } = self;
        let place = random.within(0..client.jobs.len() as u64) as usize;
        if random.chance(70) {
            client.complete(world, place);
            return;
        }
        let looks = [Look::Resident, Look::ResidentUpTo(random.within(1..90_000)), Look::Copied];
        world.disk.script([*random.pick(&looks)]);
        let (id, job) = client.jobs.swap_remove(place);
        let done = world.disk.try_now(&job).unwrap_or_else(|| world.disk.help(&job));
        world.server.cache_result(&job, &done);
        client.finish(world, id, done.clone());
        // The result for a stream that is over comes once more, and changes nothing.
        if client.answers.get(&id.stream()).is_some_and(|answer| answer.has_ended) {
            client.finish(world, id, done);
        }
    }

    fn let_a_program_act(&mut self) {
        let Self { random, world, client, requests, .. } = self;
        let runs = |program: &&Program| program.stream.is_some();
        let running: Vec<u32> =
            client.programs.iter().filter(runs).map(|program| program.exchange.stream()).collect();
        if running.is_empty() {
            return;
        }
        let stream = *random.pick(&running);
        let others_are_answered = self.next >= 2 * STREAMS
            && requests.iter().all(|request| request.waits || request.is_answered(client));
        let Some(request) = requests.iter_mut().find(|request| request.stream == stream) else { return };
        if !request.waits || others_are_answered {
            client.hear(world, stream, |program| request.answer(program, random));
        }
    }

    fn run_to_the_end(mut self) {
        for step in 0.. {
            if self.next >= 2 * STREAMS && self.client.connection().is_idle() {
                break;
            }
            let left = || self.requests.iter().filter(|request| !request.is_answered(&self.client));
            assert!(step < STEPS_MAX, "seed {} never ends: {:?}", self.seed, left().collect::<Vec<_>>());
            self.step();
        }
        let (seed, client) = (self.seed, &self.client);
        for request in self.requests.iter().filter(|request| !request.is_reset) {
            let answer = client.answer(request.stream);
            let path = request.path;
            let status = if path == "/nothing" { "404" } else { "200" };
            assert_eq!(answer.status(), status, "seed {seed}: {request:?}");
            let expected: Option<&[u8]> = match path {
                _ if request.is_head => Some(b""),
                "/small.txt" => Some(text(100)),
                "/middle.txt" => Some(text(6_000)),
                "/large.bin" => Some(&TEXT),
                "/one-window.bin" => Some(text(10_000)),
                "/empty.txt" => Some(b""),
                _ => None,
            };
            if let Some(expected) = expected {
                let differs = answer.body.iter().zip(expected).position(|(got, expected)| got != expected);
                assert_eq!((differs, answer.body.len()), (None, expected.len()), "seed {seed}: {request:?}");
            } else if let Response::Complete(length) = request.response {
                let is_whole = length.is_none_or(|length| length == answer.body.len());
                assert!(is_whole && answer.body.iter().all(|&byte| byte == b'p'), "seed {seed}: {request:?}");
            }
        }
        let resets = self.requests.iter().filter(|request| request.is_reset).count();
        let ended = self.world.tally.records.iter().filter(|record| !record.cut).count();
        assert!(ended + resets >= STREAMS as usize, "each has its record");
        self.leave_nothing();
    }

    /// At some time the client sends nothing more, reads nothing more, and opens no window. Or it leaves. Its programs are silent.
    fn fall_silent(mut self) {
        self.grants = self.random.chance(50);
        let (steps, jobs_end) = (self.random.within(0..3_000), self.random.chance(50));
        for _ in 0..steps {
            self.step();
        }
        if self.random.chance(50) {
            // Its kernel takes everything.
            self.client.make_room(&mut self.world, usize::MAX);
        }
        if self.random.chance(30) && self.client.end(&mut self.world) == Waits::Closed {
            return self.leave_nothing();
        }
        let began_ms = self.world.now.ms();
        loop {
            let now_ms = self.world.now.ms();
            let due_ms = self.client.connection().deadline_ms();
            assert!(
                due_ms < began_ms + 3_600_000,
                "seed {} waits for ever: {:?}",
                self.seed,
                self.client.connection()
            );
            if self.client.pass_ms(&mut self.world, due_ms.saturating_sub(now_ms).max(1)) == Waits::Closed {
                break;
            }
            while jobs_end && !self.client.jobs.is_empty() {
                self.complete_a_job();
            }
        }
        assert!(self.client.programs.iter().all(|program| program.stream.is_none()), "seed {}", self.seed);
        self.leave_nothing();
    }

    fn leave_nothing(mut self) {
        self.client.abort(&mut self.world);
        let Self { client, world: World { server, local, disk, tally, .. }, .. } = self;
        let over = tally.counts.get(Count::Abandoned) + tally.ended.len() as u64;
        assert_eq!(tally.counts.get(Count::Begun), over, "seed {}: each request is over", self.seed);
        let of = |record: &Record| (record.status, record.cut, record.body_bytes, record.duration_us);
        let recorded: Vec<_> = tally.records.iter().map(of).collect();
        let counted: Vec<_> =
            tally.ended.iter().map(|end| (end.status, end.cut, end.body_bytes, end.duration_us)).collect();
        assert_eq!(counted, recorded, "seed {}: each response is counted once, as it is logged", self.seed);
        drop((client, server, local));
        assert_eq!(disk.open_files(), 0, "seed {}: something still holds a file", self.seed);
    }
}
