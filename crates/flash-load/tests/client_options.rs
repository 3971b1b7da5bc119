//! How clients use their connections, and what their requests say: seen from the server.

#![forbid(unsafe_code)]

mod common;

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use common::{answer, ask, closed, errors, load, one, one_file, run, serve, serve_at};
use flash_load::{Address, Arrivals, Body, ClientOptions, Keep, Link, Method, Pace, Report, Until};
use flash_traffic::{Ask, Catalogue, File, Message, Part, Sequence, Workload};

fn run_as(server: SocketAddr, options: ClientOptions, requests: u64) -> Report {
    run(&load(server, closed(1), options, Until::Requests(requests)))
}

#[test]
fn bodies_of_every_framing_are_counted_to_the_byte() {
    let chunked =
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhell\r\n1\r\no\r\n0\r\nX: y\r\n\r\n";
    let hints =
        "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
    let server = serve(move |mut visitor| {
        for turn in 0.. {
            if visitor.head().is_none() {
                return;
            }
            match turn {
                0 => visitor.say(chunked),
                1 => visitor.say(hints),
                2 => {
                    // In pieces, the smallest there are.
                    for byte in chunked.bytes() {
                        visitor.say([byte]);
                        thread::sleep(Duration::from_micros(50));
                    }
                }
                _ => return visitor.say("HTTP/1.1 200 OK\r\n\r\nhello"),
            }
        }
    });
    let report = ask(server, 8);
    assert_eq!((errors(&report), report.requests, report.body_bytes), (vec![], 8, 40));
    assert_eq!(report.connections, 2);

    let server = answer(|visitor, head| {
        assert!(head.starts_with("HEAD / HTTP/1.1\r\n"), "{head}");
        visitor.say("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n");
    });
    let report = run_as(server, ClientOptions { method: Method::Head, ..ClientOptions::default() }, 3);
    assert_eq!((errors(&report), report.requests, report.body_bytes), (vec![], 3, 0));
}

#[test]
fn large_bodies_that_nobody_looks_at_are_counted_too() {
    let body = vec![7; 3_000_000];
    let server = answer(move |visitor, _| visitor.ok(&body));
    let report = run(&load(server, closed(3), ClientOptions::default(), Until::Requests(30)));
    assert_eq!((errors(&report), report.requests, report.body_bytes), (vec![], 30, 90_000_000));
    assert!(report.received_bytes > report.body_bytes, "{}", report.received_bytes);
}

#[test]
fn connections_end_after_so_many_requests() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = seen.clone();
    let server = serve(move |mut visitor| {
        while let Some(head) = visitor.head() {
            log.lock().expect("no panic").push((visitor.number, head.contains("Connection: close\r\n")));
            visitor.ok("hello");
        }
    });
    let report = run_as(server, ClientOptions { keep: Keep::Requests(3), ..ClientOptions::default() }, 7);
    assert_eq!((errors(&report), report.requests, report.connections), (vec![], 7, 3));
    let expected = [(0, false), (0, false), (0, true), (1, false), (1, false), (1, true), (2, false)];
    assert_eq!(seen.lock().expect("no panic").as_slice(), expected);
}

/// Sessions of two requests, with times of their own: one every 10 ms.
struct Sessions(Arc<Catalogue>);

impl Sessions {
    fn workload() -> Arc<dyn Workload> {
        let file = File { target: "/".into(), bytes: Some(5), class: 0, program: false };
        Arc::new(Sessions(Arc::new(Catalogue { files: vec![file], classes: vec!["all".into()] })))
    }
}

impl Workload for Sessions {
    fn catalogue(&self) -> &Arc<Catalogue> {
        &self.0
    }

    fn sequence(&self, _part: Part, _seed: u64) -> Box<dyn Sequence> {
        struct Pairs(u64);
        impl Sequence for Pairs {
            fn next(&mut self) -> Option<Ask> {
                self.0 += 1;
                let at = Some(Duration::from_millis(10 * (self.0 - 1)));
                (self.0 <= 100).then_some(Ask { at, closes: self.0.is_multiple_of(2), ..Ask::of(0) })
            }
        }
        Box::new(Pairs(0))
    }
}

#[test]
fn sessions_close_when_asked() {
    let server = answer(|visitor, _| visitor.ok("hello"));
    let mut load = load(server, closed(1), ClientOptions::default(), Until::Requests(1000));
    load.groups[0].workload = Sessions::workload();
    let report = run(&load);
    // The workload ends after a hundred requests, and so does the run.
    assert_eq!((errors(&report), report.requests, report.connections), (vec![], 100, 50));
}

