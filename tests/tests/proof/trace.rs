//! What the kernel itself says about threads that sleep: its scheduler's tracepoint, with the kernel's stack each time.
//!
//! It is read through tracefs, in an instance of its own, so that nobody else's tracing is disturbed. It knows nothing
//! of the server but the numbers of its threads.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use flash_sleep::{Cause, Stack};

/// Traces some threads until it is stopped.
pub(crate) struct Trace {
    instance: Instance,
    over: Arc<AtomicBool>,
    reader: Option<JoinHandle<Sleeps>>,
}

/// How often the threads slept, and where.
#[derive(Debug, Default)]
pub(crate) struct Sleeps {
    /// In the one call that a loop may sleep in.
    pub(crate) waits: u64,
    /// Because the kernel was at work on their memory, by its functions, innermost first.
    pub(crate) memory: BTreeMap<String, u64>,
    /// In anything else.
    pub(crate) blocks: BTreeMap<String, u64>,
}

/// A trace buffer of our own, gone when it is dropped.
struct Instance(PathBuf);

const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
/// For each processor. A loop that waits a hundred thousand times a second fills it in a tenth of that.
const BUFFER_KB: &str = "16384";

/// Why sleeps cannot be traced here, if they cannot.
pub(crate) fn missing() -> Option<String> {
    Instance::open().err()
}

impl Trace {
    /// Begins to note every switch away from one of these threads that was not a preemption.
    pub(crate) fn begin(threads: &[u32]) -> Trace {
        let instance = Instance::open().expect("tracing was there when asked");
        instance.write("buffer_size_kb", BUFFER_KB);
        instance.write("options/stacktrace", "1");
        let ours: Vec<String> = threads.iter().map(|thread| format!("prev_pid == {thread}")).collect();
        // A thread that is preempted can run (R): all other states are sleeps.
        let sleeps = format!("({}) && (prev_state & 255)", ours.join(" || "));
        instance.write("events/sched/sched_switch/filter", &sleeps);
        let nonblocking = rustix::fs::OFlags::NONBLOCK.bits() as i32;
        let path = instance.0.join("trace_pipe");
        let pipe = File::options().read(true).custom_flags(nonblocking).open(path).expect("a trace to read");
        let over = Arc::new(AtomicBool::new(false));
        let seen_over = Arc::clone(&over);
        let reader = Some(thread::spawn(move || read(pipe, &seen_over)));
        instance.write("events/sched/sched_switch/enable", "1");
        Trace { instance, over, reader }
    }

    /// Everything since the beginning. Fails if the kernel had to drop some of it.
    pub(crate) fn end(mut self) -> Sleeps {
        let sleeps = self.stop().expect("it is stopped once").expect("the trace is readable");
        assert_eq!(self.instance.lost(), 0, "switches that were not seen: the trace buffer is too small");
        sleeps
    }

    fn stop(&mut self) -> Option<thread::Result<Sleeps>> {
        self.instance.write("events/sched/sched_switch/enable", "0");
        self.over.store(true, Ordering::Relaxed);
        self.reader.take().map(JoinHandle::join)
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        // Nobody may hold the instance's files open when it goes.
        self.stop();
    }
}

impl Instance {
    fn open() -> Result<Instance, String> {
        let place = PLACES.iter().map(Path::new).find(|place| place.join("instances").is_dir());
        let place = place.ok_or("tracefs is not mounted, or not for this user")?;
        let own = place.join(format!("instances/flash-proof-{}", std::process::id()));
        fs::create_dir(&own).map_err(|error| format!("{}: {error}", own.display()))?;
        let instance = Instance(own);
        for file in ["events/sched/sched_switch/filter", "options/stacktrace"] {
            if !instance.0.join(file).exists() {
                return Err(format!("this kernel's tracing has no {file}"));
            }
        }
        Ok(instance)
    }

    fn write(&self, file: &str, value: &str) {
        fs::write(self.0.join(file), value).unwrap_or_else(|error| panic!("{file} = {value}: {error}"));
    }

