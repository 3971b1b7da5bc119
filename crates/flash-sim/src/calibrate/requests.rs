//! Processor time and memory that real servers take for requests, each question asked of a server that differs from another
//! in that one thing.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use flash_load::{Keep, Until, Urls};
use flash_rig::{Limits, Running};
use flash_traffic::content::Content;
use rustix::process::geteuid;
use rustix::time::{ClockId, clock_gettime};

use super::effort::Effort;
use super::rounds::Rounds;
use crate::testbed::{Clients, Testbed};

/// Of the files that are asked for.
pub(crate) const SIZES_BYTES: [u64; 4] = [1 << 10, 10 << 10, 100 << 10, 1 << 20];
/// How many there are of each size: together far more than processors' caches hold, as on a site.
pub(crate) const FILES: [u32; SIZES_BYTES.len()] = [2_000, 2_000, 320, 32];
/// The architectures, all asked for a few of the smallest files, so that each of many processes has them in its cache.
pub(crate) const ARCHITECTURES: [&str; 5] = ["sped", "amped", "mt", "mp", "pipelined"];
pub(crate) const FEW_FILES: u32 = 32;
pub(crate) const CLIENTS: u32 = 16;
/// What a server without copies has. Content is in the kernel's cache alone.
const PAGES: &str = "--file-cache-bytes 0";
/// Cold files, of two sizes, and the memory of the server that is asked for them: the kernel has to find room for each.
pub(crate) const COLD_BYTES: [u64; 2] = [SIZES_BYTES[1], SIZES_BYTES[2]];
const COLD_FILES: [u32; 2] = [6_000, 1_000];
const COLD_MEMORY_BYTES: u64 = 48 << 20;
const WARM_UP: Duration = Duration::from_millis(60);
/// Threads and processes are weighed by the difference that so many make.
pub(crate) const FEW: u32 = 8;
const MANY: u32 = 72;
/// Files are weighed by the difference that so many make, a folder of them.
const WEIGHED_FILES: u32 = 4_000;
/// Memory hardly varies.
const WEIGHINGS_MAX: u64 = 3;

/// Microseconds of processor time for a request, unless something else is said.
#[derive(Clone, Debug, Default)]
pub(crate) struct Requests {
    /// By `SIZES_BYTES`, on connections that stay, from copies in the server's memory.
    pub sized: [Rounds; SIZES_BYTES.len()],
    /// What clients took of their own processor meanwhile.
    pub clients: [Rounds; SIZES_BYTES.len()],
    /// The same from the kernel's page cache.
    pub paged: [Rounds; SIZES_BYTES.len()],
    /// The smallest, with a connection for each.
    pub connecting: Rounds,
    /// The smallest from the page cache, its name looked up and its file opened anew, by the loop itself.
    pub nameless: Rounds,
    /// By `COLD_BYTES`, from the disk, each once, and room made for it. Without root, there is none.
    pub cold: [Rounds; COLD_BYTES.len()],
    pub inline: Helped,
    /// The same done by helpers.
    pub helped: Helped,
    /// Few of the smallest, by `ARCHITECTURES`.
    pub architectures: [Rounds; ARCHITECTURES.len()],
    /// The same, by mt and mp with half as many threads or processes as there are clients.
    pub crowded_mt: Rounds,
    pub crowded_mp: Rounds,
    /// Of one that served from memory, and of one that read a large file from the disk.
    pub thread_bytes: Rounds,
    pub reading_thread_bytes: Rounds,
    pub process_bytes: Rounds,
    /// In the server's own memory.
    pub entry_bytes: Rounds,
    /// In the kernel's. None where caches cannot be emptied.
    pub kernel_entry_bytes: Option<Rounds>,
}

/// What a request takes where names are looked up anew.
#[derive(Clone, Debug, Default)]
pub(crate) struct Helped {
    pub us: Rounds,
    /// Jobs done by helpers.
    pub jobs: Rounds,
    /// How often a thread of the server left its processor.
    pub switches: Rounds,
}

/// A request's share of what was used.
struct Cost {
    us: f64,
    client_us: f64,
    switches: f64,
    jobs: f64,
}

pub(crate) fn measure(testbed: &Testbed, effort: Effort, say: impl Fn(&str)) -> Result<Requests> {
    let site = testbed.folder("site")?;
    make(&site)?;
    let asker = Asker { testbed, site, asked: effort.asked };
    let mut all = Requests::default();
    for round in 1..=effort.rounds {
        say(&format!("requests, round {round} of {}", effort.rounds));
        asker.round(&mut all)?;
    }
    if geteuid().is_root() {
        say("cold files");
        for _ in 0..effort.rounds.min(WEIGHINGS_MAX) {
            asker.cold(&mut all)?;
        }
    }
    say("memory");
    for _ in 0..effort.rounds.min(WEIGHINGS_MAX) {
        asker.weigh(&mut all)?;
    }
    Ok(all)
}

