//! Causes that are injected, one after the other: a loop that sleeps for a known reason, and what `flash why` calls it.
//!
//! Both levels that see every sleep are judged. It takes root, eBPF, and for some causes FUSE or cgroups. Where one is missing it
//! says so.

#![forbid(unsafe_code)]

mod limits_of_disks;
mod loops;
mod victim;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use flash_slowdisk::{SlowDisk, SlowImage};
use flash_why::{Block, Level, Target, ThreadTotals, Watch};
use tempfile::TempDir;

/// Of a hundred blocks, so many have the right cause, and where there is one path, this path.
const RIGHT_PERCENT: usize = 95;
const BLOCKS_MIN: usize = 20;
/// A watch ends when the loop has slept so often, but not before loops were found.
const ENOUGH: usize = 100;
const SHORTEST: Duration = Duration::from_millis(700);
const LONGEST: Duration = Duration::from_secs(10);

/// The loop that sleeps: this program again, with what to do in its environment.
struct Victim(Child);

impl Victim {
    fn start(case: &str, folder: &Path, group: Option<&Group>) -> Victim {
        Victim::start_with(case, folder, group, &[])
    }

    fn start_with(case: &str, folder: &Path, group: Option<&Group>, more: &[(&str, &Path)]) -> Victim {
        let program = std::env::current_exe().expect("the test's program");
        let mut command = Command::new(program);
        command.args(["--exact", "victim::victim", "--nocapture", "--test-threads=1"]);
        command.env(victim::CASE, case).env(victim::FOLDER, folder).stdout(std::process::Stdio::null());
        command.envs(more.iter().copied());
        if let Some(group) = group {
            command.env(victim::GROUP, group.0.join("cgroup.procs"));
        }
        Victim(command.spawn().expect("the test runs itself"))
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Seen {
    blocks: Vec<Block>,
    threads: Vec<ThreadTotals>,
}

/// One test after the other: they empty the kernel's caches, and hot files would not be hot.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Why nothing can be tested, if so.
fn missing() -> Option<String> {
    Watch::begin(&Target::Pid(std::process::id()), Some(Level::Ebpf)).err().map(|error| error.to_string())
}

/// The levels that see every sleep.
const LEVELS: [Level; 2] = [Level::Ebpf, Level::Perf];

fn watch(level: Level, case: &str, folder: &Path) -> Seen {
    watch_at(level, case, folder, None, LONGEST, || ())
}

fn watch_while(
    case: &str,
    folder: &Path,
    group: Option<&Group>,
    longest: Duration,
    act: impl FnMut(),
) -> Seen {
    watch_at(Level::Ebpf, case, folder, group, longest, act)
}

/// Watches a victim; `act` happens meanwhile, again and again.
fn watch_at(
    level: Level,
    case: &str,
    folder: &Path,
    group: Option<&Group>,
    longest: Duration,
    mut act: impl FnMut(),
) -> Seen {
    let victim = Victim::start(case, folder, group);
    let pid = victim.0.id();
    let mut watch = Watch::begin(&Target::Pid(pid), Some(level)).expect("it could begin before");
    let (begun, mut blocks) = (Instant::now(), Vec::<Block>::new());
    let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
    while begun.elapsed() < SHORTEST || begun.elapsed() < longest && !has_enough(&mut watch, &counts) {
        act();
        let note = &mut |block: Block| {
            *counts.entry(block.thread).or_default() += 1;
            blocks.push(block);
        };
        watch.poll(note).expect("the kernel tells");
        std::thread::sleep(watch.interval());
    }
    watch.unfinished(&mut |block| blocks.push(block));
    let threads = watch.threads();
    let lost = watch.lost(&threads);
    assert_eq!(lost.of_loops, 0, "{case}: {lost}");
    Seen { blocks, threads }
}

/// Whether the loop has slept often enough.
fn has_enough(watch: &mut Watch, counts: &BTreeMap<u32, usize>) -> bool {
    let is_enough = |thread| counts.get(&thread).is_some_and(|&count| count >= ENOUGH);
    watch.threads().iter().any(|thread| thread.is_loop && is_enough(thread.thread))
}

impl Seen {
    /// The blocks of the loop itself, after the time that the test's harness needs to start.
    fn of_loop(&self) -> Vec<&Block> {
        let loops: Vec<u32> =
            self.threads.iter().filter(|thread| thread.is_loop).map(|thread| thread.thread).collect();
        assert_eq!(loops.len(), 1, "one loop: {:?}", self.threads);
        self.blocks
            .iter()
            .filter(|block| block.thread == loops[0])
            .filter(|block| !is_harness(block))
            .collect()
    }
}

/// What the harness of tests does before the victim's loop begins.
fn is_harness(block: &Block) -> bool {
    let path = block.path.as_deref().unwrap_or_default();
    // To drop pages waits for other processors now and then.
    let makes_cold = &*block.call == "fadvise64";
    makes_cold
        || path.contains("/deps/")
        || path.contains("/lib/")
        || path.ends_with("ld.so.cache")
        || path.starts_with("/proc/")
}

fn judge(case: &str, seen: &Seen, right: &[&str], path: Option<&Path>) {
    let blocks = seen.of_loop();
    let mut causes: BTreeMap<String, usize> = BTreeMap::new();
    for block in &blocks {
        *causes.entry(format!("{} in {}", block.cause.name(), block.call)).or_default() += 1;
    }
    eprintln!("{case}: {} blocks, {causes:?}", blocks.len());
    assert!(blocks.len() >= BLOCKS_MIN, "{case}: {} blocks only", blocks.len());
    let rightly = blocks.iter().filter(|block| right.contains(&block.cause.name())).count();
    if rightly * 100 < blocks.len() * RIGHT_PERCENT {
        let wrong = blocks.iter().filter(|block| !right.contains(&block.cause.name())).take(5);
        panic!("{case}: {rightly} of {}: {:#?}", blocks.len(), wrong.collect::<Vec<_>>());
    }
    if let Some(path) = path {
        judge_paths(case, &blocks, path);
    }
}

fn judge_paths(case: &str, blocks: &[&Block], path: &Path) {
    let path = path.to_str().expect("temporary paths are UTF-8");
    let paths = blocks.iter().map(|block| block.path.as_deref());
    let other: Vec<_> = paths.filter(|other| *other != Some(path)).collect();
    eprintln!("{case}: {} of {} name the path", blocks.len() - other.len(), blocks.len());
    assert!(
        other.len() * 100 <= blocks.len() * (100 - RIGHT_PERCENT),
        "{case}: {} of {} do not name {path}: {:?}",
        other.len(),
        blocks.len(),
        &other[..5.min(other.len())]
    );
}

#[test]
fn sleeps_in_the_program() {
    let _alone = alone();
    if let Some(missing) = missing() {
        return eprintln!("NOT TESTED, causes of sleeps: {missing}");
    }
    let folder = TempDir::new().expect("a folder");
    let cases = [
        ("pipe", "pipe or socket"),
        ("socket", "pipe or socket"),
        ("futex", "user lock (futex)"),
        ("timer", "timer"),
        ("file-lock", "file lock"),
        ("child", "child process"),
    ];
    for level in LEVELS {
        for (case, right) in cases {
            judge(case, &watch(level, case, folder.path()), &[right], None);
        }
    }
}

#[test]
fn one_cold_file_among_hot_ones() {
    let _alone = alone();
    if let Some(missing) = missing() {
        return eprintln!("NOT TESTED, paths of blocks: {missing}");
    }
    // Of the disk that the build is on: temporary folders may be in memory.
    let folder = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    for file in 0..20 {
        fs::write(folder.path().join(format!("hot-{file}")), [7; 4096]).expect("a file");
    }
    let cold = folder.path().join("cold");
    fs::write(&cold, vec![7; 8 << 20]).expect("a file");
    fs::File::open(&cold).and_then(|file| file.sync_all()).expect("it is on the disk");
    for case in ["cold-read", "cold-sendfile"] {
        judge(case, &watch(Level::Ebpf, case, folder.path()), &["page-cache read"], Some(&cold));
        // Without eBPF a path is read while the thread sleeps. So some have none, and none has another one.
        let mut seen = watch(Level::Perf, case, folder.path());
        judge(case, &seen, &["page-cache read"], None);
        seen.blocks.retain(|block| block.path.is_some());
        judge_paths(case, &seen.of_loop(), &cold);
    }
}

#[test]
fn a_slow_disk_and_a_file_system_elsewhere() {
    let _alone = alone();
    if let Some(missing) = missing().or_else(flash_slowdisk::missing) {
        return eprintln!("NOT TESTED, causes of slow disks: {missing}");
    }
    let (site, point) = (TempDir::new().expect("a folder"), TempDir::new().expect("a folder"));
    for file in 0..400 {
        let folder = site.path().join(format!("d{}", file % 40));
        fs::create_dir_all(&folder).expect("a folder");
        fs::write(folder.join(format!("f{file}")), [7; 4096]).expect("a file");
    }
    {
        let disk = SlowDisk::mount(site.path(), point.path(), "delay fixed:3ms").expect("a slow disk");
        for level in LEVELS {
            judge("fuse", &watch(level, "open-all", point.path()), &["FUSE or NFS request"], None);
        }
        disk.rule("open hang").expect("a rule");
        let seen = watch_while("open-all", point.path(), None, SHORTEST, || ());
        let hung: Vec<_> =
            seen.blocks.iter().filter(|block| block.unfinished && block.us > 500_000).collect();
        let hung = hung.iter().find(|block| block.cause.name() == "FUSE or NFS request");
        let hung = hung.unwrap_or_else(|| panic!("no block hangs: {:?}", seen.blocks.last()));
        let inside =
            hung.path.as_deref().is_some_and(|path| path.starts_with(&*point.path().to_string_lossy()));
        assert!(inside, "{hung:?}");
        disk.clear();
    }
    let image =
        SlowImage::mount(site.path(), point.path(), 64, "read delay fixed:2ms").expect("a slow image");
    let drop_caches = || fs::write("/proc/sys/vm/drop_caches", "3").expect("root may");
    let mut dropped = Instant::now();
    let seen = watch_while("open-all", image.mountpoint(), None, LONGEST, || {
        if dropped.elapsed() > Duration::from_millis(300) {
            drop_caches();
            dropped = Instant::now();
        }
    });
    let blocks = seen.of_loop();
    let of = |call: &str, cause: &str| {
        let of_call: Vec<_> = blocks.iter().filter(|block| &*block.call == call).collect();
        let right = of_call.iter().filter(|block| block.cause.name() == cause).count();
        eprintln!("image: {right} of {} {call} are {cause}", of_call.len());
        assert!(of_call.len() >= BLOCKS_MIN && right * 100 >= of_call.len() * RIGHT_PERCENT, "{of_call:#?}");
    };
    of("openat", "metadata read");
    of("read", "page-cache read");
}

#[test]
fn limits_of_a_cgroup() {
    let _alone = alone();
    let cpu = Path::new("/sys/fs/cgroup/cpu");
    let memory = Path::new("/sys/fs/cgroup/memory");
    if let Some(missing) = missing() {
        return eprintln!("NOT TESTED, causes by cgroups: {missing}");
    }
    if !cpu.join("cpu.cfs_quota_us").exists() && !cpu.join("cpu.cfs_period_us").exists() {
        return eprintln!("NOT TESTED, causes by cgroups: no hierarchy of version 1");
    }
    let folder = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let group = Group::make(cpu, &[("cpu.cfs_period_us", "50000"), ("cpu.cfs_quota_us", "10000")]);
    judge(
        "cpu",
        &watch_while("spin", folder.path(), Some(&group), LONGEST, || ()),
        &["cgroup throttle"],
        None,
    );
    drop(group);
    let group = Group::make(memory, &[("memory.limit_in_bytes", "16777216")]);
    let seen = watch_while("write", folder.path(), Some(&group), LONGEST, || ());
    // The kernel's threads that write the dirty pages hold the file's map of blocks now and then.
    let right = ["memory reclaim", "writeback or dirty throttling", "inode or directory lock"];
    judge("memory", &seen, &right, None);
    let blocks = seen.of_loop();
    let reclaim = blocks.iter().filter(|block| block.cause.name() == "memory reclaim").count();
    assert!(reclaim * 2 > blocks.len(), "memory: {reclaim} of {} are memory reclaim", blocks.len());
}

/// A cgroup, removed when it is dropped.
struct Group(PathBuf);

impl Group {
    fn make(hierarchy: &Path, settings: &[(&str, &str)]) -> Group {
        let group = Group(hierarchy.join(format!("flash-why-{}", std::process::id())));
        fs::create_dir(&group.0).expect("a cgroup");
        for (file, value) in settings {
            fs::write(group.0.join(file), value).unwrap_or_else(|error| panic!("{file} = {value}: {error}"));
        }
        group
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Its last process has just been ended.
        let asked = Instant::now();
        while fs::remove_dir(&self.0).is_err() && asked.elapsed() < Duration::from_secs(5) {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

#[test]
fn a_rename_storm_in_one_folder() {
    let _alone = alone();
    if let Some(missing) = missing() {
        return eprintln!("NOT TESTED, locks of folders: {missing}");
    }
    let folder = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    for level in LEVELS {
        judge("storm", &watch(level, "storm", folder.path()), &["inode or directory lock"], None);
    }
}

#[test]
fn a_busy_pool_displaces_no_block_of_a_loop() {
    let _alone = alone();
    if let Some(missing) = missing() {
        return eprintln!("NOT TESTED, lost records: {missing}");
    }
    let victim = Victim::start("crowd", Path::new("/"), None);
    let mut watch =
        Watch::begin(&Target::Pid(victim.0.id()), Some(Level::Ebpf)).expect("it could begin before");
    // The loop is found by then. What follows does not fit into a ring, and nobody reads it.
    let begun = Instant::now();
    while begun.elapsed() < SHORTEST {
        watch.poll(&mut |_| ()).expect("the kernel tells");
        std::thread::sleep(watch.interval());
    }
    std::thread::sleep(Duration::from_secs(3));
    let mut blocks = 0_u64;
    watch.unfinished(&mut |_| blocks += 1);
    let threads = watch.threads();
    let lost = watch.lost(&threads);
    eprintln!("crowd: {blocks} blocks read at the end; lost: {lost}");
    assert!(lost.of_others > 10_000 && lost.of_loops == 0, "{lost}");
    assert!(lost.to_string().contains(" records of other threads"), "{lost}");
}
