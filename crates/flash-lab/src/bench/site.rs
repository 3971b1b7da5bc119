//! The sites of a plan. For each place of its sweep there are files, which are made once and kept below the work folder, and
//! the requests for them.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use flash_load::Urls;
use flash_traffic::sample::Sizes;
use flash_traffic::tree::{Progress, make_site};
use flash_traffic::{
    Catalogue, File, Listed, Passes, References, Sessions, Shape, SpecWeb, Synthetic, Trace, Workload as Asks,
};

use super::test_bed::TestBed;
use super::tree::Tree;
use crate::plan::{Ask, At, Axis, Dynamic, Extent, Log, Plan, Workload};

/// The hot file, 1 KB, which every site has.
pub(super) const HOT_TARGET: &str = "/hot-of-the-lab.html";
pub(super) const HOT_BYTES: usize = 1_024;

/// Files and the requests for them.
pub(super) struct Site {
    pub(super) folder: PathBuf,
    pub(super) workload: Arc<dyn Asks>,
    pub(super) answers: Answers,
    /// Everything that lies in the folder.
    catalogue: Catalogue,
    idle_bytes: u64,
}

/// Files for connections that ask for one, each for its own, and then are idle.
#[derive(Clone, Copy)]
struct IdleFiles {
    count: u32,
    bytes: u64,
}

impl IdleFiles {
    fn of(plan: &Plan, extent: Extent) -> IdleFiles {
        let beside = plan.sweep.as_ref().is_some_and(|sweep| sweep.axis == Axis::IdleConnections);
        let most = plan.places(extent).iter().filter_map(At::value).fold(0.0, f64::max);
        let bytes = u64::from(plan.load(extent).idle_kilobytes) * 1024;
        IdleFiles { count: if beside { most as u32 } else { 0 }, bytes }
    }
}

fn idle_target(number: u32) -> String {
    format!("/idle/{}/{number}.bin", number / 100)
}

/// Which answers are right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answers {
    Files,
    NotFound,
}

impl Site {
    /// Programs answer some of the requests.
    pub(super) fn has_programs(&self) -> bool {
        self.workload.catalogue().files.iter().any(|file| file.program)
    }

    /// php-fpm does.
    pub(super) fn needs_php(&self) -> bool {
        let path = |file: &File| file.target.split('?').next().is_some_and(|path| path.ends_with(".php"));
        self.workload.catalogue().files.iter().any(|file| file.program && path(file))
    }

    /// What the connection of this number asks for that says nothing afterwards.
    pub(super) fn idle(&self, number: u32) -> (String, usize) {
        (idle_target(number), self.idle_bytes as usize)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.catalogue.files.iter().filter_map(|file| file.bytes).sum()
    }

    pub(super) fn files(&self) -> u64 {
        self.catalogue.files.len() as u64
    }
}

/// The sites of all places.
pub(super) struct Sites {
    places: Vec<(At, Arc<Site>)>,
}

impl Sites {
    pub(super) fn make(plan: &Plan, extent: Extent, place: &TestBed) -> Result<Sites> {
        let idle = IdleFiles::of(plan, extent);
        let mut made: HashMap<String, Arc<Site>> = HashMap::new();
        let mut places = Vec::new();
        for at in plan.places(extent) {
            let workload = plan.workload(extent, &at).context("a plan without a workload")?;
            let workload = at_place(workload, plan, &at);
            // Names alone are not enough: other requests may be for the same files.
            let requests = format!("{workload:?}");
            let site = match made.get(&requests) {
                Some(site) => site.clone(),
                None => {
                    let mut name = name_of(&workload, place.seed);
                    if idle.count > 0 {
                        name.push_str(&format!("-idle-{}-{}", idle.count, idle.bytes));
                    }
                    let site =
                        make(&workload, &name, idle, place).with_context(|| format!("the site {name}"))?;
                    let site = Arc::new(site);
                    made.insert(requests, site.clone());
                    site
                }
            };
            places.push((at, site));
        }
        Ok(Sites { places })
    }

    /// The site of a place of the plan.
    pub(super) fn at(&self, at: &At) -> &Site {
        let found = self.places.iter().find(|(place, _)| place == at);
        &found.expect("every place of the plan has its site").1
    }

