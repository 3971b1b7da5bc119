//! `flash lab run`: each plan in turn, from the servers that are there to what its findings come to.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, Result, bail};
use flash_cli::{Failure, print, say};
use flash_lab::bench::{Rig, TestBed};
use flash_lab::data::Data;
use flash_lab::environment;
use flash_lab::finding::{self, Judgement};
use flash_lab::plan::{self, Extent, MachineNeeds, Plan};
use flash_lab::progress::Progress;
use flash_lab::record::{Missing, Run, Store};
use flash_lab::run::{self, Ending};
use flash_rig::interrupt;

use crate::flags::RunFlags;

/// The most that any plan opens, and so has to be there on either side.
const CONNECTIONS_MAX: usize = 10_100;

pub(crate) fn run(flags: &RunFlags) -> Result<()> {
    let plans = plans(flags)?;
    interrupt::register()?;
    if let Err(error) = flash_rig::raise_descriptors(CONNECTIONS_MAX) {
        // Most plans open far fewer; a measurement that cannot will say so.
        say(format_args!("flash lab: {error:#}"));
    }
    let rig = flash_rig::Machine::take()?;
    for line in rig.restored() {
        say(format_args!("a run that was killed had left something: {line}"));
    }
    let work = flags.work.clone().unwrap_or_else(|| flags.out.join(".work"));
    std::fs::create_dir_all(&work).with_context(|| format!("making {}", work.display()))?;
    // Servers are told of folders by their whole paths.
    let work = work.canonicalize()?;
    let mut trouble = Vec::new();
    for (plan, text) in &plans {
        match one(plan, text, flags, &rig, &work) {
            Ok(Ending::Complete { failed: 0 }) => {}
            Ok(Ending::Complete { failed }) => trouble.push(format!("{}: {failed} failed", plan.name)),
            Ok(Ending::Interrupted { left }) => {
                say(format_args!(
                    "{}: {left} measurements are left; the same command goes on with them",
                    plan.name
                ));
                bail!("interrupted");
            }
            // What one plan needs says nothing about the others.
            Err(error) => {
                interrupt::check()?;
                say(format_args!("{}: NOT RUN: {error:#}", plan.name));
                trouble.push(format!("{} not run", plan.name));
            }
        }
    }
    if !trouble.is_empty() {
        bail!("{}", trouble.join(", "));
    }
    Ok(())
}

/// All plans are read before the first runs, so that a word that makes no sense is known at once.
fn plans(flags: &RunFlags) -> Result<Vec<(Plan, String)>> {
    let mut names: Vec<&str> = flags.plans.iter().map(String::as_str).collect();
    if names.contains(&"all") {
        names = plan::built_in().iter().map(|plan| plan.name).collect();
    }
    let mut plans = names.into_iter().map(plan::find).collect::<Result<Vec<_>, _>>()?;
    if (flags.seek_ms.is_some() || flags.arm.is_some()) && !flash_rig::is_root() {
        bail!("--seek-ms and --arm mount a slow disk, which takes root");
    }
    plans.iter_mut().for_each(|(plan, text)| on_slow_disk(plan, text, flags));
    let known =
        |name: &str| plans.iter().any(|(plan, _)| plan.servers.iter().any(|entry| entry.name() == name));
    if let Some(stranger) = flags.servers.iter().find(|name| !known(name)) {
        bail!(Failure::Usage(format!(
            "--servers: '{stranger}' is not a server of these plans (see flash lab show PLAN)"
        )));
    }
    Ok(plans)
}

/// The plan on the slow disk of the flags, if they name one: another plan.
fn on_slow_disk(plan: &mut Plan, text: &mut String, flags: &RunFlags) {
    let (end, title, flag) = match (&flags.arm, flags.seek_ms) {
        (Some(arm), _) => ("-arm", format!("an arm ({arm})"), format!("--arm {arm}")),
        (None, Some(ms)) => ("-seek", format!("seeks of {ms} ms"), format!("--seek-ms {ms}")),
        (None, None) => return,
    };
    let (arm, seek_ms) = (flags.arm.clone(), flags.seek_ms);
    plan.machine = MachineNeeds { arm, seek_ms, disk_reads_per_second: None, ..plan.machine.clone() };
    plan.name.push_str(end);
    plan.title.push_str(&format!(", on a disk with {title}"));
    text.push_str(&format!("\n# {flag}\n"));
}

fn one(
    plan: &Plan,
    text: &str,
    flags: &RunFlags,
    machine: &flash_rig::Machine,
    work: &Path,
) -> Result<Ending> {
    let extent = if flags.quick { Extent::Quick } else { Extent::Full };
    let (plan, reduced) = match flash_rig::is_root() {
        true => (plan.clone(), Vec::new()),
        false => plan.reduced()?,
    };
    let plan = &plan;
    if !reduced.is_empty() {
        say(format_args!("{}: REDUCED, because this user is not root: {}", plan.name, reduced.join(", ")));
    }
    let flash = flags.flash.clone().or_else(|| env::var_os("FLASH_BIN").map(PathBuf::from));
    let wanted = plan
        .servers(extent)
        .filter(|entry| flags.servers.is_empty() || flags.servers.iter().any(|name| name == entry.name()));
    let (servers, missing) = environment::servers(wanted, flash.as_deref(), flags.install)?;
    for Missing { name, why } in &missing {
        say(format_args!("{}: MISSING: {name}: {why}", plan.name));
    }
    if servers.is_empty() {
        bail!("none of its servers is installed");
    }
    let place =
        TestBed { machine, work, traces: flags.traces.as_deref(), flash: flash.as_deref(), seed: flags.seed };
    let mut rig = Rig::prepare(plan, extent, place)?;
    let new = Run {
        plan: plan.name.clone(),
        plan_text: text.to_owned(),
        extent,
        seed: flags.seed,
        began_unix: run::unix(SystemTime::now()).as_secs(),
        machine: environment::machine(work),
        servers,
        missing,
        notes: rig.notes(),
        commands: vec![command()],
        reduced,
    };
    let mut store = Store::new(&flags.out, &plan.name);
    let (record, done) = run::open(&mut store, new, flags.fresh)?;
    let mut progress = Progress::new(extent);
    let ending = run::run(plan, &record, flags.rounds, done, &mut store, &mut rig, &mut progress)?;
    if let Ending::Complete { .. } = ending {
        tell(plan, &flags.out)?;
    }
    Ok(ending)
}

/// The command as it was given, for a shell, behind the variables that it follows.
fn command() -> String {
    let set = |name: &str| Some(format!("{name}={} ", quoted(&env::var_os(name)?)));
    let variables: String = ["FLASH_BIN", "FLASH_TRACES"].into_iter().filter_map(set).collect();
    let words: String = env::args_os().skip(1).map(|word| format!(" {}", quoted(&word))).collect();
    format!("{variables}flash lab{words}")
}

fn quoted(word: &OsStr) -> String {
    let word = word.to_string_lossy();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_=+,./:@%".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.into_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// What the findings come to.
fn tell(plan: &Plan, out: &Path) -> Result<()> {
    let data = Data::read(out, &plan.name)?.context("the file that was just written is missing")?;
    for (finding, judgement) in finding::judge(plan, &data) {
        let Judgement { verdict, measured, .. } = judgement;
        print(format!("{}: {verdict}: {} ({measured})\n", plan.name, finding.claim))?;
    }
    Ok(())
}
