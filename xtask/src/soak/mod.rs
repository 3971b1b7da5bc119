//! `cargo xtask soak` runs every architecture for a long time with visitors, slow clients, rude clients and a flood, on files
//! that are cold or change. It checks every byte and the age of every response, and which clients are cut. It also checks that
//! memory, descriptors and threads do not grow. It is not a part of `cargo xtask ci`, because its value is its length.

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
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Result;
use flash_rig::{Cpus, Machine, interrupt, raise_descriptors};

use self::options::Options;
use self::trial::Place;
use crate::cargo;

pub(crate) use self::options::HELP;

const CONNECTIONS_MAX: usize = 8_192;

/// Runs the soak. False when there is a violation.
pub(crate) fn run(root: &Path, args: &[&str]) -> Result<bool> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |now| now.as_secs());
    let options = Options::parse(args, now)?;
    let target = cargo::target_folder(root);
    // Clients that check every byte must be fast enough to keep a server busy.
    if cfg!(debug_assertions) {
        println!("building the release programs");
        cargo::run(root, &["build", "--release", "--quiet", "--package", "xtask"])?;
        if options.flash.is_none() {
            cargo::run(root, &["build", "--release", "--quiet", "--package", "flash"])?;
        }
        return cargo::become_release(&target.join("release/xtask"), "soak", args);
    }
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
    let flash = options.flash.clone().unwrap_or_else(|| target.join("release/flash"));
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
