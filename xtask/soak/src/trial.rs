//! One architecture: a server, all its clients at once, samples of what it holds, and its end.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use flash_rig::{Cpus, Ended, Held, Machine, Metrics, Process, ServerSpec, Setup, empty_caches, interrupt};
use flash_system::folder;
use rustix::process::{Signal, kill_process};

use super::ask::{Ask, RequestVariant, Target};
use super::client::{Connection, VISITOR};
use super::flat::Quarters;
use super::options::short;
use super::report::{Fault, Report};
use super::scene::{Crowd, Scene};
use super::site::Site;
use super::visitors::Visitor;
use super::{disk, rude, slow, sockets, warm};

const SAMPLE_EVERY: Duration = Duration::from_secs(1);
const DROP_EVERY: Duration = Duration::from_secs(4);
const MOVE_LOG_EVERY: Duration = Duration::from_secs(30);
/// For connections to be closed after their clients have gone: the server lingers for two seconds, and a program may be
/// under way.
const CLOSED_WITHIN: Duration = Duration::from_secs(10);
/// `--drain` is 10 s.
const ENDS_WITHIN: Duration = Duration::from_secs(12);

/// A loop that gets memory may have to wait for another thread that does. The metrics cannot tell that from a disk; the
/// proof can, and allows as much.
const REQUESTS_PER_BLOCK: u64 = 5_000;

/// What is no growth whatever the figure.
const MEMORY_SLACK: u64 = 2 << 20;
const DESCRIPTORS_SLACK: u64 = 16;
const THREADS_SLACK: u64 = 4;

/// Where and how servers are started.
pub(crate) struct Place<'a> {
    pub(crate) machine: &'a Machine,
    pub(crate) cpus: &'a Cpus,
    /// Below it lie the site and everything else.
    pub(crate) soak: &'a Path,
    pub(crate) flash: &'a Path,
    pub(crate) flash_args: &'a [String],
    pub(crate) seed: u64,
    /// Whether the kernel's caches may be dropped.
    pub(crate) drops: bool,
}

/// What a server held at a moment.
struct Sample {
    held: Held,
    connections: u64,
}

impl Sample {
    fn memory(&self) -> u64 {
        self.held.anonymous_bytes + self.held.memory_files_bytes
    }

    /// Connections come and go with the flood; at the end of the run none may be left.
    fn descriptors(&self) -> u64 {
        self.held.descriptors.saturating_sub(self.connections)
    }

    fn threads(&self) -> u64 {
        self.held.threads
    }
}

/// Ends all clients, however the scope is left.
struct Stop<'a>(&'a Scene<'a>);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// Runs one architecture for so long, and prints its line. True without a violation.
pub(crate) fn run(place: &Place, arch: &'static str, each: Duration) -> Result<bool> {
    let site = Site::make(place.soak)?;
    let work = place.soak.join("work");
    folder::make_empty(&work)?;
    let log = work.join("access.log");
    let spec = spec(arch, place, &site, &log)?;
    let setup = Setup { program: Some(place.flash), ..Setup::new(&site.root, &work, place.cpus) };
    let mut running = place.machine.start(&spec, &setup)?;
    let report = Report::new(short(arch), place.seed);
    let crowd = Crowd::of(arch);
    let scene = Scene::new(&site, &report, crowd, running.port, place.seed, Instant::now() + each);
    let samples = thread::scope(|scope| {
        let (scene, log) = (&scene, &log);
        let _stop = Stop(scene);
        warm::run(scene);
        start_clients(scope, scene);
        let pid = running.process.pids()[0];
        scope.spawn(move || move_logs(scene, log, pid));
        scope.spawn(move || watch_disk(scene));
        if place.drops {
            scope.spawn(move || drop_caches(scene));
        }
        sample(&mut running.process, scene)
    })?;
    settle(&scene);
    let lives = running.process.check().is_ok();
    let ended = end(running.process, &scene, lives)?;
    let blocks = judge_end(&ended, arch, &report);
    let held = judge_samples(&samples, &report);
    println!("{}: {report}, {held}, loop blocks {blocks}: {}", short(arch), verdict(&report));
    Ok(report.violations().is_empty())
}

