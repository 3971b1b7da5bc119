//! Which settings a reload changes, and what it says of the others.

use std::fs;
use std::io::{Read, Write};
use std::mem;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use flash_tests::{PROCESSES, Server, reply, scripts, site, wait_for};
use rustix::process::Signal;

use crate::setup::{Setup, architectures, without_sandbox};

fn text(setup: &Setup, name: &str) -> String {
    fs::read_to_string(setup.path(name)).unwrap_or_default()
}

#[test]
fn sites_come_change_and_go() {
    for arch in architectures() {
        let site = |host: &str, root: &str, more: &str| format!("[site.'{host}']\nroot = '{root}'\n{more}");
        let all = |sites: &[String]| format!("# root = none\n{}", sites.concat());
        let setup = Setup::start(arch, &all(&[site("a.example", "old", ""), site("b.example", "new", "")]));
        let ask = |host: &str, path: &str| {
            let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
            let reply = reply::only(&setup.server.raw(request.as_bytes()));
            (reply.status, String::from_utf8(reply.body).expect("it is text"))
        };
        let [old, new] = ["old", "new"].map(|text| (200, text.to_owned()));
        assert_eq!((ask("a.example", "/a.txt"), ask("b.example", "/a.txt")), (old.clone(), new.clone()));
        assert_eq!(ask("c.example", "/a.txt").0, 421, "{arch}");
        setup.change(&all(&[site("c.example", "new", ""), site("a.example", "new", "list = true\n")]));
        assert_eq!((ask("a.example", "/a.txt"), ask("c.example", "/a.txt")), (new.clone(), new), "{arch}");
        assert_eq!((ask("a.example", "/empty/").0, ask("c.example", "/empty/").0), (200, 403), "{arch}");
        assert_eq!(ask("b.example", "/a.txt").0, 421, "{arch}");
        setup.change(&all(&[site("*", "old", "spa = 'a.txt'\n")]));
        assert_eq!((ask("a.example", "/a.txt"), ask("x", "/nowhere")), (old.clone(), old), "{arch}");
        setup.server.stop();
    }
}

#[test]
fn a_file_with_errors_changes_nothing() {
    for arch in architectures() {
        let setup = Setup::start(arch, "error-log = 'errors'\n");
        for (settings, expected) in [
            ("error-log = 'errors'\nlisst = true\n", "did you mean `list`?"),
            ("error-log = 'errors'\nfallback = 'none.html'\n", "there is no such file"),
            ("error-log = 'errors'\narch = \n", "error:"),
        ] {
            setup.write(settings);
            let (code, said) = setup.reload();
            assert_eq!(code, Some(1), "{arch}: {said}");
            assert!(said.contains(expected) && said.contains("flash.toml:"), "{arch}: {said}");
            assert_eq!((setup.body("/a.txt"), setup.in_use()), ("old".into(), vec![1]), "{arch}");
        }
        setup.server.signal(Signal::HUP);
        wait_for("the lines about it", || {
            text(&setup, "errors").contains("the configuration stays what it was")
        });
        wait_for("what is wrong", || text(&setup, "errors").contains("flash.toml has "));
        setup.write("error-log = 'errors'\nlist = true\n");
        setup.server.signal(Signal::HUP);
        wait_for("the next configuration", || setup.in_use() == [2]);
        wait_for("its line", || text(&setup, "errors").contains("configuration 2 serves from now on"));
        assert_eq!(setup.server.get("/empty/").status, 200, "{arch}");
        setup.server.stop();
    }
}

#[test]
fn without_its_last_included_site_a_file_is_wrong() {
    for arch in architectures() {
        let setup = Setup::start(arch, "# root = none\ninclude = 'sites/*.toml'\n[site.'*']\nroot = 'old'\n");
        setup.write("# root = none\ninclude = 'sites/*.toml'\n");
        let (code, said) = setup.reload();
        assert_eq!(code, Some(1), "{arch}: {said}");
        assert!(said.contains("there is no site, and no `root`") && said.contains("include = "), "{said}");
        assert_eq!((setup.body("/a.txt"), setup.in_use()), ("old".into(), vec![1]), "{arch}");
        setup.server.stop();
    }
}

