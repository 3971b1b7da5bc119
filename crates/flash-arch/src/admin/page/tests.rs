//! The page as a whole: what it shows of a snapshot, and that it asks nobody else.

use flash_core::record::counters::{Counts, LoopCount, ProgramCount};

use super::*;
use crate::admin::snapshot::{
    BlockSnapshot, CacheSnapshot, CertificateSnapshot, ConfigurationSnapshot, DeviceSnapshot,
    DurationsSnapshot, JobSnapshot, LoopSnapshot, MissingCall, ProgramSnapshot, ResponseClass, SiteSnapshot,
    SlowRequest, WorkerSnapshot, Workers,
};

const DAY_S: u64 = 86_400;

fn page(snapshot: &Snapshot) -> Page {
    Page::new(snapshot, &History::default())
}

/// A server that has all that a page shows.
#[expect(clippy::too_many_lines, reason = "a list of values")]
fn snapshot() -> Snapshot {
    let block = BlockSnapshot {
        unix_ms: 60_000,
        duration_us: 1200,
        call: "openat2".into(),
        path: "/srv/<a>".into(),
        cause: "metadata read".into(),
    };
    let job = JobSnapshot {
        mount: "/mnt/far (nfs)".into(),
        path: "/late.txt".into(),
        duration_us: 8_000_000,
        ..Default::default()
    };
    let worker =
        WorkerSnapshot { pid: 815, generation: 3, blocks: 5432, job: Some(job), ..Default::default() };
    Snapshot {
        pid: 4711,
        version: "9.9.9".into(),
        architecture: "amped".into(),
        started_unix_ms: 1000,
        taken_unix_ms: 63_000,
        generation: 3,
        generations_in_use: vec![2, 3],
        configurations: vec![
            ConfigurationSnapshot { number: 2, since_unix_ms: 1000, requests: 4, workers: vec![816, 817] },
            ConfigurationSnapshot { number: 3, since_unix_ms: 52_000, ..Default::default() },
        ],
        open_connections: Some(12_345),
        sites: vec![SiteSnapshot {
            site: "www.example.org".into(),
            classes: vec![
                ResponseClass {
                    status: "2xx".into(),
                    count: 10,
                    durations: vec![0, 10],
                    ..Default::default()
                },
                ResponseClass { status: "5xx".into(), count: 7, ..Default::default() },
            ],
        }],
        loops: vec![LoopSnapshot {
            name: "loop-0".into(),
            counts: Counts::new(|what| match what {
                LoopCount::Turns => 98_765,
                LoopCount::LongestTurnNs => 1250,
                _ => 0,
            }),
            last_block: Some(block),
            ..Default::default()
        }],
        devices: vec![
            DeviceSnapshot { mount: "/srv".into(), healthy: Some(true), ..Default::default() },
            DeviceSnapshot {
                mount: "/mnt/nfs".into(),
                healthy: Some(false),
                in_flight: 1,
                oldest_us: 7_000_000,
                ..Default::default()
            },
        ],
        cache: CacheSnapshot {
            hits: 3,
            misses: 1,
            bytes: 5_000_000,
            bytes_max: 64_000_000,
            ..Default::default()
        },
        programs: vec![
            ProgramSnapshot {
                route: "/app".into(),
                kind: "app".into(),
                program: "shop --fast".into(),
                counts: Counts::new(|what| match what {
                    ProgramCount::Processes => 2,
                    ProgramCount::ProcessesMax => 8,
                    ProgramCount::Busy => 1,
                    ProgramCount::Waiting => 4,
                    ProgramCount::Refused => 6789,
                    _ => 0,
                }),
                ..Default::default()
            },
            ProgramSnapshot {
                route: "shop".into(),
                kind: "upstream".into(),
                program: "unix:/run/shop".into(),
                counts: Counts::new(|what| match what {
                    ProgramCount::Unreachable => 1,
                    ProgramCount::TimedOut => 3,
                    _ => 0,
                }),
                connect: DurationsSnapshot { durations: vec![0, 0, 0, 0, 0, 4], duration_us: 10_000 },
                ..Default::default()
            },
        ],
        certificates: vec![
            CertificateSnapshot::new("long.example.org".into(), [0, 63 + 80 * DAY_S]),
            CertificateSnapshot::new("short.example.org".into(), [0, 63 + 3 * DAY_S]),
            CertificateSnapshot::new("soon.example.org".into(), [0, 63 + 9]),
            CertificateSnapshot::new("over.example.org".into(), [0, 62]),
        ],
        slowest: vec![SlowRequest {
            unix_ms: 61_000,
            request: format!("GET /<b>{} HTTP/1.1", "x".repeat(1000)),
            host: "evil\"host".into(),
            status: 200,
            duration_us: 654_000,
            help_us: 321_000,
            ..Default::default()
        }],
        workers: Some(Workers { processes: 9, busy: 4, list: vec![worker] }),
        missing_calls: vec![MissingCall { name: "openat3".into(), instead: "names are guessed".into() }],
        ..Default::default()
    }
}