    /// One of them, where they are all the same or any will do.
    pub(super) fn any(&self) -> &Site {
        &self.places.first().expect("a plan has a place").1
    }
}

/// The workload with what the sweep varies in it.
fn at_place(workload: &Workload, plan: &Plan, at: &At) -> Workload {
    let mut workload = workload.clone();
    let (Some(sweep), Some(value)) = (&plan.sweep, at.value()) else { return workload };
    match (sweep.axis, &mut workload) {
        (Axis::FileKilobytes, Workload::File { kilobytes }) => *kilobytes = value,
        (Axis::DataSetMegabytes, Workload::Log { data_set_mb, .. }) => *data_set_mb = Some(value),
        (Axis::DataSetMegabytes, Workload::Specweb { folders, .. }) => {
            *folders = (value * 1e6 / SPECWEB_FOLDER_BYTES).round().max(1.0) as u32;
        }
        _ => {}
    }
    workload
}

/// Four classes of nine files.
const SPECWEB_FOLDER_BYTES: f64 = 5_119_484.0;

/// The folder of a site. What makes its files differ is in its name, so that plans share what is the same.
fn name_of(workload: &Workload, seed: u64) -> String {
    match workload {
        Workload::File { kilobytes } => format!("file-{}", (kilobytes * 1024.0) as u64),
        Workload::Log { log, data_set_mb: None } => format!("{log:?}").to_lowercase(),
        Workload::Log { log, data_set_mb: Some(mb) } => format!("{log:?}-{mb}mb").to_lowercase(),
        Workload::Specweb { folders, dynamic: None } => format!("specweb-{folders}"),
        Workload::Specweb { folders, dynamic: Some(_) } => format!("specweb-{folders}-dynamic"),
        Workload::Program { .. } => "programs".into(),
        Workload::Synthetic { files, data_set_mb, .. } => format!("synthetic-{files}-{data_set_mb}mb-{seed}"),
        Workload::Tree { files, kilobytes, .. } => format!("tree-{files}-{}", (kilobytes * 1024.0) as u64),
        Workload::Idle => "idle".into(),
    }
}

fn make(workload: &Workload, name: &str, idle: IdleFiles, place: &TestBed) -> Result<Site> {
    let kilobytes = |kilobytes: f64| (kilobytes * 1024.0) as u64;
    let mut answers = Answers::Files;
    let mut lies_there = None;
    let workload: Arc<dyn Asks> = match workload {
        Workload::File { kilobytes: size } => Arc::new(Listed::one(kilobytes(*size))),
        Workload::Tree { files, kilobytes: size, ask: Ask::Files } => {
            Arc::new(Tree::new(*files, kilobytes(*size)))
        }
        Workload::Tree { files, kilobytes: size, ask: Ask::Missing } => {
            answers = Answers::NotFound;
            lies_there = Some(Tree::new(*files, kilobytes(*size)).catalogue().clone());
            Arc::new(Tree::missing(*files))
        }
        Workload::Log { log, data_set_mb } => {
            let mut trace = Trace::read(&find(*log, place.traces)?, None, None)?;
            if let Some(mb) = data_set_mb {
                trace.truncate((mb * 1e6) as u64);
            }
            Arc::new(trace.replay(Passes::Looped).0)
        }
        Workload::Specweb { folders, dynamic: None } => {
            // The plan says how long connections live.
            Arc::new(SpecWeb::new(*folders, Sessions::Fixed(0)).context("expected 1 to 1,000,000 folders")?)
        }
        Workload::Specweb { folders, dynamic: Some(by) } => {
            let still =
                SpecWeb::new(*folders, Sessions::SpecWeb).context("expected 1 to 1,000,000 folders")?;
            let script = (*by == Dynamic::Php).then_some("/specweb99.php");
            Arc::new(flash_traffic::Dynamic::new(still, script).context("expected 10,000 folders at most")?)
        }
        Workload::Program { target, bytes } => Arc::new(Listed::program(target, *bytes)),
        Workload::Synthetic { files, data_set_mb, zipf } => {
            // ln(size) of the logs of 1995 to 2015, in the mean.
            let sizes = Sizes { ln_mean: 8.7, ln_sd: 1.8, bytes_total: Some((data_set_mb * 1e6) as u64) };
            let references = References::Independent;
            let shape = Shape { folder: String::new(), files: *files, sizes, exponent: *zipf, references };
            Arc::new(Synthetic::new(&shape, place.seed)?)
        }
        Workload::Idle => Arc::new(Urls::new(vec![HOT_TARGET.into()], "hot")),
    };
    let files = &lies_there.as_ref().unwrap_or(workload.catalogue()).files;
    let mut catalogue = Catalogue { files: files.clone(), classes: vec!["files".into()] };
    catalogue.files.retain(|file| &*file.target != HOT_TARGET);
    let idle_file = |number| File {
        target: idle_target(number).into(),
        bytes: Some(idle.bytes),
        class: 0,
        program: false,
    };
    catalogue.files.extend((0..idle.count).map(idle_file));
    catalogue.files.push(File {
        target: HOT_TARGET.into(),
        bytes: Some(HOT_BYTES as u64),
        class: 0,
        program: false,
    });
    let folder = place.work.join("sites").join(name);
    make_site(&folder, &catalogue, place.seed, name, &Progress::default())?;
    catalogue.files.retain(|file| !file.program);
    Ok(Site { folder, workload, answers, catalogue, idle_bytes: idle.bytes })
}

