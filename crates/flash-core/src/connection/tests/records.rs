//! The records for the access log: one for each exchange, in order, with the number of body bytes sent.

use super::*;
use crate::job::Outcome;
use crate::record::counters::Count;

/// The request's path, the status, and the body's bytes.
fn log(world: &World) -> Vec<(String, u16, u64)> {
    let entry = |record: &Record| {
        let line = String::from_utf8(record.request_line.to_vec()).expect("the tests' requests are text");
        (line.split(' ').nth(1).unwrap_or_default().to_owned(), record.status, record.body_bytes)
    };
    world.tally.records.iter().map(entry).collect()
}

fn entry(path: &str, status: u16, bytes: usize) -> (String, u16, u64) {
    (path.to_owned(), status, bytes as u64)
}

#[test]
fn whole_responses_have_all_their_bytes() {
    let mut world = world();
    let pages = world.ask(get("/missing"));
    let page_bytes = reply(&pages).body.len();
    let requests = [
        get("/small.txt"),
        get("/middle.txt"),
        get("/large.bin"),
        "HEAD /large.bin HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(),
        "HEAD /missing HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(),
        "GET /large.bin HTTP/1.1\r\nHost: a\r\nRange: bytes=5-14\r\n\r\n".to_owned(),
        "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(),
    ];
    world.ask(requests.concat());
    let expected = [
        entry("/missing", 404, page_bytes),
        entry("/small.txt", 200, 100),
        entry("/middle.txt", 200, 6_000),
        entry("/large.bin", 200, LARGE_BYTES),
        entry("/large.bin", 200, 0),
        entry("/missing", 404, 0),
        entry("/large.bin", 206, 10),
        entry("*", 204, 0),
    ];
    assert_eq!(log(&world), expected);
    assert_eq!(world.tally.responses, 8);
}

#[test]
fn a_response_is_recorded_when_its_last_byte_has_left() {
    for path in ["/small.txt", "/middle.txt", "/one-window.bin"] {
        let mut world = world();
        let whole = world.ask(get(path)).len();
        world.tally.records.clear();
        let mut client = world.connect();
        client.socket = Socket::with_room(whole - 1);
        world.receive(&mut client, get(path).as_bytes());
        assert_eq!(log(&world), []);
        world.make_room(&mut client, 1);
        assert_eq!(log(&world).len(), 1, "{path}");
    }
}

#[test]
fn times_and_fields() {
    let mut world = world();
    let mut client = world.connect();
    client.socket = Socket::with_room(10);
    let fields = "Host: example.org\r\nReferer: /from\r\nUser-Agent: curl\r\n";
    world.receive(&mut client, format!("GET /small.txt HTTP/1.1\r\n{fields}\r\n").as_bytes());
    world.pass_ms(&mut client, 250);
    world.make_room(&mut client, 10_000);
    let record = &world.tally.records[0];
    assert_eq!((record.unix_ms, record.duration_us), (1_000_000_000_000, 250_000));
    assert_eq!(&*record.request_line, b"GET /small.txt HTTP/1.1");
    assert_eq!(
        (&*record.host, &*record.referer, &*record.user_agent),
        (&b"example.org"[..], &b"/from"[..], &b"curl"[..])
    );
}

#[test]
fn an_aborted_response_has_the_bytes_that_left() {
    for path in ["/middle.txt", "/one-window.bin"] {
        let mut world = world();
        let head_bytes = reply(&world.ask(get(path))).head.len();
        world.tally.records.clear();
        let mut client = world.connect();
        client.socket = Socket::with_room(head_bytes + 777);
        world.receive(&mut client, get(path).as_bytes());
        world.with(&mut client, |connection, cx| connection.abort(cx));
        assert_eq!(log(&world), [entry(path, 200, 777)]);
    }
}

