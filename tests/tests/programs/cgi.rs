//! CGI/1.1, case by case, with real programs. Cases are named after the section that they hold Flash to.

use std::io::{Read, Write};

use flash_tests::reply::{self, Reply};
use flash_tests::{ARCHITECTURES, Server, admin, need, scripts, site, wait_for};

fn server(arch: &str, site: &tempfile::TempDir, scripts: &tempfile::TempDir, flags: &[&str]) -> Server {
    let cgi = format!("/cgi={}", scripts.path().display());
    let mut all = vec!["--cgi", cgi.as_str(), "--processes", "4"];
    all.extend(flags);
    Server::start(arch, site.path(), &all)
}

/// For each architecture, a server with scripts.
fn everywhere(flags: &[&str], check: impl Fn(&str, &Server)) {
    let (site, scripts) = (site::make(), scripts::make());
    for arch in ARCHITECTURES {
        let server = server(arch, &site, &scripts, flags);
        check(arch, &server);
        server.stop();
    }
}

fn text(reply: &Reply) -> String {
    String::from_utf8_lossy(&reply.body).into_owned()
}

#[test]
fn programs_of_every_kind_answer() {
    everywhere(&[], |arch, server| {
        for (name, says) in [
            ("python", "Python\n"),
            ("perl", "Perl"),
            ("c?q=1", "C says q=1\n"),
            ("sub/deep/x/y", "/cgi/sub/deep /x/y"),
        ] {
            let reply = server.get(&format!("/cgi/{name}"));
            assert_eq!((reply.status, text(&reply).as_str()), (200, says), "{arch}: {name}");
            assert_eq!(reply.field("Content-Type"), Some("text/plain"), "{arch}: {name}");
        }
    });
}

/// In the JSON log, among the slowest requests, and in histograms by program.
#[test]
fn the_time_of_a_program_is_told() {
    let (site, scripts) = (site::make(), scripts::make());
    scripts::script(
        scripts.path(),
        "slow",
        "#!/bin/sh\nsleep 0.3\nprintf 'Content-Type: text/plain\\n\\nslow'\n",
    );
    for arch in ARCHITECTURES {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (log, socket) = (folder.path().join("log"), folder.path().join("admin.sock"));
        let (log_flag, admin) = (log.to_str().expect("it is text"), format!("unix:{}", socket.display()));
        let flags = ["--access-log", log_flag, "--log-format", "json", "--admin", &admin];
        let server = server(arch, &site, &scripts, &flags);
        assert_eq!(text(&server.get("/cgi/slow")), "slow", "{arch}");
        server.get("/a.txt");
        wait_for("two lines", || std::fs::read_to_string(&log).is_ok_and(|text| text.lines().count() == 2));
        let lines = std::fs::read_to_string(&log).expect("a log");
        let mut lines: Vec<serde_json::Value> =
            lines.lines().map(|line| serde_json::from_str(line).expect("it is JSON")).collect();
        // The end of a program may be noticed later than the next response.
        lines.sort_by_key(|line| line["request"] != "GET /cgi/slow HTTP/1.1");
        let of = |line: usize, field: &str| lines[line][field].as_u64();
        let [queue, connect, first, whole] =
            ["queue", "connect", "first_byte", ""].map(|part| of(0, &field_of_program(part)));
        assert!(first >= Some(250_000) && whole >= first, "{arch}: {}", lines[0]);
        assert!(queue.is_some() && connect.is_some(), "{arch}: {}", lines[0]);
        assert!(of(0, "first_byte_us") >= first, "{arch}: {}", lines[0]);
        assert_eq!(
            (of(1, "program_us"), of(1, "first_byte_us").is_some()),
            (None, true),
            "{arch}: {}",
            lines[1]
        );
        wait_for("its histogram", || {
            let (_, metrics) = admin::ask(&socket, "GET", "/metrics");
            let has = |name: &str| {
                metrics.lines().any(|line| {
                    line.starts_with(name) && line.contains("route=\"/cgi\"") && line.ends_with(" 1")
                })
            };
            ["queue", "connect", "first_byte", "duration"]
                .iter()
                .all(|part| has(&format!("flash_program_{part}_seconds_count{{")))
        });
        let status: serde_json::Value =
            serde_json::from_str(&admin::ask(&socket, "GET", "/status.json").1).expect("it is JSON");
        let slowest = status["slowest"].as_array().expect("a list");
        let is_it = |of: &serde_json::Value| of["program_us"].as_u64() >= Some(250_000);
        assert!(slowest.iter().any(is_it), "{arch}: {slowest:?}");
        server.stop();
    }
}

