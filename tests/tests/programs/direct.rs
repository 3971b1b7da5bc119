//! Programs that write to the client themselves.

use std::fs;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::time::Duration;

use flash_tests::{ARCHITECTURES, Server, read_all, reply, scripts, site};

fn everywhere(check: impl Fn(&str, &Server)) {
    let (site, scripts) = (site::make(), scripts::make());
    scripts::script(
        scripts.path(),
        "ten",
        "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'; exec head -c 10000000 /dev/zero",
    );
    let direct = format!("/direct={}", scripts.path().display());
    for arch in ARCHITECTURES {
        let log = scripts.path().join("access.log");
        let _ = fs::remove_file(&log);
        let flags = ["--cgi-direct", &direct, "--processes", "4", "--access-log", log.to_str().unwrap()];
        let server = Server::start(arch, site.path(), &flags);
        check(arch, &server);
        server.stop();
        let said = fs::read_to_string(&log).unwrap();
        assert!(said.contains("/direct/"), "{arch}: {said}");
    }
}

#[test]
fn what_it_writes_is_what_the_client_gets() {
    everywhere(|arch, server| {
        // It would be kept open otherwise.
        let bytes = server.raw(b"GET /direct/perl HTTP/1.1\r\nHost: h\r\n\r\n");
        // The program ends its lines in LF, the server in CR LF.
        let text = String::from_utf8(bytes).unwrap().replace("\r\n", "\n").replace('\n', "\r\n");
        let reply = reply::only(text.as_bytes());
        assert_eq!((reply.status, reply.body.as_slice()), (200, &b"Perl"[..]), "{arch}");
        assert_eq!(
            (reply.field("Connection"), reply.field("Content-Type")),
            (Some("close"), Some("text/plain")),
            "{arch}"
        );
        assert!(reply.field("Date").is_some(), "{arch}");
    });
}

/// Its standard output is a socket that waits for the client, as programs expect of an output.
#[test]
fn a_slow_client_gets_everything() {
    everywhere(|arch, server| {
        let mut client = server.connect();
        client.write_all(b"GET /direct/ten HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
        let mut piece = vec![0; 100_000];
        client.read_exact(&mut piece).unwrap();
        std::thread::sleep(Duration::from_millis(300));
        let rest = read_all(&mut client);
        let head =
            reply::find(&piece, b"\n\n").or(reply::find(&piece, b"\r\n\r\n")).expect("an end of the head");
        assert!(
            (10_000_000..10_000_010).contains(&(piece.len() + rest.len() - head)),
            "{arch}: {}",
            rest.len()
        );
    });
}

/// The program waits for its client meanwhile, and is not silent.
#[test]
fn a_client_may_read_nothing_for_longer_than_a_program_may_be_silent() {
    let (site, scripts) = (site::make(), scripts::make());
    scripts::script(scripts.path(), "much", "#!/bin/sh\nprintf '\\n'; exec head -c 40000000 /dev/zero");
    let direct = format!("/direct={}", scripts.path().display());
    let server = Server::start(
        "amped",
        site.path(),
        &["--cgi-direct", &direct, "--program-deadline", "2s", "--program-send-timeout", "1m"],
    );
    let mut client = server.connect();
    client.write_all(b"GET /direct/much HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    std::thread::sleep(Duration::from_secs(4));
    let got = read_all(&mut client).len();
    assert!(got > 40_000_000, "{got} bytes");
    server.stop();
}

#[test]
fn a_client_that_has_closed_its_side_gets_everything() {
    everywhere(|arch, server| {
        let mut client = server.connect();
        client.write_all(b"GET /direct/ten HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        assert!(read_all(&mut client).len() > 10_000_000, "{arch}");
    });
}

/// What cannot go straight goes the ordinary way, and is right all the same.
#[test]
fn the_ordinary_way_is_there_for_the_rest() {
    everywhere(|arch, server| {
        let post =
            b"POST /direct/echo HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 3\r\n\r\nabc";
        let reply = reply::only(&server.raw(post));
        assert_eq!((reply.status, reply.body.as_slice()), (200, &b"abc"[..]), "{arch}");
        let head = reply::all(
            &server.raw(b"HEAD /direct/perl HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"),
            |_| true,
        );
        assert_eq!((head[0].status, head.len()), (200, 1), "{arch}");
        assert_eq!(server.get("/direct/none").status, 404, "{arch}");
    });
}