/// The sent bytes belong to the first response, whatever stands behind it.
#[test]
fn aborted_pipelined_responses_are_recorded_in_order_each_with_its_own_bytes() {
    for second in ["/small.txt", "/one-window.bin"] {
        let mut world = world();
        let head_bytes = reply(&world.ask(get("/middle.txt"))).head.len();
        world.ask(get(second));
        world.tally.records.clear();
        let mut client = world.connect();
        client.socket = Socket::with_room(head_bytes + 2_000);
        world.receive(&mut client, (get("/middle.txt") + &get(second)).as_bytes());
        world.with(&mut client, |connection, cx| connection.abort(cx));
        assert_eq!(log(&world), [entry("/middle.txt", 200, 2_000), entry(second, 200, 0)]);
    }
}

/// An interim response is not a part of the response's body, whether the request's body came with its head or not.
#[test]
fn continue_is_not_counted() {
    let head = "GET /small.txt HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n";
    for pieces in [&[][..], &[head.len(), 3]] {
        let mut world = world();
        world.exchange(format!("{head}abc").as_bytes(), pieces, &[]);
        assert_eq!(log(&world), [entry("/small.txt", 200, 100)], "in {pieces:?}");
    }
}

/// The request line, the reason, and the status of the only record.
fn refusal(world: &World) -> (&[u8], &str, u16) {
    let [record] = &world.tally.records[..] else { panic!("one record: {:?}", world.tally.records) };
    (&record.request_line, record.reason, record.status)
}

#[test]
fn refusals_are_recorded_with_their_pages_and_what_was_read_of_their_lines() {
    let long = format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(9_000));
    let many = format!("GET /m HTTP/1.1\r\nHost: a\r\n{}\r\n", "A: b\r\n".repeat(101));
    for (request, line, reason, status) in [
        ("?\r\n\r\n", "?", "the method is not a token and a space", 400),
        ("\r\nGET /x HTTP/1.1\r\n\r\n", "GET /x HTTP/1.1", "no Host", 400),
        ("\x16\x03\x01\x02", "\x16\x03\x01\x02", "the method is not a token and a space", 400),
        ("\n\r\n", "", "the method is not a token and a space", 400),
        (&long, &long[..1024], "the target is too long", 414),
        (&many, "GET /m HTTP/1.1", "too many fields", 431),
        ("GET / HTTP/2.0\r\n", "GET / HTTP/2.0", "a version other than HTTP/1", 505),
        (
            "GET /small.txt HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
            "GET /small.txt HTTP/1.1",
            "a chunk's size is not a hexadecimal number",
            400,
        ),
    ] {
        let mut world = world();
        let got = world.ask(request);
        assert_eq!(refusal(&world), (line.as_bytes(), reason, status));
        assert_eq!(world.tally.records[0].body_bytes, reply(&got).body.len() as u64);
    }
}

#[test]
fn refusals_behind_other_requests_have_their_own_lines() {
    let mut world = world();
    world.ask(get("/small.txt") + "GET /bad\r\n\r\n");
    world.tally.records.remove(0);
    assert_eq!(refusal(&world), (&b"GET /bad"[..], "a request line without a version", 400));
}

#[test]
fn what_came_too_slowly_is_recorded_with_what_has_come() {
    for (request, line, reason) in [
        ("GET /", "GET /", "the head came too slowly"),
        ("GET / HTTP/1.1\r\nHost", "GET / HTTP/1.1", "the head came too slowly"),
        (
            "GET /a HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc",
            "GET /a HTTP/1.1",
            "the body came too slowly",
        ),
    ] {
        let mut world = world();
        let mut client = world.connect();
        world.receive(&mut client, request.as_bytes());
        world.pass_ms(&mut client, 60_000);
        assert_eq!(refusal(&world), (line.as_bytes(), reason, 408));
    }
}

#[test]
fn listings_count_as_sent() {
    let mut world = world();
    let got = world.ask(get("/folder/"));
    let head_bytes = reply(&got).head.len();
    assert_eq!(log(&world), [entry("/folder/", 200, got.len() - head_bytes)]);
}

fn world_without_a_log() -> World {
    let mut world = world();
    world.server.settings.access_log = None;
    world.rules().access_log = LogChoice::default();
    world
}

