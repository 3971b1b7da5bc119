//! A cgroup for one server, version 1 or 2: a limit of memory, and limits of reads from one disk.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};

use crate::disk::Disk;
use crate::journal::{Change, Journal};
use crate::undo::Undo;

/// What a server may use; no limit where there is none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Of everything that its processes hold, and of the pages of files that they were the first to touch.
    pub memory_bytes: Option<u64>,
    pub reads_per_second: Option<u64>,
    pub read_bytes_per_second: Option<u64>,
}

/// The memory that a group is charged for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupMemory {
    /// The kernel's own for it included.
    pub used_bytes: u64,
    /// Of that, pages of files which nobody has mapped. The kernel can take them back.
    pub cached_bytes: u64,
    /// Pages of files that the kernel takes for frequently used.
    pub active_bytes: u64,
}

/// A cgroup (in version 1, one in each hierarchy). Dropping it ends what is inside and removes it.
pub struct Cgroup {
    folders: Vec<PathBuf>,
    _changes: Vec<Change>,
}

impl Cgroup {
    pub(crate) fn create(journal: &Arc<Journal>, limits: &Limits, disk: Option<&Disk>) -> Result<Cgroup> {
        let mounts = fs::read_to_string("/proc/mounts").context("listing the mounts")?;
        let hierarchies = Hierarchies::find(&mounts)?;
        let mut group = Cgroup { folders: Vec::new(), _changes: Vec::new() };
        group.hand_down(journal, &hierarchies)?;
        let name = format!("flash-rig-{}", std::process::id());
        for mount in hierarchies.mounts() {
            let folder = free(mount, &name)?;
            group._changes.push(journal.begin(Undo::RemoveGroup { folder: folder.clone() })?);
            fs::create_dir(&folder).with_context(|| format!("making the cgroup {}", folder.display()))?;
            group.folders.push(folder);
        }
        let device = match disk {
            Some(disk) => disk.device.as_str(),
            None if limits.reads_per_second.is_some() || limits.read_bytes_per_second.is_some() => {
                bail!("a limit on reads needs a disk, and none is given")
            }
            None => "",
        };
        for Setting { hierarchy, file, value } in hierarchies.settings(limits, device) {
            let file = group.folders[hierarchy].join(file);
            fs::write(&file, &value).with_context(|| format!("writing {value} to {}", file.display()))?;
        }
        Ok(group)
    }

    /// A group inside this one, with one of so many parts of its memory. Reads count as those of this group.
    pub(crate) fn part(&self, journal: &Arc<Journal>, parts: u64) -> Result<Cgroup> {
        let (outer, name) = (&self.folders[0], "part");
        let folder = free(outer, name)?;
        // Version 2 only; there the group of reads is the same one.
        let control = outer.join("cgroup.subtree_control");
        if control.exists() {
            fs::write(&control, "+memory").context("cgroup v2: handing down memory")?;
        }
        let change = journal.begin(Undo::RemoveGroup { folder: folder.clone() })?;
        fs::create_dir(&folder).with_context(|| format!("making the cgroup {}", folder.display()))?;
        let mut group = Cgroup { folders: vec![folder], _changes: vec![change] };
        for file in ["memory.limit_in_bytes", "memory.max"] {
            let all =
                fs::read_to_string(outer.join(file)).ok().and_then(|all| all.trim().parse::<u64>().ok());
            if let Some(all) = all {
                let part = group.folders[0].join(file);
                fs::write(&part, (all / parts).to_string())
                    .with_context(|| format!("writing to {}", part.display()))?;
            }
        }
        group.folders.extend(self.folders[1..].iter().cloned());
        Ok(group)
    }

    /// What a command line begins with so that the program runs inside from its first instruction.
    pub fn wrapper(&self) -> Vec<String> {
        let mut wrapper = vec!["/bin/sh".into(), "-c".into()];
        let enter =
            self.folders.iter().map(|folder| format!("echo $$ > '{}/cgroup.procs' && ", folder.display()));
        wrapper.push(enter.collect::<String>() + "exec \"$@\"");
        wrapper.push("sh".into());
        wrapper
    }

