//! Laws of exchanges with programs. It changes nothing how bytes are cut on their four ways. Whatever a program does, every
//! client's connection ends, and no memory grows. The second law runs from seeds, as all simulations do.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::programs::world_of_programs;
use super::*;
use crate::cache::memory_budget::Budget;
use crate::job::Failure;
use crate::testing::{Manner, Random, body_of, each_seed, end_record, record};
use crate::upstream::{OpenError, UpstreamProtocol};

const REQUESTS: &[&str] = &[
    "GET /cgi/a?b HTTP/1.1\r\nHost: a\r\n\r\n",
    "POST /cgi/a HTTP/1.1\r\nHost: a\r\nContent-Length: 21\r\n\r\nGET / HTTP/1.1\r\nHost:",
    "POST /cgi/a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3;x\r\nabc\r\n10\r\n0123456789abcdef\r\n0\r\nT: v\r\n\r\n",
    "PUT /cgi/a HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc",
    "HEAD /cgi/a HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /small.txt HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /small.txt HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi",
    "POST /missing.php HTTP/1.1\r\nHost: a\r\n\r\n",
    "POST /a.php/info HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /large.bin HTTP/1.1\r\nHost: a\r\n\r\n",
];

const ANSWERS: &[&str] = &[
    "Content-Type: text/plain\n\nwhat it says, at some length",
    "Status: 404 Lost\r\nContent-Length: 5\r\n\r\nabcde",
    "Content-Length: 0\n\n",
    "Status: 204\n\n",
    "Location: /small.txt\n\n",
    "Location: http://b/\n\n",
    "no head at all",
    "",
];

#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    /// Status and body; chunks may be cut in any way.
    replies: Vec<(u16, Vec<u8>)>,
    told: Vec<Vec<u8>>,
    log: Vec<(String, u16)>,
}