#[test]
fn what_cannot_change_is_named_with_its_place() {
    for arch in architectures() {
        let setup = Setup::start(arch, "");
        setup.write("path-cache = 7\nuser = 'root'\n");
        let (code, said) = setup.reload();
        assert_eq!(code, Some(1), "{arch}: {said}");
        for (key, by) in [("path-cache", "`flash upgrade` or a restart"), ("user", "a restart")] {
            assert!(said.contains(&format!("only {by} changes `{key}`")), "{arch}: {said}");
        }
        assert!(
            said.contains("flash.toml has 2 errors") && said.contains("path-cache = 7\n"),
            "{arch}: {said}"
        );
        assert_eq!(setup.in_use(), [1], "{arch}");
        if arch == PROCESSES {
            setup.write("listen = '127.0.0.1:1'\n");
            let (code, said) = setup.reload();
            assert!(
                code == Some(1)
                    && said.contains("only `flash upgrade` or a restart changes `listen` in the sandbox"),
                "{said}"
            );
        }
        setup.server.stop();
    }
}

#[test]
fn logs_move_begin_and_end() {
    for arch in without_sandbox() {
        let settings = |log: &str| format!("access-log = '{log}'\nerror-log = 'errors-{log}'\n");
        let setup = Setup::start(arch, &settings("one"));
        let visit = |name: &str| _ = setup.server.get(name);
        visit("/first");
        wait_for("a line", || text(&setup, "one").contains("GET /first"));
        setup.change(&settings("two"));
        visit("/second");
        wait_for("a line", || text(&setup, "two").contains("GET /second"));
        assert!(!text(&setup, "one").contains("GET /second"), "{arch}");
        wait_for("an error line", || text(&setup, "errors-two").contains("configuration 2"));
        setup.change("access-log = 'off'\n");
        visit("/third");
        setup.change(&format!("log-format = 'json'\n{}", settings("two")));
        visit("/fourth");
        wait_for("a line", || text(&setup, "two").contains("/fourth"));
        assert!(!text(&setup, "two").contains("/third"), "{arch}: {}", text(&setup, "two"));
        assert!(text(&setup, "two").lines().last().is_some_and(|line| line.starts_with('{')), "{arch}");
        setup.server.stop();
    }
}

