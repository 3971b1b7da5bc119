//! The counters of a server: a row for each of them.
//!
//! The row is all that the report, `/status.json`, `/metrics` and their pages know of a counter. Where its number is kept while the
//! server runs is not known here.

use std::fmt::Debug;
use std::marker::PhantomData;

/// What is told of a counter.
#[derive(Debug)]
pub struct Row {
    /// Its name in the report and in `/status.json`. Empty if others are computed from it, and it is not told itself.
    pub name: &'static str,
    /// Its name in `/metrics`. Empty if it is not there.
    pub metric: &'static str,
    /// If several counters are one metric, the value of its label.
    pub label: &'static str,
    pub kind: Kind,
    pub section: Section,
    /// What it counts.
    pub help: &'static str,
    /// When an operator should look.
    pub alert: &'static str,
    /// How many are counted for one that is told.
    pub divisor: u64,
}

/// As OpenMetrics names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Counter,
    Gauge,
    Histogram,
    Summary,
    Info,
}

/// Where a metric stands in `/metrics` and in `docs/metrics.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    Responses,
    Connections,
    Loops,
    Disks,
    Programs,
    Caches,
    Server,
}

impl Section {
    pub const ALL: [Self; 7] = [
        Self::Responses,
        Self::Connections,
        Self::Loops,
        Self::Disks,
        Self::Programs,
        Self::Caches,
        Self::Server,
    ];
}

impl Row {
    pub const EMPTY: Self = Self {
        name: "",
        metric: "",
        label: "",
        kind: Kind::Counter,
        section: Section::Server,
        help: "",
        alert: "none",
        divisor: 1,
    };
}

/// Counters of the same thing.
pub trait CounterSet: Copy + Debug + 'static {
    /// All of them, in the order in which they are told.
    const ROWS: &'static [(Self, Row)];

    fn index(self) -> usize;

    fn row(self) -> &'static Row {
        &Self::ROWS[self.index()].1
    }
}

/// The counters of a set, at most.
pub const COUNTERS_MAX: usize = 64;

