//! Programs on the page: those that run, those that wait, and what has become of the others.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::thread;

use flash_tests::{need, set_mode, wait_for};
use serde_json::Value;

use crate::setup::Setup;

const ARCHITECTURES: [&str; 4] = ["amped", "pipelined", "mt", "mp"];

fn script(folder: &Path, name: &str, source: &str) {
    let path = folder.join(name);
    fs::write(&path, format!("#!/bin/sh\n{source}\n")).expect("a script");
    set_mode(&path, 0o755);
}

/// A FastCGI server that answers each request with a word, and keeps its connections. Returns when nobody connects any more.
fn serve_fastcgi(listener: &UnixListener) {
    for stream in listener.incoming().flatten() {
        thread::spawn(move || while answer(&stream).is_some() {});
    }
}

/// Reads the records of a request up to the end of its body (FastCGI §3.3), and answers.
fn answer(mut stream: &UnixStream) -> Option<()> {
    const STDIN: u8 = 5;
    const STDOUT: u8 = 6;
    const END_REQUEST: u8 = 3;
    loop {
        let mut head = [0; 8];
        stream.read_exact(&mut head).ok()?;
        let length = usize::from(u16::from_be_bytes([head[4], head[5]])) + usize::from(head[6]);
        stream.read_exact(&mut vec![0; length]).ok()?;
        if (head[1], length) == (STDIN, 0) {
            break;
        }
    }
    let record =
        |kind: u8, content: &[u8]| [&[1, kind, 0, 1, 0, content.len() as u8, 0, 0], content].concat();
    let page = record(STDOUT, b"Content-Type: text/plain\r\n\r\nfar");
    stream.write_all(&[page, record(STDOUT, b""), record(END_REQUEST, &[0; 8])].concat()).ok()
}

/// The counts of the program of this kind.
fn counts(setup: &Setup, kind: &str, names: &[&str]) -> Vec<u64> {
    let status: Value = serde_json::from_str(&setup.ask("/status.json").1).expect("it is JSON");
    let programs = status["programs"].as_array().expect("a list");
    let of = programs.iter().find(|of| of["kind"] == kind).unwrap_or(&Value::Null);
    names.iter().map(|name| of[*name].as_u64().unwrap_or(u64::MAX)).collect()
}

#[test]
fn each_program_is_counted() {
    let php = need("php-cgi", "php-cgi");
    for arch in ARCHITECTURES {
        let folder = tempfile::tempdir().expect("a folder");
        let (scripts, socket, go) =
            (folder.path().join("cgi"), folder.path().join("far"), folder.path().join("go"));
        fs::create_dir(&scripts).expect("a folder");
        let go_on = format!("while [ ! -e {} ]; do sleep 0.05; done", go.display());
        script(&scripts, "wait", &format!("{go_on}; printf 'Content-Type: text/plain\\n\\nok'"));
        script(&scripts, "fail", "exit 3");
        let listener = UnixListener::bind(&socket).expect("a socket");
        thread::spawn(move || serve_fastcgi(&listener));
        let flags = [
            "--cgi",
            &format!("/cgi={}", scripts.display()),
            "--app",
            &format!(".php={}", php.display()),
            "--fastcgi",
            &format!("/far=unix:{}", socket.display()),
            "--cgi-max",
            "1",
            "--app-max",
            "3",
        ];
        let setup = Setup::start(arch, &flags);
        fs::write(setup.site().join("a.php"), "<?php echo 'php';").expect("a page");
        let is = |kind: &str, names: &[&str], expected: &[u64]| {
            wait_for(&format!("{arch}: {kind}: {names:?} {expected:?}"), || {
                counts(&setup, kind, names) == expected
            });
        };
        is("cgi", &["processes", "busy", "queued", "started", "failed"], &[0; 5]);
        assert_eq!(setup.server.get("/cgi/fail").status, 502, "{arch}");
        assert_eq!(setup.server.get("/cgi/none").status, 404, "{arch}: no failure of a program");
        is("cgi", &["processes", "started", "failed", "refused"], &[0, 1, 1, 0]);
        thread::scope(|scope| {
            let both: Vec<_> = (0..2).map(|_| scope.spawn(|| setup.server.get("/cgi/wait").status)).collect();
            is("cgi", &["processes", "busy", "queued", "started"], &[1, 1, 1, 2]);
            let (_, page) = setup.ask("/status.txt");
            assert!(page.contains("Programs") && page.contains("1 busy, 1 waiting"), "{arch}: {page}");
            let status = setup.run(&["status"]);
            assert!(
                String::from_utf8_lossy(&status.stdout).contains("1 busy, 1 waiting"),
                "{arch}: {status:?}"
            );
            let series = format!(
                "flash_program_queue{{route=\"/cgi\",kind=\"cgi\",program=\"{}\"}} 1\n",
                scripts.canonicalize().expect("it is there").display()
            );
            let (_, metrics) = setup.ask("/metrics");
            assert!(metrics.contains(&series), "{arch}: {series} is not in {metrics}");
            fs::write(&go, b"").expect("a file");
            both.into_iter().for_each(|one| assert_eq!(one.join().expect("it ends"), 200, "{arch}"));
        });
        is("cgi", &["processes", "busy", "queued", "started", "failed"], &[0, 0, 0, 3, 1]);
        // In mp each worker has an application of its own.
        assert_eq!(setup.server.get("/a.php").status, 200, "{arch}");
        is("app", &["processes", "busy", "queued", "started", "failed"], &[1, 0, 0, 1, 0]);
        let [most] = counts(&setup, "app", &["processes_max"])[..] else { panic!("one") };
        assert!(most >= 3 && most % 3 == 0, "{arch}: {most}");
        assert_eq!(setup.server.get("/far/a").status, 200, "{arch}");
        is("fastcgi", &["processes", "busy", "kept", "started", "failed"], &[0, 0, 1, 1, 0]);
        // An idle connection is kept for a moment only.
        is("fastcgi", &["busy", "kept", "started"], &[0, 0, 1]);
        fs::remove_file(&socket).expect("it is there");
        assert_eq!(setup.server.get("/far/a").status, 502, "{arch}");
        is("fastcgi", &["started", "failed"], &[1, 1]);
        setup.server.stop();
    }
}
