//! What concerns the whole server: its state, traffic, caches, programs, certificates and configurations.

use flash_core::record::counters::ProgramCount;

use super::super::number;
use super::super::section::{Cell, Figure, Part, Section, UNKNOWN, of_rows};
use crate::admin::history::{History, percentile_us};
use crate::admin::snapshot::{
    CertificateSnapshot, ConfigurationSnapshot, DurationsSnapshot, ProgramSnapshot, Snapshot,
};

/// Earlier configurations in the summary.
const EARLIER_MAX: usize = 3;
/// Processes of a configuration. The others are in `/status.json`.
const PIDS_MAX: usize = 20;
const DAY_S: u64 = 86_400;
/// A certificate that lasts less long needs an operator.
const DAYS_MIN: u64 = 14;
/// The same as a part of its life, if that is shorter.
const SHARE_MIN: u64 = 6;

pub(super) fn summary(snapshot: &Snapshot, history: &History) -> Section {
    let rate = |series: Vec<u64>, shown: fn(u64) -> String| {
        Cell::new(series.last().map_or(UNKNOWN.into(), |rate| shown(*rate)))
    };
    let up_s = snapshot.taken_unix_ms.saturating_sub(snapshot.started_unix_ms) / 1000;
    let down = snapshot.devices.iter().filter(|device| device.healthy == Some(false)).count();
    let failing = snapshot.devices.iter().filter(|device| device.fails).count();
    let connections = snapshot.open_connections.map(number::count);
    let workers = snapshot.workers.as_ref();
    let machine = &*snapshot.machine;
    let pairs = [
        Some(("State", if snapshot.draining { Cell::sick("draining") } else { Cell::well("serving") })),
        (!machine.is_empty()).then(|| ("Machine", Cell::new(machine))),
        (snapshot.started_unix_ms > 0).then(|| ("Up", Cell::new(number::duration(up_s)))),
        Some(("Version", Cell::new(&*snapshot.version))),
        (!snapshot.architecture.is_empty()).then(|| ("Architecture", Cell::new(&*snapshot.architecture))),
        Some(("Process", Cell::new(snapshot.pid.to_string()))),
        Some(("Configuration", configuration(snapshot))),
        Some(("Requests", rate(history.requests(), number::rate))),
        Some(("Bytes", rate(history.bytes(), number::bytes_rate))),
        connections.map(|open| ("Connections", Cell::new(open))),
        workers
            .map(|workers| ("Workers", Cell::new(format!("{} of {} busy", workers.busy, workers.processes)))),
        history.busiest().map(|share| {
            let what = if workers.is_some() { "Busiest worker" } else { "Busiest loop" };
            (what, Cell::new(number::share(share)))
        }),
        // With mp nobody knows.
        snapshot.devices.iter().any(|device| device.healthy.is_some()).then(|| match (down, failing) {
            (0, 0) => ("Devices", Cell::well("all well")),
            (0, _) => ("Devices", Cell::sick(format!("{failing} with errors"))),
            _ => ("Devices", Cell::sick(format!("{down} down"))),
        }),
        (!snapshot.programs.is_empty()).then(|| {
            let sum = |what| number::count(snapshot.programs.iter().map(|of| of.counts.get(what)).sum());
            let (busy, waiting) = (sum(ProgramCount::Busy), sum(ProgramCount::Waiting));
            ("Programs", Cell::new(format!("{busy} busy, {waiting} waiting")))
        }),
        shortest(snapshot).map(|certificate| ("Certificates", lasts(certificate, snapshot.taken_unix_ms))),
    ];
    let missing = snapshot.missing_calls.iter();
    let missing = missing.map(|call| ("Missing call", Cell::new(format!("{}: {}", call.name, call.instead))));
    let earlier = snapshot.earlier_servers.iter().map(|server| {
        let for_s = snapshot.taken_unix_ms.saturating_sub(server.since_unix_ms) / 1000;
        let (pid, since) = (server.pid, number::duration(for_s));
        ("Earlier server", Cell::new(format!("process {pid} finishes its requests ({since})")))
    });
    let faults = snapshot.faults().into_iter().map(|fault| ("Fault", Cell::sick(fault)));
    let failures = snapshot.renewal_failures.iter();
    let failures = failures.map(|of| ("Not renewed", Cell::sick(format!("{}: {}", of.host, of.why))));
    let parts = vec![Part::Pairs(
        pairs.into_iter().flatten().chain(faults).chain(earlier).chain(missing).chain(failures).collect(),
    )];
    Section { id: "summary", title: "Summary", parts }
}

