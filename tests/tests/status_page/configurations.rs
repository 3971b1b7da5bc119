//! Which configurations are in use after a reload, since when, and who holds the earlier ones.

use std::io::{Read, Write};
use std::net::TcpStream;

use flash_tests::{read_all, site, wait_for};
use serde_json::Value;

use crate::setup::Setup;

const BYTES: usize = 20_000_000;

/// Begins a download that is not read to its end, behind other requests. Returns the first bytes of all responses, too.
pub(crate) fn begin_download(setup: &Setup, before: &str) -> (TcpStream, [u8; 1000]) {
    site::write(&setup.site().join("large"), &site::pattern(BYTES));
    let mut download = setup.server.connect();
    write!(download, "{before}GET /large HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
        .expect("it takes the request");
    let mut first = [0; 1000];
    download.read_exact(&mut first).expect("it begins");
    (download, first)
}

#[test]
fn an_earlier_configuration_says_who_holds_it() {
    for arch in ["amped", "uring", "sped", "pipelined", "mt", "mp"] {
        let setup = Setup::configured(arch);
        let configurations = || -> Vec<Value> {
            let status: Value = serde_json::from_str(&setup.ask("/status.json").1).expect("it is JSON");
            status["configurations"].as_array().expect("a list").clone()
        };
        let (mut download, _) = begin_download(&setup, "");
        wait_for(
            &format!("{arch}: the request"),
            || matches!(&configurations()[..], [one] if one["number"] == 1 && one["requests"] == 1),
        );
        let summary = || String::from_utf8_lossy(&setup.run(&["status"]).stdout).into_owned();
        let line = |text: &str| {
            let line = text.lines().find(|line| line.starts_with("Configuration ")).expect("a line");
            line.split_once(' ').expect("words").1.trim().to_owned()
        };
        assert_eq!(line(&summary()), "1", "{arch}");
        setup.reload();
        assert_eq!(setup.server.get("/a.txt").status, 200, "{arch}");
        wait_for(
            &format!("{arch}: both configurations"),
            || matches!(&configurations()[..], [one, other] if one["number"] == 1 && one["requests"] == 1 && other["number"] == 2 && other["requests"] == 0),
        );
        let all = configurations();
        let since = |one: &Value| one["since_unix_ms"].as_u64().expect("a number");
        assert!(since(&all[0]) > 0 && since(&all[0]) < since(&all[1]), "{arch}: {all:?}");
        if arch == "mp" {
            let [pid] = &all[0]["workers"].as_array().expect("a list")[..] else { panic!("one: {all:?}") };
            let comm = format!("/proc/{pid}/comm");
            assert!(std::fs::read_to_string(comm).expect("it runs").starts_with("worker-"), "{all:?}");
            assert_eq!(all[1]["workers"].as_array().map(Vec::len), Some(2), "{all:?}");
        }
        assert!(line(&summary()).starts_with("2, and 1 (1 request, "), "{arch}: {}", summary());
        assert!(setup.ask("/status.txt").1.contains("requests that began with it"), "{arch}");
        let rest = read_all(&mut download);
        assert!(rest.len() >= BYTES - 1000, "{arch}: {}", rest.len());
        wait_for(
            &format!("{arch}: the end"),
            || matches!(&configurations()[..], [one] if one["number"] == 2),
        );
        setup.server.stop();
    }
}