fn spec(arch: &str, place: &Place, site: &Site, log: &Path) -> Result<ServerSpec> {
    let mut spec: ServerSpec = arch.parse()?;
    let loops = thread::available_parallelism()?;
    let text = |path: &Path| {
        path.to_str().map(str::to_owned).with_context(|| format!("{} is not UTF-8", path.display()))
    };
    // Its own defaults, in the place of the rig's.
    spec.flags.extend(["--loops".into(), loops.to_string(), "--idle-timeout".into(), "60s".into()]);
    spec.flags.extend(["--list".into(), "--access-log".into(), text(log)?]);
    spec.flags.extend(["--cgi".into(), format!("/cgi={}", text(&site.programs)?)]);
    spec.flags.extend_from_slice(place.flash_args);
    Ok(spec)
}

fn start_clients<'scope>(scope: &'scope thread::Scope<'scope, '_>, scene: &'scope Scene) {
    let crowd = scene.crowd;
    for (number, live) in scene.site.live.iter().enumerate() {
        let mut rng = scene.rng(6, number);
        scope.spawn(move || {
            while scene.sleep(live.pause(&mut rng)) {
                live.change(&mut rng).expect("the soak's own files can be changed");
            }
        });
    }
    for number in 0..crowd.visitors {
        scope.spawn(move || Visitor::new(scene, number).run());
    }
    for number in 0..crowd.slow {
        scope.spawn(move || slow::run(scene, number));
    }
    for number in 0..crowd.too_slow {
        scope.spawn(move || slow::run_too_slow(scene, number));
    }
    for number in 0..crowd.rude {
        scope.spawn(move || rude::run(scene, number));
    }
    scope.spawn(move || rude::run_flood(scene));
}

/// Moves the access log away now and then, as people do to rotate it.
fn move_logs(scene: &Scene, log: &Path, server: rustix::process::Pid) {
    while scene.sleep(MOVE_LOG_EVERY) {
        if fs::rename(log, log.with_extension("old")).is_ok() {
            // It may have ended; that is seen elsewhere.
            let _ = kill_process(server, Signal::USR1);
        }
    }
}

/// Asks the disk beside the server.
fn watch_disk(scene: &Scene) {
    if let Err(error) = try_to_watch_disk(scene) {
        println!("MISSING: direct reads of the disk, so no 503 is excused: {error:#}");
    }
}

fn try_to_watch_disk(scene: &Scene) -> Result<()> {
    let largest = scene.site.sized.last().context("there are files")?;
    let mut probe = disk::Probe::open(&scene.site.root.join(&largest.target[1..]))?;
    let mut rng = scene.rng(7, 0);
    while scene.sleep(disk::READ_EVERY) {
        probe.read(&mut rng, &scene.report.disk)?;
    }
    Ok(())
}

fn drop_caches(scene: &Scene) {
    while scene.sleep(DROP_EVERY) {
        if let Err(error) = empty_caches() {
            println!("MISSING: cold caches: {error:#}");
            return;
        }
    }
}

/// What the server holds, once a second until the end of the run.
fn sample(server: &mut Process, scene: &Scene) -> Result<Vec<Sample>> {
    let mut samples = Vec::new();
    let mut next = Instant::now();
    while Instant::now() < scene.ends {
        interrupt::sleep(next.saturating_duration_since(Instant::now()))?;
        next += SAMPLE_EVERY;
        if let Err(error) = server.check() {
            scene.report.violation(Fault::BadEnd, format_args!("{error:#}"));
            break;
        }
        let connections = sockets::of_server(scene.port).len() as u64;
        samples.push(Sample { held: server.held(), connections });
    }
    Ok(samples)
}