#[test]
fn a_log_is_replayed_at_its_own_times() {
    let server = answer(|visitor, _| visitor.ok("hello"));
    let pace = Pace::Recorded { speed_up: 2.0, connections_max: 16 };
    let mut load = load(server, pace, ClientOptions::default(), Until::Time(Duration::from_secs(20)));
    load.groups[0].workload = Sessions::workload();
    let report = run(&load);
    // A second of a log, twice as fast; it ends when the log does.
    assert_eq!((errors(&report), report.requests), (vec![], 100));
    assert!((0.49..0.6).contains(&report.seconds), "{}", report.seconds);

    load.groups[0].workload = one();
    let refused = flash_load::run(&load, &Default::default(), |_| {}).expect_err("there are no times");
    assert!(refused.to_string().contains("no times"), "{refused}");
}

#[test]
fn requests_are_pipelined_as_deep_as_asked() {
    let server = serve(|mut visitor| {
        // Four requests are there before the first is answered.
        loop {
            for _ in 0..4 {
                if visitor.head().is_none() {
                    return;
                }
            }
            for _ in 0..4 {
                visitor.ok("hello");
            }
        }
    });
    let report = run_as(server, ClientOptions { pipeline: 4, ..ClientOptions::default() }, 40);
    assert_eq!((errors(&report), report.requests, report.connections), (vec![], 40, 1));
}

#[test]
fn what_a_closing_server_left_of_a_pipeline_is_asked_again() {
    let server = serve(|mut visitor| {
        for turn in 1.. {
            if visitor.head().is_none() {
                return;
            }
            let close = if turn == 3 { "Connection: close\r\n" } else { "" };
            visitor.say(format!("HTTP/1.1 200 OK\r\n{close}Content-Length: 5\r\n\r\nhello"));
            if turn == 3 {
                return;
            }
        }
    });
    let report = run_as(server, ClientOptions { pipeline: 5, ..ClientOptions::default() }, 30);
    assert_eq!((errors(&report), report.requests), (vec![], 30));
}

#[test]
fn slow_lines_keep_their_rate() {
    let body = vec![7; 30_000];
    let server = answer(move |visitor, _| visitor.ok(&body));
    let link = Link { down_bytes_per_second: 60_000, up_bytes_per_second: 1000 };
    let options = ClientOptions { link: Some(link), ..ClientOptions::default() };
    let report = run(&load(server, closed(8), options, Until::Requests(24)));
    assert_eq!((errors(&report), report.requests), (vec![], 24));
    // Half a second down, and some fifty bytes up for the request.
    let mean_ms = report.latency_us.mean / 1000.0;
    assert!((540.0..640.0).contains(&mean_ms), "{mean_ms}");
    // They do not share a line.
    assert!((1.6..2.2).contains(&report.seconds), "{}", report.seconds);
}

#[test]
fn slow_lines_keep_their_rate_whatever_comes_over_them() {
    // Of many sizes, in pieces of many sizes: no line may come to stand still between two segments.
    let served = AtomicUsize::new(0);
    let server = answer(move |visitor, _| {
        let nth = served.fetch_add(1, Ordering::Relaxed);
        let body = vec![7; [300, 40_000, 1000, 5000, 700, 90_000, 2500][nth % 7]];
        visitor.say(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len()));
        body.chunks(400 + nth * 37 % 9000).for_each(|piece| visitor.say(piece));
    });
    let link = Link { down_bytes_per_second: 50_000, up_bytes_per_second: 50_000 };
    let options = ClientOptions { link: Some(link), ..ClientOptions::default() };
    let mut load = load(server, closed(64), options, Until::Time(Duration::from_secs(5)));
    load.bits_per_second_min = Some(320_000);
    let kept = run(&load).conformance.expect("there is a rate");
    assert_eq!(kept.conforming, 64, "{kept:?}");
}

#[test]
fn a_slow_reader_holds_the_server_up() {
    // What a client does not take in a second stays with the server, but for what fits into buffers.
    let sent = Arc::new(AtomicUsize::new(0));
    let count = sent.clone();
    let server = answer(move |visitor, _| {
        visitor.say("HTTP/1.1 200 OK\r\nContent-Length: 50000000\r\n\r\n");
        let piece = [7; 10_000];
        while visitor.stream.write_all(&piece).is_ok() {
            count.fetch_add(piece.len(), Ordering::Relaxed);
        }
    });
    let link = Link { down_bytes_per_second: 100_000, up_bytes_per_second: 100_000 };
    let options = ClientOptions { link: Some(link), ..ClientOptions::default() };
    let report = run(&load(server, closed(1), options, Until::Time(Duration::from_secs(1))));
    assert_eq!(report.unanswered, 1);
    assert!((80_000..120_000).contains(&report.received_bytes), "{}", report.received_bytes);
    assert!(sent.load(Ordering::Relaxed) < 8_000_000, "{sent:?}");
}

