//! Tests of both formats, line by line.

use flash_core::job::Spent;
use flash_core::record::program_times::ProgramTimes;

use super::*;

fn record() -> Record {
    Record {
        peer: Peer::Inet("192.0.2.7:40000".parse().unwrap()),
        unix_ms: 971_186_136_789,
        duration_us: 412,
        spent: Spent { walk_ns: 1_999, open_ns: 2_000, read_ns: 3_000, queue_ns: 4_000, help_ns: 8_000 },
        send_us: 350,
        first_byte_us: 62,
        protocol: "HTTP/1.1",
        scheme: "http",
        request_line: b"GET /a.gif HTTP/1.1"[..].into(),
        host: b"example.org"[..].into(),
        referer: b"http://example.org/"[..].into(),
        user_agent: b"Mozilla/5.0 (X11)"[..].into(),
        status: 200,
        body_bytes: 2326,
        ..Record::default()
    }
}

fn line(format: &Format, record: &Record) -> String {
    let mut line = Vec::new();
    format.write(record, &mut line);
    String::from_utf8(line).expect("a log line is text")
}

#[test]
fn combined_is_apaches() {
    assert_eq!(
        line(&Format::Combined, &record()),
        "192.0.2.7 - - [10/Oct/2000:13:55:36 +0000] \"GET /a.gif HTTP/1.1\" 200 2326 \
         \"http://example.org/\" \"Mozilla/5.0 (X11)\"\n"
    );
}

#[test]
fn vhost_combined_begins_with_the_host_and_its_port() {
    for (host, scheme, begins) in [
        (&b"www.example.org"[..], "http", "www.example.org:80 192.0.2.7 - - ["),
        (b"www.example.org", "https", "www.example.org:443 192.0.2.7 - - ["),
        (b"www.example.org:8080", "http", "www.example.org:8080 192.0.2.7 - - ["),
        (b"[2001:db8::1]:81", "http", "[2001:db8::1]:81 192.0.2.7 - - ["),
        (b"[2001:db8::1]", "https", "[2001:db8::1]:443 192.0.2.7 - - ["),
        (b"", "", "-:80 192.0.2.7 - - ["),
    ] {
        let record = Record { host: host.into(), scheme, ..record() };
        let got = line(&Format::VhostCombined, &record);
        let rest = got.strip_prefix(begins).unwrap_or_else(|| panic!("{got}"));
        assert!(line(&Format::Combined, &record).ends_with(rest), "{got}");
    }
}

#[test]
fn combined_says_nothing_with_a_dash() {
    let none: Box<[u8]> = Box::new([]);
    let record = Record {
        peer: Peer::Unix,
        request_line: none.clone(),
        referer: none.clone(),
        user_agent: none,
        status: 400,
        body_bytes: 0,
        ..record()
    };
    assert_eq!(
        line(&Format::Combined, &record),
        "unix: - - [10/Oct/2000:13:55:36 +0000] \"-\" 400 - \"-\" \"-\"\n"
    );
}

