//! A cgroup for one server, version 1 or 2: a limit of memory and a limit of reads per second from one disk.
//! Also what belongs to the whole machine: the disk's read-ahead, put back at the end, and the page cache,
//! emptied.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::fs::{major, minor, stat, sync};

/// What the server may use.
pub(crate) struct Limits {
    pub(crate) memory_bytes: u64,
    pub(crate) reads_per_second: u64,
}

/// A cgroup (in version 1, one in each hierarchy). Dropping it removes it; its processes must have ended.
pub(crate) struct Cgroup {
    folders: Vec<PathBuf>,
}

impl Cgroup {
    pub(crate) fn create(name: &str, limits: &Limits, disk: &Disk) -> Result<Cgroup> {
        let mounts = fs::read_to_string("/proc/mounts")?;
        let device = &disk.device;
        let memory = limits.memory_bytes.to_string();
        let reads = limits.reads_per_second;
        let mut group = Cgroup { folders: Vec::new() };
        if let Some(mount) = version_2(&mounts) {
            fs::write(mount.join("cgroup.subtree_control"), "+memory +io")
                .context("cgroup v2: handing down memory, io")?;
            let folder = group.add(&mount, name)?;
            set(&folder, "memory.max", &memory)?;
            set(&folder, "io.max", &format!("{device} riops={reads}"))?;
        } else if let (Some(memory_mount), Some(blkio_mount)) =
            (version_1(&mounts, "memory"), version_1(&mounts, "blkio"))
        {
            let folder = group.add(&memory_mount, name)?;
            set(&folder, "memory.limit_in_bytes", &memory)?;
            let folder = group.add(&blkio_mount, name)?;
            set(&folder, "blkio.throttle.read_iops_device", &format!("{device} {reads}"))?;
        } else {
            bail!(
                "no cgroup hierarchy with memory and io (version 2) or memory and blkio (version 1) is mounted"
            );
        }
        Ok(group)
    }

    /// What a command line begins with so that the program runs inside from its first instruction.
    pub(crate) fn wrapper(&self) -> Vec<String> {
        let mut wrapper = vec!["/bin/sh".into(), "-c".into()];
        let enter =
            self.folders.iter().map(|folder| format!("echo $$ > '{}/cgroup.procs' && ", folder.display()));
        wrapper.push(enter.collect::<String>() + "exec \"$@\"");
        wrapper.push("sh".into());
        wrapper
    }

    fn add(&mut self, mount: &Path, name: &str) -> Result<PathBuf> {
        let folder = mount.join(name);
        fs::create_dir(&folder).with_context(|| format!("making the cgroup {}", folder.display()))?;
        self.folders.push(folder.clone());
        Ok(folder)
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let end = Instant::now() + Duration::from_secs(5);
        for folder in &self.folders {
            // The last process leaves a moment after it has been waited for.
            while fs::remove_dir(folder).is_err() && Instant::now() < end {
                thread::sleep(Duration::from_millis(20));
            }
        }
    }
}

fn set(folder: &Path, file: &str, value: &str) -> Result<()> {
    let file = folder.join(file);
    fs::write(&file, value).with_context(|| format!("writing {value} to {}", file.display()))
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

/// The disk below a folder.
pub(crate) struct Disk {
    /// `8:0`
    pub(crate) device: String,
    queue: PathBuf,
}

impl Disk {
    pub(crate) fn below(folder: &Path) -> Result<Disk> {
        let device = stat(folder)?.st_dev;
        let device = format!("{}:{}", major(device), minor(device));
        let link = PathBuf::from(format!("/sys/dev/block/{device}"));
        let mut block =
            fs::canonicalize(&link).with_context(|| format!("{} is on no disk", folder.display()))?;
        if block.join("partition").exists() {
            // Limits and read-ahead belong to the disk, not to its partition.
            block.pop();
        }
        let device = fs::read_to_string(block.join("dev"))?.trim().to_owned();
        Ok(Disk { device, queue: block.join("queue") })
    }
}

/// A changed read-ahead; dropping it puts the old one back.
pub(crate) struct ReadAhead {
    file: PathBuf,
    before: String,
}

impl ReadAhead {
    pub(crate) fn set(disk: &Disk, kilobytes: u32) -> Result<ReadAhead> {
        let file = disk.queue.join("read_ahead_kb");
        let before = fs::read_to_string(&file)?;
        fs::write(&file, kilobytes.to_string()).with_context(|| format!("writing {}", file.display()))?;
        Ok(ReadAhead { file, before })
    }
}

impl Drop for ReadAhead {
    fn drop(&mut self) {
        let _ = fs::write(&self.file, &self.before);
    }
}

/// Empties the page, dentry and inode caches. A page counts against the group that first touched it, so a
/// server's limit would not feel files that others have read.
pub(crate) fn empty_caches() -> Result<()> {
    sync();
    fs::write("/proc/sys/vm/drop_caches", "3").context("emptying the page cache")
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(
            mount_of(MOUNTS.lines().last().expect("three"), "cgroup2"),
            Some("/nowhere/unified".into())
        );
    }
}