/// A request keeps its configuration, and with it its log, to its last byte.
#[test]
fn a_site_gets_another_log_and_a_download_keeps_its_own() {
    for arch in without_sandbox() {
        let settings = |log: &str| format!("# root = none\n[site.'*']\nroot = 'old'\naccess-log = '{log}'\n");
        let setup = Setup::start(arch, &settings("one"));
        fs::write(setup.path("old/large"), vec![0; 20_000_000]).expect("it is written");
        let mut download = setup.server.connect();
        download
            .write_all(b"GET /large HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
            .expect("it is sent");
        let mut begun = vec![0; 1000];
        download.read_exact(&mut begun).expect("it begins");
        setup.change(&settings("two"));
        _ = setup.server.get("/a.txt");
        wait_for("a line", || text(&setup, "two").contains("GET /a.txt"));
        _ = flash_tests::read_all(&mut download);
        wait_for("the download's line", || text(&setup, "one").contains("GET /large"));
        assert!(!text(&setup, "one").contains("GET /a.txt"), "{arch}");
        setup.server.stop();
    }
}

#[test]
fn programs_that_write_to_the_client_are_in_the_present_log() {
    let scripts = tempfile::tempdir().expect("a temporary folder");
    scripts::script(scripts.path(), "own", "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\nown'\n");
    for arch in without_sandbox() {
        let program = format!("cgi-direct = {{ '/out' = '{}' }}\n", scripts.path().display());
        let settings = |more: &str| format!("{program}{more}");
        let setup = Setup::start(arch, &settings("access-log = 'off'\n"));
        let visit = |query: &str| {
            let request = format!("GET /out/own?{query} HTTP/1.1\r\nHost: h\r\n\r\n");
            assert!(setup.server.raw(request.as_bytes()).ends_with(b"own"), "{arch}");
        };
        setup.change(&settings("access-log = 'log'\n"));
        visit("first");
        wait_for("a line", || text(&setup, "log").contains("/out/own?first"));
        setup.change(&settings("access-log = 'log'\nlog-format = 'json'\n"));
        visit("second");
        wait_for("another line", || text(&setup, "log").contains("/out/own?second"));
        assert!(text(&setup, "log").lines().last().is_some_and(|line| line.starts_with('{')), "{arch}");
        setup.server.stop();
    }
}

#[test]
fn programs_are_told_the_root_of_the_present_configuration() {
    let scripts = tempfile::tempdir().expect("a temporary folder");
    scripts::script(
        scripts.path(),
        "where",
        "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n%s %s' \"$DOCUMENT_ROOT\" \"$PATH_TRANSLATED\"\n",
    );
    for arch in architectures() {
        let program = format!("cgi = {{ '/bin' = '{}' }}\n", scripts.path().display());
        let setup = Setup::start(arch, &program);
        let assert_told = |root: &str| {
            let root = setup.path(root).canonicalize().expect("the folder is there").display().to_string();
            assert_eq!(setup.body("/bin/where/more/info"), format!("{root} {root}/more/info"), "{arch}");
        };
        assert_told("old");
        setup.change(&format!("root = 'new'\n{program}"));
        assert_told("new");
        setup.server.stop();
    }
}

/// A FastCGI server that answers with its name. It keeps its connections open, and counts those with a request: at its
/// start, Flash tries whether the server can be reached.
fn fastcgi_server(folder: &Path, name: &'static str) -> (PathBuf, Arc<AtomicUsize>) {
    const END_REQUEST: u8 = 3;
    const STDIN: u8 = 5;
    const STDOUT: u8 = 6;
    let (path, connections) = (folder.join(name), Arc::new(AtomicUsize::new(0)));
    let (listener, counter) = (UnixListener::bind(&path).expect("a socket"), Arc::clone(&connections));
    let serve = |mut stream: UnixStream, name: &str, connections: &AtomicUsize| {
        let mut head = [0; 8];
        let mut is_first = true;
        while stream.read_exact(&mut head).is_ok() {
            let length = u16::from_be_bytes([head[4], head[5]]);
            let mut content = vec![0; usize::from(length) + usize::from(head[6])];
            stream.read_exact(&mut content).expect("the rest of a record");
            if head[1] == STDIN && length == 0 {
                connections.fetch_add(usize::from(mem::take(&mut is_first)), Ordering::Relaxed);
                let body = format!("Content-Type: text/plain\n\n{name}");
                let record =
                    |kind, content: &[u8]| [&[1, kind, 0, 1, 0, content.len() as u8, 0, 0], content].concat();
                let answer =
                    [record(STDOUT, body.as_bytes()), record(STDOUT, b""), record(END_REQUEST, &[0; 8])];
                stream.write_all(&answer.concat()).expect("the server takes the answer");
            }
        }
    };
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, counter) = (stream.expect("a connection"), Arc::clone(&counter));
            thread::spawn(move || serve(stream, name, &counter));
        }
    });
    (path, connections)
}

#[test]
fn connections_to_fastcgi_servers_that_stay_are_kept() {
    for arch in without_sandbox().filter(|arch| *arch != "mp") {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let [(one, connections), (two, of_two)] =
            ["one", "two"].map(|name| fastcgi_server(folder.path(), name));
        let routes = |routes: &[(&str, &Path)]| {
            let routes =
                routes.iter().map(|(prefix, path)| format!("'{prefix}' = 'unix:{}'", path.display()));
            format!("fastcgi = {{ {} }}\n", routes.collect::<Vec<_>>().join(", "))
        };
        let setup = Setup::start(arch, &routes(&[("/one", &one)]));
        assert_eq!(setup.body("/one/x"), "one", "{arch}");
        let idle_since = Instant::now();
        setup.change(&routes(&[("/two", &two), ("/one", &one)]));
        assert_eq!([setup.body("/one/x"), setup.body("/two/x")], ["one", "two"], "{arch}");
        // An idle connection is kept for two seconds.
        let is_late = idle_since.elapsed() > Duration::from_secs(1);
        assert!(is_late || connections.load(Ordering::Relaxed) == 1, "{arch}: it was idle");
        setup.change(&routes(&[("/two", &two)]));
        assert_eq!((setup.body("/two/x"), setup.server.get("/one/x").status), ("two".into(), 404), "{arch}");
        assert!(is_late || of_two.load(Ordering::Relaxed) == 1, "{arch}");
        setup.server.stop();
    }
}

