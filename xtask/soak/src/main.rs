//! `cargo xtask soak` runs every architecture for a long time with visitors, slow clients, rude clients and a flood, on files
//! that are cold or change. It checks every byte and the age of every response, and which clients are cut. It also checks that
//! memory, descriptors and threads do not grow. It is not a part of `cargo xtask ci`, because its value is its length.

#![forbid(unsafe_code)]

mod ask;
mod checker;
mod client;
mod disk;
mod flat;
mod history;
mod live;
mod options;
mod report;
mod rude;
mod scene;
mod site;
mod slow;
mod sockets;
mod trial;
mod visitors;
mod warm;

use std::fs;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use flash_rig::{Cpus, Machine, interrupt, raise_descriptors};

use self::options::{HELP, Options};
use self::trial::Place;

const CONNECTIONS_MAX: usize = 8_192;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.iter().any(|arg| arg == "--help") {
        print!("{HELP}");
        return ExitCode::SUCCESS;
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |now| now.as_secs());
    match Options::parse(&args, now).and_then(|options| run(&options)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("soak: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the soak. False when there is a violation.
fn run(options: &Options) -> Result<bool> {
    // The server was built with this program.
    let own = std::env::current_exe()?;
    let programs = own.parent().context("a program lies in a folder")?;
    let target = programs.parent().context("cargo's folders lie in its target folder")?;
    interrupt::register()?;
    raise_descriptors(CONNECTIONS_MAX)?;
    let machine = Machine::take()?;
    for line in machine.restored() {
        println!("put back what a killed run had left: {line}");
    }
    let drops = rustix::process::geteuid().is_root();
    if !drops {
        println!("MISSING: root, so the kernel's caches are not dropped, and files are cold only once");
    }
    let flash = options.flash.clone().unwrap_or_else(|| programs.join("flash"));
    let soak = target.join("soak");
    fs::create_dir_all(&soak)?;
    let place = Place {
        machine: &machine,
        cpus: &Cpus::shared()?,
        soak: &soak,
        flash: &flash,
        flash_args: &options.flash_args,
        seed: options.seed,
        drops,
    };
    println!(
        "{} architectures, {:.0} s each, --seed {}",
        options.archs.len(),
        options.each.as_secs_f64(),
        options.seed
    );
    let mut holds = true;
    for &arch in &options.archs {
        holds &= trial::run(&place, arch, options.each)?;
    }
    println!("{}", if holds { "soak: no violation" } else { "soak: VIOLATIONS, see above" });
    Ok(holds)
}
