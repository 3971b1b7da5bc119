//! Measures a hot file's wait while 64 clients run programs that sleep, spin or flood. For comparison the same programs run by
//! hand, 64 at a time, on the server's processor. The programs themselves slow any machine; the figure is the wait that the
//! server adds.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use flash_rig::{Dynamic, interrupt};
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Map, Value, json};

use super::cached::median;
use super::client::{self, Plan};
use super::report::{self, Bar, number};
use super::servers::{self, Place, Server};

const CLIENTS: usize = 64;
const HOT_PER_SECOND: u32 = 1_000;
const HOT_PATH: &str = "/1k.html";
/// What they do, and how: each says how long its answer is, and sends it.
const PROGRAMS: [(&str, &str); 3] = [
    ("sleep", "printf 'Content-Length: 0\\n\\n'\nexec sleep 0.5\n"),
    ("spin", "printf 'Content-Length: 0\\n\\n'\ni=0\nwhile [ $i -lt 20000 ]; do i=$((i + 1)); done\n"),
    ("flood", "printf 'Content-Length: 10485760\\n\\n'\nexec head -c 10485760 /dev/zero\n"),
];
/// Those that run programs here, and have more clients than threads or processes; nginx, h2o and Caddy run none.
const SERVERS: [Server; 6] =
    [Server::Amped, Server::Uring, Server::Sped, Server::Pipelined, Server::Lighttpd, Server::Apache];
/// Programs that are run by hand end by then, whatever happens.
const BY_HAND_SECONDS_MAX: &str = "30";

/// One server's waits beside one kind of program, one for each round.
pub(crate) struct Outcome {
    server: Server,
    program: &'static str,
    rounds: Vec<Round>,
}

/// Milliseconds, 99 of 100 are shorter; and programs that ended in a second.
struct Round {
    by_hand: f64,
    by_clients: f64,
    programs_per_second: f64,
    errors: u64,
}

/// Runs every server in turn beside each kind of program, `rounds` times.
pub(crate) fn run(place: &Place, servers: &[Server], rounds: usize, quick: bool) -> Result<Vec<Outcome>> {
    let folder = place.root.join("cgi-bin");
    fs::create_dir_all(&folder)?;
    for (name, text) in PROGRAMS {
        let file = folder.join(name);
        fs::write(&file, format!("#!/bin/sh\n{text}"))?;
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755))?;
    }
    let mut outcomes: Vec<Outcome> = Vec::new();
    for server in SERVERS.into_iter().filter(|server| servers.contains(server)) {
        outcomes.extend(PROGRAMS.map(|(program, _)| Outcome { server, program, rounds: Vec::new() }));
    }
    for round in 0..rounds {
        for of in &mut outcomes {
            eprint!("programs, round {} of {rounds}: {:10} {:6}", round + 1, of.server.name(), of.program);
            match measure(of.server, place, &folder.join(of.program), quick) {
                Ok(round) => {
                    let (by_hand, by_clients) = (number(round.by_hand), number(round.by_clients));
                    eprintln!("p99 by hand {by_hand} ms, by clients {by_clients} ms");
                    of.rounds.push(round);
                }
                Err(error) => {
                    interrupt::check()?;
                    eprintln!("FAILED: {error:#}");
                }
            }
        }
    }
    outcomes.retain(|of| !of.rounds.is_empty());
    Ok(outcomes)
}