#[test]
fn the_number_of_helpers_changes() {
    for arch in ["amped", "uring", PROCESSES] {
        let setup = Setup::start(arch, "helpers-max = 1\n");
        let helpers_max = || setup.status()["devices"][0]["helpers_max"].as_u64();
        assert_eq!(helpers_max(), Some(1), "{arch}");
        for count in [8, 2] {
            setup.change(&format!("helpers-max = {count}\n"));
            assert_eq!(helpers_max(), Some(count), "{arch}");
        }
        assert_eq!(setup.body("/a.txt"), "old", "{arch}");
        setup.server.stop();
    }
}

#[test]
fn limits_hold_from_the_next_request_on() {
    for arch in architectures() {
        let setup = Setup::start(arch, "");
        let mut stream = setup.server.connect();
        let mut ask = |length: usize| {
            let request = format!("GET /{} HTTP/1.1\r\nHost: h\r\n\r\n", "x".repeat(length));
            stream.write_all(request.as_bytes()).expect("the connection is open");
            let mut answer = [0; 4096];
            let count = stream.read(&mut answer).expect("the connection is open");
            String::from_utf8_lossy(&answer[9..count.min(12)]).into_owned()
        };
        assert_eq!(ask(500), "404", "{arch}");
        setup.change("target-bytes-max = 100\n");
        assert_eq!(ask(500), "414", "{arch}: the idle connection gets the new limit");
        setup.server.stop();
    }
}

#[test]
fn connections_stay_counted_when_the_first_limit_comes_and_the_last_goes() {
    for arch in architectures() {
        let settings = |limit: &str| format!("connections-per-client = 2\n{limit}");
        let setup = Setup::start(arch, &settings(""));
        let keep = || {
            let mut stream = setup.server.connect();
            // One that is turned away may be closed already.
            let _ = stream.write_all(b"GET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n");
            let mut head = [0; 12];
            stream.read_exact(&mut head).expect("a status line");
            (stream, String::from_utf8_lossy(&head[9..]).into_owned())
        };
        let mut kept = Vec::new();
        for limit in ["limit = '1000/s'\n", ""] {
            kept.push(keep());
            setup.change(&settings(limit));
        }
        assert!(kept.iter().all(|(_, status)| status == "200"), "{arch}");
        assert_eq!(keep().1, "429", "{arch}: both connections are counted");
        drop(kept);
        wait_for("their places", || keep().1 == "200");
        setup.server.stop();
    }
}

#[test]
fn without_a_file_sighup_reads_the_pages_for_errors_again() {
    for arch in without_sandbox() {
        let (site, pages) = (site::make(), tempfile::tempdir().unwrap());
        let page = pages.path().join("404.html");
        fs::write(&page, "one").unwrap();
        let flags = ["--processes", "2", "--error-pages", pages.path().to_str().unwrap()];
        let server = Server::start(arch, site.path(), &flags);
        let missing = || String::from_utf8(server.get("/nowhere").body).expect("it is text");
        assert_eq!(missing(), "one", "{arch}");
        fs::write(&page, "another").unwrap();
        server.signal(Signal::HUP);
        wait_for("the other page", || missing() == "another");
        server.stop();
    }
}

#[test]
fn logs_that_were_rotated_or_left_are_closed() {
    // The parent of mp keeps its logs for workers that may not open them.
    for arch in without_sandbox().filter(|arch| *arch != "mp") {
        let settings = |log: &str| format!("access-log = '{log}'\nerror-log = 'errors-{log}'\n");
        let setup = Setup::start(arch, &settings("one"));
        let is_open = |name: &str| {
            let descriptors = fs::read_dir(format!("/proc/{}/fd", setup.server.pid())).expect("it runs");
            let mut files = descriptors.flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
            files.any(|file| file.ends_with(name))
        };
        for log in ["one", "errors-one"] {
            assert!(is_open(log), "{arch}: {log}");
            fs::rename(setup.path(log), setup.path(&format!("{log}.1"))).expect("it is renamed");
        }
        assert_eq!(setup.ask("POST", "/reopen").0, 200, "{arch}");
        for log in ["one.1", "errors-one.1"] {
            wait_for("a rotated log to be closed", || !is_open(log));
        }
        setup.change(&settings("two"));
        assert!(is_open("two") && is_open("errors-two"), "{arch}");
        for log in ["one", "errors-one"] {
            wait_for("a log that is left to be closed", || !is_open(log));
        }
        setup.server.stop();
    }
}
