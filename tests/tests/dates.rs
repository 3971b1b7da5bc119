//! Times of modification as clients see them: RFC 9110 §8.8.2.

#![forbid(unsafe_code)]

use std::fs::File;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use flash_tests::{ARCHITECTURES, PATIENCE, Server, reply, site};

fn ask(server: &Server, fields: &str) -> reply::Reply {
    let request = format!("GET /a.txt HTTP/1.1\r\nHost: h\r\nConnection: close\r\n{fields}\r\n");
    reply::only(&server.raw(request.as_bytes()))
}

#[test]
fn nothing_was_modified_in_the_future_and_a_date_is_strong_when_its_second_is_over() {
    let site = site::make();
    let file = File::options().write(true).open(site.path().join("a.txt")).unwrap();
    for arch in ARCHITECTURES {
        let server = Server::start(arch, site.path(), &["--processes", "2", "--revalidate", "0"]);
        file.set_modified(SystemTime::now() + Duration::from_secs(3600)).unwrap();
        for (status, fields) in [(200, ""), (206, "Range: bytes=1-2\r\n"), (304, "If-None-Match: *\r\n")] {
            let reply = ask(&server, fields);
            assert_eq!(reply.status, status, "{arch}");
            assert_eq!(reply.field("Last-Modified"), reply.field("Date"), "{arch}: {status}");
        }
        let give_up = Instant::now() + PATIENCE;
        loop {
            assert!(Instant::now() < give_up, "{arch}: a second was never long enough");
            file.set_modified(SystemTime::now()).unwrap();
            let modified = ask(&server, "").field("Last-Modified").unwrap().to_owned();
            let part = format!("Range: bytes=1-2\r\nIf-Range: {modified}\r\n");
            let early = ask(&server, &part);
            thread::sleep(Duration::from_millis(1100));
            let late = ask(&server, &part);
            assert_eq!((late.status, &late.body[..]), (206, &b"12"[..]), "{arch}");
            if early.field("Date") == Some(&modified) {
                assert_eq!((early.status, &early.body[..]), (200, &b"0123456789"[..]), "{arch}");
                break;
            }
        }
        server.stop();
    }
}
