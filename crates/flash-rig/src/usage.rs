//! What a tree of processes uses: processor time, memory, context switches. Read from `/proc`; and the end
//! of a process that must not stay.

use std::collections::HashMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};
use serde::Serialize;

const KILL_SECONDS_MAX: u64 = 5;

/// What processes have used up to a moment, and hold at it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Usage {
    /// Of all threads, those that have ended included.
    pub cpu_ns: u64,
    /// Of that, what children used that have ended and were waited for: CGI programs, above all.
    pub ended_children_ns: u64,
    /// Sleeps, of the threads that live.
    pub voluntary_switches: u64,
    /// Times that a thread had to make room for another.
    pub involuntary_switches: u64,
    pub processes: u64,
    pub threads: u64,
}

impl Usage {
    /// What has been used since. A thread that has ended takes its switches along, so those may come out too low.
    #[must_use]
    pub fn since(&self, before: &Usage) -> Usage {
        Usage {
            cpu_ns: self.cpu_ns.saturating_sub(before.cpu_ns),
            ended_children_ns: self.ended_children_ns.saturating_sub(before.ended_children_ns),
            voluntary_switches: self.voluntary_switches.saturating_sub(before.voluntary_switches),
            involuntary_switches: self.involuntary_switches.saturating_sub(before.involuntary_switches),
            ..*self
        }
    }
}

/// What a tree of processes holds in memory, in bytes: its proportional share (PSS), so that pages which forked
/// processes share count once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Memory {
    pub pss_bytes: u64,
    /// Of that, what no file stands behind.
    pub pss_anonymous_bytes: u64,
}

/// What a tree of processes holds at a moment, cheap enough to be read every second: no process is stopped for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Held {
    /// Resident memory without a file behind it. Pages that forked processes share count once for each process.
    pub anonymous_bytes: u64,
    /// Of files that only exist in memory (memfd), which are in no process's resident memory while they are not mapped.
    pub memory_files_bytes: u64,
    pub descriptors: u64,
    pub threads: u64,
    pub processes: u64,
}

/// What these processes have used.
///
/// # Errors
/// When the kernel keeps no `schedstat`. A process that is gone counts as nothing.
pub(crate) fn of(pids: &[Pid]) -> Result<Usage> {
    let mut usage = Usage::default();
    for &pid in pids {
        let folder = format!("/proc/{}/task", pid.as_raw_nonzero());
        let Ok(threads) = fs::read_dir(folder) else { continue };
        let mut living_ns = 0;
        for thread in threads.flatten() {
            let Ok(schedstat) = fs::read_to_string(thread.path().join("schedstat")) else { continue };
            let spent = schedstat.split_whitespace().next().and_then(|field| field.parse::<u64>().ok());
            living_ns += spent.context("this kernel keeps no schedstat")?;
            usage.threads += 1;
            let status = fs::read_to_string(thread.path().join("status")).unwrap_or_default();
            usage.voluntary_switches += field(&status, "voluntary_ctxt_switches:").unwrap_or(0);
            usage.involuntary_switches += field(&status, "nonvoluntary_ctxt_switches:").unwrap_or(0);
        }
        let Some(stat) = Stat::read(pid) else { continue };
        usage.processes += 1;
        // Threads that ended are in the process's own count alone, which is in ticks, rounded down: exact to two
        // ticks where threads have ended, and to the nanosecond where none has.
        let children_ns = stat.children_ticks * tick_ns();
        usage.cpu_ns += living_ns.max(stat.own_ticks * tick_ns()) + children_ns;
        usage.ended_children_ns += children_ns;
    }
    Ok(usage)
}

/// Processor time of this process's children that have ended and were waited for, in nanoseconds, exact to a tick.
///
/// # Errors
/// Without `/proc`.
pub fn of_ended_children() -> Result<u64> {
    let stat = Stat::read(rustix::process::getpid()).context("this process has no /proc/PID/stat")?;
    Ok(stat.children_ticks * tick_ns())
}