/// When all clients are gone their connections must be.
fn settle(scene: &Scene) {
    let end = Instant::now() + CLOSED_WITHIN;
    loop {
        let left = sockets::of_server(scene.port).len();
        if left == 0 {
            return;
        }
        if Instant::now() > end {
            let what = format_args!("{left} of clients that left {} s ago", CLOSED_WITHIN.as_secs());
            scene.report.violation(Fault::ConnectionsLeft, what);
            return;
        }
        thread::sleep(Duration::from_millis(100));
    }
}

/// Ends the server in the middle of a download, which must still be finished.
fn end(server: Process, scene: &Scene, lives: bool) -> Result<Ended> {
    if !lives {
        return Ok(server.terminate(ENDS_WITHIN));
    }
    let largest = scene.site.sized.last().context("there are files")?.clone();
    let ask = Ask { target: Target::Still(largest), variant: RequestVariant::Whole };
    let mut connection = Connection::open(scene.port, VISITOR, None)?;
    let mut request = Vec::new();
    ask.write(false, &mut request);
    connection.send(&request)?;
    let asked = Instant::now();
    // About half of the file by then.
    connection.read_slowly(60 << 20, asked + Duration::from_millis(500), Arc::default());
    thread::scope(|scope| {
        let download = scope.spawn(move || ask.answer(&mut connection, asked, scene.report).map(drop));
        thread::sleep(Duration::from_millis(300));
        let ended = server.terminate(ENDS_WITHIN);
        match download.join() {
            Ok(Ok(())) => {}
            Ok(Err(broken)) => {
                scene
                    .report
                    .violation(Fault::Cut, format_args!("a download during the server's end: {broken}"));
            }
            Err(_) => return Err(io::Error::other("the download's thread panicked").into()),
        }
        Ok(ended)
    })
}

/// Whether it ended as it should. Its loops' blocks, as far as it says.
fn judge_end(ended: &Ended, arch: &str, report: &Report) -> String {
    let seconds = ended.took.as_secs_f64();
    match ended.status {
        Some(status) if status.success() => {}
        Some(status) => {
            report.violation(Fault::BadEnd, format_args!("{status}, {seconds:.1} s after SIGTERM"))
        }
        None => report.violation(Fault::BadEnd, format_args!("it runs {seconds:.1} s after SIGTERM")),
    }
    if !ended.left_behind.is_empty() {
        report.violation(Fault::BadEnd, format_args!("it left {} behind", ended.left_behind.join(", ")));
    }
    for line in ended.stderr.lines() {
        if line.contains("internal error") || line.contains("panicked") {
            report.violation(Fault::Said, line);
        }
    }
    let last = ended.stderr.rfind("flash: stopped: requests=").map(|at| &ended.stderr[at..]);
    let metrics = last.and_then(Metrics::parse);
    let count = |name| metrics.as_ref().and_then(|metrics| metrics.count(name));
    let (blocks, requests) = (count("loop_blocks"), count("requests").unwrap_or(0));
    let said = blocks.map_or("not said".into(), |blocks| blocks.to_string());
    let never_blocks = !matches!(arch, "sped" | "mt" | "mp");
    if never_blocks && blocks.is_none_or(|blocks| blocks > requests / REQUESTS_PER_BLOCK) {
        let slept = ended.stderr.lines().filter(|line| line.contains("slept outside its wait"));
        let slept = slept.take(3).collect::<Vec<_>>().join(" / ");
        report.violation(Fault::LoopBlocked, format_args!("{said} times in {requests} requests: {slept}"));
    }
    said
}