fn field_of_program(part: &str) -> String {
    if part.is_empty() { "program_us".into() } else { format!("program_{part}_us") }
}

/// A script waits for others to end, and a request for the process of an application.
#[test]
fn waiting_for_a_program_is_told_apart_from_its_start() {
    let (site, scripts) = (site::make(), scripts::make());
    let gate = site.path().join("gate");
    let wait = format!("while [ ! -e {} ]; do sleep 0.01; done", gate.display());
    let script = format!("#!/bin/sh\n{wait}\nprintf 'Content-Type: text/plain\\n\\nok'\n");
    scripts::script(scripts.path(), "waits", &script);
    let php = format!(
        "<?php while (!file_exists('{}')) {{ usleep(1000); clearstatcache(); }} echo 'ok';",
        gate.display()
    );
    std::fs::write(site.path().join("waits.php"), php).expect("a script");
    let cgi = format!("/cgi={}", scripts.path().display());
    let app = format!(".php={}", need("php-cgi", "php-cgi").display());
    for (flags, path) in
        [(["--cgi", &cgi, "--cgi-max", "1"], "/cgi/waits"), (["--app", &app, "--app-max", "1"], "/waits.php")]
    {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (log, socket) = (folder.path().join("log"), folder.path().join("admin.sock"));
        let (log_flag, admin) = (log.to_str().expect("it is text"), format!("unix:{}", socket.display()));
        let told = ["--access-log", log_flag, "--log-format", "json", "--admin", &admin];
        let server = Server::start("amped", site.path(), &[&flags[..], &told].concat());
        std::thread::scope(|scope| {
            let first = scope.spawn(|| server.get(path));
            let counts = |metric: &str| {
                let (_, metrics) = admin::ask(&socket, "GET", "/metrics");
                metrics.lines().any(|line| line.starts_with(metric) && line.ends_with(" 1"))
            };
            wait_for("the first one runs", || counts("flash_program_busy{"));
            let second = scope.spawn(|| server.get(path));
            wait_for("the second one waits", || counts("flash_program_queue{"));
            std::fs::write(&gate, "").expect("it opens");
            for client in [first, second] {
                assert_eq!(text(&client.join().expect("it is answered")), "ok", "{path}");
            }
        });
        let lines = || std::fs::read_to_string(&log).unwrap_or_default();
        wait_for("two lines", || lines().lines().count() == 2);
        let mut queued: Vec<u64> = lines()
            .lines()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("it is JSON"))
            .map(|line| line["program_queue_us"].as_u64().expect("a number"))
            .collect();
        queued.sort_unstable();
        assert!(queued[1] > 0 && queued[0] < queued[1], "{path}: {}", lines());
        server.stop();
        std::fs::remove_file(&gate).expect("it closes");
    }
}

/// RFC 3875 §4.1, and what every server says besides.
#[test]
fn section_4_1_meta_variables() {
    everywhere(&[], |arch, server| {
        let request = "GET /cgi/env/in%20fo/%C3%A9?a=b+c&d HTTP/1.1\r\nHost: example.org:81\r\nX-Two: 1\r\nX-Two: 2\r\n\
                       Proxy: evil\r\nX_Under: evil\r\nContent-Type: text/x\r\nConnection: close\r\n\r\n";
        let reply = reply::only(&server.raw(request.as_bytes()));
        let said = text(&reply);
        let has =
            |line: &str| assert!(said.lines().any(|other| other == line), "{arch}: {line} is not in\n{said}");
        for line in [
            "GATEWAY_INTERFACE=CGI/1.1",
            "REQUEST_METHOD=GET",
            "QUERY_STRING=a=b+c&d",
            "SCRIPT_NAME=/cgi/env",
            "PATH_INFO=/in fo/é",
            "SERVER_PROTOCOL=HTTP/1.1",
            "SERVER_NAME=example.org",
            "REMOTE_ADDR=127.0.0.1",
            "HTTP_X_TWO=1, 2",
            "HTTP_HOST=example.org:81",
            "REQUEST_URI=/cgi/env/in%20fo/%C3%A9?a=b+c&d",
        ] {
            has(line);
        }
        has(&format!("SERVER_PORT={}", server.address.port()));
        for absent in ["HTTP_PROXY", "HTTP_X_UNDER", "evil", "HTTPS=", "HTTP_CONTENT_TYPE"] {
            assert!(!said.contains(absent), "{arch}: {absent} is in\n{said}");
        }
        assert!(
            said.lines().any(|line| line.starts_with("PATH_TRANSLATED=/") && line.ends_with("/in fo/é")),
            "{arch}: {said}"
        );
    });
}