/// A file of each size, and a folder of many.
fn make(site: &Path) -> Result<()> {
    let write = |name: String, bytes: u64| -> Result<()> {
        let mut content = vec![0; bytes as usize];
        Content::new(1, &name).fill(0, &mut content);
        fs::write(site.join(name), content).with_context(|| site.display().to_string())
    };
    let folder = |name: &str, files: u32, bytes: u64| -> Result<()> {
        fs::create_dir_all(site.join(name))?;
        (0..files).try_for_each(|number| write(format!("{name}/{number}"), bytes))
    };
    for (bytes, files) in SIZES_BYTES.into_iter().zip(FILES) {
        folder(&bytes.to_string(), files, bytes)?;
    }
    for (bytes, files) in COLD_BYTES.into_iter().zip(COLD_FILES) {
        folder(&format!("cold-{bytes}"), files, bytes)?;
    }
    folder("many", WEIGHED_FILES, 64)
}

/// Files of one size.
fn files(bytes: u64) -> Vec<String> {
    let (_, number) =
        SIZES_BYTES.into_iter().zip(FILES).find(|(of, _)| *of == bytes).expect("it is one of them");
    (0..number).map(|number| format!("/{bytes}/{number}")).collect()
}

struct Asker<'a> {
    testbed: &'a Testbed,
    site: PathBuf,
    /// For so long, of each server, for the same.
    asked: Duration,
}

