//! The command line as people type it: a folder alone, a port, a browser.

#![forbid(unsafe_code)]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use flash_tests::{PATIENCE, program, site};
use rustix::process::{Pid, Signal, kill_process};

/// A desktop whose browser writes down what it is to show.
#[test]
fn a_folder_a_port_and_the_browser() {
    let site = site::make();
    let desktop = tempfile::tempdir().unwrap();
    let (browser, shown) = (desktop.path().join("xdg-open"), desktop.path().join("shown"));
    fs::write(&browser, format!("#!/bin/sh\necho \"$1\" > {}.new\nmv {0}.new {0}\n", shown.display()))
        .unwrap();
    fs::set_permissions(&browser, fs::Permissions::from_mode(0o755)).unwrap();
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
