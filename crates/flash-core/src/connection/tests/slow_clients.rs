//! How fast a client has to be: on average, whatever the kernels between it and the server hold.

use super::*;
use crate::clients::deadline::CREDIT_MS_MAX;
use crate::record::Peer;

const LEAST: u64 = 500;
/// More than the kernel may hold while Flash does not watch.
const FILM_BYTES: usize = 700_000;
const CLOSE: &str = "GET /large.bin HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
const STEP_MS: u64 = 250;

/// The kernels between the server and a program that reads at a steady speed. Arriving bytes are acknowledged at once. A
/// receive buffer that was full takes nothing more until the program has read all of it, as Linux does over loopback.
struct Line {
    bytes_per_second: u64,
    receive_buffer: u64,
    send_buffer: u64,
    acknowledged: u64,
    read: u64,
    is_full: bool,
}

/// How the connection ended, and after how many milliseconds.
#[derive(Debug, PartialEq, Eq)]
enum Course {
    GotAll,
    CutOff { after_ms: u64 },
}

impl Line {
    fn new(bytes_per_second: u64, receive_buffer: u64, send_buffer: u64) -> Self {
        Self { bytes_per_second, receive_buffer, send_buffer, acknowledged: 0, read: 0, is_full: false }
    }

    fn download(&mut self, end: &str) -> Course {
        let mut world = world();
        world.disk.put("/film.bin", text(FILM_BYTES));
        world.jobs = Jobs::AtOnce;
        let mut client = world.connect();
        client.socket = Socket::with_room(self.send_buffer as usize);
        world.receive(&mut client, format!("GET /film.bin HTTP/1.1\r\nHost: a\r\n{end}\r\n").as_bytes());
        let mut taken = 0;
        for after_ms in (STEP_MS..).step_by(STEP_MS as usize) {
            self.pass_ms(STEP_MS, client.got.len() as u64);
            let room = self.acknowledged - taken;
            taken = self.acknowledged;
            client.socket.unacknowledged = client.got.len() as u64 - self.acknowledged;
            // The kernel tells of room when there is a third of the buffer.
            let waits = match room {
                0 => world.pass_ms(&mut client, STEP_MS),
                _ => {
                    world.make_room(&mut client, room as usize);
                    client.socket.unacknowledged = client.got.len() as u64 - self.acknowledged;
                    world.pass_ms(&mut client, STEP_MS)
                }
            };
            if self.read > FILM_BYTES as u64 {
                return Course::GotAll;
            }
            if client.is_reset {
                assert_eq!(waits, Waits::Closed);
                return Course::CutOff { after_ms };
            }
        }
        unreachable!("it ends in one way or the other")
    }

    fn pass_ms(&mut self, ms: u64, sent: u64) {
        self.read = sent.min(self.acknowledged).min(self.read + self.bytes_per_second * ms / 1000);
        let held = self.acknowledged - self.read;
        self.is_full = if self.is_full { held > 0 } else { held == self.receive_buffer };
        if !self.is_full {
            self.acknowledged = sent.min(self.read + self.receive_buffer);
        }
    }
}

/// The buffers of the receiver and the sender. The first is what Linux makes of a buffer of 4 KiB.
const BUFFERS: [(u64, u64); 6] = [
    (4_608, 16 << 10),
    (4_608, 4 << 20),
    (64 << 10, 16 << 10),
    (64 << 10, 4 << 20),
    (256 << 10, 256 << 10),
    (256 << 10, 4 << 20),
];

#[test]
fn a_client_at_twice_the_least_speed_is_never_cut_off() {
    for end in ["", "Connection: close\r\n"] {
        for (receive_buffer, send_buffer) in BUFFERS {
            for speed in [2 * LEAST, 3_000, 20_000, 400_000] {
                let course = Line::new(speed, receive_buffer, send_buffer).download(end);
                assert_eq!(course, Course::GotAll, "{speed} B/s, {receive_buffer} and {send_buffer} bytes");
            }
        }
    }
}

