//! Real servers within the limits, one after the other, each for all numbers of clients.

use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use flash_load::{Keep, Until};
use flash_rig::{Disk, Image, Limits, Running, empty_caches, make_image};
use flash_sim::Architecture;
use flash_traffic::tree::{Progress, make_site};
use flash_traffic::{Catalogue, Workload as _};
use rustix::process::geteuid;

use super::cell::{
    Cell, Figures, Grid, MEMORY_BYTES, PATH_ENTRIES, READ_AHEAD_KB, READS_PER_SECOND, RUNNERS,
};
use super::site::{SEED, Site};
use crate::testbed::{Clients, Testbed};

/// Who fill the caches, and for how long at most.
const SWEEPERS: u32 = 32;
const SWEEP_MAX: Duration = Duration::from_secs(20);
/// Until the queues have settled, and frequencies are known, before each measurement.
const WARM_UP: Duration = Duration::from_secs(4);

/// All of them measured; nothing is predicted yet.
pub(super) fn cells(testbed: &Testbed, grid: &Grid, sites: &[Site]) -> Result<Vec<Cell>> {
    if !geteuid().is_root() {
        bail!("limits of memory and of reads, and cold caches, need root");
    }
    let begun = Instant::now();
    let say = |what: String| eprintln!("{:5.1} s: {what}", begun.elapsed().as_secs_f64());
    say("making the sites".into());
    let image = image(testbed, sites)?;
    let disk = Disk::below(image.mountpoint())?;
    let _read_ahead = testbed.machine.read_ahead(&disk, READ_AHEAD_KB)?;
    let served = Served { testbed, image: &image, disk };
    let mut cells = Vec::new();
    for site in sites {
        for architecture in Architecture::ALL {
            say(format!("{}, {} MB", architecture.name(), site.data_set_mb));
            served.measure(grid, site, architecture, &mut cells)?;
        }
    }
    Ok(cells)
}

/// All sites on a disk of their own.
fn image(testbed: &Testbed, sites: &[Site]) -> Result<Image> {
    let (tree, mountpoint) = (testbed.folder("tree")?, testbed.folder("mounted")?);
    let files = sites.iter().flat_map(|site| site.workload.catalogue().files.clone()).collect();
    let catalogue = Catalogue { files, classes: vec!["files".into()] };
    let made = make_site(&tree, &catalogue, SEED, "flash sim validate", &Progress::default())?;
    let image = tree.with_file_name("image");
    // A quarter more, for what the filesystem itself takes and the last block of each file.
    let mebibytes = (made.bytes / 4 * 5) >> 20;
    make_image(&tree, &image, 64 + mebibytes as u32)?;
    fs::remove_dir_all(&tree)?;
    testbed.machine.image(&image, &mountpoint)
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
        let runners = match architecture {
            Architecture::Mt => format!("--threads {RUNNERS} --threads-max {RUNNERS}"),
            Architecture::Mp => format!("--processes {RUNNERS} --processes-max {RUNNERS}"),
            _ => String::new(),
        };
        let words = format!("{} {runners} --path-cache {PATH_ENTRIES}", architecture.name());
        let mut server = self.testbed.start(&words, self.image.mountpoint(), Some(&group))?;
        let server_mb = server.process.memory()?.pss_anonymous_bytes as f64 / 1e6;
        let sweep = Clients {
            workload: Arc::new(site.sweep(MEMORY_BYTES)),
            number: SWEEPERS,
            keep: Keep::Open,
            warm_up: Duration::ZERO,
            until: Until::Time(SWEEP_MAX),
        };
        self.testbed.try_ask(&mut server, sweep)?;
        for &clients in grid.clients {
            let (measured, failed) = self.figures(&mut server, site, clients, grid.measured)?;
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

    /// And how many requests failed.
    fn figures(
        &self,
        server: &mut Running,
        site: &Site,
        number: u32,
        time: Duration,
    ) -> Result<(Figures, u64)> {
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
        let report = self.testbed.try_ask(server, clients(Duration::ZERO, time))?;
        let seconds = begun.elapsed().as_secs_f64();
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
        Ok((figures, report.errors_total))
    }

    /// Reads that the disk has done: the first number of its statistics.
    fn reads(&self) -> Result<u64> {
        let file = format!("/sys/block/{}/stat", self.disk.name());
        let text = fs::read_to_string(&file).with_context(|| file.clone())?;
        let reads = text.split_whitespace().next().and_then(|word| word.parse().ok());
        reads.with_context(|| format!("{file}: expected a number of reads first"))
    }
}
