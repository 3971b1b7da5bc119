//! The sentence at a report's end: what puts loops to sleep most, and what to do about it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use flash_sleep::Cause;

use crate::summary::{Row, Weight};

/// A folder is named if so much of the sleeps is below it.
const BELOW: f64 = 0.9;

/// What the rows, by call, cause and path, say together. `whole` is the sum of all.
pub(crate) fn advice(rows: &[Row], whole: Weight, loops: usize) -> String {
    let who = if loops == 0 { "no thread" } else { "no loop" };
    if whole.count == 0 {
        return match loops {
            0 => format!("{who} slept."),
            _ => format!("{who} slept outside its wait for events."),
        };
    }
    // Where there is no loop, most sleeps are for want of work.
    let idle = |row: &Row| loops == 0 && row.cause.is_idle();
    let busy = rows.iter().filter(|row| !idle(row));
    let (begin, whole_us) = match busy.clone().map(|row| row.weight.us).sum() {
        0 => ("", whole.us),
        busy_us if busy_us == whole.us => ("", busy_us),
        busy_us => ("Apart from waiting for work, ", busy_us),
    };
    let mut sums: BTreeMap<(Arc<str>, Cause), Weight> = BTreeMap::new();
    for row in rows.iter().filter(|row| begin.is_empty() || !idle(row)) {
        let sum = sums.entry((Arc::clone(&row.call), row.cause)).or_default();
        sum.count += row.weight.count;
        sum.us += row.weight.us;
    }
    let ((call, cause), sum) = sums.iter().max_by_key(|(_, sum)| sum.us).expect("there are blocks");
    let of_these = rows.iter().filter(|row| row.call == *call && row.cause == *cause);
    let paths: Vec<(&str, u64)> =
        of_these.filter_map(|row| Some((row.path.as_deref()?, row.weight.us))).collect();
    let place = place(&paths, sum.us).map(|place| format!(" {place}")).unwrap_or_default();
    // In time, as one long sleep is worse than two short ones.
    let percent = percent(sum.us, whole_us);
    let remedy = if loops == 0 { remedy_without_a_loop(*cause) } else { remedy(*cause) };
    format!("{begin}{percent} of the time asleep: {call}{place} {}: {remedy}.", waits_for(*cause))
}

fn percent(part: u64, whole: u64) -> String {
    format!("{:.0} %", part as f64 * 100.0 / whole.max(1) as f64)
}

/// `of /a/file`, or `below /a/folder`, where nearly all of the sleeps are.
fn place(paths: &[(&str, u64)], whole_us: u64) -> Option<String> {
    let enough = |us: u64| us as f64 >= whole_us as f64 * BELOW;
    let mut sums: BTreeMap<&Path, u64> = BTreeMap::new();
    for (path, us) in paths.iter().filter(|(path, _)| path.starts_with('/')) {
        for folder in Path::new(path).ancestors() {
            *sums.entry(folder).or_default() += us;
        }
    }
    let deepest =
        sums.iter().filter(|(_, us)| enough(**us)).max_by_key(|(path, _)| path.components().count())?.0;
    let is_file = paths.iter().any(|(path, _)| Path::new(path) == *deepest);
    let word = if is_file { "of" } else { "below" };
    (deepest.parent().is_some()).then(|| format!("{word} {}", deepest.display()))
}

fn waits_for(cause: Cause) -> &'static str {
    match cause {
        Cause::Events => "waits for events",
        Cause::PageCacheRead => "waits for file contents from the disk",
        Cause::MetadataRead => "waits for blocks of directories and inodes from the disk",
        Cause::DirectIo => "reads or writes past the page cache",
        Cause::InodeLock => "waits for the lock of a directory or inode",
        Cause::Journal => "waits for the file system's journal",
        Cause::Writeback => "waits for dirty pages to be written",
        Cause::Reclaim => "waits for memory to be freed",
        Cause::PageFault => "touches mapped pages that are not in memory",
        Cause::MemoryMap => "waits for the process's map of memory",
        Cause::Remote => "waits for a file system that is elsewhere (FUSE, NFS)",
        Cause::UserLock => "waits for a lock of the program",
        Cause::PipeOrSocket => "waits for the other side of a pipe or socket",
        Cause::FileLock => "waits for a lock on a file",
        Cause::Timer => "sleeps because it asked to",
        Cause::Signal => "waits for a signal",
        Cause::Child => "waits for a child process",
        Cause::CgroupThrottle => "is stopped, as its cgroup has used up its share",
        Cause::Stopped => "was stopped by a signal or debugger",
        Cause::KernelLock => "waits for a lock within the kernel",
        Cause::Unknown => "sleeps in functions that no rule knows",
    }
}