/// RFC 3875 §4.2: the request's body, streamed, whatever its framing.
#[test]
fn section_4_2_request_bodies() {
    everywhere(&["--body-bytes-max", "8M"], |arch, server| {
        let body = site::pattern(3_000_000);
        let mut request = format!(
            "POST /cgi/echo HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
            body.len()
        )
        .into_bytes();
        request.extend_from_slice(&body);
        assert!(both_ways(server, &request).body == body, "{arch}: by its length");
        let mut request =
            b"POST /cgi/echo HTTP/1.1\r\nHost: h\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
                .to_vec();
        for piece in body.chunks(70_000) {
            request.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
            request.extend_from_slice(piece);
            request.extend_from_slice(b"\r\n");
        }
        request.extend_from_slice(b"0\r\n\r\n");
        assert!(both_ways(server, &request).body == body, "{arch}: in chunks");
        // What is left over belongs to the next request.
        let two = "POST /cgi/echo HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabcGET /a.txt HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
        let replies = reply::all(&server.raw(two.as_bytes()), |_| false);
        let bodies: Vec<&[u8]> = replies.iter().map(|reply| &reply.body[..]).collect();
        assert_eq!(bodies, [&b"abc"[..], b"0123456789"], "{arch}");
        let too_much = "POST /cgi/echo HTTP/1.1\r\nHost: h\r\nContent-Length: 9999999\r\n\r\n";
        assert_eq!(reply::only(&server.raw(too_much.as_bytes())).status, 413, "{arch}");
    });
}

/// RFC 9110 §10.1.1: a client that asks for leave is given it when its program runs.
#[test]
fn a_client_that_expects_100_gets_it() {
    everywhere(&[], |arch, server| {
        let mut client = server.connect();
        client.write_all(b"POST /cgi/echo HTTP/1.1\r\nHost: h\r\nConnection: close\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n").unwrap();
        let mut leave = [0; 25];
        client.read_exact(&mut leave).unwrap();
        assert_eq!(&leave, b"HTTP/1.1 100 Continue\r\n\r\n", "{arch}");
        client.write_all(b"abc").unwrap();
        assert_eq!(reply::only(&flash_tests::read_all(&mut client)).body, b"abc", "{arch}");
    });
}

/// RFC 3875 §6: the four kinds of response, and what of a head is passed on.
#[test]
fn section_6_responses() {
    everywhere(&[], |arch, server| {
        let get = |name: &str| server.get(&format!("/cgi/{name}"));
        let reply = get("status");
        assert_eq!(
            (reply.status, text(&reply).as_str(), reply.field("X-Own")),
            (404, "nothing", Some("yes")),
            "{arch}"
        );
        assert_eq!(text(&get("length")), "hello", "{arch}: no more than was promised");
        let local = get("local");
        assert_eq!(
            (local.status, text(&local).as_str()),
            (200, "0123456789"),
            "{arch}: another file in its place"
        );
        assert_eq!(get("round").status, 502, "{arch}: a redirection without end");
        let client = get("client");
        assert_eq!((client.status, client.field("Location")), (302, Some("http://elsewhere/")), "{arch}");
        let document = get("document");
        assert_eq!(
            (document.status, document.field("Location"), text(&document).as_str()),
            (301, Some("/there"), "moved"),
            "{arch}"
        );
        let fields = get("forbidden-fields");
        assert_eq!((fields.field("Connection"), text(&fields).as_str()), (Some("close"), "ok"), "{arch}");
        let own = server.get("/cgi/nph-own");
        assert_eq!(
            (own.status, own.field("X-Own"), text(&own).as_str()),
            (299, Some("yes"), "own"),
            "{arch}"
        );
    });
}

