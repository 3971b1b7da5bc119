//! The program `flash-load`, which `flash load` runs: flags become a [`Load`], and its report a page of text, a file, or
//! both.

#![forbid(unsafe_code)]

mod display;
mod flags;
mod make_site;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use flags::{Command, Flags, Task};
use flash_cli::Failure;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

fn main() -> ExitCode {
    flash_cli::finish("flash load", flash_cli::read(std::env::args_os()).and_then(work))
}

fn work(flags: Flags) -> Result<(), Failure> {
    if let Some(Command::MakeSite(flags)) = &flags.command {
        return make_site::make(flags);
    }
    let output = display::Output::new(&flags)?;
    let load = flags.load()?;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        // The second one ends the program at once.
        signal_hook::flag::register_conditional_default(signal, stop.clone())
            .and_then(|_| signal_hook::flag::register(signal, stop.clone()))
            .map_err(|error| Failure::Run(format!("cannot watch for signals: {error}")))?;
    }
    let mut progress = output.progress(&load);
    let mut look = |live| progress.show(live);
    let report = match flags.task() {
        Task::Sizes(sizes) => flash_load::sizes(&load, &sizes, &stop, look),
        Task::Run => flash_load::run(&load, &stop, look),
        Task::FindCapacity { clients_max } => flash_load::capacity(&load, clients_max, &stop, look),
        Task::FindConforming { clients_max } => flash_load::conforming(&load, clients_max, &stop, look),
        Task::Levels { levels, capacity, clients_max } => {
            let capacity = match capacity {
                Some(capacity) => capacity,
                None => flash_load::capacity(&load, clients_max, &stop, &mut look)?.requests_per_second,
            };
            flash_load::levels(&load, capacity, &levels, &stop, look)
        }
    }?;
    progress.finish();
    output.report(&report)
}