#[test]
fn without_a_log_there_are_no_records() {
    let mut world = world_without_a_log();
    world.ask(get("/small.txt") + &get("/large.bin") + "?\r\n\r\n");
    assert_eq!(log(&world), []);
    let statuses: Vec<u16> = world.tally.ended.iter().map(|end| end.status).collect();
    assert_eq!((world.tally.responses, world.tally.counts.get(Count::Begun)), (3, 3));
    assert_eq!(statuses, [200, 200, 400], "metrics count them all the same");
}

#[test]
fn a_site_has_a_log_of_its_own_or_none_and_only_lines_with_some_statuses() {
    let some = ["404".parse().unwrap()].into();
    for (log, statuses, expected) in [
        (Some(LogNumber(7)), Box::default(), &[(Some(7), 200), (Some(7), 404), (Some(0), 400)][..]),
        (Some(LogNumber(7)), some, &[(Some(7), 404), (Some(0), 400)]),
        (None, Box::default(), &[(Some(0), 400)]),
    ] {
        let mut world = world();
        world.rules().access_log = LogChoice { log, statuses };
        world.ask(get("/small.txt") + &get("/nothing") + "?\r\n\r\n");
        let records = world.tally.records.iter();
        let lines: Vec<_> = records.map(|of| (of.log.map(|log| log.0), of.status)).collect();
        assert_eq!(lines, expected);
        assert_eq!(world.tally.ended.len(), 3, "metrics count all");
    }
}

#[test]
fn without_a_log_slow_requests_have_records() {
    for (ms, expected) in [(0, 0), (1, 1)] {
        let mut world = World { jobs: Jobs::Later, ..world_without_a_log() };
        let mut client = world.connect();
        world.receive(&mut client, get("/small.txt").as_bytes());
        world.now.advance(world.now.us + ms * 1000);
        let (id, job) = client.pending.take().expect("a job is pending");
        let done = world.disk.help(&job);
        world.finish(&mut client, id, done);
        assert_eq!(log(&world).len(), expected, "after {ms} ms");
    }
}

#[test]
fn the_disk_has_its_part_in_the_time() {
    const QUEUE: Spent =
        Spent { walk_ns: 0, open_ns: 0, read_ns: 0, queue_ns: 3_000_000, help_ns: 4_000_000 };
    let mut world = World { jobs: Jobs::Later, ..world() };
    let mut client = world.connect();
    let done = |world: &mut World, client: &mut Client, ms: u64| {
        world.now.advance(world.now.us + ms * 1000);
        let (id, job) = client.pending.take().expect("a job is pending");
        let done = world.disk.help(&job);
        world.finish(client, id, Outcome { spent: QUEUE, ..done.into() })
    };
    world.receive(&mut client, get("/one-window.bin").as_bytes());
    // Ten milliseconds until it is found, twenty for its only window; a helper's own account says seven for each.
    done(&mut world, &mut client, 10);
    done(&mut world, &mut client, 20);
    if client.pending.is_some() {
        done(&mut world, &mut client, 0);
    }
    let [record] = &world.tally.records[..] else { panic!("one record: {:?}", world.tally.records) };
    assert_eq!((record.unix_ms, record.duration_us), (1_000_000_000_000, 30_000));
    let jobs = record.spent.help_ns / QUEUE.help_ns;
    assert_eq!(record.spent.queue_ns, jobs * QUEUE.queue_ns);
    assert_eq!(
        record.send_us,
        20_000 - (jobs - 1) * 7_000,
        "all that came after its head, less what jobs took"
    );
}

#[test]
fn a_request_whose_body_is_of_no_use_is_over_once() {
    for body in ["", "hello"] {
        let mut world = world();
        let mut client = world.connect();
        world.receive(&mut client, b"GET /small.txt HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n");
        world.complete_all(&mut client);
        world.receive(&mut client, body.as_bytes());
        world.complete_all(&mut client);
        world.end(&mut client);
        let tally = &world.tally;
        assert_eq!(
            tally.counts.get(Count::Begun),
            tally.counts.get(Count::Abandoned) + tally.ended.len() as u64,
            "{body}"
        );
    }
}
