//! Every kind of error, caused once and reported by its name, and events that are no errors.

#![forbid(unsafe_code)]

mod common;

use std::net::{Shutdown, TcpListener};
use std::thread;
use std::time::Duration;

use common::{answer, ask, closed, errors, load, one_file, run, serve};
use flash_load::{ClientOptions, Pace, Until, Verify};

/// What comes of requests for a file of known size.
fn ask_known(server: std::net::SocketAddr, bytes: u64, requests: u64) -> flash_load::Report {
    let mut load = load(server, closed(1), ClientOptions::default(), Until::Requests(requests));
    load.groups[0].workload = one_file("/file", bytes);
    run(&load)
}

#[test]
fn nobody_there() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    drop(listener);
    let report = ask(address, 3);
    assert_eq!((errors(&report), report.requests), (vec![("connect", 3)], 0));
    assert_eq!(report.classes["all"].errors, 3);
}

#[test]
fn no_answer_in_time() {
    let server = serve(|mut visitor| {
        if visitor.head().is_some() {
            thread::sleep(Duration::from_secs(if visitor.number == 0 { 5 } else { 0 }));
            visitor.ok("hello");
        }
    });
    let mut load = load(server, closed(1), ClientOptions::default(), Until::Requests(2));
    load.timeout = Duration::from_millis(300);
    let report = run(&load);
    assert_eq!((errors(&report), report.requests), (vec![("timeout", 1)], 1));
    // Its wait is a wait.
    assert_eq!(report.latency_us.count, 2);
    assert!((300_000.0..400_000.0).contains(&report.latency_us.max), "{}", report.latency_us.max);
}

#[test]
fn connections_that_end_too_early() {
    let server = serve(|mut visitor| {
        visitor.head();
        match visitor.number {
            0 => {}
            1 => visitor.say("HTTP/1.1 200 OK\r\nContent-Le"),
            2 => visitor.say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel"),
            _ => visitor.ok("hello"),
        }
    });
    let report = ask(server, 4);
    assert_eq!((errors(&report), report.requests), (vec![("reset", 3)], 1));
}

#[test]
fn what_is_no_http() {
    let server = serve(|mut visitor| {
        visitor.head();
        match visitor.number {
            0 => visitor.say("220 mail.example.org ESMTP\r\n"),
            1 => visitor.say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"),
            _ => visitor.ok("hello"),
        }
        let _ = visitor.stream.shutdown(Shutdown::Write);
        visitor.head();
    });
    let report = ask(server, 3);
    assert_eq!((errors(&report), report.requests), (vec![("bad_response", 2)], 1));
}

#[test]
fn more_than_was_asked_for() {
    let server = serve(|mut visitor| {
        while visitor.head().is_some() {
            let more = if visitor.number == 0 { "HTTP/1.1 200 OK\r\n\r\n" } else { "" };
            visitor.say(format!("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello{more}"));
        }
    });
    let report = ask(server, 3);
    assert_eq!((errors(&report), report.requests), (vec![("bad_response", 1)], 3));
}

#[test]
fn lengths_that_are_not_the_files() {
    let server = answer(|visitor, _| visitor.ok("hello"));
    assert_eq!(errors(&ask_known(server, 5, 2)), []);
    assert_eq!(errors(&ask_known(server, 6, 2)), [("wrong_length", 2)]);
    // A promise that is not kept.
    let server = serve(|mut visitor| {
        visitor.head();
        visitor.say("HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhello");
    });
    assert_eq!(errors(&ask(server, 2)), [("wrong_length", 2)]);
    // What is packed has a length of its own.
    let server = answer(|visitor, _| {
        visitor.say("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc");
    });
    assert_eq!(errors(&ask_known(server, 5, 2)), []);
}

#[test]
fn content_that_is_not_the_files() {
    let root = tempfile::tempdir().expect("a folder");
    let content: Vec<u8> = (0..200_000_u32).map(|n| (n * 7 % 251) as u8).collect();
    std::fs::write(root.path().join("file"), &content).expect("it can be written");
    let served = content.clone();
    let server = serve(move |mut visitor| {
        let mut body = served.clone();
        for turn in 0.. {
            if visitor.head().is_none() {
                return;
            }
            // One wrong byte in the third answer.
            body[150_000] = served[150_000] ^ u8::from(turn == 2);
            visitor.ok(&body);
        }
    });
    let options = ClientOptions { verify: Verify::Root(root.path().into()), ..ClientOptions::default() };
    let mut checked = load(server, closed(1), options, Until::Requests(5));
    checked.groups[0].workload = one_file("/file", content.len() as u64);
    let report = run(&checked);
    assert_eq!((errors(&report), report.requests), (vec![("wrong_content", 1)], 4));
    // Without a look at it, nobody knows.
    checked.groups[0].options.verify = Verify::Nothing;
    assert_eq!(errors(&run(&checked)), []);
}

#[test]
fn statuses_that_are_no_success() {
    let server = answer(|visitor, _| {
        let status = [301, 404, 503, 204, 304][visitor.number % 5];
        visitor.say(format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"));
    });
    let report = ask(server, 5);
    assert_eq!(errors(&report), [("status_3xx", 2), ("status_4xx", 1), ("status_5xx", 1)]);
    assert_eq!(
        report.statuses.into_iter().collect::<Vec<_>>(),
        [(204, 1), (301, 1), (304, 1), (404, 1), (503, 1)]
    );
}

#[test]
fn an_idle_connection_that_the_server_closes_is_no_error() {
    // It closes after each answer without a word, as servers may: a request that crosses this is sent again.
    let server = serve(|mut visitor| {
        visitor.head();
        visitor.ok("hello");
    });
    let pace = Pace::Closed { clients: 4, think: Duration::from_millis(1) };
    let report = run(&load(server, pace, ClientOptions::default(), Until::Requests(100)));
    assert_eq!((errors(&report), report.requests), (vec![], 100));
    assert!(report.connections >= 100, "{}", report.connections);
}