#[test]
fn all_of_a_snapshot_is_shown() {
    let page = page(&snapshot());
    let html = page.html("n");
    for shown in [
        "9.9.9",
        "4711",
        "amped",
        "1 min 2 s",
        "12,345",
        "4 of 9 busy",
        "1 down",
        "www.example.org",
        "75 µs",
        "loop-0",
        "98,765",
        "1.25 ms",
        "7.00 s",
        "75 %",
        "5.00 MB of 64.0 MB",
        "2 of 8",
        "app shop --fast",
        "1 busy, 4 waiting",
        "6,789",
        "upstream unix:/run/shop",
        "failing",
        "2.50 ms",
        "80 days",
        "3 days",
        "9 s",
        "expired",
        "654 ms",
        "321 ms",
        "2 s ago",
        "serving",
        "815",
        "5,432",
        "8.00 s at /late.txt on /mnt/far (nfs)",
        "requests that began with it",
        "11 s",
        "3, and 2 (4 requests, 1 min 2 s)",
        "816 817",
        "openat3: names are guessed",
    ] {
        assert!(html.contains(shown), "{shown} in HTML");
        assert!(page.text(usize::MAX).contains(shown), "{shown} in text");
        assert!(page.event().contains(shown), "{shown} in an event");
    }
    assert!(page.text(usize::MAX).contains("1.20 ms in openat2 of /srv/<a>, 3 s ago: metadata read"));
    assert!(html.contains("1.20 ms in openat2 of /srv/&lt;a&gt;, 3 s ago: metadata read"));
    assert!(html.contains("GET /&lt;b&gt;xxx") && html.contains("xx…<") && html.contains("evil&quot;host"));
}

#[test]
fn what_is_sick_comes_first_and_has_a_sign() {
    let html = page(&snapshot()).html("n");
    assert!(html.find("/mnt/nfs") < html.find("/srv<"), "the device that is down");
    assert!(
        html.find("over.example.org") < html.find("long.example.org"),
        "the certificate that has expired"
    );
    let cell = "class=\"sick\"><span><i aria-hidden=\"true\">▲</i> down</span>";
    assert_eq!(html.matches(cell).count(), 1, "{html}");
    assert!(page(&snapshot()).text(usize::MAX).contains("! down"));
}

#[test]
fn an_empty_snapshot_is_a_page_too() {
    let page = page(&Snapshot::default());
    assert!(page.html("n").contains("<section aria-labelledby=\"loops-title\" hidden>"));
    assert!(!page.text(usize::MAX).contains("LOOPS"));
}

#[test]
fn the_page_contains_all_that_it_needs() {
    let html = page(&Snapshot { version: "{{style}}".into(), ..snapshot() }).html("abc");
    assert_eq!(html.matches("{{").count(), 2, "only what the version itself says: {html}");
    assert!(!html.contains("http:") && !html.contains("https:") && !html.contains("//cdn"));
    assert_eq!(html.matches("nonce=\"abc\"").count(), 2);
    assert!(!html.contains(" style=\""), "the policy forbids it");
    assert!(content_security_policy("abc").starts_with("default-src 'none'; style-src 'nonce-abc'"));
}

#[test]
fn a_table_that_is_too_long_says_so() {
    let sites = (0..60).map(|n| SiteSnapshot { site: format!("site-{n}"), ..Default::default() }).collect();
    let text = page(&Snapshot { sites, ..Snapshot::default() }).text(usize::MAX);
    assert!(
        text.contains("site-49")
            && !text.contains("site-50")
            && text.contains("10 more are in /status.json.")
    );
}

#[test]
fn nonces_differ() {
    assert_ne!(nonce().unwrap(), nonce().unwrap());
}