    /// How many processes inside the kernel has ended because there was no memory left for them.
    pub fn killed_for_memory(&self) -> u64 {
        // Version 1 and version 2 count alike, in files of different names; the first folder is the one with memory.
        let counts = ["memory.oom_control", "memory.events"]
            .iter()
            .find_map(|file| fs::read_to_string(self.folders[0].join(file)).ok());
        counts.as_deref().map_or(0, kills)
    }

    /// The memory of its processes that the kernel cannot take back without swapping: their own, and locked pages of files.
    pub fn taken_bytes(&self) -> u64 {
        let stat = fs::read_to_string(self.folders[0].join("memory.stat")).unwrap_or_default();
        let names =
            if is_version_1(&stat) { ["total_rss", "total_unevictable"] } else { ["anon", "unevictable"] };
        names.map(|name| bytes_of(&stat, name)).iter().sum()
    }

    /// What is charged to the group now.
    ///
    /// # Errors
    /// When the kernel does not say.
    pub fn memory(&self) -> Result<GroupMemory> {
        let folder = &self.folders[0];
        let read = |file: &str| {
            fs::read_to_string(folder.join(file)).with_context(|| folder.join(file).display().to_string())
        };
        let used = read("memory.usage_in_bytes").or_else(|_| read("memory.current"))?;
        let used_bytes = used.trim().parse().with_context(|| format!("not a number of bytes: {used:?}"))?;
        let stat = read("memory.stat")?;
        Ok(GroupMemory { used_bytes, cached_bytes: cached_bytes(&stat), active_bytes: active_bytes(&stat) })
    }

    /// How many reads of the limited disk its processes have caused. `None` where the kernel does not count them.
    pub fn reads(&self) -> Option<u64> {
        let folder = self.folders.last()?;
        match fs::read_to_string(folder.join("io.stat")) {
            Ok(counts) => Some(read_counts(&counts)),
            Err(_) => {
                fs::read_to_string(folder.join("blkio.throttle.io_serviced")).ok().as_deref().map(read_counts)
            }
        }
    }

    /// Version 2 only: groups have memory and io if the root hands them down, as it mostly does already.
    fn hand_down(&mut self, journal: &Arc<Journal>, hierarchies: &Hierarchies) -> Result<()> {
        let Hierarchies::Two(mount) = hierarchies else { return Ok(()) };
        let file = mount.join("cgroup.subtree_control");
        let given = fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
        let given: BTreeSet<&str> = given.split_whitespace().collect();
        for controller in ["memory", "io"].into_iter().filter(|controller| !given.contains(controller)) {
            let undo = Undo::Write { file: file.clone(), value: format!("-{controller}") };
            // Before those of the groups, so that it is undone after them.
            self._changes.push(journal.begin(undo)?);
            fs::write(&file, format!("+{controller}"))
                .with_context(|| format!("cgroup v2: handing down {controller}"))?;
        }
        Ok(())
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        while self._changes.pop().is_some() {}
    }
}

/// Pages of files that nobody has mapped, by `memory.stat` of version 1 or 2.
fn cached_bytes(stat: &str) -> u64 {
    let names = match is_version_1(stat) {
        true => ["total_cache", "total_shmem", "total_mapped_file"],
        false => ["file", "shmem", "file_mapped"],
    };
    let [cache, shared, mapped] = names.map(|name| bytes_of(stat, name));
    cache.saturating_sub(shared + mapped)
}

fn active_bytes(stat: &str) -> u64 {
    bytes_of(stat, if is_version_1(stat) { "total_active_file" } else { "active_file" })
}

/// Version 1 also says what groups inside hold.
fn is_version_1(stat: &str) -> bool {
    stat.contains("total_rss ")
}

fn bytes_of(stat: &str, name: &str) -> u64 {
    let value = stat.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.and_then(|bytes| bytes.trim().parse::<u64>().ok()).unwrap_or(0)
}

/// A name that no group has yet, for one process may have several.
fn free(mount: &Path, name: &str) -> Result<PathBuf> {
    let names = (0..1000).map(|number| mount.join(format!("{name}-{number}")));
    names.into_iter().find(|folder| !folder.exists()).context("a thousand cgroups of one process")
}

/// Where the controllers of memory and io are.
#[derive(Debug, PartialEq, Eq)]
enum Hierarchies {
    One { memory: PathBuf, blkio: PathBuf },
    Two(PathBuf),
}

