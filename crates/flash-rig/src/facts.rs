//! Facts about the machine, for the records. A reader of a figure must know the machine that it was measured on.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde::{Deserialize, Serialize};

use crate::cgroup;
use crate::disk::Disk;
use crate::undo::run;

/// What the machine is, as far as it says. None is "does not say".
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// In UTC: `2026-03-01T17:00:00Z`.
    pub date: String,
    pub kernel: String,
    pub processor: Option<String>,
    pub processors: usize,
    pub memory_bytes: Option<u64>,
    pub disk: Option<DiskFacts>,
    /// The version that holds the controllers of memory and io.
    pub cgroup_version: Option<u8>,
    /// Of the tree that the programs were built from; it ends in `-dirty` if that has changes of its own.
    pub commit: Option<String>,
    pub load_average: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskFacts {
    pub name: String,
    /// `rotating`, or `solid`, which is what virtual disks say too.
    pub kind: String,
    pub scheduler: Option<String>,
    pub read_ahead_kilobytes: Option<u32>,
    pub filesystem: Option<String>,
}

impl Facts {
    /// Asks for the facts: of the disk below `data`, and of the git checkout that `tree` is in, if it is in one.
    pub fn collect(data: &Path, tree: &Path) -> Facts {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let mut describe = Command::new("git");
        describe.arg("-C").arg(tree).args(["describe", "--always", "--abbrev=12", "--dirty", "--exclude=*"]);
        Facts {
            date: run(Command::new("date").args(["-u", "+%Y-%m-%dT%H:%M:%SZ"])).unwrap_or_default(),
            kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
            processor: value(&cpuinfo, "model name").or_else(|| value(&cpuinfo, "Model")),
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: value(&meminfo, "MemTotal").and_then(|text| kilobytes(&text)),
            disk: Disk::below(data).ok().map(|disk| DiskFacts::collect(&disk, data)),
            cgroup_version: cgroup::version(),
            commit: run(&mut describe).ok(),
            load_average: fs::read_to_string("/proc/loadavg").ok().map(|text| text.trim_end().to_owned()),
        }
    }
}

impl DiskFacts {
    fn collect(disk: &Disk, data: &Path) -> DiskFacts {
        let mut findmnt = Command::new("findmnt");
        findmnt.args(["--noheadings", "--output", "FSTYPE", "--target"]).arg(data);
        DiskFacts {
            name: disk.name(),
            kind: if disk.queue("rotational").as_deref() == Some("1") { "rotating" } else { "solid" }.into(),
            scheduler: disk.queue("scheduler").map(|text| chosen(&text)),
            read_ahead_kilobytes: disk.read_ahead_kilobytes().ok(),
            filesystem: run(&mut findmnt).ok(),
        }
    }
}

/// The value of the first line `NAME : VALUE`.
fn value(text: &str, name: &str) -> Option<String> {
    let pairs = text.lines().filter_map(|line| line.split_once(':'));
    let mut named = pairs.filter(|(found, _)| found.trim() == name);
    named.next().map(|(_, value)| value.trim().to_owned())
}

fn kilobytes(text: &str) -> Option<u64> {
    text.strip_suffix(" kB")?.parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
}

/// `none [mq-deadline] kyber` is `mq-deadline`.
fn chosen(schedulers: &str) -> String {
    let word = schedulers.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    word.map_or(schedulers, |(word, _)| word).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_there() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let facts = Facts::collect(here, here);
        assert!(facts.date.starts_with("20") && facts.date.ends_with('Z'), "{facts:?}");
        assert!(facts.kernel.contains('.') && facts.processors > 0, "{facts:?}");
        assert!(facts.memory_bytes.is_some_and(|bytes| bytes > 1 << 20), "{facts:?}");
        let text = serde_json::to_string(&facts).expect("plain values");
        assert_eq!(serde_json::from_str::<Facts>(&text).expect("the same"), facts);
    }

    #[test]
    fn samples_are_read() {
        assert_eq!(value("model name\t: A CPU @ 2: GHz\n", "model name").as_deref(), Some("A CPU @ 2: GHz"));
        assert_eq!(kilobytes("24684 kB"), Some(24684 * 1024));
        assert_eq!(chosen("none [mq-deadline] kyber"), "mq-deadline");
        assert_eq!(chosen("none"), "none");
    }
}
