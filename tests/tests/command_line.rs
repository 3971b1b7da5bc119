//! The command line as people type it: a folder alone, a port, a browser.

#![forbid(unsafe_code)]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use flash_tests::{PATIENCE, program, set_mode, site, terminal};
use rustix::process::{Pid, Signal, kill_process};

/// A desktop whose browser writes down what it is to show.
#[test]
fn a_folder_a_port_and_the_browser() {
    let site = site::make();
    let desktop = tempfile::tempdir().unwrap();
    let (browser, shown) = (desktop.path().join("xdg-open"), desktop.path().join("shown"));
    fs::write(&browser, format!("#!/bin/sh\necho \"$1\" > {}.new\nmv {0}.new {0}\n", shown.display()))
        .unwrap();
    set_mode(&browser, 0o755);
    let path = format!("{}:/bin:/usr/bin", desktop.path().display());
    let mut flash = Command::new(program())
        .args([".", "-p", "0", "--host", "localhost", "--open"])
        .current_dir(site.path())
        .env("PATH", path)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(flash.stderr.take().unwrap()).lines().map_while(Result::ok);
    let line = lines.find(|line| line.contains("http://127.0.0.1:"));
    let url =
        line.as_ref().and_then(|line| line.split(" at ").nth(1)?.split(' ').next()).expect("its address");
    let give_up = Instant::now() + PATIENCE;
    while !shown.exists() && Instant::now() < give_up {
        thread::sleep(Duration::from_millis(10));
    }
    let asked = fs::read_to_string(&shown).unwrap_or_default();
    let answer =
        TcpStream::connect(url.trim_start_matches("http://").trim_end_matches('/')).map(|mut stream| {
            stream.write_all(b"GET /a.txt HTTP/1.0\r\n\r\n").unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            answer
        });
    kill_process(Pid::from_child(&flash), Signal::TERM).unwrap();
    assert_eq!(flash.wait().unwrap().code(), Some(0));
    assert_eq!(asked.trim_end(), url);
    assert!(answer.unwrap().ends_with("\r\n\r\n0123456789"));
}

#[test]
fn without_a_browser_the_address_is_said() {
    let site = site::make();
    let flash = Command::new(program())
        .args([".", "-p", "0", "--open"])
        .current_dir(site.path())
        .env("PATH", "/nowhere")
        .stderr(Stdio::piped())
        .spawn();
    let mut flash = flash.unwrap();
    let first = BufReader::new(flash.stderr.take().unwrap()).lines().next();
    kill_process(Pid::from_child(&flash), Signal::TERM).unwrap();
    flash.wait().unwrap();
    let said = first.expect("a line").unwrap();
    assert!(
        said.starts_with("flash: cannot open a browser: none can be started here; visit http://"),
        "{said}"
    );
}

/// What a person at a terminal sees of two requests and the end.
fn preview(flags: &[&str]) -> String {
    let site = site::make();
    let (ours, theirs) = terminal::open();
    let mut flash = Command::new(program())
        .arg("serve")
        .arg(site.path())
        .args(["--listen", "127.0.0.1:0"])
        .args(flags)
        .stdout(theirs.try_clone().unwrap())
        .stderr(theirs)
        .spawn()
        .unwrap();
    // Reading fails when the last program has left the terminal.
    let mut lines = BufReader::new(ours).lines().map_while(Result::ok);
    let mut seen = lines.by_ref().find(|line| line.contains("http://")).expect("the line that says where");
    let address =
        seen.split("http://").nth(1).and_then(|rest| rest.split('/').next()).expect("an address").to_owned();
    for path in ["/a.txt", "/none"] {
        let mut stream = TcpStream::connect(&address).unwrap();
        write!(stream, "GET {path} HTTP/1.0\r\n\r\n").unwrap();
        stream.read_to_end(&mut Vec::new()).unwrap();
    }
    kill_process(Pid::from_child(&flash), Signal::TERM).unwrap();
    for line in lines {
        seen += "\n";
        seen += line.trim_end();
    }
    assert_eq!(flash.wait().unwrap().code(), Some(0));
    seen
}

#[test]
fn a_preview_shows_each_request_and_ends_with_a_line_for_people() {
    let seen = preview(&[]);
    assert!(seen.contains("\n200 GET /a.txt 10 B ") && seen.contains("\n404 GET /none "), "{seen}");
    let last = seen.lines().last().unwrap();
    assert!(last.starts_with("flash: stopped: served 2 requests, ") && last.ends_with(" times"), "{seen}");
    assert!(!seen.contains("requests="), "{seen}");
}

#[test]
fn what_a_preview_shows_can_be_chosen() {
    let seen = preview(&["--access-log", "off", "--verbose"]);
    assert!(!seen.contains("GET /a.txt"), "{seen}");
    assert!(seen.contains("flash: stopped: requests=2 ") && seen.contains("sent_bytes="), "{seen}");
    assert!(seen.lines().last().unwrap().starts_with("flash: stopped: served 2 requests, "), "{seen}");
    assert!(preview(&["--log-format", "json"]).contains("\"request\":\"GET /a.txt HTTP/1.0\""));
}

#[test]
fn an_unknown_command_gets_the_nearest_one() {
    for (word, said) in [
        ("serv", "there is no command 'serv': did you mean 'flash serve'?"),
        ("laod", "there is no command 'laod': did you mean 'flash load'?"),
        ("xyzzy", "there is no command 'xyzzy' (see flash --help)"),
    ] {
        let output = Command::new(program()).arg(word).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), text.trim_end()), (Some(2), &*format!("flash: {said}")));
    }
}

#[test]
fn a_reload_without_a_file_says_how_to_name_the_server() {
    let output = Command::new(program()).args(["reload", "--config", "/no/such/file.toml"]).output().unwrap();
    let said = "flash: there is no /no/such/file.toml: say --config with the server's file, or --admin with its \
                socket (unix:PATH)\n";
    assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()), (Some(2), said));
}
