//! TLS and HTTP/2: processor time per request and per handshake, and memory per idle connection. Kept connections are driven by
//! `h2load`, which is fair to all. `flash load` makes the handshakes, because it counts which were resumed.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use flash_load::{
    Address, ClientGroup, ClientOptions, Keep, Load, Pace, Protocol, Report, Tls, Until, Urls, Verify,
};
use flash_rig::{LocalCertificate, Running, find, interrupt};
use serde_json::{Value, json};

use super::cached::median;
use super::report::{Bar, number, print_table};
use super::servers::{self, Place, Server};

mod idle;

/// Microseconds of processor time, or bytes for each idle connection: by row and server, one for each round.
#[derive(Default)]
pub(crate) struct Figures(BTreeMap<(usize, Server), Vec<f64>>);

/// What a row measures.
#[derive(Clone, Copy)]
enum Kind {
    /// Words for `h2load`.
    Kept(&'static str, &'static [&'static str]),
    Handshakes {
        resumed: bool,
    },
    Idle {
        http2: bool,
    },
}

const EIGHT: &[&str] = &["--h1", "-c", "8"];
const ROWS: [(&str, Kind); 9] = [
    ("tls-1k", Kind::Kept("1k.html", EIGHT)),
    ("tls-100k", Kind::Kept("100k.html", EIGHT)),
    ("tls-1m", Kind::Kept("1m.html", EIGHT)),
    ("tls-full", Kind::Handshakes { resumed: false }),
    ("tls-resumed", Kind::Handshakes { resumed: true }),
    ("h2-1k", Kind::Kept("1k.html", &["-c", "8", "-m", "32"])),
    ("h2-100k", Kind::Kept("100k.html", &["-c", "8", "-m", "4"])),
    ("tls-idle", Kind::Idle { http2: false }),
    ("h2-idle", Kind::Idle { http2: true }),
];
/// Groups that every server here knows: one with a costlier exchange would lose by what it can do besides.
const GROUP: &str = "X25519";
const HANDSHAKE_CLIENTS: u32 = 8;
const WARM_UP_SECONDS: u64 = 1;

/// Measures every row. A server that fails is said so and left out of the row.
pub(crate) fn run(place: &Place, servers: &[Server], rounds: usize, seconds: u64) -> Result<Figures> {
    let mut figures = Figures::default();
    if find("h2load").is_err() {
        println!("MISSING: h2load (nghttp2-client), so TLS and HTTP/2 are not measured");
        return Ok(figures);
    }
    let certificate = LocalCertificate::make(place.work)?;
    let place = Place { tls: Some(certificate.files()), ..*place };
    let speaks =
        |server: &&Server| server.is_flash() || matches!(server, Server::Nginx | Server::H2o | Server::Caddy);
    let mut running = Vec::new();
    for &server in servers.iter().filter(speaks) {
        let started = servers::start(server, &place, &[]).and_then(|running| {
            verify(&running, place.root)?;
            Ok(running)
        });
        match started {
            Ok(one) => running.push((server, one)),
            Err(error) => eprintln!("{} with TLS: left out: {error:#}", server.name()),
        }
    }
    for round in 0..rounds {
        for (row, (name, kind)) in ROWS.iter().enumerate() {
            // Memory is the same in each round, and only loops hold so many connections.
            if matches!(kind, Kind::Idle { .. }) && round > 0 {
                continue;
            }
            eprint!("round {} of {rounds}, {name:11}", round + 1);
            let first = round % running.len().max(1);
            running.rotate_left(first);
            for (server, one) in &running {
                interrupt::check()?;
                if matches!(kind, Kind::Idle { .. }) && matches!(server, Server::Mt | Server::Mp) {
                    continue;
                }
                let measured = match kind {
                    // On a server of its own, that has no memory left of others.
                    Kind::Idle { http2 } => servers::start(*server, &place, &[])
                        .and_then(|fresh| idle::measure(&fresh, &certificate.certificate, *http2)),
                    Kind::Kept(file, words) => kept(one, file, words, seconds),
                    Kind::Handshakes { resumed } => shaken(one, *resumed, seconds),
                };
                match measured {
                    Ok(figure) => {
                        eprint!("  {} {}", server.name(), number(figure));
                        figures.0.entry((row, *server)).or_default().push(figure);
                    }
                    Err(error) => {
                        interrupt::check()?;
                        eprint!("  {} FAILED ({error:#})", server.name());
                    }
                }
            }
            eprintln!();
        }
    }
    Ok(figures)
}

/// Processor time that a server has used since then for each of so many, in microseconds.
fn microseconds(running: &Running, before_ns: u64, count: u64) -> Result<f64> {
    ensure!(count > 0, "nothing was done in this time");
    Ok((running.process.usage()?.cpu_ns - before_ns) as f64 / count as f64 / 1000.0)
}

fn kept(running: &Running, file: &str, words: &[&str], seconds: u64) -> Result<f64> {
    h2load(running.port, file, words, WARM_UP_SECONDS)?;
    let before = running.process.usage()?.cpu_ns;
    let requests = h2load(running.port, file, words, seconds)?;
    microseconds(running, before, requests)
}

fn shaken(running: &Running, resumed: bool, seconds: u64) -> Result<f64> {
    handshakes(running, resumed, WARM_UP_SECONDS)?;
    let before = running.process.usage()?.cpu_ns;
    let report = handshakes(running, resumed, seconds)?;
    let (full, again) = (report.handshakes_full, report.handshakes_resumed);
    let stray = if resumed { full.saturating_sub(HANDSHAKE_CLIENTS.into()) } else { again };
    ensure!(stray * 20 <= full + again, "{full} full handshakes, {again} resumed");
    microseconds(running, before, full + again)
}

/// Runs `h2load`, and returns the number of requests. Any error among them is one here.
fn h2load(port: u16, file: &str, words: &[&str], seconds: u64) -> Result<u64> {
    let url = format!("https://127.0.0.1:{port}/{file}");
    let output = Command::new("h2load")
        .args(["-t", "1", "-D", &seconds.to_string()])
        .args(words)
        .arg(url)
        .output()
        .context("running h2load")?;
    interrupt::check()?;
    parse(&String::from_utf8_lossy(&output.stdout))
}

fn parse(text: &str) -> Result<u64> {
    let line = |begin: &str| text.lines().find_map(|line| line.strip_prefix(begin));
    let counts = line("requests: ").with_context(|| format!("h2load said nothing of use: {text}"))?;
    let count = |what: &str| {
        let part = counts.split(", ").find_map(|part| part.strip_suffix(what));
        part.and_then(|number| number.trim().parse::<u64>().ok())
            .with_context(|| format!("no {what}: {counts}"))
    };
    let (succeeded, wrong) =
        (count(" succeeded")?, count(" failed")? + count(" errored")? + count(" timeout")?);
    match (succeeded, wrong) {
        (0, _) => bail!("h2load completed no request"),
        (succeeded, 0) => Ok(succeeded),
        _ => bail!("h2load saw errors: {counts}"),
    }
}

fn handshakes(running: &Running, resumed: bool, seconds: u64) -> Result<Report> {
    let options = ClientOptions { keep: Keep::Requests(1), ..ClientOptions::default() };
    let report =
        load(running, options, resumed, HANDSHAKE_CLIENTS, Until::Time(Duration::from_secs(seconds)))?;
    ensure!(report.errors_total == 0, "errors: {:?}", report.errors);
    Ok(report)
}

/// Each byte that the server sends is the file's, over HTTP/1.1 and HTTP/2.
fn verify(running: &Running, root: &Path) -> Result<()> {
    for protocol in [Protocol::Http1, Protocol::Http2 { streams: 4 }] {
        let verify = Verify::Root(root.to_owned());
        let options = ClientOptions { protocol, verify, ..ClientOptions::default() };
        let report = load(running, options, false, 1, Until::Requests(8))?;
        ensure!(report.requests == 8, "{protocol:?}: {:?}", report.errors);
    }
    Ok(())
}

fn load(
    running: &Running,
    options: ClientOptions,
    resumed: bool,
    clients: u32,
    until: Until,
) -> Result<Report> {
    let tls = Tls::new("127.0.0.1")?.with_groups(&[GROUP.to_owned()])?.with_resumption(resumed);
    let address = Address::Tcp(([127, 0, 0, 1], running.port).into());
    let authority = format!("127.0.0.1:{}", running.port);
    let load = Load {
        server: flash_load::Server { address, authority, tls: Some(tls) },
        groups: vec![ClientGroup {
            workload: Arc::new(Urls::new(["/1k.html".to_owned()], "all")),
            pace: Pace::Closed { clients, think: Duration::ZERO },
            options,
        }],
        threads: 1,
        warm_up: Duration::ZERO,
        until,
        timeout: Duration::from_secs(10),
        bits_per_second_min: None,
        seed: 1,
    };
    Ok(flash_load::run(&load, &AtomicBool::new(false), |_| {})?)
}

pub(crate) fn print(figures: &Figures) {
    let servers: Vec<Server> =
        Server::ALL.into_iter().filter(|server| figures.0.keys().any(|(_, of)| of == server)).collect();
    if servers.is_empty() {
        return;
    }
    let mut rows = vec![vec!["row".to_owned()]];
    rows[0].extend(servers.iter().map(|server| server.name().to_owned()));
    for (row, (name, _)) in ROWS.iter().enumerate() {
        let cell = |server: &Server| figures.median(row, *server).map_or("–".to_owned(), number);
        rows.push(std::iter::once((*name).to_owned()).chain(servers.iter().map(cell)).collect());
    }
    print_table("TLS and HTTP/2: processor time, µs; of idle connections memory, bytes", &rows);
}

impl Figures {
    fn median(&self, row: usize, server: Server) -> Option<f64> {
        median(self.0.get(&(row, server)).cloned().unwrap_or_default())
    }
}

/// What must hold: what each row is to be compared with, and how far.
pub(crate) fn bars(figures: &Figures) -> Vec<Bar> {
    let limits: [&[(Server, f64)]; 9] = [
        &[(Server::Nginx, 1.0), (Server::Caddy, 1.0), (Server::H2o, 1.0)],
        &[(Server::Nginx, 1.05), (Server::H2o, 1.05), (Server::Caddy, 1.05)],
        &[(Server::Nginx, 1.05), (Server::H2o, 1.05), (Server::Caddy, 1.05)],
        &[(Server::Nginx, 1.05), (Server::H2o, 1.05), (Server::Caddy, 1.05)],
        &[(Server::Nginx, 1.05), (Server::H2o, 1.05), (Server::Caddy, 1.05)],
        &[(Server::H2o, 1.0), (Server::Nginx, 0.34)],
        &[(Server::Nginx, 1.0), (Server::H2o, 1.0)],
        &[(Server::Nginx, 1.0), (Server::H2o, 1.0)],
        &[(Server::Nginx, 1.0), (Server::H2o, 1.0)],
    ];
    let mut bars = Vec::new();
    for (row, limits) in limits.into_iter().enumerate().filter(|_| !figures.0.is_empty()) {
        for (peer, limit) in limits {
            let ratio = figures.median(row, Server::Amped).zip(figures.median(row, *peer));
            let name = format!("{}: amped ÷ {}", ROWS[row].0, peer.name());
            bars.push(Bar::at_most(name, *limit, ratio.map(|(ours, theirs)| ours / theirs)));
        }
    }
    bars
}

pub(crate) fn json(figures: &Figures) -> Value {
    let rows = figures.0.iter().map(|((row, server), rounds)| {
        json!({ "row": ROWS[*row].0, "server": server.name(), "median": median(rounds.clone()), "rounds": rounds })
    });
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_h2load_says_is_read() {
        let said = |counts: &str| parse(&format!("finished in 1s\nrequests: {counts}\nstatus codes: 1\n"));
        let right = "10 total, 10 started, 9 done, 9 succeeded, 0 failed, 0 errored, 0 timeout";
        assert_eq!(said(right).expect("a count"), 9);
        assert!(said(&right.replace("0 failed", "1 failed")).is_err());
        assert!(said(&right.replace("9 succeeded", "0 succeeded")).is_err());
        assert!(parse("").is_err());
    }
}