#[test]
fn combined_escapes_as_apache_does() {
    let record =
        Record { user_agent: b"a\"b\\c\x00\x08\n\r\t\x0b\x1b\x7f\xff\xc3\xa9~ "[..].into(), ..record() };
    let line = line(&Format::Combined, &record);
    let user_agent = line.rsplit("\"http://example.org/\" ").next().unwrap();
    assert_eq!(user_agent, concat!(r#""a\"b\\c\x00\b\n\r\t\v\x1b\x7f\xff\xc3\xa9~ ""#, "\n"));
}

#[test]
fn a_mapped_ipv4_client_looks_like_ipv4() {
    let record = Record { peer: Peer::Inet("[::ffff:192.0.2.7]:1".parse().unwrap()), ..record() };
    assert!(line(&Format::Combined, &record).starts_with("192.0.2.7 - - "));
    let record = Record { peer: Peer::Inet("[2001:db8::1]:1".parse().unwrap()), ..record };
    assert!(line(&Format::Combined, &record).starts_with("2001:db8::1 - - "));
}

#[test]
fn json_has_every_field() {
    let parsed: serde_json::Value = serde_json::from_str(&line(&Format::json(), &record())).unwrap();
    assert_eq!(
        parsed,
        serde_json::json!({
            "time": "2000-10-10T13:55:36.789Z",
            "client": "192.0.2.7",
            "request": "GET /a.gif HTTP/1.1",
            "host": "example.org",
            "status": 200,
            "bytes": 2326,
            "duration_us": 412,
            "walk_us": 1,
            "open_us": 2,
            "read_us": 3,
            "queue_us": 4,
            "help_us": 8,
            "send_us": 350,
            "first_byte_us": 62,
            "referer": "http://example.org/",
            "user_agent": "Mozilla/5.0 (X11)",
        })
    );
}

#[test]
fn json_says_why_a_request_was_refused_and_combined_cannot() {
    let refused = Record { reason: "no Host", status: 400, ..record() };
    let parsed: serde_json::Value = serde_json::from_str(&line(&Format::json(), &refused)).unwrap();
    assert_eq!(parsed["reason"], "no Host");
    assert!(!line(&Format::Combined, &refused).contains("no Host"));
    assert!(!line(&Format::json(), &record()).contains("reason"));
}

#[test]
fn json_keeps_text_and_shows_what_is_none() {
    let record =
        Record { user_agent: "é\u{9b}\"\\\n".as_bytes().into(), host: b"a\xffb\xc3"[..].into(), ..record() };
    let line = line(&Format::json(), &record);
    assert_eq!(line.matches('\n').count(), 1);
    assert!(!line.contains('\u{9b}'), "a terminal would obey it");
    let parsed: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(parsed["user_agent"], "é\u{9b}\"\\\n");
    assert_eq!(parsed["host"], r"a\xffb\xc3");
}

#[test]
fn whatever_is_sent_stays_on_one_line() {
    let every: Vec<u8> = (0..=255).collect();
    let record = Record { request_line: every.clone().into(), referer: every.into(), ..record() };
    for format in [Format::Combined, Format::json()] {
        let line = line(&format, &record);
        assert_eq!(line.find('\n'), Some(line.len() - 1), "{format:?}");
        assert!(!line.trim_end().contains(char::is_control), "{format:?}");
    }
}

#[test]
fn short_is_for_people() {
    assert_eq!(line(&Format::Short, &record()), "192.0.2.7 200 GET /a.gif 2.3 KB 0.4 ms\n");
    let own = Record {
        peer: Peer::Inet("[::1]:4".parse().unwrap()),
        body_bytes: 12,
        duration_us: 31_400,
        ..record()
    };
    assert_eq!(line(&Format::Short, &own), "200 GET /a.gif 12 B 31 ms\n");
    let odd =
        Record { request_line: b"GET /\x1b[2J HTTP/1.1"[..].into(), duration_us: 20_000_000, ..own.clone() };
    assert_eq!(line(&Format::Short, &odd), "200 GET /\\x1b[2J 12 B 20 s\n");
    let none = Record { request_line: Box::default(), status: 408, reason: "too slow", body_bytes: 0, ..own };
    assert_eq!(line(&Format::Short, &none), "408 - 0 B 31 ms (too slow)\n");
}

#[test]
fn bytes_as_people_say_them() {
    for (bytes, shown) in [
        (0, "0 B"),
        (999, "999 B"),
        (1_000, "1.0 KB"),
        (12_345, "12 KB"),
        (3_140_000, "3.1 MB"),
        (999_999_999_999, "1000 GB"),
    ] {
        assert_eq!(shown_bytes(bytes), shown);
    }
}

#[test]
fn a_response_that_was_cut_is_marked() {
    let cut = Record { cut: true, ..record() };
    assert!(line(&Format::json(), &cut).ends_with(",\"cut\":true}\n"));
    assert!(!line(&Format::json(), &record()).contains("cut"));
    assert!(line(&Format::Short, &cut).ends_with(" 0.4 ms, cut\n"));
}

#[test]
fn chosen_fields_stand_in_their_order() {
    let format = Format::Json([Field::Status, Field::Reason, Field::Target, Field::Time].into());
    assert_eq!(
        line(&format, &record()),
        "{\"status\":200,\"target\":\"/a.gif\",\"time\":\"2000-10-10T13:55:36.789Z\"}\n"
    );
    assert_eq!(line(&Format::Json([Field::Cut].into()), &record()), "{}\n");
    let all = Format::Json(Field::ALL.into());
    let parsed: serde_json::Value = serde_json::from_str(&line(&all, &record())).unwrap();
    assert_eq!((&parsed["method"], &parsed["scheme"]), (&"GET".into(), &"http".into()));
    let refused = Record { protocol: "", scheme: "", ..record() };
    let parsed: serde_json::Value = serde_json::from_str(&line(&all, &refused)).unwrap();
    assert!(
        ["method", "target", "protocol", "scheme"].iter().all(|name| parsed.get(name).is_none()),
        "{parsed}"
    );
}

#[test]
fn the_time_of_a_program_is_there_if_a_program_has_answered() {
    let times = ProgramTimes { queue_us: 2, connect_us: 3, first_byte_us: 40, whole_us: 500 };
    let of_program = Record { program: Some(times), ..record() };
    let text = line(&Format::json(), &of_program);
    let part =
        "\"program_queue_us\":2,\"program_connect_us\":3,\"program_first_byte_us\":40,\"program_us\":500,";
    assert!(text.contains(part), "{text}");
    assert!(!line(&Format::json(), &record()).contains("program"));
}