/// What these processes hold in memory.
///
/// # Errors
/// When the kernel keeps no shares.
pub(crate) fn memory(pids: &[Pid]) -> Result<Memory> {
    let mut memory = Memory::default();
    for pid in pids {
        let file = format!("/proc/{}/smaps_rollup", pid.as_raw_nonzero());
        let Ok(text) = fs::read_to_string(file) else { continue };
        memory.pss_bytes += 1024 * field(&text, "Pss:").context("this kernel keeps no Pss")?;
        memory.pss_anonymous_bytes +=
            1024 * field(&text, "Pss_Anon:").context("this kernel keeps no Pss_Anon")?;
    }
    Ok(memory)
}

/// What these processes hold. A process that is gone holds nothing.
pub(crate) fn held(pids: &[Pid]) -> Held {
    let mut held = Held::default();
    let mut memory_files = HashMap::new();
    for pid in pids {
        let folder = format!("/proc/{}", pid.as_raw_nonzero());
        let Ok(status) = fs::read_to_string(format!("{folder}/status")) else { continue };
        held.anonymous_bytes += 1024 * field(&status, "RssAnon:").unwrap_or(0);
        held.threads += field(&status, "Threads:").unwrap_or(0);
        held.processes += 1;
        for descriptor in fs::read_dir(format!("{folder}/fd")).into_iter().flatten().flatten() {
            held.descriptors += 1;
            let path = descriptor.path();
            if fs::read_link(&path).is_ok_and(|name| name.as_os_str().as_bytes().starts_with(b"/memfd:"))
                && let Ok(file) = fs::metadata(&path)
            {
                memory_files.insert((file.dev(), file.ino()), file.blocks() * 512);
            }
        }
    }
    held.memory_files_bytes = memory_files.into_values().sum();
    held
}

/// What a process calls itself.
pub(crate) fn name(pid: Pid) -> String {
    let name = fs::read_to_string(format!("/proc/{}/comm", pid.as_raw_nonzero())).unwrap_or_default();
    name.trim().to_owned()
}

/// Whether the process with this number is still the one that began then, and has not ended.
pub(crate) fn runs(pid: Pid, started_ticks: u64) -> bool {
    Stat::read(pid).is_some_and(|stat| stat.started_ticks == started_ticks && stat.state != 'Z')
}

/// A process and all its descendants.
pub(crate) fn tree(root: Pid) -> Vec<Pid> {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(|name| Pid::from_raw(name.parse().ok()?)) else { continue };
        if let Some(stat) = Stat::read(pid) {
            children.entry(stat.parent).or_default().push(pid.as_raw_nonzero().get());
        }
    }
    let mut pids = vec![root.as_raw_nonzero().get()];
    let mut next = 0;
    while let Some(&pid) = pids.get(next) {
        pids.extend(children.remove(&pid).unwrap_or_default());
        next += 1;
    }
    pids.into_iter().filter_map(Pid::from_raw).collect()
}

/// When a process began, in ticks since the machine's start: with its number this names it for good.
pub(crate) fn started_ticks(pid: Pid) -> Option<u64> {
    Stat::read(pid).map(|stat| stat.started_ticks)
}

/// Kills a process, unless its number belongs to another process by now, and waits until it has ended. It may still be a zombie
/// of its parent. A process that waits for a disk ends when the disk answers.
pub(crate) fn kill(pid: Pid, started_ticks: u64) {
    let end = Instant::now() + Duration::from_secs(KILL_SECONDS_MAX);
    while runs(pid, started_ticks) && kill_process(pid, Signal::KILL).is_ok() && Instant::now() < end {
        thread::sleep(Duration::from_millis(5));
    }
}

/// What we need of `/proc/PID/stat`: proc(5).
struct Stat {
    state: char,
    parent: i32,
    own_ticks: u64,
    children_ticks: u64,
    started_ticks: u64,
}

impl Stat {
    fn read(pid: Pid) -> Option<Stat> {
        Stat::parse(&fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?)
    }

    fn parse(text: &str) -> Option<Stat> {
        // The command's name stands in parentheses and may hold anything, so count from the last one. The first
        // field behind it is the third of all.
        let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
        let ticks = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        Some(Stat {
            state: fields.first()?.chars().next()?,
            parent: fields.get(1)?.parse().ok()?,
            own_ticks: ticks(14)? + ticks(15)?,
            children_ticks: ticks(16)? + ticks(17)?,
            started_ticks: ticks(22)?,
        })
    }
}