/// The client gets credit for what its kernel took in advance, because Flash cannot tell that from what the client read.
#[test]
fn a_client_at_half_the_least_speed_is_cut_off_when_its_kernel_takes_no_more() {
    for end in ["", "Connection: close\r\n"] {
        for (receive_buffer, send_buffer) in BUFFERS {
            for speed in [LEAST / 2, 50, 0] {
                let course = Line::new(speed, receive_buffer, send_buffer).download(end);
                let Course::CutOff { after_ms } = course else {
                    panic!("{speed} B/s, {receive_buffer} and {send_buffer} bytes: it got all")
                };
                let ahead_ms = receive_buffer * 1000 / (LEAST - speed.min(LEAST / 2));
                assert!(
                    after_ms <= 10_000 + ahead_ms && (receive_buffer > 5_000 || after_ms <= 30_000),
                    "{speed} B/s, {receive_buffer} and {send_buffer} bytes: {after_ms} ms"
                );
            }
        }
    }
}

#[test]
fn no_credit_is_larger_than_a_quarter_of_an_hour() {
    let mut world = world();
    world.jobs = Jobs::AtOnce;
    let mut client = world.connect();
    client.socket = Socket::with_room(2 << 20);
    world.receive(&mut client, get("/large.bin").as_bytes());
    assert_eq!(world.pass_ms(&mut client, 10_000), Waits::ForRoom);
    assert_eq!(world.left_ms(&client), u64::from(CREDIT_MS_MAX));
    assert_eq!(world.pass_ms(&mut client, u64::from(CREDIT_MS_MAX)), Waits::Closed);
    assert!(client.is_reset);
}

#[test]
fn a_least_speed_of_nothing_waits_for_any_client() {
    let mut world = world_with(Settings { send_rate_min: 0, ..Settings::default() });
    world.jobs = Jobs::AtOnce;
    let mut client = world.connect();
    client.socket = Socket::FULL;
    world.receive(&mut client, get("/large.bin").as_bytes());
    for _ in 0..10 {
        assert_eq!(world.pass_ms(&mut client, 3_600_000), Waits::ForRoom);
    }
}

/// A client that has received everything cannot earn credit.
#[test]
fn time_that_the_disk_takes_is_not_the_clients() {
    let mut world = world_with(Settings { send_rate_min: 200_000, ..Settings::default() });
    world.jobs = Jobs::Later;
    let mut client = world.connect();
    client.socket = Socket::FULL;
    let mut waits = world.receive(&mut client, get("/large.bin").as_bytes());
    while waits != Waits::ForBytes {
        waits = match waits {
            Waits::ForJob => {
                assert_eq!(world.pass_ms(&mut client, 9_000), Waits::ForJob);
                world.complete(&mut client)
            }
            Waits::ForRoom => {
                assert_ne!(world.pass_ms(&mut client, 1_000), Waits::Closed);
                world.make_room(&mut client, 400_000)
            }
            other => panic!("{other:?}"),
        };
    }
    assert_eq!(reply(&client.got).body, text(LARGE_BYTES));
}

#[test]
fn what_the_socket_has_taken_is_asked_for_only_when_a_client_may_be_too_slow() {
    let mut world = world();
    let mut client = world.connect();
    let never = |world: &mut World, client: &mut Client| {
        world.with(client, |connection, cx| connection.expire(cx, || panic!("it is asked for")));
    };
    never(&mut world, &mut client);
    client.socket = Socket::with_room(3_000);
    world.receive(&mut client, get("/middle.txt").as_bytes());
    assert_eq!(world.pass_ms(&mut client, 9_999), Waits::ForRoom);
    never(&mut world, &mut client);
    client.socket = Socket::WIDE;
    assert_eq!(world.turn(&mut client), Waits::ForBytes);
    assert_eq!(world.left_ms(&client), 60_000, "little is left to the kernel");
    world.now.advance(world.now.us + 60_000_000);
    never(&mut world, &mut client);
    assert_eq!(world.turn(&mut client), Waits::Closed);
    assert!(!client.is_reset);
}

/// The kernel may hold all of a response, and delivers it for as long as the client reads.
#[test]
fn a_kept_connection_is_idle_when_its_client_has_the_response() {
    let mut world = world();
    world.jobs = Jobs::AtOnce;
    let mut client = world.connect();
    assert_eq!(world.receive(&mut client, get("/large.bin").as_bytes()), Waits::ForBytes);
    assert_eq!(world.left_ms(&client), 10_000);
    client.socket.unacknowledged = client.got.len() as u64;
    for seconds in 1..200 {
        client.socket.unacknowledged -= 1_000;
        assert_eq!(world.pass_ms(&mut client, 1_000), Waits::ForBytes, "after {seconds} s");
    }
    client.socket.unacknowledged = 0;
    let mut waited_ms = 0;
    while world.pass_ms(&mut client, 1_000) == Waits::ForBytes {
        waited_ms += 1_000;
    }
    assert!((50_000..=60_000).contains(&waited_ms), "{waited_ms}");
    assert!(!client.is_reset, "it has everything");
}

