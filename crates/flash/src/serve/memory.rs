//! How much memory there is for this process: what the machine has, or less where a cgroup limits it.
//!
//! Reads `/proc` and the cgroup file systems, version 1 and 2, below a folder, so that tests can make theirs. What
//! becomes of the number, [`shares`](super::shares) decides. While the server runs, [`pressure`] sees how much others take.

pub(super) mod pressure;

use std::fs;
use std::path::{Component, Path, PathBuf};

/// Files that hold a limit in bytes, or `max`. Beyond `memory.high` nothing is killed, but every allocation waits.
const LIMITS: [&str; 3] = ["memory.max", "memory.high", "memory.limit_in_bytes"];

/// The least of the machine's memory and the limits of this process's cgroups; `None` where nothing tells.
pub(super) fn available_bytes(root: &Path) -> Option<u64> {
    machine_bytes(root).into_iter().chain(limits(root)).min()
}

/// `MemTotal` of `/proc/meminfo`.
fn machine_bytes(root: &Path) -> Option<u64> {
    let info = fs::read_to_string(root.join("proc/meminfo")).ok()?;
    let kilobytes =
        info.lines().find_map(|line| line.strip_prefix("MemTotal:"))?.split_whitespace().next()?;
    Some(kilobytes.parse::<u64>().ok()? << 10)
}

/// Every limit of memory on this process: those of its own cgroups and of all above them.
fn limits(root: &Path) -> Vec<u64> {
    let files = groups(root).into_iter().flat_map(|group| LIMITS.map(|name| group.join(name)));
    // No such file, or no number in it, is no limit.
    files.filter_map(|file| fs::read_to_string(file).ok()?.trim().parse().ok()).collect()
}

/// The folders of this process's cgroups, and of all above them.
fn groups(root: &Path) -> Vec<PathBuf> {
    let read = |name| fs::read_to_string(root.join("proc/self").join(name)).unwrap_or_default();
    let (groups, mounts) = (read("cgroup"), read("mountinfo"));
    let folders = groups.lines().filter_map(Group::of_line).filter_map(|group| group.folder(&mounts));
    let levels = folders.flat_map(|(mount, below)| levels(&mount, &below));
    levels.map(|level| below(root, &level)).collect()
}

/// The folder of a cgroup, and all above it as far as its mount goes.
fn levels(mount: &Path, below: &Path) -> Vec<PathBuf> {
    below.ancestors().map(|below| mount.join(below)).collect()
}

fn below(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

/// A line of `/proc/self/cgroup` that may limit memory.
#[derive(Debug, PartialEq, Eq)]
struct Group {
    file_system: &'static str,
    path: PathBuf,
}

impl Group {
    /// `4:memory:/docker/1a2b` of version 1, `0::/system.slice/flash.service` of version 2.
    fn of_line(line: &str) -> Option<Self> {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        let file_system = match controllers {
            "" => "cgroup2",
            list if list.split(',').any(|controller| controller == "memory") => "cgroup",
            _ => return None,
        };
        Some(Self { file_system, path: path.into() })
    }

    /// Where the cgroup is mounted, and its path below that. In a container only a part of the tree may be mounted, and the
    /// path may be outside of it. Then that part is the container's.
    fn folder(&self, mounts: &str) -> Option<(PathBuf, PathBuf)> {
        let mounts = mounts.lines().filter_map(|line| Mount::of_line(line, self.file_system));
        let place = |mount: Mount| {
            let below = self.path.strip_prefix(&mount.root).ok().filter(|below| is_plain(below));
            (mount.mount_point, below.map(Path::to_owned))
        };
        let mut places: Vec<_> = mounts.map(place).collect();
        let known = places.iter().position(|(_, below)| below.is_some()).unwrap_or(0);
        (!places.is_empty())
            .then(|| places.swap_remove(known))
            .map(|(mount, below)| (mount, below.unwrap_or_default()))
    }
}

/// From outside a namespace's root, a path begins with `..`.
fn is_plain(path: &Path) -> bool {
    path.components().all(|component| matches!(component, Component::Normal(_)))
}

/// A line of `/proc/self/mountinfo` (proc_pid_mountinfo(5)).
struct Mount {
    /// What of its tree is mounted.
    root: PathBuf,
    mount_point: PathBuf,
}

impl Mount {
    /// A mount of the hierarchy that limits memory.
    fn of_line(line: &str, file_system: &str) -> Option<Self> {
        let (place, what) = line.split_once(" - ")?;
        let mut what = what.split(' ');
        let is_it = what.next()? == file_system;
        // Version 1 has a mount for each set of controllers.
        let has_memory = file_system == "cgroup2" || what.nth(1)?.split(',').any(|option| option == "memory");
        let mut place = place.split(' ').skip(3).map(|path| PathBuf::from(unescaped(path)));
        (is_it && has_memory).then(|| Some(Self { root: place.next()?, mount_point: place.next()? }))?
    }
}

/// Blanks and backslashes of paths are written as three octal digits.
fn unescaped(path: &str) -> String {
    let mut pieces = path.split('\\');
    let mut plain = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let byte = piece.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok()).filter(u8::is_ascii);
        match byte {
            Some(byte) => plain.extend([char::from(byte)].into_iter().chain(piece[3..].chars())),
            None => plain.extend(['\\'].into_iter().chain(piece.chars())),
        }
    }
    plain
}

#[cfg(test)]
mod tests;