fn remedy(cause: Cause) -> &'static str {
    match cause {
        Cause::PageCacheRead => {
            "reading in helper threads (nginx: `aio threads`), or more memory for the page cache, would remove them"
        }
        Cause::MetadataRead => {
            "opening files in helper threads, or memory for directories and inodes (vm.vfs_cache_pressure), would remove them"
        }
        Cause::DirectIo => "helper threads or asynchronous I/O would remove them",
        Cause::InodeLock => "fewer changes in that folder, or opening in helper threads, would remove them",
        Cause::Journal => "fsync and file creation in helper threads would remove them",
        Cause::Writeback => {
            "writing (logs, uploads) in another thread, or less dirty memory (vm.dirty_bytes), would remove them"
        }
        Cause::Reclaim => "more memory for the machine or its cgroup, or smaller caches, would remove them",
        Cause::PageFault => "read() after a look at what is in memory, instead of mmap, would remove them",
        Cause::MemoryMap => "fewer mmap and munmap calls in other threads would help; no disk is behind them",
        Cause::Remote => "helper threads for that mount would take them off the loop",
        Cause::UserLock => {
            "the wakers in `--json` are the lock's holders: what they hold it for must be shorter"
        }
        Cause::PipeOrSocket => {
            "O_NONBLOCK on that descriptor, and its place in the loop's wait, would remove them"
        }
        Cause::FileLock => "taking the lock in another thread would remove them",
        Cause::Timer => "the loop's own timers would remove them",
        Cause::Child => {
            "a small process that starts programs, and a pidfd in the loop's wait, would remove them"
        }
        Cause::CgroupThrottle => {
            "a larger share for the cgroup (cpu.max, cpu.cfs_quota_us) would remove them"
        }
        Cause::Signal | Cause::Stopped | Cause::Events => "nothing is to be done",
        Cause::KernelLock | Cause::Unknown => "their stacks are in `--json`",
    }
}

/// A thread that serves one client at a time holds up no other, so another thread would not help.
fn remedy_without_a_loop(cause: Cause) -> &'static str {
    match cause {
        Cause::PageCacheRead | Cause::PageFault => "more memory for the page cache would remove them",
        Cause::MetadataRead => {
            "more memory for directories and inodes (vm.vfs_cache_pressure) would remove them"
        }
        Cause::DirectIo => "a faster disk, or fewer of them, would help",
        Cause::InodeLock => "fewer changes in that folder would remove them",
        Cause::Journal => "fewer calls of fsync, each for more changes, would help",
        Cause::Writeback => "less dirty memory (vm.dirty_bytes), or a faster disk, would help",
        Cause::Remote => "a faster server, or copies on a local disk, would help",
        Cause::FileLock => "whoever holds the lock must hold it for less time",
        Cause::UserLock => {
            "workers without work wait so; of others, the wakers in `--json` are the lock's holders"
        }
        Cause::PipeOrSocket | Cause::Timer | Cause::Child => "nothing is to be done",
        _ => remedy(cause),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(call: &str, cause: Cause, path: &str, us: u64) -> Row {
        let weight = Weight { count: 1, us };
        let path = Some(path.into());
        Row { call: call.into(), cause, path, weight, p50_us: us, p99_us: us, max_us: us, ready: None }
    }

    #[test]
    fn names_the_call_the_folder_and_the_cause() {
        let rows = [
            row("openat", Cause::MetadataRead, "/srv/media/a/1", 500),
            row("openat", Cause::MetadataRead, "/srv/media/b/2", 420),
            row("read", Cause::PageCacheRead, "/etc/x", 80),
        ];
        let said = advice(&rows, Weight { count: 3, us: 1000 }, 1);
        assert!(
            said.starts_with("92 % of the time asleep: openat below /srv/media waits for blocks of"),
            "{said}"
        );
        let one = advice(&rows[2..], Weight { count: 1, us: 80 }, 1);
        assert!(one.starts_with("100 % of the time asleep: read of /etc/x waits for file"), "{one}");
    }

    #[test]
    fn without_a_loop_waiting_for_work_is_no_fault() {
        let rows = [
            row("accept4", Cause::PipeOrSocket, "socket:[7]", 900),
            row("read", Cause::PageCacheRead, "/a/b", 100),
        ];
        let whole = Weight { count: 2, us: 1000 };
        assert!(
            advice(&rows, whole, 0)
                .starts_with("Apart from waiting for work, 100 % of the time asleep: read of /a/b")
        );
        assert!(advice(&rows, whole, 1).starts_with("90 % of the time asleep: accept4 waits"));
        assert!(
            advice(&rows[..1], Weight { count: 1, us: 900 }, 0)
                .starts_with("100 % of the time asleep: accept4")
        );
    }

    #[test]
    fn helper_threads_are_for_loops() {
        let rows = [row("pread64", Cause::PageCacheRead, "/db/1", 900)];
        let whole = Weight { count: 1, us: 900 };
        assert!(advice(&rows, whole, 1).contains("aio threads"));
        let without = advice(&rows, whole, 0);
        assert!(without.ends_with("more memory for the page cache would remove them."), "{without}");
        for cause in Cause::ALL {
            assert!(!remedy_without_a_loop(cause).contains("helper threads"), "{cause}");
            assert!(!remedy_without_a_loop(cause).contains("another thread"), "{cause}");
        }
    }

    #[test]
    fn says_when_there_is_nothing_to_say() {
        assert_eq!(advice(&[], Weight::default(), 2), "no loop slept outside its wait for events.");
    }
}
