//! Real servers within the limits, one after the other, each for all numbers of clients.

use std::fs;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use flash_load::{Keep, Until};
use flash_rig::{Cgroup, Disk, Image, Limits, Running, empty_caches, make_image};
use flash_sim::Architecture;
use flash_traffic::tree::{Progress, make_site};
use flash_traffic::{Catalogue, Workload as _};
use rustix::process::geteuid;

use super::cell::{
    Cell, Figures, FreeDisk, Grid, MEMORY_BYTES, PATH_ENTRIES, READ_AHEAD_KB, READS_PER_SECOND,
};
use super::site::{SEED, Site};
use crate::calibrate::{Effort, costs, disk};
use crate::testbed::{Clients, Testbed};

/// In the image.
const DISK_FILE: &str = "disk";
/// Who fill the caches, and for how long at most.
const SWEEPERS: u32 = 32;
const SWEEP_MAX: Duration = Duration::from_secs(20);
/// Until the queues have settled, and frequencies are known, before each measurement.
const WARM_UP: Duration = Duration::from_secs(6);

/// All of them measured; nothing is predicted yet.
pub(super) fn cells(
    testbed: &Testbed,
    grid: &Grid,
    sites: &[Site],
    cells: &mut Vec<Cell>,
) -> Result<FreeDisk> {
    if !geteuid().is_root() {
        bail!("limits of memory and of reads, and cold caches, need root");
    }
    let begun = Instant::now();
    let say = |what: String| flash_cli::say(format_args!("{:5.1} s: {what}", begun.elapsed().as_secs_f64()));
    say("making the sites".into());
    let image = image(testbed, sites)?;
    let disk = Disk::below(image.mountpoint())?;
    let _read_ahead = testbed.machine.read_ahead(&disk, READ_AHEAD_KB)?;
    say("the disk".into());
    let times = disk::read(&image.mountpoint().join(DISK_FILE), Effort::WHOLE)?;
    let free_disk =
        FreeDisk { disk: costs::disk(&times), requests_at_once: costs::disk_requests_at_once(&times) };
    let served = Served { testbed, image: &image, disk };
    for site in sites {
        for &architecture in &grid.architectures {
            say(format!("{}, {} MB", architecture.name(), site.data_set_mb));
            served.measure(grid, site, architecture, cells)?;
        }
    }
    Ok(free_disk)
}

/// All sites on a disk of their own, and a file to measure it by.
fn image(testbed: &Testbed, sites: &[Site]) -> Result<Image> {
    let (tree, mountpoint) = (testbed.folder("tree")?, testbed.folder("mounted")?);
    let files = sites.iter().flat_map(|site| site.workload.catalogue().files.clone()).collect();
    let catalogue = Catalogue { files, classes: vec!["files".into()] };
    let made = make_site(&tree, &catalogue, SEED, "flash sim validate", &Progress::default())?;
    let image = tree.with_file_name("image");
    let disk_bytes = fs::metadata(disk::make_small(&tree)?)?.len();
    // A quarter more, for what the filesystem itself takes and the last block of each file.
    let mebibytes = ((made.bytes + disk_bytes) / 4 * 5) >> 20;
    make_image(&tree, &image, 64 + mebibytes as u32)?;
    fs::remove_dir_all(&tree)?;
    testbed.machine.image(&image, &mountpoint)
}

/// Of one server under one load.
struct Measured {
    figures: Figures,
    /// Requests without a right answer.
    failed: u64,
    /// As in [`Cell`].
    server_mb: f64,
}

struct Served<'a> {
    testbed: &'a Testbed,
    image: &'a Image,
    disk: Disk,
}

impl Served<'_> {
    /// One server, cold at first, for all numbers of clients.
    fn measure(
        &self,
        grid: &Grid,
        site: &Site,
        architecture: Architecture,
        cells: &mut Vec<Cell>,
    ) -> Result<()> {
        let limits = Limits {
            memory_bytes: Some(MEMORY_BYTES),
            reads_per_second: Some(READS_PER_SECOND.into()),
            ..Limits::default()
        };
        let group = self.testbed.machine.group(&limits, &self.disk)?;
        empty_caches()?;
        let words = format!("{} --path-cache {PATH_ENTRIES}", architecture.name());
        let mut server = self.testbed.start(&words, self.image.mountpoint(), Some(&group))?;
        let sweep = Clients {
            workload: Arc::new(site.sweep(MEMORY_BYTES)),
            number: SWEEPERS,
            keep: Keep::Open,
            warm_up: Duration::ZERO,
            until: Until::Time(SWEEP_MAX),
        };
        self.testbed.try_ask(&mut server, sweep)?;
        for &clients in &grid.clients {
            let Measured { figures: measured, failed, server_mb } =
                self.figures(&mut server, &group, site, clients, grid.measured)?;
            let data_set_mb = site.data_set_mb;
            cells.push(Cell {
                architecture,
                data_set_mb,
                clients,
                server_mb,
                failed,
                measured,
                predicted: measured,
            });
        }
        Ok(())
    }

    fn figures(
        &self,
        server: &mut Running,
        group: &Cgroup,
        site: &Site,
        number: u32,
        time: Duration,
    ) -> Result<Measured> {
        let clients = |warm_up, until| Clients {
            workload: site.workload.clone(),
            number,
            keep: Keep::Open,
            warm_up,
            until: Until::Time(until),
        };
        self.testbed.try_ask(server, clients(Duration::ZERO, WARM_UP))?;
        let (reads, used) = (self.reads()?, server.process.usage()?);
        let begun = Instant::now();
        // What threads, processes and sockets take is gone when the load is.
        let memory = thread::scope(|scope| {
            let halfway = scope.spawn(|| {
                thread::sleep(time / 2);
                group.memory()
            });
            let report = self.testbed.try_ask(server, clients(Duration::ZERO, time));
            (report, halfway.join().expect("reading does not panic"))
        });
        let (report, memory) = (memory.0?, memory.1?);
        let seconds = begun.elapsed().as_secs_f64();
        let copies_bytes = server.cache_used_bytes()?.unwrap_or(0);
        let server_bytes = memory.used_bytes.saturating_sub(memory.cached_bytes + copies_bytes);
        let (reads, used) = (self.reads()? - reads, server.process.usage()?.since(&used));
        let ms = |us: f64| us / 1e3;
        let figures = Figures {
            requests_per_s: report.requests_per_second,
            mean_ms: ms(report.latency_us.mean),
            p50_ms: ms(report.latency_us.p50),
            p99_ms: ms(report.latency_us.p99),
            busy: used.cpu_ns as f64 / 1e9 / seconds,
            reads_per_request: reads as f64 / report.requests as f64,
        };
        Ok(Measured { figures, failed: report.errors_total, server_mb: server_bytes as f64 / 1e6 })
    }

    /// Reads that the disk has done: the first number of its statistics.
    fn reads(&self) -> Result<u64> {
        let file = format!("/sys/block/{}/stat", self.disk.name());
        let text = fs::read_to_string(&file).with_context(|| file.clone())?;
        let reads = text.split_whitespace().next().and_then(|word| word.parse().ok());
        reads.with_context(|| format!("{file}: expected a number of reads first"))
    }
}