macro_rules! counters {
    ($(#[$doc:meta])* $set:ident: $($counter:ident { $($field:ident: $value:expr),+ })+) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(usize)]
        pub enum $set { $($counter),+ }

        impl CounterSet for $set {
            const ROWS: &'static [(Self, Row)] =
                &[$(($set::$counter, Row { $($field: $value,)+ ..Row::EMPTY })),+];

            fn index(self) -> usize {
                self as usize
            }
        }

        const _: () = assert!($set::ROWS.len() <= COUNTERS_MAX);
    };
}

use Section::{Caches, Connections, Disks, Loops, Programs, Responses};

counters! {
    /// What a server counts from its start. A request counts as begun before it counts as over.
    Count:
    Begun { help: "Requests that have begun." }
    Abandoned { help: "Requests that ended without a response." }
    Requests { name: "requests", help: "Requests that got an answer of any status." }
    Connections { name: "connections", metric: "flash_connections_accepted", section: Connections,
        help: "Connections that were accepted.",
        alert: "connections are far from what is usual" }
    Shed { name: "shed", metric: "flash_connections_shed", section: Connections,
        help: "Connections turned away with 503 or 429, because there were too many or no descriptor was left.",
        alert: "any" }
    Evicted { name: "evicted", metric: "flash_connections_evicted", section: Connections,
        help: "Connections that were closed for new ones, because all places were taken.",
        alert: "many" }
    Limited { name: "limited", metric: "flash_requests_limited", section: Responses,
        help: "Requests refused with 429, because their client made too many.",
        alert: "clients exceed their limit" }
    HelperJobs { name: "helper_jobs", metric: "flash_helper_jobs", section: Disks,
        help: "Jobs that helpers did." }
    Joined { name: "joined", metric: "flash_helper_jobs_joined", section: Disks,
        help: "Requests that waited for an equal job under way." }
    QueueFull { name: "queue_full", metric: "flash_helper_queue_full", section: Disks,
        help: "Jobs refused with 503, because --helper-queue-max jobs were waiting.",
        alert: "any" }
    Logins { name: "logins", metric: "flash_logins", section: Connections,
        help: "Checks of passwords.",
        alert: "passwords are tried out" }
    LoginsRefused { name: "logins_refused", metric: "flash_logins_refused", section: Connections,
        help: "Log-ins refused with 503, because too many waited for their check.",
        alert: "any" }
    HandshakesFull { name: "handshakes_full", metric: "flash_tls_handshakes", label: "full", section: Connections,
        help: "Full TLS handshakes." }
    HandshakesResumed { name: "handshakes_resumed", metric: "flash_tls_handshakes", label: "resumed", section: Connections,
        help: "TLS handshakes that resumed a session." }
    HandshakesFailed { name: "handshakes_failed", metric: "flash_tls_handshakes", label: "failed", section: Connections,
        help: "TLS handshakes that were begun and not completed." }
    HandshakesShed { name: "handshakes_shed", metric: "flash_tls_handshakes", label: "shed", section: Connections,
        help: "Connections closed because more than --handshakes-max had not finished their handshakes." }
    LoopBlocks { name: "loop_blocks",
        help: "Sleeps of loops outside their wait for events." }
    Panics { name: "panics", metric: "flash_panics",
        help: "Connections that an internal error ended. Please report it.",
        alert: "any" }
    Compressed { name: "compressed", metric: "flash_files_compressed", section: Caches,
        help: "Files that were compressed for the cache, once for each version and coding." }
    Digested { name: "digested", metric: "flash_files_digested", section: Caches,
        help: "Files that were read for their digests, once for each version." }
    SpooledBytes { name: "spooled_bytes", metric: "flash_program_spooled_bytes", section: Programs,
        help: "Bytes of request bodies and of programs' responses that went to the file for them." }
    ProgramsHeld { name: "programs_held", metric: "flash_programs_held", section: Programs,
        help: "Programs that were ended because their clients read nothing for --program-send-timeout.",
        alert: "it grows: clients hold programs" }
    CacheHits { name: "cache_hits", metric: "flash_cache_hits", section: Caches,
        help: "Look-ups that the caches answered.",
        alert: "the hit rate falls" }
    CacheMisses { name: "cache_misses", metric: "flash_cache_misses", section: Caches,
        help: "Look-ups that needed a job.",
        alert: "the hit rate falls" }
    WalkNs { name: "walk_us", metric: "flash_job_seconds", label: "walk", section: Disks, divisor: 1000,
        help: "Time that jobs took for path look-ups." }
    OpenNs { name: "open_us", metric: "flash_job_seconds", label: "open", section: Disks, divisor: 1000,
        help: "Time that jobs took to open files." }
    ReadNs { name: "read_us", metric: "flash_job_seconds", label: "read", section: Disks, divisor: 1000,
        help: "Time that jobs took to read files." }
    QueueNs { name: "queue_us", metric: "flash_job_seconds", label: "queue", section: Disks, divisor: 1000,
        help: "Time that jobs waited for a free helper." }
    HelpNs { name: "help_us", metric: "flash_job_seconds", label: "help", section: Disks, divisor: 1000,
        help: "Time that helpers worked, in all." }
    SendUs { name: "send_us", metric: "flash_send_wait_seconds", section: Responses,
        help: "Time that output waited for sockets, from the first attempt to the last byte.",
        alert: "clients or the network are slow" }
    SentBytes { name: "sent_bytes", metric: "flash_sent_bytes", section: Responses,
        help: "Bytes that sockets took, heads among them.",
        alert: "traffic is far from what is usual" }
}

counters! {
    /// What a loop counts, or a stage.
    LoopCount:
    Turns { name: "turns", metric: "flash_loop_turns", section: Loops,
        help: "Times that a loop's wait returned." }
    BusyNs { name: "busy_us", metric: "flash_loop_busy_seconds", section: Loops, divisor: 1000,
        help: "Time of a loop outside its wait. Its rate is the busy share.",
        alert: "above 0.9 for minutes: more loops or machines" }
    LongestTurnNs { name: "longest_turn_us", metric: "flash_loop_longest_turn_seconds", kind: Kind::Gauge, section: Loops,
        divisor: 1000, help: "The longest time between two waits of a loop since its start.",
        alert: "above 0.1" }
    Blocks { name: "blocks", metric: "flash_loop_blocks", section: Loops,
        help: "Sleeps of a loop outside its wait.",
        alert: "any, unless loops wait for the disk themselves" }
    MajorFaults { name: "major_faults", metric: "flash_loop_major_faults", section: Loops,
        help: "Pages of the program itself that the kernel read from the disk, seen in one turn of 64.",
        alert: "the machine is short of memory" }
}

counters! {
    /// What there is of a route's program now, and what has happened to it since the start.
    ProgramCount:
    Configured { kind: Kind::Gauge, help: "Upstreams that are configured: 1, or 2 while a reload replaces one." }
    Processes { name: "processes", metric: "flash_program_processes", kind: Kind::Gauge, section: Programs,
        help: "Processes that Flash has started, and that have not ended. 0 for a FastCGI server." }
    ProcessesMax { name: "processes_max", metric: "flash_program_processes_max", kind: Kind::Gauge, section: Programs,
        help: "Processes that an application may have. 0 for the others.",
        alert: "`flash_program_busy` equals it: all are busy" }
    Busy { name: "busy", metric: "flash_program_busy", kind: Kind::Gauge, section: Programs,
        help: "Requests that a program answers.",
        alert: "it equals `flash_program_processes_max`" }
    Waiting { name: "queued", metric: "flash_program_queue", kind: Kind::Gauge, section: Programs,
        help: "Requests that wait for a process or a connection.",
        alert: "it does not return to 0" }
    Kept { name: "kept", metric: "flash_program_kept_connections", kind: Kind::Gauge, section: Programs,
        help: "Idle connections that are kept to a FastCGI server." }
    Started { name: "started", metric: "flash_program_starts", section: Programs,
        help: "Processes that were started, or connections that were made.",
        alert: "it grows fast: processes end soon" }
    Failed { name: "failed", metric: "flash_program_failures", section: Programs,
        help: "Processes that could not be started or ended with an error, or connections that could not be made.",
        alert: "any" }
    Unreachable { name: "unreachable", metric: "flash_program_unreachable", kind: Kind::Gauge, section: Programs,
        help: "Servers or applications of the route that the last attempt could not reach or start.",
        alert: "any" }
    Requests { name: "requests", metric: "flash_program_requests", section: Programs,
        help: "Requests that a FastCGI or HTTP server was given." }
    TimedOut { name: "timed_out", metric: "flash_program_timeouts", section: Programs,
        help: "Requests that a server did not answer in time: 504.",
        alert: "it grows" }
    Broken { name: "broken", metric: "flash_program_broken", section: Programs,
        help: "Requests that a server broke off, or answered with what is no response: 502.",
        alert: "it grows" }
    Retries { name: "retries", metric: "flash_program_retries", section: Programs,
        help: "Requests that one server did not answer, and that another one was given." }
    Refused { name: "refused", metric: "flash_program_refusals", section: Programs,
        help: "Requests that were refused, because too many waited or the program had just failed.",
        alert: "any" }
}

/// A number for each counter of a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counts<C> {
    counts: [u64; COUNTERS_MAX],
    set: PhantomData<C>,
}

impl<C> Default for Counts<C> {
    fn default() -> Self {
        Self { counts: [0; COUNTERS_MAX], set: PhantomData }
    }
}

impl<C: CounterSet> Counts<C> {
    pub fn new(count: impl Fn(C) -> u64) -> Self {
        let mut counts = Self::default();
        C::ROWS.iter().for_each(|(what, _)| counts.add(*what, count(*what)));
        counts
    }

    pub fn get(&self, what: C) -> u64 {
        self.counts[what.index()]
    }

    #[inline]
    pub fn add(&mut self, what: C, count: u64) {
        self.counts[what.index()] += count;
    }

    /// Those that have a name, by their rows.
    pub fn told(&self) -> impl Iterator<Item = (&'static Row, u64)> {
        let counts = C::ROWS.iter().map(|(what, row)| (row, self.get(*what)));
        counts.filter(|(row, _)| !row.name.is_empty())
    }

    /// Takes them, in the order of the rows.
    pub fn drain(&mut self) -> impl Iterator<Item = (C, u64)> {
        let rows = C::ROWS.iter().zip(&mut self.counts);
        rows.map(|((what, _), count)| (*what, std::mem::take(count)))
    }
}