pub(super) fn traffic(history: &History) -> Section {
    let requests = Figure { title: "Requests", values: history.requests(), shown: number::rate };
    let bytes = Figure { title: "Bytes sent", values: history.bytes(), shown: number::bytes_rate };
    Section { id: "traffic", title: "Traffic", parts: vec![Part::Figure(requests), Part::Figure(bytes)] }
}

pub(super) fn caches(snapshot: &Snapshot) -> Section {
    let cache = &snapshot.cache;
    let asked = cache.hits + cache.misses;
    let hits = if asked == 0 { UNKNOWN.into() } else { number::share(cache.hits as f64 / asked as f64) };
    let pairs = vec![
        ("Answered from memory", Cell::new(hits)),
        ("Entries", Cell::new(number::count(cache.entries))),
        ("Bytes", Cell::new(format!("{} of {}", number::bytes(cache.bytes), number::bytes(cache.bytes_max)))),
        ("Evictions", Cell::new(number::count(cache.evictions))),
    ];
    let parts = if cache.bytes_max == 0 { Vec::new() } else { vec![Part::Pairs(pairs)] };
    Section { id: "caches", title: "Caches", parts }
}

/// Whether it is a server that runs on its own, and not a program that Flash starts.
fn is_server(program: &ProgramSnapshot) -> bool {
    matches!(&*program.kind, "fastcgi" | "proxy" | "upstream")
}

/// The time that so many of a thousand requests stay within.
fn time(of: &DurationsSnapshot, per_mille: u64) -> Cell {
    Cell::new(percentile_us(&of.durations, per_mille).map_or(UNKNOWN.into(), number::micros))
}

pub(super) fn programs(snapshot: &Snapshot) -> Section {
    let rows = snapshot.programs.iter().filter(|program| !is_server(program)).map(|program| {
        let count = |what| number::count(program.counts.get(what));
        vec![
            Cell::new(&*program.route),
            Cell::new(format!("{} {}", program.kind, program.program)),
            Cell::new(match program.counts.get(ProgramCount::ProcessesMax) {
                0 => count(ProgramCount::Processes),
                most => format!("{} of {}", count(ProgramCount::Processes), number::count(most)),
            }),
            Cell::new(count(ProgramCount::Busy)),
            Cell::new(count(ProgramCount::Waiting)),
            Cell::new(count(ProgramCount::Started)),
            Cell::new(count(ProgramCount::Failed)),
            Cell::new(count(ProgramCount::Refused)),
            time(&program.queue, 990),
            time(&program.connect, 990),
            time(&program.first_byte, 500),
            time(&program.whole, 500),
            time(&program.whole, 990),
        ]
    });
    let columns = [
        "Route",
        "Program",
        "#Processes",
        "#Busy",
        "#Waiting",
        "#Started",
        "#Failed",
        "#Refused",
        "#Queue p99",
        "#Start p99",
        "#First byte",
        "#Time",
        "#p99",
    ];
    let caption = "Started, failed, refused and times are since the start of the server. First byte and time are those of half the requests.";
    let parts = of_rows(caption, &columns, rows.collect());
    Section { id: "programs", title: "Programs", parts }
}

pub(super) fn servers(snapshot: &Snapshot) -> Section {
    let rows = snapshot.programs.iter().filter(|program| is_server(program)).map(|program| {
        let count = |what| number::count(program.counts.get(what));
        let is_well = program.counts.get(ProgramCount::Unreachable) == 0;
        vec![
            Cell::new(&*program.route),
            Cell::new(format!("{} {}", program.kind, program.program)),
            if is_well { Cell::well("well") } else { Cell::sick("failing") },
            Cell::new(count(ProgramCount::Busy)),
            Cell::new(count(ProgramCount::Waiting)),
            Cell::new(count(ProgramCount::Kept)),
            Cell::new(count(ProgramCount::Requests)),
            time(&program.queue, 990),
            time(&program.connect, 990),
            time(&program.first_byte, 500),
            time(&program.whole, 500),
            time(&program.whole, 990),
            Cell::new(count(ProgramCount::Failed)),
            Cell::new(count(ProgramCount::Broken)),
            Cell::new(count(ProgramCount::TimedOut)),
            Cell::new(count(ProgramCount::Refused)),
        ]
    });
    let columns = [
        "Route",
        "Server",
        "Health",
        "#Busy",
        "#Waiting",
        "#Kept",
        "#Requests",
        "#Queue p99",
        "#Connect p99",
        "#First byte",
        "#Time",
        "#p99",
        "#Not connected",
        "#502",
        "#504",
        "#503",
    ];
    let caption = "Kept are idle connections. All counts and times are since the start of the server. First byte and time are those of half the requests.";
    let parts = of_rows(caption, &columns, rows.collect());
    Section { id: "servers", title: "Servers", parts }
}