fn outcome(input: &[u8], heads: &[usize], manner: &Manner, pieces: &[usize], rooms: &[usize]) -> Outcome {
    let mut world = world_of_programs();
    // Whatever does not fit into a little memory is stored.
    world.routes().spool = Budget::new(1 << 30);
    world.manner = Some(manner.clone());
    let mut client = world.exchange(input, pieces, rooms);
    let told = |program: crate::testing::Program| match program.manner.protocol {
        UpstreamProtocol::FastCgi => body_of(&program.told).unwrap_or_default(),
        _ => program.told,
    };
    let programs = client.past.drain(..).chain(client.program.take());
    let log = world.tally.records.iter();
    Outcome {
        replies: replies(&client.got, heads).into_iter().map(|reply| (reply.status, reply.body)).collect(),
        told: programs.map(told).collect(),
        log: log.map(|one| (String::from_utf8_lossy(&one.request_line).into_owned(), one.status)).collect(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_cut_on_any_way_gives_the_same(
        chosen in vec(select(REQUESTS), 1..5),
        answer in select(ANSWERS),
        protocol in select(&[UpstreamProtocol::Cgi, UpstreamProtocol::FastCgi][..]),
        cut in (1usize..40, 1usize..40),
        pieces in vec(1usize..60, 1..6),
        rooms in vec(1usize..5_000, 1..6),
    ) {
        let input = chosen.concat().into_bytes();
        let is_head = |(at, request): (usize, &&str)| request.starts_with("HEAD").then_some(at);
        let heads: Vec<usize> = chosen.iter().enumerate().filter_map(is_head).collect();
        let plain = Manner { protocol, used: false, room: 1 << 20, answer: Some((answer.into(), 1 << 20)) };
        let (room, piece) = cut;
        let slow = Manner { room, answer: Some((answer.into(), piece)), ..plain.clone() };
        let whole = outcome(&input, &heads, &plain, &[], &[]);
        prop_assert_eq!(outcome(&input, &heads, &slow, &pieces, &rooms), whole);
    }
}

#[test]
fn whatever_programs_do_nobody_is_left_hanging() {
    each_seed(1..20, |seed| Life::new(seed).run(3_000));
}

/// A client, and a program of any behaviour. The next client comes after this connection is over.
struct Life {
    random: Random,
    world: World,
    client: Client,
    waits: Waits,
    /// The bytes that the client has not sent yet.
    input: Vec<u8>,
    exchanges: usize,
}

impl Life {
    fn new(seed: u64) -> Self {
        let mut world = world_of_programs();
        let mut random = Random::new(seed);
        let bytes_max = *random.pick(&[0, 1 << 20, 1 << 30]);
        world.routes().spool = Budget::new(bytes_max);
        if random.chance(30) {
            let client = Some("100K/s".parse().unwrap());
            super::rates::limit(&mut world, crate::clients::Rates { client, total: None });
        }
        let client = world.connect();
        Self { random, world, client, waits: Waits::ForBytes, input: Vec::new(), exchanges: 0 }
    }

    fn run(mut self, steps: usize) {
        for _ in 0..steps {
            self.waits = self.step();
            self.check();
        }
        self.world.with(&mut self.client, |connection, cx| connection.abort(cx));
        self.end();
        assert!(self.exchanges > 0, "nothing ever ran");
        drop((self.client, self.world.server, self.world.local));
        assert_eq!(self.world.disk.open_files(), 0, "somebody still holds a file or a body");
    }

    fn step(&mut self) -> Waits {
        let (world, client, random) = (&mut self.world, &mut self.client, &mut self.random);
        if !client.late.is_empty() && random.chance(5) {
            return world.complete_late(client);
        }
        if random.chance(1) {
            let ms = random.within(1..70_000);
            return world.pass_ms(client, ms);
        }
        match self.waits {
            Waits::Closed | Waits::Detached => {
                self.end();
                Waits::ForBytes
            }
            Waits::ForBytes if random.chance(2) => world.end(client),
            Waits::ForBytes => self.speak(),
            Waits::ForRoom => world.make_room(client, random.within(1..20_000) as usize),
            Waits::ForJob if random.chance(5) => {
                world.fail(client, *random.pick(&[Failure::Overloaded, Failure::Full, Failure::Broken]))
            }
            Waits::ForJob => world.complete(client),
            Waits::ForRate => world.pass_ms(client, 10),
            // Its body is awaited before a program begins.
            Waits::ForProgram(Interest { client_in: true, .. })
                if client.begin.is_none() && !client.has_stream() =>
            {
                if random.chance(2) {
                    world.end(client)
                } else {
                    self.speak()
                }
            }
            Waits::ForProgram(_) if client.begin.is_some() => {
                let protocol =
                    *random.pick(&[UpstreamProtocol::Cgi, UpstreamProtocol::FastCgi, UpstreamProtocol::Nph]);
                let manner = Manner { protocol, used: random.chance(30), room: 0, answer: None };
                match random.within(0..10) {
                    0 => world.refuse(client, *random.pick(&[OpenError::Busy, OpenError::Broken])),
                    1 => world.end(client),
                    _ => {
                        self.exchanges += 1;
                        world.begin(client, manner)
                    }
                }
            }
            Waits::ForProgram(awaited) => match random.within(0..12) {
                0 if awaited.client_in => world.end(client),
                1..4 if awaited.client_in => self.speak(),
                4 | 5 if awaited.client_out => {
                    client.connection.client_ready();
                    world.make_room(client, random.within(1..100_000) as usize)
                }
                _ => self.behave(),
            },
        }
    }

    fn speak(&mut self) -> Waits {
        if self.input.is_empty() {
            self.input = self.random.pick(REQUESTS).as_bytes().to_vec();
            if self.random.chance(10) {
                let head = "POST /app/a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
                let chunk = [b"7530\r\n", &[b'x'; 30_000][..], b"\r\n"].concat();
                self.input = [head.as_bytes(), &chunk.repeat(5), b"0\r\n\r\n"].concat();
            } else if self.random.chance(20) {
                let head = "POST /app/a HTTP/1.1\r\nHost: a\r\nContent-Length: 200000\r\n\r\n";
                self.input = [head.as_bytes(), &[b'x'; 200_000]].concat();
            }
        }
        let most = if self.random.chance(50) { 64 << 10 } else { 30 };
        let count = self.input.len().min(self.random.within(1..most) as usize);
        let piece: Vec<u8> = self.input.drain(..count).collect();
        self.world.receive(&mut self.client, &piece)
    }

    /// The program does something, or nothing.
    fn behave(&mut self) -> Waits {
        let random = &mut self.random;
        self.world.hear(&mut self.client, |program| {
            let stdout = |bytes: &[u8]| match program.manner.protocol {
                UpstreamProtocol::FastCgi => record(6, bytes),
                _ => bytes.to_vec(),
            };
            let said = match random.within(0..12) {
                0..4 => return program.room_left += random.within(1..100_000) as usize,
                4 => return program.ended = true,
                5 => return program.deaf = true,
                6 => stdout(random.pick(ANSWERS).as_bytes()),
                7 => stdout(b"Content-Type: a/b\n\n"),
                8 => b"\x01\x09junk\0".to_vec(),
                9 => end_record(),
                _ => (0..random.within(1..40)).flat_map(|_| stdout(&[b'y'; 5_000])).collect(),
            };
            program.say(said);
        })
    }

    fn check(&self) {
        let connection = &self.client.connection;
        let told =
            self.client.program.as_ref().map_or(0, |program| connection.to_upstream(program.exchange).len());
        assert!(told <= (64 << 10) + 100_000, "the client is read ahead without end");
        assert!(
            connection.h1().input().len() <= 3 * (64 << 10),
            "{} bytes of input",
            connection.h1().input().len()
        );
        if let Some(program) = &self.client.program
            && program.fate.finish().is_some()
        {
            assert!(!self.client.has_stream(), "a stream that is not ours any more");
        }
    }

    /// The connection is over: its program has been told.
    fn end(&mut self) {
        let client = &mut self.client;
        for program in client.past.drain(..).chain(client.program.take()) {
            assert!(program.fate.finish().is_some(), "forgotten: {program:?}");
        }
        self.input.clear();
        self.client = self.world.connect();
        self.client.socket = Socket::with_room(self.random.within(0..200_000) as usize);
    }
}