fn tick_ns() -> u64 {
    1_000_000_000 / rustix::param::clock_ticks_per_second()
}

/// The number behind a name at a line's beginning.
fn field(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;
    use std::io::Write;
    use std::process::Command;

    use super::*;

    fn us() -> [Pid; 1] {
        [rustix::process::getpid()]
    }

    #[test]
    fn a_tree_holds_the_children() {
        let mut child = Command::new("sleep").arg("5").spawn().expect("sleep exists");
        let pids = tree(us()[0]);
        assert!(pids.contains(&Pid::from_child(&child)));
        child.kill().and_then(|()| child.wait()).expect("our own child");
    }

    #[test]
    fn our_own_time_grows_and_ended_threads_stay_counted() {
        let burn = |until_ns: u64| {
            let mut x = 0_u64;
            while of(&us()).expect("schedstat").cpu_ns < until_ns {
                x = black_box(x + 1);
            }
        };
        let before = of(&us()).expect("schedstat").cpu_ns;
        thread::spawn(move || burn(before + 200_000_000)).join().expect("no panic");
        let after = of(&us()).expect("schedstat").cpu_ns;
        assert!(after >= before + 150_000_000, "{before} {after}");
    }

    #[test]
    fn children_that_have_ended_are_told_apart() {
        let before = of(&us()).expect("schedstat");
        let spin = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
        assert!(Command::new("sh").args(["-c", spin]).status().expect("a shell").success());
        let used = of(&us()).expect("schedstat").since(&before);
        // Other tests run beside this one, and use more.
        assert!(used.ended_children_ns >= 20_000_000 && used.cpu_ns >= used.ended_children_ns, "{used:?}");
    }

    #[test]
    fn our_own_memory_grows() {
        let before = memory(&us()).expect("smaps_rollup");
        let held = black_box(vec![1_u8; 16 << 20]);
        let after = memory(&us()).expect("smaps_rollup");
        assert!(after.pss_anonymous_bytes >= before.pss_anonymous_bytes + (15 << 20));
        assert!(after.pss_bytes >= after.pss_anonymous_bytes);
        drop(held);
    }

    #[test]
    fn what_we_hold_grows() {
        let before = held(&us());
        let files: Vec<_> = (0..100).map(|_| fs::File::open("/dev/null").expect("it is there")).collect();
        let bytes = black_box(vec![1_u8; 16 << 20]);
        let flags = rustix::fs::MemfdFlags::CLOEXEC;
        let in_memory = fs::File::from(rustix::fs::memfd_create("held", flags).expect("a file"));
        (&in_memory).write_all(&bytes).expect("room");
        let after = held(&us());
        assert!(after.memory_files_bytes >= before.memory_files_bytes + (16 << 20), "{before:?} {after:?}");
        assert!(after.anonymous_bytes >= before.anonymous_bytes + (15 << 20), "{before:?} {after:?}");
        // Other tests open and close theirs beside this one.
        assert!(after.descriptors >= before.descriptors + 80, "{before:?} {after:?}");
        assert!(after.threads >= 1 && after.processes == 1);
        drop((files, bytes, in_memory));
    }

    #[test]
    fn any_name_may_stand_in_stat() {
        let text = "7 (a) b (c) S 3 7 7 0 -1 4194560 1 2 3 4 10 20 30 40 20 0 1 0 12345 1 2";
        let stat = Stat::parse(text).expect("a line");
        assert_eq!((stat.state, stat.parent, stat.own_ticks, stat.children_ticks), ('S', 3, 30, 70));
        assert_eq!(stat.started_ticks, 12345);
        assert!(Stat::parse("7 (a").is_none());
    }

    #[test]
    fn switches_are_counted() {
        // A thread of another test that ends meanwhile takes its switches along.
        let is_counted = || {
            let before = of(&us()).expect("schedstat");
            thread::sleep(Duration::from_millis(5));
            let used = of(&us()).expect("schedstat").since(&before);
            used.voluntary_switches >= 1 && used.processes == 1 && used.threads >= 1
        };
        assert!((0..100).any(|_| is_counted()));
    }
}
