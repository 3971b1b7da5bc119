//! `flash sim calibrate` measures the parameters of the models on this machine with real servers. It writes a parameter file in
//! which every line says how it was measured.

pub(crate) mod costs;
pub(crate) mod disk;
mod effort;
mod file;
mod requests;
mod rounds;
mod turns;

use std::fs;
use std::path::Path;
use std::time::Instant;

use anyhow::Result;
use flash_rig::Facts;

use self::costs::Turns;
use self::disk::DiskTimes;
pub(crate) use self::effort::Effort;
use self::requests::Requests;
use crate::flags;
use crate::output;
use crate::testbed::Testbed;
use flash_cli::{Failure, print};

/// All that was measured, and on what.
#[derive(Debug)]
pub(crate) struct Calibration {
    facts: Facts,
    requests: Requests,
    turns: Turns,
    disk: DiskTimes,
}

pub(crate) fn run(flags: &flags::Calibrate) -> Result<(), Failure> {
    let effort = if flags.quick { Effort::QUICK } else { Effort::WHOLE };
    let text = calibrate(flags.flash.as_deref(), flags.disk.as_deref(), effort)?.text();
    match &flags.out {
        None => print(text),
        Some(path) => output::write(path, &text),
    }
}

/// Measures, in less than two minutes.
pub(crate) fn calibrate(flash: Option<&Path>, disk: Option<&Path>, effort: Effort) -> Result<Calibration> {
    let begun = Instant::now();
    let say = |what: &str| flash_cli::say(format_args!("{:5.1} s: {what}", begun.elapsed().as_secs_f64()));
    let testbed = Testbed::take(flash, disk)?;
    say("switches and locks");
    let turns = turn(&testbed, effort)?;
    let requests = requests::measure(&testbed, effort, say)?;
    say("disk");
    let folder = testbed.folder("disk")?;
    let disk = disk::measure(&folder, effort)?;
    let facts = Facts::collect(&folder, Path::new("."));
    fs::remove_dir_all(folder).map_err(anyhow::Error::from)?;
    say("done");
    Ok(Calibration { facts, requests, turns, disk })
}

fn turn(testbed: &Testbed, effort: Effort) -> Result<Turns> {
    let mut all = Turns::default();
    for _ in 0..effort.rounds {
        all.thread_switch_us.add(turns::thread_switch_us(&testbed.cpus)?);
        all.process_switch_us.add(turns::process_switch_us(&testbed.cpus)?);
        let (alone, contended) = turns::look_up_us(&testbed.cpus)?;
        all.look_up_us.add(alone);
        all.contended_us.add(contended);
    }
    Ok(all)
}