fn measure(server: Server, place: &Place, program: &Path, quick: bool) -> Result<Round> {
    let place = Place { dynamic: Some(Dynamic { php: None }), ..*place };
    let running = servers::start(server, &place, &[])?;
    let name = program.file_name().and_then(|name| name.to_str()).context("ours have plain names")?;
    let paths = [format!("/cgi-bin/{name}")];
    let plan = Plan {
        port: running.port,
        hot_path: HOT_PATH,
        hot_per_second: HOT_PER_SECOND,
        cold_paths: &paths,
        cold_clients: 0,
        warm_up: Duration::from_secs(1),
        measured: Duration::from_secs(if quick { 2 } else { 5 }),
    };
    let beside = ByHand::start(&place, program)?;
    let by_hand = client::run(&plan, 0)?;
    drop(beside);
    let by_clients = client::run(&Plan { cold_clients: CLIENTS, ..plan }, 0)?;
    running.stop();
    let p99 = |outcome: &client::Outcome| outcome.hot.value_at_quantile(0.99) as f64 / 1000.0;
    Ok(Round {
        by_hand: p99(&by_hand),
        by_clients: p99(&by_clients),
        programs_per_second: by_clients.cold_done as f64 / by_clients.seconds,
        errors: by_hand.errors + by_clients.errors,
    })
}

/// As many programs as there would be clients, again and again. Dropping it ends them.
struct ByHand(Child);

impl ByHand {
    fn start(place: &Place, program: &Path) -> Result<ByHand> {
        let again =
            format!("for _ in $(seq {CLIENTS}); do while :; do \"$0\" > /dev/null; done & done; wait");
        let mut command = Command::new("timeout");
        command.args([BY_HAND_SECONDS_MAX, "sh", "-c", &again]).arg(program);
        command.process_group(0).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(ByHand(place.cpus.on_server(|| command.spawn())?.context("starting programs by hand")?))
    }
}

impl Drop for ByHand {
    fn drop(&mut self) {
        let _ = kill_process_group(Pid::from_child(&self.0), Signal::KILL);
        let _ = self.0.wait();
    }
}

impl Outcome {
    fn median(&self, figure: impl Fn(&Round) -> f64) -> f64 {
        median(self.rounds.iter().map(figure).collect()).unwrap_or(f64::NAN)
    }

    fn ratio(&self) -> f64 {
        self.median(|round| round.by_clients / round.by_hand)
    }
}

pub(crate) fn print(outcomes: &[Outcome]) {
    if outcomes.is_empty() {
        return;
    }
    let heading = ["server", "programs", "by hand p99", "by clients p99", "ratio", "programs/s", "errors"];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    for of in outcomes {
        rows.push(vec![
            of.server.name().to_owned(),
            of.program.to_owned(),
            number(of.median(|round| round.by_hand)),
            number(of.median(|round| round.by_clients)),
            number(of.ratio()),
            number(of.median(|round| round.programs_per_second)),
            number(of.rounds.iter().map(|round| round.errors as f64).sum()),
        ]);
    }
    report::print_table("Wait for the hot file, ms, beside 64 programs", &rows);
}

pub(crate) fn bars(outcomes: &[Outcome]) -> Vec<Bar> {
    let of = |program: &str| outcomes.iter().find(|of| of.server == Server::Amped && of.program == program);
    let bar = |(program, _): (&str, &str)| {
        let name = format!("programs: p99 beside {program}, by clients ÷ by hand");
        Bar::at_most(name, 1.5, of(program).map(Outcome::ratio))
    };
    let rounds = outcomes.iter().filter(|of| of.server == Server::Amped).flat_map(|of| &of.rounds);
    let errors = rounds.map(|round| round.errors as f64).reduce(|sum, errors| sum + errors);
    let mut bars = Vec::from(PROGRAMS.map(bar));
    bars.push(Bar::at_most("programs: errors".into(), 0.0, errors));
    bars
}

pub(crate) fn json(outcomes: &[Outcome]) -> Value {
    let mut all = Map::new();
    for of in outcomes {
        let rounds = of.rounds.iter().map(|round| {
            json!({
                "by_hand_p99_ms": round.by_hand, "by_clients_p99_ms": round.by_clients,
                "programs_per_second": round.programs_per_second, "errors": round.errors,
            })
        });
        all.insert(format!("{} {}", of.server.name(), of.program), rounds.collect());
    }
    all.into()
}
