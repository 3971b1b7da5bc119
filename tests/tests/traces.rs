//! Requests that can be followed: what programs and the access log are told of a request's trace, in every architecture.

#![forbid(unsafe_code)]

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use flash_tests::{ARCHITECTURES, PATIENCE, Server, each, need, program, scripts, site};
use serde_json::Value;

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const CALLER: &str = "b7ad6b7169203331";
const PAGE: &str = "<?php header('Content-Type: text/plain'); foreach ($_SERVER as $name => $value) \
                    if (is_string($value)) echo \"$name=$value\\n\";";
const OWN_ID: &str = "<?php header('x-request-id: own'); header('X-Own: yes'); echo 'ok';";

/// A CGI script and a FastCGI page, which write what they are told, and a log of JSON.
struct Told {
    server: Server,
    folder: tempfile::TempDir,
    _kept: [tempfile::TempDir; 2],
}

impl Told {
    fn start(arch: &str, flags: &[&str]) -> Told {
        let (site, scripts) = (site::make(), scripts::make());
        fs::write(site.path().join("told.php"), PAGE).expect("the page is written");
        fs::write(site.path().join("own.php"), OWN_ID).expect("the page is written");
        let folder = tempfile::tempdir().expect("a temporary folder");
        let cgi = format!("/cgi={}", scripts.path().display());
        let app = format!(".php={}", need("php-cgi", "php-cgi").display());
        let log = folder.path().join("log");
        let logs = ["--access-log", log.to_str().expect("a path"), "--log-format", "json"];
        let all = [&["--cgi", &cgi, "--app", &app, "--processes", "2"], &logs[..], flags].concat();
        Told { server: Server::start(arch, site.path(), &all), folder, _kept: [site, scripts] }
    }