#[test]
fn conditions_ranges_and_codings_are_asked_for_in_their_parts() {
    let counts = Arc::new(Mutex::new([0_u32; 3]));
    let seen = counts.clone();
    let server = answer(move |visitor, head| {
        let mut seen = seen.lock().expect("no panic");
        seen[2] += u32::from(head.contains("Accept-Encoding: gzip\r\n"));
        if head.contains("If-None-Match: \"x\"\r\n") {
            seen[0] += 1;
            visitor.say("HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\n\r\n");
        } else if let Some(at) = head.find("Range: bytes=") {
            seen[1] += 1;
            let range = head[at + 13..].lines().next().expect("a line");
            let (first, last) = range.split_once('-').expect("two numbers");
            let (first, last): (usize, usize) =
                (first.parse().expect("a number"), last.parse().expect("a number"));
            assert!(first <= last && last < 1000, "{range}");
            visitor.say(format!(
                "HTTP/1.1 206 Part\r\nContent-Range: bytes {range}/1000\r\nContent-Length: {}\r\n\r\n{}",
                last - first + 1,
                "x".repeat(last - first + 1)
            ));
        } else {
            visitor.say(format!(
                "HTTP/1.1 200 OK\r\nETag: \"x\"\r\nContent-Length: 1000\r\n\r\n{}",
                "x".repeat(1000)
            ));
        }
    });
    let options = ClientOptions {
        conditional: 0.3,
        ranges: 0.5,
        encodings: vec![("gzip".into(), 0.25)],
        fields: vec!["X-Test: 1".into()],
        ..ClientOptions::default()
    };
    let mut load = load(server, closed(2), options, Until::Requests(2000));
    load.groups[0].workload = one_file("/f", 1000);
    let report = run(&load);
    assert_eq!((errors(&report), report.requests), (vec![], 2000));
    let [conditional, ranges, gzip] = *counts.lock().expect("no panic");
    assert!((520..680).contains(&conditional), "{conditional} of 600");
    // Of those that are not conditional.
    assert!((610..790).contains(&ranges), "{ranges} of 700");
    assert!((420..580).contains(&gzip), "{gzip} of 500");
    assert_eq!(report.statuses[&304], u64::from(conditional));
}

#[test]
fn client_groups_have_their_own_pace_and_results() {
    let server = answer(|visitor, head| {
        if !head.starts_with("GET /hot ") {
            thread::sleep(Duration::from_millis(50));
        }
        visitor.ok("hello");
    });
    let mut load = load(server, closed(4), ClientOptions::default(), Until::Time(Duration::from_secs(1)));
    let mut hot = load.groups[0].clone();
    hot.workload = Arc::new(flash_load::Urls::new(["/hot".to_owned()], "hot"));
    hot.pace = Pace::Open { per_second: 300.0, arrivals: Arrivals::Constant, connections_max: 16 };
    load.groups.push(hot);
    load.threads = 2;
    let report = run(&load);
    assert_eq!(errors(&report), []);
    let (all, hot) = (&report.classes["all"], &report.classes["hot"]);
    assert!((60..=80).contains(&all.requests), "{}", all.requests);
    assert!((297..=303).contains(&(hot.requests + report.unanswered.saturating_sub(4))), "{}", hot.requests);
    assert!(hot.latency_us.p50 < 40_000.0 && all.latency_us.p50 > 50_000.0, "{report:?}");
}

#[test]
fn every_kind_of_address() {
    let server = serve_at("[::1]:0", |mut visitor| {
        while visitor.head().is_some() {
            visitor.ok("hello");
        }
    });
    assert_eq!(ask(server, 5).requests, 5);

    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("socket");
    let listener = UnixListener::bind(&path).expect("a socket");
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            thread::spawn(move || {
                let mut bytes = [0; 4096];
                while stream.read(&mut bytes).is_ok_and(|count| count > 0) {
                    let body = "x".repeat(100_000);
                    let text = format!("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n{body}");
                    let _ = stream.write_all(text.as_bytes());
                }
            });
        }
    });
    let mut load = load(server, closed(2), ClientOptions::default(), Until::Requests(20));
    load.server.address = Address::Unix(path);
    let report = run(&load);
    assert_eq!((errors(&report), report.requests, report.body_bytes), (vec![], 20, 2_000_000));
}

