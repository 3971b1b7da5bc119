//! How a change of the machine is undone, as a value that can be written down. Every undoing can be done twice, and
//! does nothing where there is nothing left to undo.

use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::mount::{UnmountFlags, unmount};
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

use crate::usage;

/// How long the last process of a group may take to leave it.
const WAIT_SECONDS_MAX: u64 = 5;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Undo {
    /// A setting of the kernel gets its old value.
    Write { file: PathBuf, value: String },
    /// Whatever is in the cgroup ends, and the cgroup goes.
    RemoveGroup { folder: PathBuf },
    /// What is mounted here goes.
    Unmount { mountpoint: PathBuf },
    /// No loop device stands on this file any more.
    DetachLoops { image: PathBuf },
    /// The process that began at this moment, in ticks since the machine's start, ends with all that it started.
    End { pid: i32, started_ticks: u64 },
}

impl Undo {
    pub(crate) fn perform(&self) -> Result<()> {
        match self {
            Undo::Write { file, value } => match fs::write(file, value) {
                // The device is gone, and its settings with it.
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                done => done.with_context(|| format!("writing {value} to {}", file.display())),
            },
            Undo::RemoveGroup { folder } => remove_group(folder),
            Undo::Unmount { mountpoint } => {
                while is_mountpoint(mountpoint)? {
                    // FORCE, for the answers of a slow disk that nobody serves any more never come.
                    unmount(mountpoint, UnmountFlags::FORCE | UnmountFlags::DETACH)
                        .with_context(|| format!("unmounting {}", mountpoint.display()))?;
                }
                Ok(())
            }
            Undo::DetachLoops { image } => {
                for device in loops_on(image)? {
                    run(Command::new("losetup").args(["--detach", &device]))?;
                }
                Ok(())
            }
            Undo::End { pid, started_ticks } => {
                end(*pid, *started_ticks);
                Ok(())
            }
        }
    }
}

/// In the past tense, for that is when it is said.
impl fmt::Display for Undo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Undo::Write { file, value } => write!(f, "{} is {value} again", file.display()),
            Undo::RemoveGroup { folder } => write!(f, "the cgroup {} removed", folder.display()),
            Undo::Unmount { mountpoint } => write!(f, "{} unmounted", mountpoint.display()),
            Undo::DetachLoops { image } => write!(f, "no loop device on {}", image.display()),
            Undo::End { pid, .. } => write!(f, "process {pid} ended"),
        }
    }
}

fn remove_group(folder: &Path) -> Result<()> {
    let end = Instant::now() + Duration::from_secs(WAIT_SECONDS_MAX);
    loop {
        match fs::remove_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Ok(()) => return Ok(()),
            Err(error) if Instant::now() > end => {
                return Err(error).with_context(|| format!("removing the cgroup {}", folder.display()));
            }
            Err(_) => {}
        }
        let inside = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
        for pid in inside.lines().filter_map(|line| Pid::from_raw(line.parse().ok()?)) {
            let _ = kill_process(pid, Signal::KILL);
        }
        // The last process leaves a moment after it has been waited for.
        thread::sleep(Duration::from_millis(20));
    }
}

/// Kills a process and its descendants, unless the number belongs to another by now.
fn end(pid: i32, started_ticks: u64) {
    let Some(pid) = Pid::from_raw(pid) else { return };
    if usage::started_ticks(pid) != Some(started_ticks) {
        return;
    }
    let all = usage::tree(pid).into_iter();
    let all: Vec<_> = all.filter_map(|pid| Some((pid, usage::started_ticks(pid)?))).collect();
    for (pid, started_ticks) in all {
        usage::kill(pid, started_ticks);
    }
}

/// Whether something is mounted exactly here. It does not touch the place, for that may hang.
pub(crate) fn is_mountpoint(place: &Path) -> Result<bool> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").context("listing the mounts")?;
    let name = place.as_os_str().as_encoded_bytes();
    Ok(mounts.lines().filter_map(|line| line.split(' ').nth(4)).any(|field| unescape(field) == name))
}

/// `\040` is a space: proc(5).
fn unescape(field: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = field.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let code = (byte == b'\\').then(|| std::str::from_utf8(after.get(..3)?).ok()).flatten();
        match code.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[3..];
            }
            None => {
                bytes.push(byte);
                rest = after;
            }
        }
    }
    bytes
}

/// The loop devices that stand on a file.
pub(crate) fn loops_on(image: &Path) -> Result<Vec<String>> {
    if !image.exists() {
        return Ok(Vec::new());
    }
    let list = ["--noheadings", "--output", "NAME", "--associated"].map(OsStr::new);
    let said = run(Command::new("losetup").args(list).arg(image))?;
    Ok(said.lines().map(|line| line.trim().to_owned()).collect())
}

/// Runs a program to its end, and returns what it printed.
pub(crate) fn run(command: &mut Command) -> Result<String> {
    let name = command.get_program().display().to_string();
    let output = command.output().with_context(|| format!("starting {name}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{name}: {}", said.split_whitespace().collect::<Vec<_>>().join(" "));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_mounts_are_unescaped() {
        assert_eq!(unescape(r"/a\040b\134c"), b"/a b\\c");
        assert_eq!(unescape(r"/a\04"), b"/a\\04");
        assert!(is_mountpoint("/proc".as_ref()).expect("mountinfo"));
        assert!(!is_mountpoint("/proc/self".as_ref()).expect("mountinfo"));
    }

    #[test]
    fn what_is_gone_is_undone() {
        let gone = PathBuf::from("/nowhere/at/all");
        for undo in [
            Undo::Write { file: gone.clone(), value: "1".into() },
            Undo::RemoveGroup { folder: gone.clone() },
            Undo::Unmount { mountpoint: gone.clone() },
            Undo::DetachLoops { image: gone },
        ] {
            undo.perform().expect("nothing to do");
        }
    }

    #[test]
    fn a_process_ends_only_if_it_is_the_one() {
        let mut child = Command::new("sleep").arg("60").spawn().expect("sleep exists");
        let pid = Pid::from_child(&child);
        let started_ticks = usage::started_ticks(pid).expect("it runs");
        let end = |started_ticks| Undo::End { pid: pid.as_raw_nonzero().get(), started_ticks }.perform();
        end(started_ticks + 1).expect("another process");
        assert!(child.try_wait().expect("our child").is_none());
        end(started_ticks).expect("ours");
        assert!(!child.wait().expect("our child").success());
    }
}