/// RFC 9112 §6.3, §9.3: kept connections get chunks, HTTP/1.0 the end of the connection, and HEAD no body.
#[test]
fn the_end_of_a_response_can_be_told() {
    everywhere(&[], |arch, server| {
        let two = "GET /cgi/python HTTP/1.1\r\nHost: h\r\n\r\nGET /cgi/perl HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
        let replies = reply::all(&server.raw(two.as_bytes()), |_| false);
        let told: Vec<_> =
            replies.iter().map(|reply| (text(reply), reply.field("Transfer-Encoding"))).collect();
        assert_eq!(told, [("Python\n".into(), Some("chunked")), ("Perl".into(), Some("chunked"))], "{arch}");
        let old = String::from_utf8(server.raw(b"GET /cgi/perl HTTP/1.0\r\n\r\n")).unwrap();
        assert!(old.ends_with("\r\n\r\nPerl") && !old.contains("chunked"), "{arch}: {old}");
        let head = server.raw(b"HEAD /cgi/perl HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
        let replies = reply::all(&head, |_| true);
        assert_eq!((replies[0].status, replies.len()), (200, 1), "{arch}");
    });
}

/// What is not a program is not run, and what is one is never shown.
#[test]
fn what_may_not_run_does_not() {
    everywhere(&[], |arch, server| {
        for (name, status) in [
            ("none", 404),
            ("", 404),
            ("plain.txt", 403),
            ("out", 404),
            ("sub", 404),
            ("%2e%2e/etc/passwd", 404),
        ] {
            let reply = server.get(&format!("/cgi/{name}"));
            assert!(
                reply.status == status || (reply.status == 403 && status == 404) || reply.status == 400,
                "{arch}: {name}: {}",
                reply.status
            );
        }
    });
}

/// The folder of scripts may lie in the site: its files are programs under every name.
#[test]
fn a_script_is_never_shown() {
    let site = site::make();
    let scripts = site.path().join("bin");
    std::fs::create_dir(&scripts).unwrap();
    scripts::script(&scripts, "run", "#!/bin/sh\necho 'Content-Type: text/plain'; echo; echo ran");
    std::os::unix::fs::symlink("bin", site.path().join("other")).unwrap();
    std::os::unix::fs::symlink("bin/run", site.path().join("run.txt")).unwrap();
    let cgi = format!("/bin={}", scripts.display());
    for arch in ARCHITECTURES {
        let server = Server::start(arch, site.path(), &["--cgi", &cgi, "--list", "--processes", "4"]);
        for path in [
            "/bin/run",
            "/bin//run",
            "//bin/run",
            "/%62in/run",
            "/x/../bin/run",
            "/bin/./run",
            "/other/run",
            "/run.txt",
            "/BIN/run",
            "/bin/run/",
            "/bin/run%00",
        ] {
            let reply =
                server.raw(format!("GET {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").as_bytes());
            let said = String::from_utf8_lossy(&reply);
            assert!(!said.contains("#!/bin/sh"), "{arch}: {path}: {said}");
        }
        assert_eq!(text(&server.get("/bin/run")), "ran\n", "{arch}");
        server.stop();
    }
}

/// §6.1, §9.? complaints: standard error goes to the log, with the request's name.
#[test]
fn complaints_are_logged() {
    let (site, scripts) = (site::make(), scripts::make());
    for arch in ARCHITECTURES {
        let server = server(arch, &site, &scripts, &[]);
        assert_eq!(text(&server.get("/cgi/complain")), "ok", "{arch}");
        let give_up = std::time::Instant::now() + flash_tests::PATIENCE;
        while !server.said().contains("another thing") && std::time::Instant::now() < give_up {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        let said = server.stop();
        for line in ["one thing", "another thing"] {
            assert!(
                said.lines().any(|other| other.contains(line) && other.contains("/cgi/complain")),
                "{arch}: {said}"
            );
        }
    }
}

/// Sends a request whose answer begins before it has been sent.
fn both_ways(server: &Server, request: &[u8]) -> Reply {
    let mut client = server.connect();
    let mut sender = client.try_clone().unwrap();
    let request = request.to_vec();
    let sending = std::thread::spawn(move || sender.write_all(&request));
    let bytes = flash_tests::read_all(&mut client);
    sending.join().unwrap().expect("the server takes the request");
    reply::only(&bytes)
}

/// The server raises its own limit, and the fork helper too.
#[test]
fn a_program_finds_the_limit_of_descriptors_that_the_server_was_started_with() {
    need("prlimit", "util-linux");
    let (site, scripts) = (site::make(), scripts::make());
    scripts::script(scripts.path(), "limit", "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'; ulimit -n");
    let cgi = format!("/cgi={}", scripts.path().display());
    let wrapper = ["prlimit", "--nofile=300:4000"];
    let server = Server::start_under(&wrapper, "amped", site.path(), &["--cgi", &cgi]);
    assert_eq!(text(&server.get("/cgi/limit")), "300\n");
    server.stop();
}
