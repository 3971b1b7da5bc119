//! The real bench: a server started on its processors and in its limits, clients on theirs, and what came of it.
//!
//! Clients run in this process, on threads that are kept to the clients' processors. The lab itself does nothing
//! meanwhile but look at the time, so that it is in nobody's way.

mod blocked;
mod clients;
mod figures;
mod idle;
mod optimal;
mod runnable;
mod site;
mod test_bed;
mod tree;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use flash_rig::{
    Cgroup, Cpus, Disk, Dynamic, Limits, LocalCertificate, Php, ReadAhead, Running, ServerSpec, Setup, Slow,
    SlowMount, drop_pages, empty_caches, interrupt, is_root,
};

use crate::environment;
use crate::plan::{At, Axis, Extent, Plan, Protocol, Waiters, Workload};
use crate::record::Figures;
use crate::run::{Bench, Trouble};
use crate::schedule::Cell;

use self::clients::Clients;
use self::site::{Site, Sites};
pub use self::test_bed::TestBed;

/// Whether a server gives a thread or a process to each connection for as long as it lives. The module changes nothing about that.
fn waits_for_clients(variant: &str) -> bool {
    ["mt", "mp", "apache-prefork", "apache-worker"].contains(&variant.trim_end_matches("-flash"))
}

/// Everything that one plan's measurements need, ready.
pub struct Rig<'a> {
    plan: &'a Plan,
    extent: Extent,
    place: TestBed<'a>,
    sites: Sites,
    /// For configurations and what servers say.
    run_folder: PathBuf,
    /// The folder of a site, and the slow disk that it is seen through.
    slow: Option<(PathBuf, SlowMount)>,
    _read_ahead: Option<ReadAhead>,
    notes: Vec<String>,
}