#[derive(Debug, PartialEq, Eq)]
struct Setting {
    /// Which of the [`Hierarchies::mounts`].
    hierarchy: usize,
    file: &'static str,
    value: String,
}

impl Hierarchies {
    fn find(mounts: &str) -> Result<Hierarchies> {
        if let Some(mount) = version_2(mounts) {
            return Ok(Hierarchies::Two(mount));
        }
        match (version_1(mounts, "memory"), version_1(mounts, "blkio")) {
            (Some(memory), Some(blkio)) => Ok(Hierarchies::One { memory, blkio }),
            _ => bail!(
                "no cgroup hierarchy with memory and io (version 2) or memory and blkio (version 1) is mounted"
            ),
        }
    }

    fn mounts(&self) -> Vec<&Path> {
        match self {
            Hierarchies::One { memory, blkio } => vec![memory, blkio],
            Hierarchies::Two(mount) => vec![mount],
        }
    }

    /// What is written where.
    fn settings(&self, limits: &Limits, device: &str) -> Vec<Setting> {
        let mut settings = Vec::new();
        let mut set = |hierarchy, file, value| settings.push(Setting { hierarchy, file, value });
        let (iops, bytes) = (limits.reads_per_second, limits.read_bytes_per_second);
        match self {
            Hierarchies::One { .. } => {
                if let Some(memory) = limits.memory_bytes {
                    // Swapping is a disk of its own, which no limit below would count.
                    set(0, "memory.swappiness", "0".into());
                    set(0, "memory.limit_in_bytes", memory.to_string());
                }
                if let Some(iops) = iops {
                    set(1, "blkio.throttle.read_iops_device", format!("{device} {iops}"));
                }
                if let Some(bytes) = bytes {
                    set(1, "blkio.throttle.read_bps_device", format!("{device} {bytes}"));
                }
            }
            Hierarchies::Two(_) => {
                if let Some(memory) = limits.memory_bytes {
                    set(0, "memory.max", memory.to_string());
                }
                let limits = [("riops", iops), ("rbps", bytes)];
                let words = limits.map(|(name, limit)| limit.map(|limit| format!(" {name}={limit}")));
                let words: String = words.into_iter().flatten().collect();
                if !words.is_empty() {
                    set(0, "io.max", device.to_owned() + &words);
                }
            }
        }
        settings
    }
}

/// What the line `oom_kill` counts.
fn kills(counts: &str) -> u64 {
    let mut lines = counts.lines().filter_map(|line| line.split_once(' '));
    lines.find(|(name, _)| *name == "oom_kill").and_then(|(_, count)| count.parse().ok()).unwrap_or(0)
}

/// The reads of all disks: `254:0 Read 12` of version 1, `254:0 rbytes=49152 wbytes=0 rios=12 …` of version 2.
fn read_counts(counts: &str) -> u64 {
    let lines = counts.lines().filter_map(|line| line.split_once(' '));
    let count = |(_, counts): (&str, &str)| {
        let mut words = counts.split_whitespace();
        let of_version_2 = words.clone().find_map(|word| word.strip_prefix("rios="));
        let of_version_1 = words.next().filter(|word| *word == "Read").and_then(|_| words.next());
        of_version_2.or(of_version_1)?.parse::<u64>().ok()
    };
    lines.filter_map(count).sum()
}

/// `1` or `2`, for the records: the version that holds the controllers of memory and io.
pub(crate) fn version() -> Option<u8> {
    match Hierarchies::find(&fs::read_to_string("/proc/mounts").ok()?).ok()? {
        Hierarchies::One { .. } => Some(1),
        Hierarchies::Two(_) => Some(2),
    }
}

/// Where version 2 is mounted with both controllers. Others may hold them even where a version 2 is mounted.
fn version_2(mounts: &str) -> Option<PathBuf> {
    let mount = mounts.lines().find_map(|line| mount_of(line, "cgroup2"))?;
    let controllers = fs::read_to_string(mount.join("cgroup.controllers")).ok()?;
    let has = |name| controllers.split_whitespace().any(|controller| controller == name);
    (has("memory") && has("io")).then_some(mount)
}