/// Reads bodies whole, and says how long they were.
fn counting() -> SocketAddr {
    answer(|visitor, head| {
        let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
        let bytes = length.map_or(0, |length| length.parse::<usize>().expect("a number"));
        let body = visitor.body(bytes);
        let first = body.first().map_or(String::new(), |byte| format!("{}", *byte as char));
        visitor.ok(format!("{} {bytes} {first}", head.split(' ').next().expect("a method")));
    })
}

#[test]
fn bodies_go_whole_whatever_their_size() {
    let server = counting();
    for (body, expected) in [
        (Body::of_bytes(0), "POST 0 "),
        (Body::of_bytes(10), "POST 10 x"),
        (Body::of_bytes(3_000_000), "POST 3000000 x"),
        (Body::new(Arc::from(*b"abc")), "POST 3 a"),
    ] {
        for pipeline in [1, 3] {
            let options = ClientOptions {
                method: Method::Post,
                body: Some(body.clone()),
                pipeline,
                ..ClientOptions::default()
            };
            let report = run(&load(server, closed(2), options, Until::Requests(12)));
            assert_eq!((errors(&report), report.requests, report.connections), (vec![], 12, 2), "{body:?}");
            assert_eq!(report.body_bytes, 12 * expected.len() as u64, "{body:?}");
        }
    }
    let slow = Link { down_bytes_per_second: 1 << 20, up_bytes_per_second: 200_000 };
    let body = Some(Body::of_bytes(100_000));
    let options = ClientOptions { method: Method::Put, body, link: Some(slow), ..ClientOptions::default() };
    let report = run_as(server, options, 1);
    assert_eq!((errors(&report), report.body_bytes), (vec![], "PUT 100000 x".len() as u64));
    assert!(report.latency_us.p50 >= 450_000.0, "half a second's bytes went in {}", report.latency_us.p50);
}

#[test]
fn an_answer_before_the_end_of_a_body_is_one_and_ends_the_connection() {
    let server = answer(|visitor, _| {
        visitor.say("HTTP/1.1 413 Too much\r\nContent-Length: 0\r\n\r\n");
        // What goes on to come is read, as RFC 9112 §9.6 has it.
        visitor.body(20_000_000);
    });
    let options = ClientOptions {
        method: Method::Post,
        body: Some(Body::of_bytes(20_000_000)),
        ..ClientOptions::default()
    };
    let report = run_as(server, options, 3);
    assert_eq!((errors(&report), report.connections), (vec![("status_4xx", 3)], 3));
}

#[test]
fn what_must_not_be_done_twice_is_not_asked_again() {
    let server = serve(|mut visitor| {
        visitor.head();
        visitor.ok("hello");
        visitor.head();
    });
    let post = ClientOptions { method: Method::Post, ..ClientOptions::default() };
    let report = run_as(server, post, 2);
    assert_eq!((errors(&report), report.requests, report.retries), (vec![("reset", 1)], 1, 0));
}

/// A form, then a file, then the form again.
struct Forms(Arc<Catalogue>);

impl Workload for Forms {
    fn catalogue(&self) -> &Arc<Catalogue> {
        &self.0
    }

    fn sequence(&self, _: Part, _: u64) -> Box<dyn Sequence> {
        struct Turns(bool);
        impl Sequence for Turns {
            fn next(&mut self) -> Option<Ask> {
                self.0 = !self.0;
                let form = Message { fields: "X: y\r\n".into(), body: Some(Arc::from(*b"a=b")) };
                Some(Ask { message: self.0.then(|| Arc::new(form)), ..Ask::of(0) })
            }
        }
        Box::new(Turns(false))
    }
}

#[test]
fn a_workload_says_which_requests_are_forms() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = seen.clone();
    let server = answer(move |visitor, head| {
        if head.starts_with("POST ") {
            assert!(head.contains("\r\nX: y\r\n") && head.contains("\r\nContent-Length: 3\r\n"), "{head}");
            assert_eq!(visitor.body(3), b"a=b");
        }
        log.lock().expect("no panic").push(head.split(' ').next().expect("a method").to_owned());
        visitor.ok("hello");
    });
    let file = File { target: "/".into(), bytes: Some(5), class: 0, program: true };
    let catalogue = Arc::new(Catalogue { files: vec![file], classes: vec!["all".into()] });
    let mut load = load(server, closed(1), ClientOptions::default(), Until::Requests(5));
    load.groups[0].workload = Arc::new(Forms(catalogue));
    // Nobody knows what a program's answer must look like, but for its length.
    load.groups[0].options.verify = flash_load::Verify::Made { seed: 1 };
    let report = run(&load);
    assert_eq!((errors(&report), report.requests), (vec![], 5));
    assert_eq!(*seen.lock().expect("no panic"), ["POST", "GET", "POST", "GET", "POST"]);
}