/// Whether what it held stayed flat, and the figures.
fn judge_samples(samples: &[Sample], report: &Report) -> String {
    let mut shown = Vec::new();
    let mega = |bytes: u64| format!("{:.1} MB", bytes as f64 / 1e6);
    type Figure = (&'static str, fn(&Sample) -> u64, u64);
    let figures: [Figure; 3] = [
        ("memory", Sample::memory, MEMORY_SLACK),
        ("descriptors", Sample::descriptors, DESCRIPTORS_SLACK),
        ("threads", Sample::threads, THREADS_SLACK),
    ];
    for (name, figure, slack) in figures {
        let all: Vec<u64> = samples.iter().map(figure).collect();
        let Some(quarters) = Quarters::of(&all) else { continue };
        let number = |value: u64| if name == "memory" { mega(value) } else { value.to_string() };
        let line = format!("{name} {} → {}", number(quarters.second), number(quarters.last));
        if !quarters.are_flat(slack) {
            report.violation(Fault::NotFlat, &line);
        }
        shown.push(line);
    }
    shown.join(", ")
}

fn verdict(report: &Report) -> String {
    let violations = report.violations();
    if violations.is_empty() {
        return "ok".into();
    }
    let kinds: Vec<String> = violations.iter().map(|(fault, count)| format!("{count} × {fault}")).collect();
    format!("VIOLATIONS: {}", kinds.join(", "))
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    use super::*;

    fn faults(judge: impl FnOnce(&Report)) -> Vec<Fault> {
        let report = Report::new("made up", 0);
        judge(&report);
        report.violations().into_keys().collect()
    }

    fn ended(code: Option<i32>, stderr: &str) -> Ended {
        let status = code.map(|code| ExitStatus::from_raw(code << 8));
        Ended { status, took: Duration::from_secs(1), stderr: stderr.into(), left_behind: vec![] }
    }

    #[test]
    fn an_end_is_good_or_a_violation() {
        let good = "flash: stopped: requests=9999 loop_blocks=1\n";
        let of = |arch: &str, ended: Ended| faults(|report| drop(judge_end(&ended, arch, report)));
        assert_eq!(of("amped", ended(Some(0), good)), []);
        assert_eq!(of("amped", ended(Some(1), good)), [Fault::BadEnd]);
        assert_eq!(of("amped", ended(None, good)), [Fault::BadEnd]);
        assert_eq!(
            of("amped", Ended { left_behind: vec!["sh".into()], ..ended(Some(0), good) }),
            [Fault::BadEnd]
        );
        assert_eq!(of("mp", ended(Some(0), "")), []);
        assert_eq!(of("uring", ended(Some(0), "")), [Fault::LoopBlocked], "it says nothing of its loops");
        let blocked = "flash: loop-0 slept outside its wait\nflash: stopped: requests=9999 loop_blocks=2\n";
        assert_eq!(of("amped --helpers process", ended(Some(0), blocked)), [Fault::LoopBlocked]);
        assert_eq!(of("sped", ended(Some(0), blocked)), [], "it waits by design");
        let panicked = "flash: internal error: panicked\nflash: stopped: requests=2 loop_blocks=0\n";
        assert_eq!(of("amped", ended(Some(0), panicked)), [Fault::Said]);
    }

    #[test]
    fn what_grows_is_a_violation() {
        let of = |bytes: u64, descriptors: u64, connections: u64| {
            let sample = |second| Sample {
                held: Held {
                    // What leaves the heap comes into memory files.
                    anonymous_bytes: (100 << 20) - second * 1000,
                    memory_files_bytes: second * (1000 + bytes),
                    descriptors: 100 + second * descriptors,
                    threads: 70 + second % 3,
                    processes: 1,
                },
                connections: second * connections,
            };
            let samples: Vec<Sample> = (0..120).map(sample).collect();
            faults(|report| drop(judge_samples(&samples, report)))
        };
        assert_eq!(of(0, 0, 0), []);
        assert_eq!(of(0, 1, 1), [], "the clients' own");
        assert_eq!(of(0, 1, 0), [Fault::NotFlat]);
        assert_eq!(of(1 << 20, 0, 0), [Fault::NotFlat]);
    }
}