    fn lost(&self) -> u64 {
        let processors = fs::read_dir(self.0.join("per_cpu")).expect("a folder for each processor");
        processors
            .map(|processor| {
                let stats = processor.expect("a folder").path().join("stats");
                let stats = fs::read_to_string(stats).expect("the buffer's counts");
                let count = |name| stats.lines().find_map(|line| line.strip_prefix(name)).expect("a count");
                let counts = ["overrun: ", "dropped events: "].map(|name| count(name).trim().parse::<u64>());
                counts.into_iter().map(|count| count.expect("a number")).sum::<u64>()
            })
            .sum()
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir(&self.0) {
            eprintln!("{} stays behind: {error}", self.0.display());
        }
    }
}

fn read(mut pipe: File, over: &AtomicBool) -> Sleeps {
    let (mut sleeps, mut text, mut bytes) = (Sleeps::default(), String::new(), vec![0; 1 << 20]);
    loop {
        // Asked first: what was written before the end has to be read.
        let last = over.load(Ordering::Relaxed);
        match pipe.read(&mut bytes) {
            Ok(count) if count > 0 => {
                text.push_str(&String::from_utf8_lossy(&bytes[..count]));
                // A stack ends where the next entry begins.
                if let Some(end) = text.rfind(STACK).and_then(|at| text[..at].rfind('\n')) {
                    sleeps.note(&text[..=end]);
                    text.drain(..=end);
                }
            }
            Err(error) if !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                panic!("trace_pipe: {error}")
            }
            _ if last => {
                sleeps.note(&text);
                return sleeps;
            }
            _ => thread::sleep(Duration::from_millis(2)),
        }
    }
}

/// What stands in place of an event before the lines of its stack.
const STACK: &str = ": <stack trace>\n";
const FRAME: &str = " => ";
impl Sleeps {
    /// Reads whole entries: `TASK-PID [CPU] … <stack trace>`, then ` => function` for each caller.
    fn note(&mut self, text: &str) {
        for entry in text.split(STACK).skip(1) {
            let frames = entry.lines().map_while(|line| line.strip_prefix(FRAME)).map(str::trim);
            let stack = Stack::new(frames);
            let reasons = match stack.cause(None) {
                Cause::Events => {
                    self.waits += 1;
                    continue;
                }
                Cause::MemoryMap => &mut self.memory,
                _ => &mut self.blocks,
            };
            *reasons.entry(stack.frames().join(" < ")).or_default() += 1;
        }
    }
}

pub(crate) fn count(reasons: &BTreeMap<String, u64>) -> u64 {
    reasons.values().sum()
}

/// The most frequent reasons, one to a line.
pub(crate) fn most(reasons: &BTreeMap<String, u64>, lines_max: usize) -> String {
    let mut reasons: Vec<_> = reasons.iter().collect();
    reasons.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    reasons.iter().take(lines_max).map(|(stack, count)| format!("\n{count:>8} × {stack}")).collect()
}

#[test]
fn only_the_wait_itself_is_a_wait() {
    let entry = |frames: &[&str]| {
        let frames: String = frames.iter().map(|frame| format!(" => {frame}\n")).collect();
        format!(
            "    loop-0-7  [001] d..2. 5.1: sched_switch: prev_comm=loop-0 prev_state=S\n    loop-0-7  [001] d..2. 5.1{STACK}{frames}"
        )
    };
    let wait = ["__schedule", "schedule", "schedule_hrtimeout_range_clock", "do_epoll_wait", "do_syscall_64"];
    let fault = ["__schedule", "io_schedule", "folio_wait_bit_common", "exc_page_fault", "do_epoll_wait"];
    let open = ["__traceiter_sched_switch", "__schedule", "schedule", "io_schedule", "ext4_bread", "do_open"];
    let moved =
        ["schedule", "io_schedule", "migration_entry_wait_on_locked", "migration_entry_wait", "do_swap_page"];
    let looked_at = ["schedule", "io_schedule", "__folio_lock", "shmem_get_folio_gfp", "do_sendfile"];
    let swapped = ["io_schedule", "__folio_lock", "shmem_swapin_folio", "shmem_get_folio_gfp", "do_sendfile"];
    let mut sleeps = Sleeps::default();
    let entries = [&wait[..], &fault, &open, &moved, &looked_at, &swapped, &wait, &open].map(entry);
    sleeps.note(&entries.concat());
    assert_eq!((sleeps.waits, count(&sleeps.blocks), count(&sleeps.memory)), (2, 4, 2), "{sleeps:?}");
    assert!(most(&sleeps.blocks, 1).ends_with("2 × io_schedule < ext4_bread < do_open"), "{sleeps:?}");
}
