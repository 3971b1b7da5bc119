//! Real servers on this machine, one processor theirs and the rest their clients', for what measures and compares.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use flash_load::{ClientGroup, ClientOptions, Keep, Load, Pace, Report, Server, Until, Url};
use flash_rig::{Cgroup, Cpus, Machine, Running, ServerSpec, Setup, find_own, interrupt};
use flash_traffic::Workload;
use tempfile::TempDir;

/// How long any answer may take.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// The machine while it is ours, and a folder that goes with it.
pub(crate) struct Testbed {
    pub machine: Machine,
    pub cpus: Cpus,
    flash: PathBuf,
    folder: TempDir,
}

/// Clients of a closed loop.
pub(crate) struct Clients {
    pub workload: Arc<dyn Workload>,
    pub number: u32,
    pub keep: Keep,
    pub warm_up: Duration,
    pub until: Until,
}

impl Testbed {
    /// Takes the machine. The folder is made in `parent`, or where temporary files are.
    pub(crate) fn take(flash: Option<&Path>, parent: Option<&Path>) -> Result<Testbed> {
        interrupt::register()?;
        let flash = match flash {
            Some(flash) => flash.canonicalize().with_context(|| flash.display().to_string())?,
            None => find_own("flash").context("say where it is: --flash PATH")?,
        };
        let machine = Machine::take()?;
        for line in machine.restored() {
            flash_cli::say(format_args!("a killed run had left something: {line}"));
        }
        let parent = parent.map_or_else(std::env::temp_dir, Path::to_owned);
        let folder = tempfile::Builder::new().prefix("flash-sim-").tempdir_in(&parent);
        let folder = folder.with_context(|| parent.display().to_string())?;
        Ok(Testbed { machine, cpus: Cpus::choose(1)?, flash, folder })
    }

    /// A folder in ours.
    pub(crate) fn folder(&self, name: &str) -> Result<PathBuf> {
        let folder = self.folder.path().join(name);
        std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        Ok(folder)
    }

    /// Starts Flash, `words` being an architecture and flags.
    pub(crate) fn start(&self, words: &str, root: &Path, group: Option<&Cgroup>) -> Result<Running> {
        let spec: ServerSpec = words.parse()?;
        let work = self.folder("servers")?;
        let setup = Setup { group, program: Some(&self.flash), ..Setup::new(root, &work, &self.cpus) };
        self.machine.start(&spec, &setup)
    }

    /// Has clients ask a server, from processors that are not its own. All answers must be right.
    pub(crate) fn ask(&self, server: &mut Running, clients: Clients) -> Result<Report> {
        let report = self.try_ask(server, clients)?;
        if report.errors_total > 0 {
            bail!("of {} requests {:?} went wrong", report.asked, report.errors);
        }
        Ok(report)
    }

    /// The same where a server may be at its end: some must be right.
    pub(crate) fn try_ask(&self, server: &mut Running, clients: Clients) -> Result<Report> {
        interrupt::check()?;
        let url = Url::parse(&format!("http://127.0.0.1:{}/", server.port))?;
        let pace = Pace::Closed { clients: clients.number, think: Duration::ZERO };
        let options = ClientOptions { keep: clients.keep, ..ClientOptions::default() };
        let mut load = Load {
            server: Server::reach(&url)?,
            groups: vec![ClientGroup { workload: clients.workload, pace, options }],
            threads: 1,
            warm_up: clients.warm_up,
            until: clients.until,
            timeout: ANSWER_TIMEOUT,
            bits_per_second_min: None,
            seed: 1,
        };
        let stop = AtomicBool::new(false);
        let look = |_| stop.store(interrupt::check().is_err(), Ordering::Relaxed);
        loop {
            let report = self.cpus.on_clients(|| flash_load::run(&load, &stop, look))??;
            interrupt::check()?;
            server.process.check()?;
            match load.until {
                _ if report.requests > 0 => return Ok(report),
                // On a machine that does something else besides, the server may not have had a turn in such a moment.
                Until::Time(time) if report.errors_total == 0 && time < ANSWER_TIMEOUT => {
                    load.until = Until::Time(time * 8);
                }
                _ => bail!("no request was answered: {:?}", report.errors),
            }
        }
    }
}