#[test]
fn a_client_that_has_taken_everything_is_closed_after_its_idle_time() {
    let mut world = world();
    world.jobs = Jobs::AtOnce;
    let mut client = world.connect();
    world.receive(&mut client, get("/large.bin").as_bytes());
    assert_eq!(world.pass_ms(&mut client, 10_000), Waits::ForBytes, "it is looked at, and has everything");
    assert_eq!(world.left_ms(&client), 50_000);
    assert_eq!(world.pass_ms(&mut client, 50_000), Waits::Closed);
    assert!(!client.is_reset);
}

#[test]
fn a_kept_connection_whose_client_takes_nothing_of_a_response_is_reset() {
    let mut world = world();
    world.jobs = Jobs::AtOnce;
    let mut client = world.connect();
    world.receive(&mut client, get("/large.bin").as_bytes());
    client.socket.unacknowledged = client.got.len() as u64;
    assert_eq!(world.pass_ms(&mut client, 9_999), Waits::ForBytes);
    assert_eq!(world.pass_ms(&mut client, 1), Waits::Closed);
    assert!(client.is_reset);
}

#[test]
fn a_connection_closes_when_its_client_has_a_large_response() {
    let mut world = world();
    world.jobs = Jobs::AtOnce;
    let mut client = world.connect();
    assert_eq!(world.receive(&mut client, CLOSE.as_bytes()), Waits::ForBytes);
    assert!(client.write_is_shut);
    client.socket.unacknowledged = 20_000;
    for _ in 0..20 {
        assert_eq!(world.pass_ms(&mut client, 1_000), Waits::ForBytes);
        client.socket.unacknowledged -= 1_000;
    }
    assert_eq!(world.pass_ms(&mut client, 2_000), Waits::Closed);
    assert!(!client.is_reset);

    let mut leaving = world.connect();
    assert_eq!(world.receive(&mut leaving, CLOSE.as_bytes()), Waits::ForBytes);
    assert_eq!(world.end(&mut leaving), Waits::Closed, "it has everything, and says so");
    assert!(!leaving.is_reset);

    let mut last = world.connect();
    assert_eq!(world.receive(&mut last, CLOSE.as_bytes()), Waits::ForBytes);
    world.drain = Drain::AtOnce;
    assert_eq!(world.turn(&mut last), Waits::Closed, "its kernel goes on without the server");
    assert!(!last.is_reset);
}

/// If the server closed with bytes unread, the kernel would drop what the client has not read.
#[test]
fn lingering_goes_on_while_the_client_takes_what_it_was_sent() {
    let mut world = world();
    let mut client = world.connect();
    let post = format!("POST /small.txt HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", 1 << 20);
    assert_eq!(world.receive(&mut client, post.as_bytes()), Waits::ForBytes);
    assert_eq!(reply(&client.got).status, 405);
    client.socket.unacknowledged = client.got.len() as u64;
    assert_eq!(world.pass_ms(&mut client, 2_000), Waits::ForBytes);
    client.socket.unacknowledged = 0;
    assert_eq!(world.pass_ms(&mut client, 2_000), Waits::Closed);
}

/// For a proxy on the same machine, the kernel counts unread bytes together with its own bookkeeping.
#[test]
fn of_a_local_client_what_its_socket_took_counts() {
    let mut world = world();
    world.jobs = Jobs::AtOnce;
    let mut client = world.connect();
    client.connection.h1_mut().set_peer(Peer::Unix);
    client.socket = Socket::with_room(20_000);
    world.receive(&mut client, get("/large.bin").as_bytes());
    client.socket.unacknowledged = 1 << 30;
    assert_eq!(world.pass_ms(&mut client, 43_000), Waits::ForRoom);
    assert_eq!(world.pass_ms(&mut client, 2_000), Waits::Closed);
}

#[test]
fn a_client_that_is_told_of_its_slowness_may_take_that_at_its_own_speed() {
    let mut world = world();
    let mut client = world.connect();
    world.receive(&mut client, b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n");
    client.socket = Socket::FULL;
    assert_eq!(world.pass_ms(&mut client, 10_000), Waits::ForRoom);
    assert_eq!(world.left_ms(&client), 10_000);
    assert_eq!(world.make_room(&mut client, 10_000), Waits::ForBytes);
    assert_eq!(reply(&client.got).status, 408);
}
