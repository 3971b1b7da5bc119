//! What clients count and what they find wrong. A violation is printed at once, with what is needed to look for it again.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::disk::DiskWatch;

/// Violations of one kind that are printed for each architecture. The rest are counted.
const PRINTED_MAX: u64 = 5;

/// What a client asked for, or did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Whole,
    Head,
    Range,
    Conditional,
    /// One of two requests that were sent together.
    Pipelined,
    Missing,
    Listing,
    Program,
    /// Of the others, those for files that change.
    Changing,
    /// A response that was read slowly and is complete.
    Slow,
    /// A client that read too slowly and was cut.
    TooSlow,
    Rude,
    /// A name of the flood.
    Flood,
    /// One of them that got 503.
    FloodRefused,
    /// A kept connection that the server closed between two requests.
    KeptClosed,
    /// An answer that was older than the rule and said so (Age).
    Admitted,
    /// A request that got 503 while the disk itself stood still.
    Excused,
}

const KINDS: usize = Kind::Excused as usize + 1;

/// What must never be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    Cut,
    WrongBytes,
    WrongAnswer,
    Refused,
    TooOld,
    Silence,
    SlowClientCut,
    TooSlowClientKept,
    RudeClientKept,
    NotFlat,
    LoopBlocked,
    ConnectionsLeft,
    BadEnd,
    Said,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Fault::Cut => "response cut",
            Fault::WrongBytes => "wrong bytes",
            Fault::WrongAnswer => "wrong answer",
            Fault::Refused => "503 for a visitor",
            Fault::TooOld => "answer too old",
            Fault::Silence => "no answer",
            Fault::SlowClientCut => "slow client cut",
            Fault::TooSlowClientKept => "client below the least rate kept",
            Fault::RudeClientKept => "rude client kept",
            Fault::NotFlat => "not flat",
            Fault::LoopBlocked => "loop blocked",
            Fault::ConnectionsLeft => "connections left",
            Fault::BadEnd => "bad end",
            Fault::Said => "said by the server",
        })
    }
}

/// Of one architecture.
pub(crate) struct Report {
    arch: &'static str,
    seed: u64,
    began: Instant,
    counts: [AtomicU64; KINDS],
    bytes: AtomicU64,
    oldest_us: AtomicU64,
    longest_wait_us: AtomicU64,
    violations: Mutex<BTreeMap<Fault, u64>>,
    pub(crate) disk: DiskWatch,
}

impl Report {
    pub(crate) fn new(arch: &'static str, seed: u64) -> Report {
        Report {
            arch,
            seed,
            began: Instant::now(),
            counts: Default::default(),
            bytes: AtomicU64::new(0),
            oldest_us: AtomicU64::new(0),
            longest_wait_us: AtomicU64::new(0),
            violations: Mutex::default(),
            disk: DiskWatch::default(),
        }
    }

    pub(crate) fn count(&self, kind: Kind) {
        self.count_many(kind, 1);
    }

    pub(crate) fn count_many(&self, kind: Kind, more: u64) {
        self.counts[kind as usize].fetch_add(more, Ordering::Relaxed);
    }

    /// Bytes of a body that were compared.
    pub(crate) fn checked(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn aged(&self, age: Duration) {
        self.oldest_us.fetch_max(age.as_micros() as u64, Ordering::Relaxed);
    }

    /// From a request of a visitor to the end of its answer's head.
    pub(crate) fn waited(&self, wait: Duration) {
        self.longest_wait_us.fetch_max(wait.as_micros() as u64, Ordering::Relaxed);
    }

    pub(crate) fn violation(&self, fault: Fault, what: impl fmt::Display) {
        let count = {
            let mut violations = self.violations.lock().unwrap_or_else(PoisonError::into_inner);
            let count = violations.entry(fault).or_default();
            *count += 1;
            *count
        };
        if count <= PRINTED_MAX {
            let (arch, seed, at) = (self.arch, self.seed, self.began.elapsed().as_secs_f64());
            let last = if count == PRINTED_MAX { " (more of these are counted only)" } else { "" };
            println!("VIOLATION {arch}, seed {seed}, {at:.1} s: {fault}: {what}{last}");
        }
    }

    /// Every violation by its kind, and how many of each.
    pub(crate) fn violations(&self) -> BTreeMap<Fault, u64> {
        self.violations.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn of(&self, kind: Kind) -> u64 {
        self.counts[kind as usize].load(Ordering::Relaxed)
    }
}

/// What was counted, in a line.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use Kind::*;
        let asked = [Whole, Head, Range, Conditional, Missing, Listing, Program];
        let requests: u64 = asked.iter().map(|&kind| self.of(kind)).sum();
        write!(f, "{requests} requests (")?;
        for (kind, name) in
            asked.into_iter().zip(["GET", "HEAD", "range", "conditional", "missing", "listing", "program"])
        {
            write!(f, "{name} {}, ", self.of(kind))?;
        }
        let seconds = |us: &AtomicU64| us.load(Ordering::Relaxed) as f64 / 1e6;
        write!(
            f,
            "of them {} for changing files and {} pipelined), {:.1} GB checked, slow {}, too slow {} cut, rude {}, flood {} \
             names ({} refused), kept connections closed {}, longest wait {:.2} s, oldest answer {:.2} s",
            self.of(Changing),
            self.of(Pipelined),
            self.bytes.load(Ordering::Relaxed) as f64 / 1e9,
            self.of(Slow),
            self.of(TooSlow),
            self.of(Rude),
            self.of(Flood),
            self.of(FloodRefused),
            self.of(KeptClosed),
            seconds(&self.longest_wait_us),
            seconds(&self.oldest_us),
        )?;
        match self.of(Admitted) {
            0 => {}
            admitted => write!(f, " ({admitted} older ones said their Age)")?,
        }
        write!(f, ", {}", self.disk)?;
        match self.of(Excused) {
            0 => Ok(()),
            excused => write!(f, " ({excused} × 503 while the disk stood still)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn violations_are_counted_by_kind_and_figures_are_shown() {
        let report = Report::new("amped", 7);
        for _ in 0..7 {
            report.violation(Fault::Cut, "one of seven");
        }
        report.violation(Fault::TooOld, "one");
        assert_eq!(report.violations(), BTreeMap::from([(Fault::Cut, 7), (Fault::TooOld, 1)]));
        report.count(Kind::Whole);
        report.count_many(Kind::Flood, 9);
        report.aged(Duration::from_millis(1500));
        report.aged(Duration::from_millis(200));
        let line = report.to_string();
        assert!(line.starts_with("1 requests (GET 1, HEAD 0, "), "{line}");
        assert!(
            line.contains("flood 9 names") && line.contains("oldest answer 1.50 s, slowest of 0 "),
            "{line}"
        );
        report.count(Kind::Excused);
        assert!(report.to_string().ends_with("(1 × 503 while the disk stood still)"), "{report}");
    }
}
