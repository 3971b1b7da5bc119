//! HTTP/2 with servers that break rules, refuse and go away, without TLS.

#![forbid(unsafe_code)]

mod common;

use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use common::{Visitor, closed, errors, load, one_file, run, serve};
use flash_h2::hpack::encoder;
use flash_h2::request::HeadLimits;
use flash_h2::session::Limits;
use flash_h2::{ErrorCode, Event, Scratch, Session, frame};
use flash_load::{Arrivals, Body, ClientOptions, Method, Pace, Protocol, Report, Until};

const LIMITS: Limits = Limits {
    streams_max: 100,
    head: HeadLimits { bytes_max: 8_000, fields_max: 40 },
    resets: (1_000, 1),
    idle_frames: (100_000, 1),
};

/// What a server does with a request: its number among all of the connection, from 0, and its stream.
type Answer = fn(&mut Session<()>, &mut Vec<u8>, usize, u32);

fn ok(out: &mut Vec<u8>, stream: u32, length: &str, body: &[u8]) {
    let start = frame::begin_headers(out, stream);
    encoder::status(out, 200);
    encoder::field(out, b"content-length", length.as_bytes());
    frame::end_headers(out, start);
    out.extend_from_slice(&[0, 0, body.len() as u8, frame::kind::DATA, frame::flag::END_STREAM]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(body);
}

fn right(session: &mut Session<()>, out: &mut Vec<u8>, stream: u32) {
    ok(out, stream, "5", b"hello");
    session.finish(stream, true);
}

/// Serves a connection until its client closes. Returns how many bytes of bodies came.
fn connection(mut visitor: Visitor, answer: Answer) -> usize {
    let (mut session, mut scratch) = (Session::<()>::new(LIMITS), Scratch::default());
    let (mut requests, mut body_bytes) = (0, 0);
    let mut bytes = vec![0; 64 << 10];
    loop {
        let count = match visitor.stream.read(&mut bytes) {
            Ok(0) | Err(_) => return body_bytes,
            Ok(count) => count,
        };
        let (mut input, mut out) = (&bytes[..count], Vec::new());
        let mut complete = |session: &mut Session<()>, out: &mut Vec<u8>, stream| {
            answer(session, out, requests, stream);
            requests += 1;
        };
        while let Some(event) = session.next(&mut input, &mut scratch, 0).expect("a right client") {
            match event {
                Event::Request { stream, priority, ends_stream } => {
                    session.open(stream, priority, ends_stream, ());
                    if ends_stream {
                        complete(&mut session, &mut out, stream);
                    }
                }
                Event::Data { stream, bytes, ends_stream } => {
                    session.consumed(stream, bytes.len());
                    body_bytes += bytes.len();
                    if ends_stream {
                        complete(&mut session, &mut out, stream);
                    }
                }
                _ => {}
            }
        }
        let mut all = Vec::new();
        session.take_control(&mut all);
        all.extend_from_slice(&out);
        visitor.say(all);
    }
}

fn options(streams: u32) -> ClientOptions {
    ClientOptions { protocol: Protocol::Http2 { streams }, ..ClientOptions::default() }
}

fn ask(answer: Answer, streams: u32, requests: u64) -> Report {
    let server = serve(move |visitor| _ = connection(visitor, answer));
    let mut load = load(server, closed(1), options(streams), Until::Requests(requests));
    load.groups[0].workload = one_file("/", 5);
    run(&load)
}

#[test]
fn right_answers_count() {
    let report = ask(|session, out, _, stream| right(session, out, stream), 10, 1_000);
    assert_eq!((report.requests, report.errors_total, report.connections), (1_000, 0, 1), "{report:?}");
    assert_eq!(report.body_bytes, 5_000);
}

#[test]
fn a_reset_stream_has_its_codes_name_and_the_others_go_on() {
    let report = ask(
        |session, out, number, stream| match number % 4 {
            1 => _ = session.reset(stream, ErrorCode::REFUSED_STREAM),
            2 => _ = session.reset(stream, ErrorCode(0xd)),
            _ => right(session, out, stream),
        },
        8,
        400,
    );
    assert_eq!(errors(&report), [("rst_stream_http_1_1_required", 100), ("rst_stream_refused_stream", 100)]);
    assert_eq!((report.requests, report.connections), (200, 1), "{report:?}");
    let csv = report.csv();
    let (columns, cells) = csv.split_once('\n').expect("rows");
    let place = columns.split(',').position(|column| column == "errors_rst_stream").expect("a column");
    assert_eq!(cells.split(',').nth(place), Some("200"));
}

#[test]
fn a_length_that_was_not_kept_is_seen() {
    let report = ask(
        |session, out, number, stream| {
            let (length, body): (_, &[u8]) = match number {
                0 => ("5", b"hell"),
                1 => ("4", b"hell"),
                2 => ("6", b"hello"),
                _ => ("5", b"hello"),
            };
            ok(out, stream, length, body);
            session.finish(stream, true);
        },
        1,
        10,
    );
    assert_eq!(errors(&report), [("wrong_length", 3)], "{report:?}");
    assert_eq!((report.requests, report.connections), (7, 1));
}

#[test]
fn requests_that_a_server_did_not_look_at_before_it_left_are_sent_again() {
    let report = ask(
        |session, out, number, stream| match number {
            0..10 => right(session, out, stream),
            10 => frame::goaway(out, stream - 2, ErrorCode::NO_ERROR, ""),
            _ => {}
        },
        4,
        40,
    );
    assert_eq!((report.requests, report.errors_total, report.connections), (40, 0, 4), "{report:?}");
    assert_eq!(report.retries, 3);
}

#[test]
fn a_server_that_leaves_with_an_error_is_one() {
    let report = ask(
        |session, out, number, stream| match number {
            0..10 => right(session, out, stream),
            10 => frame::goaway(out, stream - 2, ErrorCode::ENHANCE_YOUR_CALM, "calm"),
            _ => {}
        },
        1,
        22,
    );
    assert_eq!(errors(&report), [("goaway", 2)], "{report:?}");
    assert_eq!(report.requests, 20);
}

#[test]
fn a_stream_that_is_never_answered_times_out_alone() {
    let server = serve(|visitor| {
        _ = connection(visitor, |session, out, number, stream| {
            if number != 2 {
                right(session, out, stream);
            }
        });
    });
    let mut load = load(server, closed(1), options(4), Until::Requests(20));
    load.timeout = Duration::from_millis(300);
    let report = run(&load);
    assert_eq!(errors(&report), [("timeout", 1)], "{report:?}");
    assert_eq!((report.requests, report.connections), (19, 1));
    assert!(report.latency_us.max >= 300_000.0);
}

#[test]
fn bodies_arrive_whole_on_many_streams() {
    let received = Arc::new(AtomicU64::new(0));
    let sum = received.clone();
    let server = serve(move |visitor| {
        let bytes = connection(visitor, |session, out, _, stream| right(session, out, stream));
        sum.fetch_add(bytes as u64, Ordering::Relaxed);
    });
    let options = ClientOptions { method: Method::Post, body: Some(Body::of_bytes(300_000)), ..options(5) };
    let report = run(&load(server, closed(2), options, Until::Requests(20)));
    assert_eq!((report.requests, report.errors_total, report.connections), (20, 0, 2), "{report:?}");
    for _ in 0..200 {
        if received.load(Ordering::Relaxed) == 6_000_000 {
            return;
        }
        thread::sleep(Duration::from_millis(50));
    }
    panic!("{} bytes of 6,000,000", received.load(Ordering::Relaxed));
}

#[test]
fn an_open_loop_uses_free_streams_before_it_connects_again() {
    let server = serve(|visitor| {
        _ = connection(visitor, |session, out, _, stream| {
            thread::sleep(Duration::from_millis(2));
            right(session, out, stream);
        });
    });
    // Each answer takes 2 ms, so requests that come each 4 ms find the first connection free, or busy with others.
    let pace = Pace::Open { per_second: 250.0, arrivals: Arrivals::Poisson, connections_max: 50 };
    let report = run(&load(server, pace, options(50), Until::Requests(250)));
    assert_eq!((report.requests, report.connections), (250, 1), "{report:?}");
}
