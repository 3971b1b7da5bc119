//! Which of the system calls that POSIX does not have may be used here.
//!
//! They are tried once, at the start: a version number says nothing about containers, sandboxes and emulators. What is missing has
//! something in its place, slower or coarser, and clients get the same bytes.

use std::sync::atomic::{AtomicU64, Ordering};

/// A call, or a flag of it, that some kernel, container or system does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Call {
    Openat2,
    ResolveCached,
    Statx,
    Preadv2,
    ReadNow,
    ReadDontcache,
    Cachestat,
    Mincore,
    MemfdCreate,
    CloseRange,
    CloseRangeCloexec,
    PidfdOpen,
    Sendfile,
    Epoll,
    Eventfd,
    Signalfd,
    Accept4,
    IoUring,
    SchedSetattr,
    PerfEventOpen,
}

/// What is said of a call where it is missing.
#[derive(Debug)]
pub struct Row {
    pub call: Call,
    /// As `--system-calls` has it, and manual pages.
    pub name: &'static str,
    /// What takes its place, and what that costs.
    pub instead: &'static str,
}

pub const ROWS: [Row; 20] = [
    row(
        Call::Openat2,
        "openat2",
        "names are walked part by part: several calls for each, and only by helpers",
    ),
    row(Call::ResolveCached, "resolve-cached", "helpers look up each name that is not cached"),
    row(
        Call::Statx,
        "statx",
        "fstat: files are known by their devices, and the names of folders are not kept",
    ),
    row(Call::Preadv2, "preadv2", "pread: loops read what mincore finds in memory, and helpers the rest"),
    row(Call::ReadNow, "read-now", "loops read what mincore finds in memory, and helpers the rest"),
    row(
        Call::ReadDontcache,
        "read-dontcache",
        "what need not stay in the page cache is dropped from it after each read",
    ),
    row(
        Call::Cachestat,
        "cachestat",
        "mincore tells what is in memory: a map for each file that is looked at",
    ),
    row(
        Call::Mincore,
        "mincore",
        "where cachestat is missing too, a clock over what was read guesses what is in memory",
    ),
    row(
        Call::MemfdCreate,
        "memfd",
        "a file without a name, in memory where the system has such a filesystem",
    ),
    row(Call::CloseRange, "close-range", "descriptors are closed one by one when a program starts"),
    row(
        Call::CloseRangeCloexec,
        "close-range-cloexec",
        "descriptors are marked one by one when a program starts",
    ),
    row(
        Call::PidfdOpen,
        "pidfd",
        "programs are known by number to their fork helper alone, and end with it if it is killed, unless they have become another user",
    ),
    row(Call::Sendfile, "sendfile", "bytes of large files are copied through the server"),
    row(Call::Epoll, "epoll", "poll(2): each wait costs the kernel a look at each connection"),
    row(Call::Eventfd, "eventfd", "pipes: two descriptors for each queue"),
    row(Call::Signalfd, "signalfd", "signal handlers that write into a pipe"),
    row(Call::Accept4, "accept4", "accept and fcntl: two calls more for each connection"),
    row(Call::IoUring, "io_uring", "the architecture that needs it is replaced by the default"),
    row(
        Call::SchedSetattr,
        "sched_setattr",
        "a loop may run some milliseconds after it is woken, and what is read in the background does not go last",
    ),
    row(Call::PerfEventOpen, "perf_event_open", "why loops sleep is not told"),
];

const fn row(call: Call, name: &'static str, instead: &'static str) -> Row {
    Row { call, name, instead }
}

/// A bit for each call that must not be used.
static MISSING: AtomicU64 = AtomicU64::new(0);

/// Whether this call may be used. Before [`set`], all may.
pub fn has(call: Call) -> bool {
    MISSING.load(Ordering::Relaxed) & bit(call) == 0
}

/// Says which calls may be used from now on. For the start of a process, before its threads; forked processes inherit it.
pub fn set(is_present: impl Fn(Call) -> bool) {
    let missing = ROWS.iter().filter(|row| !is_present(row.call));
    MISSING.store(missing.fold(0, |bits, row| bits | bit(row.call)), Ordering::Relaxed);
}

/// What is said of the calls that are missing.
pub fn missing() -> impl Iterator<Item = &'static Row> {
    ROWS.iter().filter(|row| !has(row.call))
}

/// A set of calls, as `--system-calls` has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Calls(u64);

impl Calls {
    pub const ALL: Self = Self(u64::MAX);
    /// Those of POSIX alone.
    pub const PORTABLE: Self = Self(0);

    pub fn contains(self, call: Call) -> bool {
        self.0 & bit(call) != 0
    }

    /// `all`, `portable`, or `portable+mincore+read-now`.
    ///
    /// # Errors
    /// What to write instead.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut parts = text.split('+');
        match (parts.next(), text) {
            (_, "all") => Ok(Self::ALL),
            (Some("portable"), _) => parts.try_fold(Self::PORTABLE, |calls, part| {
                let row = ROWS.iter().find(|row| row.name == part);
                row.map(|row| Self(calls.0 | bit(row.call))).ok_or_else(choices)
            }),
            _ => Err(choices()),
        }
    }
}

fn choices() -> String {
    let names: Vec<&str> = ROWS.iter().map(|row| row.name).collect();
    format!(
        "write \"all\", or \"portable\" with what else may be used, as in portable+mincore: {}",
        names.join(", ")
    )
}

fn bit(call: Call) -> u64 {
    1 << call as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_call_has_its_row_at_its_number() {
        assert!(ROWS.iter().enumerate().all(|(number, row)| row.call as usize == number));
    }

    #[test]
    fn each_call_is_on_the_page_about_them() {
        let page = include_str!("../../../docs/portability.md");
        for Row { name, instead, .. } in &ROWS {
            let is_there = |line: &str| {
                line.starts_with(&format!("| `{name}` |")) && line.ends_with(&format!("| {instead} |"))
            };
            assert!(page.lines().any(is_there), "docs/portability.md: {name}: {instead}");
        }
    }

    #[test]
    fn a_set_is_written_as_portable_and_what_is_added() {
        assert_eq!(Calls::parse("all"), Ok(Calls::ALL));
        assert_eq!(Calls::parse("portable"), Ok(Calls::PORTABLE));
        let some = Calls::parse("portable+mincore+openat2").unwrap();
        assert!(some.contains(Call::Mincore) && some.contains(Call::Openat2) && !some.contains(Call::Epoll));
        for bad in ["", "mincore", "portable+", "portable+nothing", "all+mincore", "portable,mincore"] {
            assert!(Calls::parse(bad).unwrap_err().contains("portable+mincore"), "{bad}");
        }
    }
}