fn version_1(mounts: &str, controller: &str) -> Option<PathBuf> {
    let of = |line: &&str| {
        line.split_whitespace().nth(3).is_some_and(|options| options.split(',').any(|o| o == controller))
    };
    mounts.lines().filter(of).find_map(|line| mount_of(line, "cgroup"))
}

fn mount_of(line: &str, kind: &str) -> Option<PathBuf> {
    let mut fields = line.split_whitespace().skip(1);
    let mount = fields.next()?;
    (fields.next()? == kind).then(|| mount.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_count_kills_alike() {
        assert_eq!(kills("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"), 3);
        assert_eq!(kills("low 0\nhigh 0\nmax 7\noom 2\noom_kill 1\noom_group_kill 0\n"), 1);
        assert_eq!(kills(""), 0);
    }

    #[test]
    fn both_versions_tell_the_pages_that_can_be_taken_back() {
        let one = "cache 1\nrss 9\ntotal_cache 500\ntotal_rss 70\ntotal_shmem 20\ntotal_mapped_file 30\n";
        assert_eq!(cached_bytes(one), 450);
        assert_eq!(cached_bytes("anon 70\nfile 500\nshmem 20\nfile_mapped 30\nfile_dirty 9\n"), 450);
        assert_eq!(cached_bytes(""), 0);
        assert_eq!(active_bytes("active_file 3\ntotal_rss 9\ntotal_active_file 7\n"), 7);
        assert_eq!(active_bytes("anon 70\nactive_file 3\n"), 3);
    }

    #[test]
    fn both_versions_count_reads() {
        let one = "254:0 Read 40\n254:0 Write 7\n254:0 Total 47\n7:0 Read 2\nTotal 49\n";
        assert_eq!(read_counts(one), 42);
        assert_eq!(
            read_counts(
                "254:0 rbytes=163840 wbytes=4096 rios=40 wios=1 dbytes=0 dios=0\n7:0 rbytes=1 wbytes=0 rios=2\n"
            ),
            42
        );
        assert_eq!(read_counts(""), 0);
    }

    const MOUNTS: &str = "\
cgroup /sys/fs/cgroup/memory cgroup rw,relatime,memory 0 0
cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,relatime,cpu,cpuacct 0 0
cgroup2 /nowhere/unified cgroup2 rw,relatime 0 0";

    #[test]
    fn hierarchies_are_found_by_their_controllers() {
        assert_eq!(version_1(MOUNTS, "memory"), Some("/sys/fs/cgroup/memory".into()));
        assert_eq!(version_1(MOUNTS, "cpuacct"), Some("/sys/fs/cgroup/cpu,cpuacct".into()));
        assert_eq!(version_1(MOUNTS, "blkio"), None);
        assert_eq!(version_2(MOUNTS), None, "mounted, but without the controllers");
        assert!(Hierarchies::find(MOUNTS).is_err());
        let last = MOUNTS.lines().last().expect("three");
        assert_eq!(mount_of(last, "cgroup2"), Some("/nowhere/unified".into()));
    }

    #[test]
    fn limits_become_settings() {
        let limits = Limits {
            memory_bytes: Some(1 << 20),
            reads_per_second: Some(300),
            read_bytes_per_second: Some(5_000),
        };
        let written = |hierarchies: Hierarchies, limits: &Limits| -> Vec<(usize, &str, String)> {
            let settings = hierarchies.settings(limits, "8:0").into_iter();
            settings.map(|setting| (setting.hierarchy, setting.file, setting.value)).collect()
        };
        let one = || Hierarchies::One { memory: "/m".into(), blkio: "/b".into() };
        let two = || Hierarchies::Two("/g".into());
        assert_eq!(
            written(one(), &limits),
            [
                (0, "memory.swappiness", "0".to_owned()),
                (0, "memory.limit_in_bytes", "1048576".to_owned()),
                (1, "blkio.throttle.read_iops_device", "8:0 300".to_owned()),
                (1, "blkio.throttle.read_bps_device", "8:0 5000".to_owned()),
            ]
        );
        assert_eq!(
            written(two(), &limits),
            [(0, "memory.max", "1048576".to_owned()), (0, "io.max", "8:0 riops=300 rbps=5000".to_owned()),]
        );
        assert!(written(one(), &Limits::default()).is_empty());
        assert!(written(two(), &Limits::default()).is_empty());
    }
}
