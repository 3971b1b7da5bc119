//! What `/proc` says of processes: whether they are there, whose they are, their names and their threads.

use std::fs;
use std::io;
use std::path::Path;

use crate::error::Error;

/// Whether a process or thread is there and has not ended.
pub(crate) fn is_there(pid: u32) -> bool {
    state(pid).is_some_and(|state| !matches!(state, 'Z' | 'X'))
}

fn state(pid: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // A name may have brackets and spaces of its own.
    stat.rsplit_once(") ")?.1.chars().next()
}

/// The threads of a process.
pub(crate) fn threads(pid: u32) -> Vec<u32> {
    numbers(Path::new(&format!("/proc/{pid}/task")))
}

/// Processes, in the order of their numbers.
pub(crate) fn processes() -> Vec<u32> {
    let mut all = numbers(Path::new("/proc"));
    all.sort_unstable();
    all
}

fn numbers(folder: &Path) -> Vec<u32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Whether a process has this name: its own, its program's, or the first word of its title (`nginx: worker`).
pub(crate) fn is_called(pid: u32, name: &str) -> bool {
    let read = |file: &str| fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
    let title = read("cmdline");
    // Kernel threads have none.
    if title.is_empty() {
        return false;
    }
    let comm = read("comm");
    let first = title.split(|&byte| byte == 0).next().unwrap_or_default();
    let first = String::from_utf8_lossy(first);
    let word = first.split([':', ' ']).next().unwrap_or_default();
    let program = Path::new(word).file_name().unwrap_or_default().to_string_lossy();
    comm.trim_ascii_end() == name.as_bytes() || program == name
}

/// Children of a process, those of all its threads.
pub(crate) fn children(pid: u32) -> Vec<u32> {
    let of_thread = |thread: u32| fs::read_to_string(format!("{}/children", place(pid, thread)));
    let lists = threads(pid).into_iter().filter_map(|thread| of_thread(thread).ok());
    lists
        .flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>())
        .collect()
}

/// A thread's folder.
pub(crate) fn place(pid: u32, thread: u32) -> String {
    format!("/proc/{pid}/task/{thread}")
}

/// A thread's name.
pub(crate) fn thread_name(pid: u32, thread: u32) -> String {
    let name = fs::read_to_string(format!("{}/comm", place(pid, thread))).unwrap_or_default();
    name.trim_end().to_owned()
}

/// What `/proc` says of a thread at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    pub(crate) name: String,
    pub(crate) sleeps: bool,
    /// How often it fell asleep: as long as that has not changed, it is in the same sleep.
    pub(crate) switches: u64,
}

/// Reads it, as long as the thread is there.
pub(crate) fn moment(place: &str) -> Option<Moment> {
    let status = fs::read_to_string(format!("{place}/status")).ok()?;
    let field = |name| status.lines().find_map(|line: &str| line.strip_prefix(name)).map(str::trim);
    Some(Moment {
        name: field("Name:")?.to_owned(),
        sleeps: field("State:")?.starts_with(['S', 'D']),
        switches: field("voluntary_ctxt_switches:")?.parse().ok()?,
    })
}

/// When a thread was started, in ticks since the machine was: another one may get its number.
pub(crate) fn started(place: &str) -> Option<u64> {
    let stat = fs::read_to_string(format!("{place}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.split(' ').nth(19)?.parse().ok()
}

/// The numbers of its user, as the kernel counts them here.
fn owner(pid: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// Why a process cannot be watched, and which capability would help.
pub(crate) fn refusal(pid: u32, error: &io::Error, capability: &str) -> Error {
    if !is_there(pid) {
        return Error::run(format!("process {pid} has ended"));
    }
    let owner = owner(pid).map_or_else(String::new, |user| format!(" of user {user}"));
    Error::run(format!(
        "process {pid}{owner} may not be looked at: {error}: sudo, or the capability {capability}, would help"
    ))
}

/// Whether numbers of processes here are not those that the kernel's tracing uses.
#[cfg(target_arch = "x86_64")]
pub(crate) fn in_container() -> bool {
    // The number of the first namespace is part of the kernel's interface.
    fs::read_link("/proc/self/ns/pid").is_ok_and(|link| link.to_string_lossy() != "pid:[4026531836]")
}
