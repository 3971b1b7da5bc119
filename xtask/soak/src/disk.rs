//! How long the disk itself takes, asked beside the server: one block of a file every 100 ms, past the page cache. While
//! the disk stands still, a server may refuse what it would have to read; at any other time it may not.

use std::collections::VecDeque;
use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fastrand::Rng;
use rustix::fs::OFlags;

pub(crate) const READ_EVERY: Duration = Duration::from_millis(100);
/// Large enough for the alignment that every disk asks of direct reads.
const BLOCK_BYTES: usize = 4096;
/// A read that takes longer is a stall.
const STALL_MIN: Duration = Duration::from_secs(1);
/// `--disk-deadline`.
const DEADLINE: Duration = Duration::from_secs(10);
/// A disk that stood still for this much of a deadline excuses a 503. The server's reads can be later than ours.
const STALLED_MIN: Duration = Duration::from_secs(5);
/// Between the end of a stall and the server's first answer that shows it.
const SLACK: Duration = Duration::from_secs(1);
/// Stalls that are remembered.
const STALLS_MAX: usize = 64;

/// What the direct reads of one run found.
#[derive(Default)]
pub(crate) struct DiskWatch(Mutex<Reads>);

#[derive(Default)]
struct Reads {
    under_way: Option<Instant>,
    /// From when to when.
    stalls: VecDeque<(Instant, Instant)>,
    count: u64,
    longest: Duration,
}

/// A file whose blocks are read past the page cache.
pub(crate) struct Probe {
    file: File,
    blocks: u64,
    buffer: Vec<u8>,
}

impl Probe {
    /// # Errors
    /// When the file is not there, or lies where nothing is read past the page cache.
    pub(crate) fn open(file: &Path) -> io::Result<Probe> {
        let direct = OFlags::DIRECT.bits().cast_signed();
        let file = File::options().read(true).custom_flags(direct).open(file)?;
        let blocks = (file.metadata()?.len() / BLOCK_BYTES as u64).max(1);
        Ok(Probe { file, blocks, buffer: vec![0; 2 * BLOCK_BYTES] })
    }

    /// Reads any block, and notes how long that takes.
    pub(crate) fn read(&mut self, rng: &mut Rng, watch: &DiskWatch) -> io::Result<()> {
        let start = self.buffer.as_ptr().align_offset(BLOCK_BYTES);
        let block = &mut self.buffer[start..start + BLOCK_BYTES];
        let at = rng.u64(0..self.blocks) * BLOCK_BYTES as u64;
        watch.begin(Instant::now());
        let read = self.file.read_at(block, at);
        watch.end(Instant::now());
        read.map(drop)
    }
}

impl DiskWatch {
    fn begin(&self, now: Instant) {
        self.reads().under_way = Some(now);
    }

    fn end(&self, now: Instant) {
        let mut reads = self.reads();
        let Some(begun) = reads.under_way.take() else { return };
        let took = now - begun;
        reads.count += 1;
        reads.longest = reads.longest.max(took);
        if took >= STALL_MIN {
            if reads.stalls.len() == STALLS_MAX {
                reads.stalls.pop_front();
            }
            reads.stalls.push_back((begun, now));
        }
    }

    /// Whether the disk stood still when the server refused a request that was sent at `asked`. It must have done so shortly
    /// before or meanwhile, and for half of the last deadline.
    pub(crate) fn excuses(&self, asked: Instant, refused: Instant) -> bool {
        let reads = self.reads();
        let under_way = reads.under_way.map(|begun| (begun, refused));
        let under_way = under_way.filter(|&(begun, now)| now.saturating_duration_since(begun) >= STALL_MIN);
        let stalls = reads.stalls.iter().copied().chain(under_way);
        // The times of stalls do not overlap.
        let stalled: Duration = stalls
            .clone()
            .map(|(begun, ended)| {
                let end = ended.min(refused);
                let left_out = (refused - DEADLINE).saturating_duration_since(begun);
                end.saturating_duration_since(begun).saturating_sub(left_out)
            })
            .sum();
        stalled >= STALLED_MIN && stalls.into_iter().any(|(_, ended)| ended + SLACK >= asked)
    }

    fn reads(&self) -> MutexGuard<'_, Reads> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `slowest of 600 direct reads 0.02 s`
impl fmt::Display for DiskWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reads = self.reads();
        write!(f, "slowest of {} direct reads {:.2} s", reads.count, reads.longest.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads from a second to another, counted from the first moment.
    fn watch(reads: &[(f64, f64)]) -> (DiskWatch, impl Fn(f64) -> Instant) {
        let start = Instant::now();
        // Far enough from the first moment that a clock has.
        let at = move |seconds: f64| start + DEADLINE + Duration::from_secs_f64(seconds);
        let watch = DiskWatch::default();
        for &(begun, ended) in reads {
            watch.begin(at(begun));
            watch.end(at(ended));
        }
        (watch, at)
    }

    #[test]
    fn only_a_disk_that_stands_still_excuses_a_refusal() {
        let (quick, at) =
            watch(&[(0.0, 0.1), (0.2, 1.1), (1.2, 2.1), (2.2, 3.1), (3.2, 4.1), (4.2, 5.1), (5.2, 6.1)]);
        assert!(!quick.excuses(at(0.0), at(6.0)), "it is slow, but answers");
        let (stalled, at) = watch(&[(0.0, 0.1), (1.0, 12.0), (12.1, 12.2)]);
        let excuses = |asked, refused| stalled.excuses(at(asked), at(refused));
        assert!(excuses(0.5, 10.6), "it waited for its deadline");
        assert!(excuses(7.0, 7.0), "the server knew by then");
        assert!(!excuses(4.0, 4.0), "too early");
        assert!(excuses(12.9, 13.0) && !excuses(13.1, 13.1), "the disk answers again");
        assert!(!excuses(40.0, 50.0) && !excuses(0.0, 0.9));
        assert_eq!(stalled.to_string(), "slowest of 3 direct reads 11.00 s");
    }

    #[test]
    fn several_stalls_add_up_and_one_under_way_counts() {
        let (several, at) = watch(&[(0.0, 2.0), (2.1, 4.1), (4.2, 6.0)]);
        assert!(several.excuses(at(0.0), at(6.1)));
        assert!(!several.excuses(at(0.0), at(14.0)), "less than half of its last deadline");
        let (hangs, at) = watch(&[(0.0, 0.1)]);
        hangs.begin(at(1.0));
        assert!(!hangs.excuses(at(5.0), at(5.5)) && hangs.excuses(at(5.0), at(6.5)));
    }

    #[test]
    fn a_file_on_a_disk_is_read_past_the_page_cache() {
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("a folder on a disk");
        let file = folder.path().join("blocks");
        std::fs::write(&file, vec![1; 8 * BLOCK_BYTES]).expect("a file");
        let mut probe = match Probe::open(&file) {
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                return eprintln!("NOT TESTED, no direct reads here: {error}");
            }
            probe => probe.expect("it is there"),
        };
        let (watch, mut rng) = (DiskWatch::default(), Rng::with_seed(1));
        for _ in 0..20 {
            probe.read(&mut rng, &watch).expect("it can be read");
        }
        assert_eq!(watch.reads().count, 20);
        assert!(probe.buffer.iter().filter(|&&byte| byte == 1).count() == BLOCK_BYTES);
    }
}