    /// Asks with curl, for a page or a script.
    fn ask(&self, path: &str, args: &[&str]) -> String {
        let url = format!("http://{}{path}", self.server.address);
        let all = [&["-sS", "--max-time", "20"], args, &[&url]].concat();
        let output = Command::new(need("curl", "curl")).args(&all).output().expect("curl runs");
        assert!(output.status.success(), "{all:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    }

    /// The records of the log, once there are that many.
    fn records(&self, count: usize) -> Vec<Value> {
        let log = self.folder.path().join("log");
        wait_for(&log, count);
        let text = fs::read_to_string(&log).expect("there is a log");
        text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
    }
}

fn wait_for(log: &Path, lines: usize) {
    let give_up = Instant::now() + PATIENCE;
    while fs::read_to_string(log).unwrap_or_default().lines().count() < lines {
        assert!(Instant::now() < give_up, "waited in vain for {lines} lines in the log");
        thread::sleep(Duration::from_millis(10));
    }
}

/// The value of a variable, among lines.
fn variable<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='))
}

fn parent(trace: &str, span: &str, flags: &str) -> String {
    format!("00-{trace}-{span}-{flags}")
}

const WAYS: [(&str, &[&str]); 4] = [
    ("/cgi/env", &["--http1.1"]),
    ("/cgi/env", &["--http2-prior-knowledge"]),
    ("/told.php", &["--http1.1"]),
    ("/told.php", &["--http2-prior-knowledge"]),
];

#[test]
fn programs_and_the_log_are_told_of_the_clients_trace() {
    let field = format!("TraceParent: {}", parent(TRACE, CALLER, "01"));
    let more = ["-H", &field, "-H", "tracestate: a=1", "-H", "Tracestate: b=2"];
    each(|arch| {
        let told = Told::start(arch, &[]);
        for (path, way) in WAYS {
            let text = told.ask(path, &[way, &more[..]].concat());
            let expected = parent(TRACE, CALLER, "01");
            assert_eq!(variable(&text, "HTTP_TRACEPARENT"), Some(&*expected), "{arch} {path} {way:?}");
            assert_eq!(variable(&text, "HTTP_TRACESTATE"), Some("a=1, b=2"), "{arch} {path} {way:?}");
        }
        // A file has a line like any other.
        told.ask("/a.txt", &more);
        for record in told.records(5) {
            assert_eq!((&record["trace_id"], &record["span_id"]), (&TRACE.into(), &CALLER.into()), "{arch}");
            assert_eq!(record.get("parent_span_id"), None, "{arch}: Flash has no span");
        }
        told.server.stop();
    });
}

#[test]
fn flash_has_a_span_of_its_own_if_it_is_asked_to() {
    let field = format!("traceparent: {}", parent(TRACE, CALLER, "00"));
    each(|arch| {
        let told = Told::start(arch, &["--trace-context", "participate"]);
        let mut spans = Vec::new();
        for (path, way) in WAYS {
            let text = told.ask(path, &[way, &["-H", &field, "-H", "tracestate: a=1"]].concat());
            let told = variable(&text, "HTTP_TRACEPARENT").unwrap_or_else(|| panic!("{arch}: {text}"));
            let parts: Vec<_> = told.split('-').collect();
            assert_eq!((parts[0], parts[1], parts[3]), ("00", TRACE, "00"), "{arch} {path} {way:?}");
            assert_eq!(variable(&text, "HTTP_TRACESTATE"), Some("a=1"), "{arch} {path} {way:?}");
            assert!(parts[2] != CALLER && !spans.contains(&parts[2].to_owned()), "{arch}: {told}");
            spans.push(parts[2].to_owned());
        }
        let mut logged: Vec<String> = Vec::new();
        for record in told.records(4) {
            assert_eq!((&record["trace_id"], &record["parent_span_id"]), (&TRACE.into(), &CALLER.into()));
            logged.push(record["span_id"].as_str().expect("a span").to_owned());
        }
        spans.sort();
        logged.sort();
        assert_eq!(logged, spans, "{arch}: the log names the spans that programs were told");
        // Without a trace there is none.
        assert_eq!(variable(&told.ask("/cgi/env", &[]), "HTTP_TRACEPARENT"), None, "{arch}");
        assert_eq!(told.records(5)[4].get("trace_id"), None, "{arch}");
        told.server.stop();
    });
}

#[test]
fn an_invalid_trace_is_forgotten() {
    let valid = parent(TRACE, CALLER, "01");
    let (capitals, zero) = (valid.to_uppercase(), parent(&"0".repeat(32), CALLER, "01"));
    each(|arch| {
        for (policy, begins) in [("pass-through", false), ("participate", false), ("always", true)] {
            let told = Told::start(arch, &["--trace-context", policy]);
            let mut count = 0;
            for fields in [&[&*capitals][..], &[&zero], &["nonsense"], &[&valid, &valid]] {
                let lines: Vec<_> = fields.iter().map(|value| format!("traceparent: {value}")).collect();
                let mut args = vec!["-H", "tracestate: a=1"];
                lines.iter().for_each(|line| args.extend(["-H", line]));
                let text = told.ask("/cgi/env", &args);
                count += 1;
                let record = &told.records(count)[count - 1];
                let case = format!("{arch} {policy} {fields:?}");
                assert_eq!(variable(&text, "HTTP_TRACESTATE"), None, "{case}");
                match (begins, variable(&text, "HTTP_TRACEPARENT")) {
                    (false, none) => assert_eq!((none, record.get("trace_id")), (None, None), "{case}"),
                    (true, begun) => {
                        let begun = begun.unwrap_or_else(|| panic!("{case}: {text}"));
                        let [trace, span] =
                            ["trace_id", "span_id"].map(|name| record[name].as_str().unwrap());
                        assert_eq!(begun, parent(trace, span, "03"), "{case}");
                        assert!(trace != TRACE && record.get("parent_span_id").is_none(), "{case}");
                    }
                }
            }
            told.server.stop();
        }
    });
}

/// The response's field of that name, where curl shows heads.
fn field(text: &str, name: &str) -> Option<String> {
    let mut named = text
        .lines()
        .filter_map(|line| line.split_once(": "))
        .filter(|(other, _)| other.eq_ignore_ascii_case(name));
    let value = named.next().map(|(_, value)| value.trim().to_owned());
    assert!(named.next().is_none(), "{name} is there twice: {text}");
    value
}

fn logged(record: &Value) -> &str {
    record["request_id"].as_str().unwrap_or_else(|| panic!("no id: {record}"))
}

#[test]
fn clients_programs_and_the_log_see_the_same_id() {
    each(|arch| {
        let told = Told::start(arch, &["--request-id"]);
        let mut seen = Vec::new();
        for (path, has_variable) in [
            ("/a.txt", false),
            ("/a.txt", false),
            ("/300000.bin", false),
            ("/no-such-name", false),
            ("/cgi/env", true),
            ("/cgi/local", false),
            ("/told.php", true),
            ("/own.php", false),
        ] {
            for way in ["--http1.1", "--http2-prior-knowledge"] {
                let case = format!("{arch} {path} {way}");
                // Whom nobody trusts, nobody believes.
                let text = told.ask(path, &["-i", "--output", "-", way, "-H", "X-Request-Id: mine"]);
                let id = field(&text, "X-Request-Id").unwrap_or_else(|| panic!("{case}: {text}"));
                assert!(id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{case}: {id}");
                assert!(!seen.contains(&id), "{case}: {id} came before");
                let variable = variable(&text, "HTTP_X_REQUEST_ID");
                assert_eq!(variable, has_variable.then_some(&*id), "{case}");
                seen.push(id);
            }
        }
        let mut records: Vec<_> = told.records(16).iter().map(|record| logged(record).to_owned()).collect();
        records.sort();
        seen.sort();
        assert_eq!(records, seen, "{arch}");
        told.server.stop();
    });
}

#[test]
fn a_trusted_proxy_brings_the_id_and_others_do_not() {
    each(|arch| {
        let told = Told::start(arch, &["--request-id", "--trusted-proxies", "127.0.0.1"]);
        let (long, longer) = ("a".repeat(128), "a".repeat(129));
        let mut count = 0;
        for (id, is_kept) in [
            ("proxy-1.2_3:4+5/6=7@8", true),
            (&*long, true),
            (&longer, false),
            ("a b", false),
            ("\u{e9}", false),
            ("a\"b", false),
        ] {
            for (path, way) in WAYS {
                let line = format!("x-request-id: {id}");
                let text = told.ask(path, &["-i", way[0], "-H", &line]);
                count += 1;
                let got = field(&text, "X-Request-Id").unwrap_or_else(|| panic!("{arch}: {text}"));
                assert_eq!(got == id, is_kept, "{arch} {path} {way:?} {id}: {got}");
                assert_eq!(variable(&text, "HTTP_X_REQUEST_ID"), Some(&*got), "{arch} {path} {way:?}");
                assert_eq!(logged(&told.records(count)[count - 1]), got, "{arch} {path} {way:?}");
            }
        }
        told.server.stop();
    });
}

#[test]
fn ids_differ_across_workers_and_restarts_and_are_not_told_unasked() {
    let all = Mutex::new(HashSet::new());
    each(|arch| {
        for _ in 0..2 {
            let told = Told::start(arch, &[]);
            for _ in 0..30 {
                let reply = told.server.get("/a.txt");
                assert_eq!((reply.status, reply.field("X-Request-Id")), (200, None), "{arch}");
            }
            let text = told.ask("/cgi/env", &["-H", "X-Request-Id: mine"]);
            assert_eq!(variable(&text, "HTTP_X_REQUEST_ID"), Some("mine"), "{arch}: a field like any other");
            for record in told.records(31) {
                assert!(all.lock().unwrap().insert(logged(&record).to_owned()), "{arch}: {record}");
            }
            told.server.stop();
        }
    });
    assert_eq!(all.into_inner().unwrap().len(), 31 * 2 * ARCHITECTURES.len());
}

#[test]
fn the_log_has_the_fields_that_were_asked_for_in_their_order() {
    let valid = parent(TRACE, CALLER, "01");
    let fields = "protocol,status,trace_id,method,target,scheme,client,user,cut,tls_version";
    each(|arch| {
        let told = Told::start(arch, &["--log-fields", fields]);
        let traced = format!("traceparent: {valid}");
        told.ask("/a.txt?b", &["-H", &traced]);
        told.ask("/a.txt", &["--http2-prior-knowledge", "-I"]);
        told.records(2);
        told.server.raw(b"nonsense\r\n\r\n");
        told.records(3);
        let log = fs::read_to_string(told.folder.path().join("log")).unwrap();
        let expected = format!(
            "{{\"protocol\":\"HTTP/1.1\",\"status\":200,\"trace_id\":\"{TRACE}\",\"method\":\"GET\",\
             \"target\":\"/a.txt?b\",\"scheme\":\"http\",\"client\":\"127.0.0.1\"}}\n\
             {{\"protocol\":\"HTTP/2.0\",\"status\":200,\"method\":\"HEAD\",\"target\":\"/a.txt\",\
             \"scheme\":\"http\",\"client\":\"127.0.0.1\"}}\n\
             {{\"status\":400,\"client\":\"127.0.0.1\"}}\n"
        );
        assert_eq!(log, expected, "{arch}");
        told.server.stop();
    });
}

#[test]
fn an_unknown_field_gets_the_nearest_name() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |args: &[&str]| {
        let output = Command::new(program()).arg("serve").args(args).output().expect("flash runs");
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        String::from_utf8(output.stderr).expect("text")
    };
    let said = refused(&["--port", "0", "--log-fields", "time,statsu"]);
    assert!(said.contains("statsu") && said.contains("'status'"), "{said}");
    let said = refused(&["--port", "0", "--log-fields", "time", "--log-format", "combined"]);
    assert!(said.contains("--log-fields needs --log-format json"), "{said}");
    let file = folder.path().join("flash.toml");
    fs::write(&file, "root = '.'\nlisten = '127.0.0.1:0'\nlog-fields = ['time', 'trace-id']\n").unwrap();
    let said = refused(&["--config", file.to_str().unwrap()]);
    assert!(said.contains("trace-id") && said.contains("\"trace_id\""), "{said}");
}
