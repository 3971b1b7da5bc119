//! Prints what reading a head costs, in nanoseconds: `cargo run --release -p flash-http --example parse_cost`.
//!
//! An argument sets the number of rounds; few suffice to count instructions under callgrind.

#![forbid(unsafe_code)]

use flash_http::{Limits, Parsed, head};
use std::hint::black_box;
use std::time::Instant;

const SMALL: &[u8] = b"GET /1k.html HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nA: b\r\n\r\n";

const WRK: &[u8] = b"GET /index.html HTTP/1.1\r\nHost: localhost:8080\r\nConnection: keep-alive\r\n\r\n";

const BROWSER: &[u8] = b"GET /assets/site.css?v=3 HTTP/1.1\r\n\
    Host: www.example.org\r\n\
    Connection: keep-alive\r\n\
    sec-ch-ua-platform: \"Linux\"\r\n\
    User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 Safari/537.36\r\n\
    sec-ch-ua: \"Chromium\";v=\"131\", \"Not_A Brand\";v=\"24\"\r\n\
    sec-ch-ua-mobile: ?0\r\n\
    Accept: text/css,*/*;q=0.1\r\n\
    Sec-Fetch-Site: same-origin\r\n\
    Sec-Fetch-Mode: no-cors\r\n\
    Sec-Fetch-Dest: style\r\n\
    Referer: https://www.example.org/\r\n\
    Accept-Encoding: gzip, deflate, br, zstd\r\n\
    Accept-Language: en-GB,en;q=0.9\r\n\r\n";

fn main() {
    let rounds = std::env::args().nth(1).map_or(50_000, |text| text.parse().expect("a number of rounds"));
    let limits = Limits::default();
    for (name, input) in [("small", SMALL), ("wrk", WRK), ("browser", BROWSER)] {
        // The best of several runs is the one that nobody disturbed.
        let best = (0..50).map(|_| run(input, &limits, rounds)).fold(f64::INFINITY, f64::min);
        println!("{name:8} {:4} bytes {best:7.1} ns", input.len());
    }
}

fn run(input: &[u8], limits: &Limits, rounds: u32) -> f64 {
    let start = Instant::now();
    for _ in 0..rounds {
        match head::parse(black_box(input), limits) {
            Ok(Parsed::Complete { head, .. }) => drop(black_box(head)),
            other => panic!("{other:?}"),
        }
    }
    start.elapsed().as_nanos() as f64 / f64::from(rounds)
}