pub(super) fn certificates(snapshot: &Snapshot) -> Section {
    let mut certificates: Vec<&CertificateSnapshot> = snapshot.certificates.iter().collect();
    certificates.sort_by_key(|certificate| certificate.not_after_unix_s);
    let row = |certificate: &&CertificateSnapshot| {
        vec![Cell::new(&*certificate.names), lasts(certificate, snapshot.taken_unix_ms)]
    };
    let rows = certificates.iter().map(row).collect();
    let caption = format!("Less than {DAYS_MIN} days, or a sixth of a shorter life, are marked.");
    Section { id: "certificates", title: "Certificates", parts: of_rows(&caption, &["Names", "#Left"], rows) }
}

pub(super) fn configurations(snapshot: &Snapshot) -> Section {
    let row = |one: &ConfigurationSnapshot| {
        let is_present = one.number == snapshot.generation;
        let what = if is_present { "new requests" } else { "requests that began with it" };
        vec![
            Cell::new(one.number.to_string()),
            Cell::new(what),
            Cell::new(number::count(one.requests)),
            Cell::new(pids(&one.workers)),
            Cell::new(used_for(one, snapshot)),
        ]
    };
    let rows = snapshot.configurations.iter().map(row).collect();
    let caption = "An earlier one stays until its last response has ended. Requests that the caches answer at once do not count.";
    let columns = ["Configuration", "In use by", "#Requests now", "Processes", "#For"];
    let parts = of_rows(caption, &columns, rows);
    Section { id: "configurations", title: "Configurations in use", parts }
}

/// `3`, or `3, and 2 (1 request, 35 s)` while requests hold an earlier one.
fn configuration(snapshot: &Snapshot) -> Cell {
    let all = snapshot.configurations.iter();
    let earlier: Vec<_> = all.filter(|one| one.number != snapshot.generation).collect();
    let shown = |one: &&ConfigurationSnapshot| {
        let plural = if one.requests == 1 { "" } else { "s" };
        let requests = number::count(one.requests);
        format!("{} ({requests} request{plural}, {})", one.number, used_for(one, snapshot))
    };
    let mut text = snapshot.generation.to_string();
    if !earlier.is_empty() {
        let some: Vec<String> = earlier.iter().take(EARLIER_MAX).map(shown).collect();
        text = format!("{text}, and {}", some.join(", "));
    }
    if let Some(more @ 1..) = earlier.len().checked_sub(EARLIER_MAX) {
        text = format!("{text}, and {more} more");
    }
    Cell::new(text)
}

/// How long ago the configuration became the present one.
fn used_for(one: &ConfigurationSnapshot, snapshot: &Snapshot) -> String {
    number::duration(snapshot.taken_unix_ms.saturating_sub(one.since_unix_ms) / 1000)
}

/// The numbers of processes, if there are any.
fn pids(workers: &[u32]) -> String {
    let some: Vec<String> = workers.iter().take(PIDS_MAX).map(u32::to_string).collect();
    match workers.len().saturating_sub(PIDS_MAX) {
        _ if workers.is_empty() => UNKNOWN.into(),
        0 => some.join(" "),
        more => format!("{} and {more} more", some.join(" ")),
    }
}

fn shortest(snapshot: &Snapshot) -> Option<&CertificateSnapshot> {
    snapshot.certificates.iter().min_by_key(|certificate| certificate.not_after_unix_s)
}

/// How long a certificate lasts.
fn lasts(certificate: &CertificateSnapshot, now_unix_ms: u64) -> Cell {
    let life_s = certificate.not_after_unix_s.saturating_sub(certificate.not_before_unix_s);
    let soon_s = (DAYS_MIN * DAY_S).min(life_s / SHARE_MIN);
    match certificate.not_after_unix_s.checked_sub(now_unix_ms / 1000) {
        None | Some(0) => Cell::sick("expired"),
        Some(seconds) if seconds < soon_s => Cell::sick(number::duration(seconds)),
        Some(seconds) if seconds < DAY_S => Cell::new(number::duration(seconds)),
        Some(seconds) => Cell::new(format!("{} days", seconds / DAY_S)),
    }
}