impl<'a> Rig<'a> {
    /// Makes the sites of a plan and prepares the machine.
    ///
    /// # Errors
    /// When a log, a right, or a device that the plan needs is not there.
    pub fn prepare(plan: &'a Plan, extent: Extent, place: TestBed<'a>) -> Result<Rig<'a>> {
        let run_folder = place.work.join("run");
        fs::create_dir_all(&run_folder)?;
        let sites = Sites::make(plan, extent, &place)?;
        let mut rig =
            Rig { plan, extent, place, sites, run_folder, slow: None, _read_ahead: None, notes: Vec::new() };
        let first = &plan.places(extent)[0];
        rig.mount_slow(first)?;
        if let Some(kilobytes) = plan.machine.read_ahead_kb {
            let disk = Disk::below(rig.root_of(&rig.sites.any().folder))?;
            rig._read_ahead = Some(place.machine.read_ahead(&disk, kilobytes)?);
        }
        // Tried before anything is measured, so that what is missing is known at once.
        drop(rig.group(first, &rig.sites.any().folder)?);
        if plan.places(extent).iter().any(|at| rig.sites.at(at).needs_php()) {
            rig.notes.push(flash_rig::php_version(&flash_rig::Php::find()?)?);
        }
        if Cpus::choose(1).is_err() {
            rig.notes.push("there is one processor: servers share it with their clients".into());
        }
        Ok(rig)
    }

    /// What readers of the record must know.
    pub fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }

    fn axis(&self) -> Option<Axis> {
        self.plan.sweep.as_ref().map(|sweep| sweep.axis)
    }

    /// A number of the sweep, where this is what is varied.
    fn varied(&self, axis: Axis, at: &At) -> Option<f64> {
        at.value().filter(|_| self.axis() == Some(axis))
    }

    /// Connections that say nothing, beside those that ask.
    fn beside(&self, at: &At) -> u32 {
        self.varied(Axis::IdleConnections, at).unwrap_or_default() as u32
    }

    /// Where servers find a site: on the disk, or behind the slow one.
    fn root_of<'b>(&'b self, folder: &'b Path) -> &'b Path {
        self.slow.as_ref().map_or(folder, |(_, slow)| slow.mountpoint())
    }

    /// Mounts the slow disk of a place, if the plan has one. Places with the same site share it.
    fn mount_slow(&mut self, at: &At) -> Result<()> {
        let site = self.sites.at(at);
        let is_there = self.slow.as_ref().is_some_and(|(folder, _)| *folder == site.folder);
        let is_wanted =
            self.axis() == Some(Axis::DeviceMilliseconds) || self.plan.machine.slow_disk().is_some();
        if is_there || !is_wanted {
            return Ok(());
        }
        // A mountpoint holds one disk.
        self.slow = None;
        let mountpoint = self.run_folder.join("slow");
        fs::create_dir_all(&mountpoint)?;
        let site = self.sites.at(at);
        // Room for the last block of each file, for names, inodes and the journal.
        let mebibytes = (site.bytes() / 16 * 17 + site.files() * 8_192) / (1 << 20) + 96;
        let slow = Slow::Local { mebibytes: mebibytes as u32 };
        // Its threads are a disk and not the server's work.
        let cpus = Cpus::choose(1).or_else(|_| Cpus::shared())?;
        let folder = site.folder.clone();
        let mount = || self.place.machine.slow(&folder, &mountpoint, slow, FAST);
        let mounted = cpus.on_clients(mount)??;
        if let Some(rule) = self.plan.machine.slow_disk() {
            // Known before the first measurement: a site may be larger than a drive.
            mounted.disk().rule(&rule)?;
            mounted.disk().rule(&format!("clear\n{FAST}"))?;
        }
        self.slow = Some((folder, mounted));
        Ok(())
    }

    fn group(&self, at: &At, folder: &Path) -> Result<Option<flash_rig::Cgroup>> {
        let limits = Limits {
            memory_bytes: self.plan.memory_mb(at).map(|mb| mb << 20),
            reads_per_second: self.plan.machine.disk_reads_per_second,
            ..Limits::default()
        };
        if limits == Limits::default() {
            return Ok(None);
        }
        let disk = Disk::below(self.root_of(folder))?;
        self.place.machine.group(&limits, &disk).context("limiting servers (as the superuser)").map(Some)
    }

    fn cell(&self, cell: &Cell, rate: Option<f64>) -> Result<Figures> {
        let spec = environment::spec(&cell.server)?;
        let site = self.sites.at(&cell.at);
        let loops = self.varied(Axis::Loops, &cell.at).unwrap_or(1.0) as usize;
        let cpus = Cpus::choose(loops).or_else(|_| Cpus::shared())?;
        let clients = self.clients(cell, rate);
        let usual = || {
            let per_client = self.plan.load.waiters == Waiters::PerClient;
            (per_client && waits_for_clients(spec.variant.name)).then_some(f64::from(clients.count))
        };
        let threads = self
            .varied(Axis::Helpers, &cell.at)
            .or_else(|| self.varied(Axis::Processes, &cell.at))
            .or_else(usual)
            .map(|threads| threads as usize);
        if let Some((_, slow)) = &self.slow {
            let delay = self.varied(Axis::DeviceMilliseconds, &cell.at).unwrap_or_default();
            slow.disk().clear();
            slow.disk().rule(&format!("{FAST}\nread delay fixed:{}us", (delay * 1000.0) as u64))?;
        }
        let group = self.group(&cell.at, &site.folder)?;
        if self.plan.machine.cold {
            match is_root() {
                true => empty_caches()?,
                false => drop_pages(&site.folder)?,
            }
        }
        let usual = Setup::new(self.root_of(&site.folder), &self.run_folder, &cpus);
        let setup = Setup {
            group: group.as_ref(),
            loops,
            threads,
            program: self.place.flash.filter(|_| spec.is_flash()),
            connections_max: usual
                .connections_max
                .max((clients.connections_max() + self.beside(&cell.at)) as usize + 256),
            ..usual
        };
        let measured = self.measured(cell, &spec, &setup, site, &clients);
        match group {
            // That the memory is not enough for a server is what was to be found out.
            Some(group) if measured.is_err() && group.killed_for_memory() > 0 => {
                Ok(figures::nothing("killed_for_memory"))
            }
            _ => measured,
        }
    }

    /// Starts what the cell needs, and has it asked.
    fn measured(
        &self,
        cell: &Cell,
        spec: &ServerSpec,
        setup: &Setup,
        site: &Site,
        clients: &Clients,
    ) -> Result<Figures> {
        // It comes first: who is told of it would not find it.
        let php = site.needs_php().then(|| self.place.machine.start_php(setup)).transpose()?;
        let dynamic = Dynamic { php: php.as_ref().map(|php| &*php.socket) };
        let certificate = match clients.load.protocol {
            Protocol::Http1 => None,
            Protocol::Http1Tls | Protocol::Http2Tls => Some(LocalCertificate::make(&self.run_folder)?),
        };
        let setup = Setup {
            dynamic: site.has_programs().then_some(dynamic),
            tls: certificate.as_ref().map(LocalCertificate::files),
            ..setup.clone()
        };
        let server = self.place.machine.start(spec, &setup)?;
        if let Some(Workload::Idle) = self.plan.workload(self.extent, &cell.at) {
            return idle::measure(server, clients.count);
        }
        let cpus = setup.cpus;
        let beside = self.beside(&cell.at);
        let _held = cpus.on_clients(|| idle::hold(server.port, beside, |number| site.idle(number)))??;
        self.serve(&cell.at, server, php.as_ref(), clients, setup.group, cpus)
    }

    fn clients(&self, cell: &Cell, rate: Option<f64>) -> Clients {
        let load = self.plan.load(self.extent);
        let count = self.varied(Axis::Clients, &cell.at).map_or(load.clients, |clients| clients as u32);
        // Others in every round, the same for every server.
        let seed = self.place.seed.wrapping_add(u64::from(cell.repeat));
        Clients { load, count, rate, seed }
    }

    fn serve(
        &self,
        at: &At,
        mut server: Running,
        php: Option<&Php>,
        clients: &Clients,
        group: Option<&Cgroup>,
        cpus: &Cpus,
    ) -> Result<Figures> {
        let site = self.sites.at(at);
        let wants = |name: &str| self.plan.figures.iter().any(|figure| figure.y.contains(name));
        let watch = clients::Watching { runnable: wants("runnable"), blocked: wants("block") };
        // The papers' servers were warm. A slow disk would take longer for that than a run does here.
        let rule = self.plan.machine.slow_disk().filter(|_| self.axis() != Some(Axis::DeviceMilliseconds));
        let slow_down = self.slow.as_ref().zip(rule).map(|((_, slow), rule)| {
            move || slow.disk().rule(&rule).expect("the disk has taken this rule before")
        });
        let place = (group, cpus);
        let seen = cpus.on_clients(|| clients.ask(&server, php, site, place, watch, slow_down))??;
        interrupt::check()?;
        server.process.check()?;
        let memory = server.process.memory()?;
        let hit_rate = server.cache_hit_rate()?;
        let metrics = server.stop();
        let memory_mb = self.plan.memory_mb(at);
        let is_short = memory_mb.is_some();
        let mut figures = figures::of(&seen, &memory, metrics.as_ref(), site.answers, is_short)?;
        figures.figures.extend(hit_rate.map(|rate| ("cache_hit_rate".to_owned(), rate)));
        // With a slow disk, the warm-up is another load than the measurement.
        if let Some(memory_mb) = memory_mb.filter(|_| self.plan.machine.slow_disk().is_none())
            && wants("optimal")
        {
            let measured = seen.answers as usize;
            let load = self.plan.load(self.extent);
            let warm_up = (measured as f64 * load.warm_up_seconds / load.seconds) as usize;
            let memory = (memory_mb << 20, self.plan.machine.read_ahead_kb);
            let reads = optimal::reads_per_request(site, clients.seed, memory, (warm_up, measured));
            figures.figures.insert("optimal_reads_per_request".into(), reads);
        }
        Ok(figures)
    }
}

/// How a slow disk behaves before it is slow.
const FAST: &str = "concurrent 64";

impl Bench for Rig<'_> {
    fn measure(&mut self, cell: &Cell, rate: Option<f64>) -> Result<Figures, Trouble> {
        let mounted = self.mount_slow(&cell.at);
        mounted.and_then(|()| self.cell(cell, rate)).map_err(|error| match interrupt::check() {
            Ok(()) => Trouble::Failed(format!("{error:#}")),
            Err(_) => Trouble::Interrupted,
        })
    }
}