impl Asker<'_> {
    /// Everything once, so that a machine that changes its pace does so for all.
    fn round(&self, all: &mut Requests) -> Result<()> {
        let [smallest, ..] = SIZES_BYTES;
        let mut sped = self.start("sped")?;
        for ((rounds, clients), bytes) in all.sized.iter_mut().zip(&mut all.clients).zip(SIZES_BYTES) {
            let cost = self.cost(&mut sped, files(bytes), Keep::Open)?;
            rounds.add(cost.us);
            clients.add(cost.client_us);
        }
        all.connecting.add(self.cost(&mut sped, files(smallest), Keep::Requests(1))?.us);
        drop(sped);
        let mut sped = self.start(&format!("sped {PAGES}"))?;
        for (rounds, bytes) in all.paged.iter_mut().zip(SIZES_BYTES) {
            rounds.add(self.cost(&mut sped, files(bytes), Keep::Open)?.us);
        }
        drop(sped);
        let cost = |words: &str, files: Vec<String>| self.cost(&mut self.start(words)?, files, Keep::Open);
        all.nameless.add(cost(&format!("sped {PAGES} --path-cache 0"), files(smallest))?.us);
        let helped = format!("amped {PAGES} --path-cache 0 --offload");
        all.inline.add(&cost(&format!("{helped} needed"), files(smallest))?);
        all.helped.add(&cost(&format!("{helped} always"), files(smallest))?);
        let few = || files(smallest).into_iter().take(FEW_FILES as usize).collect();
        for (rounds, architecture) in all.architectures.iter_mut().zip(ARCHITECTURES) {
            rounds.add(cost(architecture, few())?.us);
        }
        all.crowded_mt.add(cost(&format!("mt --threads {FEW} --threads-max {FEW}"), few())?.us);
        all.crowded_mp.add(cost(&format!("mp --processes {FEW} --processes-max {FEW}"), few())?.us);
        Ok(())
    }

    /// Asks a server with little memory once for each of many files that no memory holds.
    fn cold(&self, all: &mut Requests) -> Result<()> {
        for ((rounds, bytes), number) in all.cold.iter_mut().zip(COLD_BYTES).zip(COLD_FILES) {
            let limits = Limits { memory_bytes: Some(COLD_MEMORY_BYTES), ..Limits::default() };
            let group = self.testbed.machine.group(&limits, None)?;
            let words = format!("sped {PAGES} --path-cache 0");
            let mut server = self.testbed.start(&words, &self.site, Some(&group))?;
            flash_rig::empty_caches()?;
            let targets = (0..number).map(|number| format!("/cold-{bytes}/{number}"));
            // The kernel knows the names of files that were read lately, whose pages it has given up.
            for target in targets.clone() {
                fs::metadata(self.site.join(&target[1..]))?;
            }
            let before = server.process.usage()?;
            self.ask_all(&mut server, 4, targets, number / 4)?;
            let used = server.process.usage()?.since(&before);
            rounds.add(used.cpu_ns as f64 / 1e3 / f64::from(number));
        }
        Ok(())
    }

    fn start(&self, words: &str) -> Result<Running> {
        self.testbed.start(words, &self.site, None)
    }

    fn cost(&self, server: &mut Running, files: Vec<String>, keep: Keep) -> Result<Cost> {
        let workload = Arc::new(Urls::new(files, "calibration"));
        let clients = |time| Clients {
            workload: workload.clone(),
            number: CLIENTS,
            keep,
            warm_up: Duration::ZERO,
            until: Until::Time(time),
        };
        self.testbed.ask(server, clients(WARM_UP))?;
        let jobs = |server: &mut Running| -> Result<u64> {
            Ok(server.metrics()?.and_then(|metrics| metrics.count("helper_jobs")).unwrap_or(0))
        };
        let jobs_before = jobs(server)?;
        let before = server.process.usage()?;
        let clients_before = own_processor_time();
        let report = self.testbed.ask(server, clients(self.asked))?;
        let client_time = own_processor_time() - clients_before;
        let used = server.process.usage()?.since(&before);
        let jobs = jobs(server)?.saturating_sub(jobs_before);
        let requests = report.requests as f64;
        Ok(Cost {
            us: used.cpu_ns as f64 / 1e3 / requests,
            client_us: client_time.as_secs_f64() * 1e6 / requests,
            switches: (used.voluntary_switches + used.involuntary_switches) as f64 / requests,
            jobs: jobs as f64 / requests,
        })
    }

    /// What memory grows by.
    fn weigh(&self, all: &mut Requests) -> Result<()> {
        let [smallest, .., largest] = SIZES_BYTES;
        for (words, bytes, rounds) in [
            ("mt --file-cache descriptor --threads", smallest, &mut all.thread_bytes),
            // Every name looked up anew, its file is read into memory, as one is that the disk has to bring.
            ("mt --file-cache descriptor --path-cache 0 --threads", largest, &mut all.reading_thread_bytes),
            ("mp --file-cache descriptor --processes", smallest, &mut all.process_bytes),
        ] {
            let weight = |number: u32| -> Result<f64> {
                let mut server = self.start(&format!("{words} {number}"))?;
                // Each has one connection to serve, so that it has touched what it will.
                self.ask_all(&mut server, number, [format!("/{bytes}/0")], 8)?;
                Ok(server.process.memory()?.pss_anonymous_bytes as f64)
            };
            rounds.add((weight(MANY)? - weight(FEW)?) / f64::from(MANY - FEW));
        }
        // Whoever made the files left the kernel's books of them in its memory.
        let emptied = flash_rig::empty_caches().is_ok();
        let mut server = self.start("sped --file-cache descriptor")?;
        let weight = |server: &Running| -> Result<(f64, f64)> {
            Ok((server.process.memory()?.pss_anonymous_bytes as f64, slab_bytes()?))
        };
        let before = weight(&server)?;
        self.ask_all(
            &mut server,
            4,
            (0..WEIGHED_FILES).map(|number| format!("/many/{number}")),
            WEIGHED_FILES / 4,
        )?;
        let after = weight(&server)?;
        all.entry_bytes.add((after.0 - before.0) / f64::from(WEIGHED_FILES));
        if emptied {
            let grown = (after.1 - before.1) / f64::from(WEIGHED_FILES);
            all.kernel_entry_bytes.get_or_insert_default().add(grown);
        }
        Ok(())
    }

    /// Asks for each of the targets, `each` requests for every client.
    fn ask_all(
        &self,
        server: &mut Running,
        clients: u32,
        targets: impl IntoIterator<Item = String>,
        each: u32,
    ) -> Result<()> {
        let workload = Arc::new(Urls::new(targets, "all"));
        let until = Until::Requests(u64::from(clients) * u64::from(each));
        let clients = Clients { workload, number: clients, keep: Keep::Open, warm_up: Duration::ZERO, until };
        self.testbed.ask(server, clients).map(drop)
    }
}

impl Helped {
    fn add(&mut self, cost: &Cost) {
        self.us.add(cost.us);
        self.jobs.add(cost.jobs);
        self.switches.add(cost.switches);
    }
}

/// Of this process, which is the clients.
fn own_processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Of all the kernel's small objects.
fn slab_bytes() -> Result<f64> {
    let text = fs::read_to_string("/proc/meminfo").context("/proc/meminfo")?;
    let line = text.lines().find_map(|line| line.strip_prefix("Slab:"));
    let kilobytes = line.and_then(|rest| rest.trim().strip_suffix(" kB")?.parse::<f64>().ok());
    Ok(kilobytes.context("/proc/meminfo: no line 'Slab: … kB'")? * 1024.0)
}