/// Where a log lies below the folder of traces.
fn find(log: Log, traces: Option<&Path>) -> Result<PathBuf> {
    let below = match log {
        Log::Nasa => "nasa-aug95",
        Log::Epa => "epa-http",
        Log::WorldCup => "worldcup98/wc_day6_1_sample.tar.bz2",
        Log::Semicomplete => "semicomplete-2015",
    };
    let Some(traces) = traces else {
        bail!("the log {log:?} is needed: give the folder of the logs with --traces or FLASH_TRACES");
    };
    let path = traces.join(below);
    if !path.is_dir() {
        return path
            .is_file()
            .then_some(path.clone())
            .with_context(|| format!("there is no {}", path.display()));
    }
    // A folder that holds the log alone, whatever it is packed in.
    let files = fs::read_dir(&path)?.flatten().map(|entry| entry.path());
    files.filter(|file| file.is_file()).min().with_context(|| format!("{} is empty", path.display()))
}

#[cfg(test)]
mod tests {
    use flash_traffic::Part;

    use super::*;

    const PLAN: &str = r#"
name = "cases"
title = "Two ways to ask the same tree"
about = "For tests."
servers = ["amped"]
load = { clients = 1, warm_up_seconds = 0, seconds = 1 }
repeats = 1
case = [
    { name = "there", workload = { kind = "tree", files = 3, kilobytes = 1 } },
    { name = "not there", workload = { kind = "tree", files = 3, kilobytes = 1, ask = "missing" } },
]
"#;

    #[test]
    fn cases_on_the_same_files_ask_their_own_way() {
        let folder = tempfile::tempdir().unwrap();
        let machine = flash_rig::Machine::take_with(&folder.path().join("journal")).unwrap();
        let work = folder.path();
        let place = TestBed { machine: &machine, work, traces: None, flash: None, seed: 1 };
        let plan = Plan::parse("cases", PLAN).unwrap();
        let sites = Sites::make(&plan, Extent::Full, &place).unwrap();
        let asked = |name: &str| {
            let site = sites.at(&At::Case(name.into()));
            let file = site.workload.sequence(Part::WHOLE, 1).next().unwrap().file;
            let target = &site.workload.catalogue().files[file as usize].target;
            (site.answers, site.folder.join(&target[1..]).is_file())
        };
        assert_eq!(asked("there"), (Answers::Files, true));
        assert_eq!(asked("not there"), (Answers::NotFound, false));
        // Three files and the hot one.
        assert_eq!((sites.any().files(), sites.any().bytes()), (4, 4 * 1024));
    }

    #[test]
    fn a_log_that_is_not_there_is_named() {
        let none = find(Log::Nasa, None).unwrap_err().to_string();
        assert!(none.contains("Nasa") && none.contains("FLASH_TRACES"), "{none}");
        let folder = tempfile::tempdir().unwrap();
        let error = find(Log::Nasa, Some(folder.path())).unwrap_err().to_string();
        assert!(error.contains("nasa-aug95"), "{error}");
    }
}
