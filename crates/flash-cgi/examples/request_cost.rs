//! What a FastCGI request costs in this crate: its variables, its records, and its answer's. In nanoseconds;
//! `cargo run --release -p flash-cgi --example request_cost`.

#![forbid(unsafe_code)]

use std::hint::black_box;
use std::time::Instant;

use flash_cgi::fastcgi::{Decoder, Encoder, Event};
use flash_cgi::{Ends, Server, Variables, response, script};
use flash_http::{Limits, Parsed, Scheme, head};

const ROUNDS: u32 = 20_000;

const BROWSER: &[u8] = b"GET /index.php/blog/2024?page=2&sort=new HTTP/1.1\r\nHost: www.example.org\r\n\
    User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0\r\n\
    Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8\r\n\
    Accept-Language: en-US,en;q=0.5\r\nAccept-Encoding: gzip, deflate, br, zstd\r\nConnection: keep-alive\r\n\
    Cookie: PHPSESSID=298zf09hf012fh2; csrftoken=u32t4o3tb3gg43; _gat=1\r\nUpgrade-Insecure-Requests: 1\r\n\
    Sec-Fetch-Dest: document\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Site: same-origin\r\n\r\n";
const SHORT: &[u8] = b"GET /hello.php HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n";

/// What php-fpm sends for `hello`: 68 bytes of head, 5 of body.
const ANSWER: &[u8] = b"\x01\x06\0\x01\0\x49\0\0X-Powered-By: PHP/8.2.29\r\nContent-type: text/html; charset=UTF-8\r\n\r\nhello\
    \x01\x03\0\x01\0\x08\0\0\0\0\0\0\0\0\0\0";

fn main() {
    let server = Server::new(b"Flash/0.1.0", b"/srv/www/example");
    let ends = Ends::Inet {
        local: "192.0.2.1:8080".parse().expect("an address"),
        peer: "198.51.100.17:40123".parse().expect("an address"),
    };
    let mut out = Vec::new();
    for (name, request) in [("short", SHORT), ("browser", BROWSER)] {
        let Ok(Parsed::Complete { head, .. }) = head::parse(request, &Limits::default()) else {
            unreachable!("a head")
        };
        let split = script::Split { name: b"/index.php", info: b"/blog/2024" };
        each(&format!("{name}: variables"), || {
            let mut variables = Variables::of_request(
                black_box(&head),
                head.framing.version.name(),
                Scheme::Http,
                &server,
                &ends,
            );
            variables.add_script(&split, Some(b"/srv/www/example/index.php"));
            black_box(variables.as_pairs().len())
        });
        let variables =
            Variables::of_request(&head, head.framing.version.name(), Scheme::Http, &server, &ends);
        each(&format!("{name}: records"), || {
            out.clear();
            Encoder.begin(black_box(&variables), true, &mut out);
            Encoder.end_body(&mut out);
            out.len()
        });
    }
    each("answer: records and head", || {
        let mut decoder = Decoder::new();
        let mut input = black_box(ANSWER);
        out.clear();
        let mut read = 0;
        while let Ok(Some(event)) = decoder.next(&mut input) {
            match event {
                Event::Stdout(bytes) => {
                    let Ok(response::Parsed::Complete { head, bytes }) =
                        response::parse(bytes, &response::Limits::default())
                    else {
                        unreachable!("a head")
                    };
                    head.write_fields(&mut out);
                    read += bytes;
                }
                Event::Stderr(_) => unreachable!("not in this answer"),
                Event::End(_) => assert_eq!(read, 68),
            }
        }
        read
    });
}

/// Prints the best of several means: the one with the least other work on the machine.
fn each(name: &str, mut run: impl FnMut() -> usize) {
    let mean_ns = (0..50).map(|_| {
        let start = Instant::now();
        for _ in 0..ROUNDS {
            black_box(run());
        }
        start.elapsed().as_nanos() / u128::from(ROUNDS)
    });
    println!("{name:28} {:6} ns ({} bytes)", mean_ns.min().unwrap_or_default(), run());
}
