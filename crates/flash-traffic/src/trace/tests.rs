//! The real logs against what was measured of them, and made-up ones for everything else.

use std::fs;
use std::path::PathBuf;

use super::*;
use crate::name::Refused;
use crate::trace::replay::{Passes, Replay};
use crate::workload::{Part, Workload};

/// The folder of real logs, if it is there; says so if it is not.
fn real() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces");
    let folder = std::env::var_os("FLASH_TRACES").map_or(beside, PathBuf::from);
    if folder.join("nasa-aug95").is_dir() {
        return Some(folder);
    }
    eprintln!("NOT CHECKED: no real logs at {}; FLASH_TRACES names their folder", folder.display());
    None
}

/// A row of the table of measurements, as it is written there.
struct Measured {
    log: &'static str,
    lines: u64,
    malformed: u64,
    static_requests: u64,
    files: u64,
    not_200: &'static str,
    size_mean: &'static str,
    size_median: u64,
    data_set_mb: &'static str,
    reply_mean: &'static str,
    asked_once: &'static str,
    top_tenth: &'static str,
    ln_size: [&'static str; 2],
    distance_median: u32,
    ln_distance: [&'static str; 2],
    lru_hits: [&'static str; 3],
}

const MEASURED: [Measured; 4] = [
    Measured {
        log: "nasa-aug95/access_log_Aug95_temp.zip",
        lines: 274_835,
        malformed: 0,
        static_requests: 266_755,
        files: 3_208,
        not_200: "8.9",
        size_mean: "59877",
        size_median: 6_161,
        data_set_mb: "192.1",
        reply_mean: "19734",
        asked_once: "24.9",
        top_tenth: "87.0",
        ln_size: ["9.04", "2.18"],
        distance_median: 47,
        ln_distance: ["4.00", "1.62"],
        lru_hits: ["84.7", "93.2", "98.4"],
    },
    Measured {
        log: "epa-http/epa-http.zip",
        lines: 47_748,
        malformed: 21,
        static_requests: 38_876,
        files: 3_761,
        not_200: "23.1",
        size_mean: "24976",
        size_median: 2_548,
        data_set_mb: "93.9",
        reply_mean: "7929",
        asked_once: "48.0",
        top_tenth: "79.4",
        ln_size: ["8.09", "1.60"],
        distance_median: 45,
        ln_distance: ["4.05", "1.86"],
        lru_hits: ["77.7", "85.2", "89.9"],
    },
    Measured {
        log: "worldcup98/wc_day6_1_sample.tar.bz2",
        lines: 200_000,
        // A dash for a status.
        malformed: 3,
        static_requests: 198_476,
        files: 2_536,
        not_200: "13.0",
        size_mean: "21516",
        size_median: 3_781,
        data_set_mb: "54.6",
        reply_mean: "8463",
        asked_once: "19.6",
        top_tenth: "81.8",
        ln_size: ["8.12", "1.43"],
        distance_median: 140,
        ln_distance: ["4.82", "1.30"],
        lru_hits: ["81.8", "93.2", "98.4"],
    },
    Measured {
        log: "semicomplete-2015/apache_logs.gz",
        lines: 10_000,
        malformed: 0,
        static_requests: 8_063,
        files: 1_158,
        not_200: "8.7",
        size_mean: "482507",
        size_median: 10_571,
        data_set_mb: "558.7",
        reply_mean: "345398",
        asked_once: "48.9",
        top_tenth: "72.7",
        ln_size: ["9.47", "1.85"],
        distance_median: 25,
        ln_distance: ["3.40", "1.66"],
        lru_hits: ["58.1", "71.0", "83.2"],
    },
];

/// What the NASA log's first requests make: MB of data set, and requests.
const TRUNCATED: [(u64, usize); 10] = [
    (15, 1_330),
    (30, 3_368),
    (45, 5_927),
    (60, 8_690),
    (75, 10_577),
    (90, 12_929),
    (105, 20_673),
    (120, 30_212),
    (135, 44_657),
    (150, 56_775),
];

/// In percent with one place, as the table has it.
fn percent(part: u64, whole: u64) -> String {
    format!("{:.1}", 100.0 * part as f64 / whole as f64)
}

#[test]
fn real_logs_are_what_was_measured_of_them() {
    let Some(folder) = real() else { return };
    for measured in MEASURED {
        let log = measured.log;
        let trace = Trace::read(&folder.join(log), None, None).unwrap();
        let (report, counts, is) = (trace.report(), trace.counts(), trace.statistics());
        assert_eq!(
            (report.lines, report.malformed, report.overlong),
            (measured.lines, measured.malformed, 0),
            "{log}"
        );
        assert_eq!((is.requests, is.files), (measured.static_requests, measured.files), "{log}");
        assert_eq!(percent(counts.not_200, counts.requests), measured.not_200, "{log}");
        assert_eq!(format!("{:.0}", is.size_bytes_mean), measured.size_mean, "{log}");
        assert_eq!(is.size_bytes_median, measured.size_median, "{log}");
        assert_eq!(format!("{:.1}", is.data_set_bytes as f64 / 1e6), measured.data_set_mb, "{log}");
        assert_eq!(
            format!("{:.0}", counts.replies_bytes as f64 / counts.replies as f64),
            measured.reply_mean,
            "{log}"
        );
        assert_eq!(percent(is.asked_once, is.files), measured.asked_once, "{log}");
        assert_eq!(percent(is.top_tenth_requests, is.requests), measured.top_tenth, "{log}");
        let two = |moments: crate::Moments| [format!("{:.2}", moments.mean), format!("{:.2}", moments.sd)];
        assert_eq!(two(is.ln_size), measured.ln_size, "{log}");
        assert_eq!(is.distance_median, measured.distance_median, "{log}");
        assert_eq!(two(is.ln_distance), measured.ln_distance, "{log}");
        let hits = [10, 25, 72]
            .map(|share| format!("{:.1}", 100.0 * trace.lru_hit_rate(is.data_set_bytes * share / 100)));
        assert_eq!(hits, measured.lru_hits, "{log}");
        let (replay, told) = trace.replay(Passes::Once);
        eprintln!("{log}: {report}; {} files to serve, {told}", replay.catalogue().files.len());
        assert!(told.requests_refused * 1_000 < is.requests, "{log}: {told}");
    }
}

#[test]
fn the_real_nasa_log_is_cut_where_its_data_set_has_a_size() {
    let Some(folder) = real() else { return };
    let whole = Trace::read(&folder.join(MEASURED[0].log), Some(Format::Common), None).unwrap();
    for (mb, requests) in TRUNCATED {
        let mut trace = whole.clone();
        trace.truncate(mb * 1_000_000);
        assert_eq!(trace.asked().len(), requests, "{mb} MB");
        let bytes = trace.statistics().data_set_bytes;
        assert_eq!(bytes, trace.sizes().iter().sum::<u64>());
        assert!(bytes >= mb * 1_000_000, "{mb} MB");
    }
    // The last column is the whole log, whose data set is a little less than 192.1 MB.
    let mut trace = whole.clone();
    trace.truncate(192_100_000);
    assert_eq!(trace.asked().len(), 266_755);
}

/// A made-up log, and what it is made to.
fn made_up(lines: &str, order: Option<Order>) -> Trace {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), lines).unwrap();
    Trace::read(file.path(), Some(Format::Common), order).unwrap()
}

fn line(second: u32, request: &str, reply: &str) -> String {
    format!("h - - [01/Aug/1995:00:00:{second:02} +0000] \"{request}\" {reply}\n")
}

fn served(replay: &Replay) -> Vec<(&str, u64)> {
    replay.catalogue().files.iter().map(|file| (&*file.target, file.bytes.unwrap())).collect()
}

fn targets(replay: &Replay, part: Part, count: usize) -> Vec<String> {
    let mut sequence = replay.sequence(part, 0);
    let asks = std::iter::from_fn(|| sequence.next()).take(count);
    asks.map(|ask| replay.catalogue().files[ask.file as usize].target.to_string()).collect()
}

#[test]
fn only_requests_for_files_are_static() {
    let log = [
        line(1, "GET /a HTTP/1.0", "200 30"),
        line(2, "GET /a HTTP/1.0", "200 10"),
        line(3, "GET http://Host/a HTTP/1.0", "304 -"),
        line(4, "GET /never-whole HTTP/1.0", "304 0"),
        line(5, "GET /empty HTTP/1.0", "200 0"),
        line(6, "GET /dash HTTP/1.0", "200 -"),
        line(7, "GET /a?b HTTP/1.0", "200 9"),
        line(8, "GET /cgi-bin/a HTTP/1.0", "200 9"),
        line(9, "HEAD /a HTTP/1.0", "200 0"),
        line(10, "GET /b HTTP/1.0", "404 7"),
        line(11, "GET /c", "200 5"),
        line(12, "GET /a HTTP/1.0", "206 5"),
    ];
    let trace = made_up(&(log.concat() + "nonsense\n"), None);
    assert_eq!((trace.report().lines, trace.report().malformed), (13, 1));
    assert_eq!((trace.asked(), trace.sizes()), ([0, 0, 0, 1].as_slice(), [30, 5].as_slice()));
    let counts = Counts { requests: 12, not_200: 4, replies: 5, replies_bytes: 45 };
    assert_eq!(trace.counts(), counts);
}

#[test]
fn names_that_lead_to_one_file_are_one_file() {
    let log: String = [
        ("/docs", 5),
        ("/docs/", 7),
        ("/docs/index.html", 6),
        ("/docs//x%41", 1),
        ("/docs/xA", 2),
        ("/", 3),
        ("/../etc", 4),
        ("/both/index.html/x", 8),
        ("/both", 9),
        ("/both/", 9),
    ]
    .map(|(target, bytes)| line(0, &format!("GET {target} HTTP/1.0"), &format!("200 {bytes}")))
    .concat();
    let (replay, told) = made_up(&log, None).replay(Passes::Once);
    assert_eq!(served(&replay), [("/docs/", 7), ("/docs/xA", 2), ("/", 3), ("/both/index.html/x", 8)]);
    assert_eq!((told.merged, told.requests_refused), (3, 3));
    assert_eq!(told.refused, [(Refused::Hidden, 1), (Refused::FileAndFolder, 2)].into());
    assert_eq!(targets(&replay, Part::WHOLE, 9).len(), 7);
}

#[test]
fn requests_are_dealt_out_in_turn_in_every_pass() {
    let log: String = (0..5).map(|n| line(n, &format!("GET /{n} HTTP/1.0"), "200 1")).collect();
    let trace = made_up(&log, None);
    let (once, _) = trace.replay(Passes::Once);
    assert_eq!(targets(&once, Part::WHOLE, 9), ["/0", "/1", "/2", "/3", "/4"]);
    assert_eq!(targets(&once, Part { index: 1, of: 2 }, 9), ["/1", "/3"]);
    assert_eq!(targets(&once, Part { index: 7, of: 8 }, 9), Vec::<String>::new());
    let (looped, _) = trace.replay(Passes::Looped);
    assert_eq!(targets(&looped, Part { index: 1, of: 2 }, 6), ["/1", "/3", "/0", "/2", "/4", "/1"]);
    let (nothing, _) = made_up("", None).replay(Passes::Looped);
    assert_eq!(targets(&nothing, Part::WHOLE, 9), Vec::<String>::new());
}

#[test]
fn requests_of_one_second_are_spread_over_it() {
    let log: String = [3, 3, 5, 4, 5, 9].map(|second| line(second, "GET / HTTP/1.0", "200 1")).concat();
    let at = |order, passes, count| -> Vec<u128> {
        let mut sequence = made_up(&log, Some(order)).replay(passes).0.sequence(Part::WHOLE, 0);
        std::iter::from_fn(|| sequence.next()).take(count).map(|ask| ask.at.unwrap().as_millis()).collect()
    };
    // The request of second 4 that was logged after one of second 5 comes with that.
    assert_eq!(at(Order::AsLogged, Passes::Once, 9), [0, 500, 2_000, 2_333, 2_666, 6_000]);
    assert_eq!(at(Order::ByTime, Passes::Once, 9), [0, 500, 1_000, 2_000, 2_500, 6_000]);
    let again = at(Order::ByTime, Passes::Looped, 8);
    assert_eq!(again[6..], [7_000, 7_500]);
}

#[test]
fn the_nearest_whole_request_cuts_a_data_set() {
    let log: String = [("/a", 10), ("/b", 20), ("/a", 10), ("/c", 30)]
        .map(|(target, bytes)| line(0, &format!("GET {target} HTTP/1.0"), &format!("200 {bytes}")))
        .concat();
    for (bytes, asked, data_set) in
        [(0, 1, 10), (10, 1, 10), (11, 2, 30), (30, 2, 30), (31, 4, 60), (99, 4, 60)]
    {
        let mut trace = made_up(&log, None);
        trace.truncate(bytes);
        assert_eq!((trace.asked().len(), trace.sizes().iter().sum::<u64>()), (asked, data_set), "{bytes}");
    }
}
