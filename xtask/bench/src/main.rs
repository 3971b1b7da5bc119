//! `cargo xtask bench` compares this server and its peers side by side. It measures processor time per request in ratios to a
//! floor, and memory per idle connection. It also measures the wait for a hot file while the disk is saturated or programs run.
//! A run compares servers on one machine; the lab makes figures for publication.

#![forbid(unsafe_code)]

mod cached;
mod client;
mod dataset;
mod figures;
mod first_pass;
mod hot_cold;
mod idle;
mod options;
mod programs;
mod report;
mod servers;
mod tls;
mod why;
mod wrk;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use flash_rig::{Cpus, Facts, Machine, interrupt, raise_descriptors};
use serde_json::{Value, json};

use self::options::{HELP, Options};
use self::report::Bar;
use self::servers::{Place, Server};

const CONNECTIONS_MAX: usize = 16_384;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.iter().any(|arg| arg == "--help") {
        print!("{HELP}");
        return ExitCode::SUCCESS;
    }
    match Options::parse(&args).and_then(|options| run(&options)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the bench. False when a bar is missed.
#[expect(clippy::too_many_lines, reason = "a list of what is measured")]
fn run(options: &Options) -> Result<bool> {
    // The other programs were built with this one.
    let own = std::env::current_exe()?;
    let programs = own.parent().context("a program lies in a folder")?;
    let target = programs.parent().context("cargo's folders lie in its target folder")?;
    interrupt::register()?;
    raise_descriptors(CONNECTIONS_MAX)?;
    let machine = Machine::take()?;
    for line in machine.restored() {
        println!("put back what a killed run had left: {line}");
    }
    let cpus = Cpus::choose(1)?;
    cpus.keep_to_clients()?;
    let flash = options.flash.clone().unwrap_or_else(|| programs.join("flash"));
    let floor = programs.join("flash-floor");
    let servers = present(options, &flash)?;

    let bench = target.join("bench");
    let work = Work::create(&bench)?;
    let site = bench.join("site");
    let files: Vec<_> = cached::CELLS.iter().map(|cell| (cell.file, cell.bytes)).collect();
    dataset::cached(&site, &files)?;
    let place = Place {
        machine: &machine,
        cpus: &cpus,
        root: &site,
        work: &work.0,
        flash: &flash,
        flash_args: &options.flash_args,
        floor: &floor,
        group: None,
        dynamic: None,
        tls: None,
    };

    let mut bars: Vec<Bar> = Vec::new();
    let mut json = serde_json::Map::new();
    let cells: Vec<_> = cached::CELLS.iter().filter(|cell| options.wants(cell.name)).collect();
    if !cells.is_empty() && !wrk::installed() {
        println!("MISSING: wrk, so nothing is measured on cached content");
    } else if !cells.is_empty() {
        let figures = cached::run(&place, &servers, &cells, options.rounds, options.seconds)?;
        figures::print(&figures, &servers);
        bars.extend(cached::bars(&figures, &cells));
        json.insert("cached".into(), figures::json(&figures, &servers));
    }
    if options.wants("idle") {
        let figures = idle::run(&place, &servers)?;
        idle::print(&figures);
        bars.extend(idle::bars(&figures));
        json.insert("idle".into(), idle::json(&figures));
    }
    if options.wants("tls") {
        let figures = tls::run(&place, &servers, options.rounds, options.seconds)?;
        tls::print(&figures);
        bars.extend(tls::bars(&figures));
        json.insert("tls".into(), tls::json(&figures));
    }
    if options.wants("hot-cold") {
        let rounds = if options.quick { 1 } else { options.rounds };
        let outcomes = hot_cold::run(&place, &bench.join("cold"), &servers, rounds, options.quick)?;
        hot_cold::print(&outcomes);
        bars.extend(hot_cold::bars(&outcomes));
        json.insert("hot_cold".into(), hot_cold::json(&outcomes));
    }
    if options.wants("first-pass") {
        let passes = first_pass::run(&place, &bench.join("first-pass"), &servers, options.rounds)?;
        first_pass::print(&passes);
        bars.extend(first_pass::bars(&passes));
        json.insert("first_pass".into(), first_pass::json(&passes));
    }
    if options.wants("programs") {
        let outcomes = programs::run(&place, &servers, options.rounds, options.quick)?;
        programs::print(&outcomes);
        bars.extend(programs::bars(&outcomes));
        json.insert("programs".into(), programs::json(&outcomes));
    }
    if options.wants("why") && !wrk::installed() {
        println!("MISSING: wrk, so the cost of flash why is not measured");
    } else if options.wants("why") {
        let figures = why::run(&place, &programs.join("flash-why"), options.rounds, options.seconds)?;
        why::print(&figures);
        bars.extend(why::bars(&figures));
        json.insert("why".into(), why::json(&figures));
    }
    let pass = report::print_bars(&bars);
    json.insert("bars".into(), report::bars_json(&bars));
    json.insert("machine".into(), json!(Facts::collect(&bench, Path::new("."))));
    if let Some(file) = &options.json {
        fs::write(file, serde_json::to_string_pretty(&Value::Object(json))? + "\n")?;
    }
    Ok(pass)
}

/// The servers that are there; the others are said by name.
fn present(options: &Options, flash: &Path) -> Result<Vec<Server>> {
    let mut servers = Vec::new();
    for &server in &options.servers {
        let there = match server {
            _ if server.is_floor() => Ok(()),
            _ if server.is_flash() && flash.is_file() => Ok(()),
            _ if server.is_flash() => Err(format!("there is no {}", flash.display())),
            _ => server.spec(&[])?.find().map(drop).map_err(|missing| missing.to_string()),
        };
        match there {
            Ok(()) => servers.push(server),
            Err(missing) => println!("MISSING: {}: {missing}", server.name()),
        }
    }
    Ok(servers)
}

/// A folder for configurations and the like, removed at the end.
struct Work(PathBuf);

impl Work {
    fn create(bench: &Path) -> Result<Work> {
        let folder = bench.join(format!("work-{}", std::process::id()));
        if folder.exists() {
            bail!("{} is already there", folder.display());
        }
        fs::create_dir_all(&folder)?;
        // Caddy keeps its state here even when told to keep none.
        Ok(Work(folder))
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
