//! What a disk takes for a read, past all caches of this machine. Those of a disk that is a file on another machine are
//! beyond our reach.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use flash_traffic::content::Content;
use flash_traffic::sample::generator;
use rand::RngExt;
use rustix::fs::OFlags;

use super::effort::Effort;
use super::rounds::Rounds;

const FILE_BYTES: u64 = 256 << 20;
/// Enough for a disk that has no cache of its own.
const SMALL_FILE_BYTES: u64 = 64 << 20;
pub(crate) const SMALL_BYTES: u64 = 4 << 10;
pub(crate) const LARGE_BYTES: u64 = 1 << 20;
const SMALL_READS: u32 = 400;
const LARGE_READS: u32 = 30;
/// Readers at once, and how long they read.
pub(crate) const READERS: u64 = 16;
const CROWDED: Duration = Duration::from_millis(300);
/// What direct reads are aligned to, on any disk.
const ALIGNED: usize = 4096;

/// One reader alone, in microseconds a read; and many, in reads a second.
#[derive(Clone, Debug, Default)]
pub(crate) struct DiskTimes {
    pub small_us: Rounds,
    pub large_us: Rounds,
    pub crowded_per_s: Rounds,
}

/// Reads at random from a file that is made in the folder.
pub(crate) fn measure(folder: &Path, effort: Effort) -> Result<DiskTimes> {
    let path = make(folder, FILE_BYTES)?;
    let times = read(&path, effort)?;
    fs::remove_file(&path)?;
    Ok(times)
}

/// Makes a smaller file, which will be [read] elsewhere.
pub(crate) fn make_small(folder: &Path) -> Result<PathBuf> {
    make(folder, SMALL_FILE_BYTES)
}

/// Reads at random from a file.
pub(crate) fn read(path: &Path, effort: Effort) -> Result<DiskTimes> {
    let mut times = DiskTimes::default();
    for round in 0..effort.rounds {
        times.small_us.add(alone(path, round, SMALL_BYTES, SMALL_READS)?);
        times.large_us.add(alone(path, round, LARGE_BYTES, LARGE_READS)?);
        times.crowded_per_s.add(crowded(path, round)?);
    }
    Ok(times)
}

fn make(folder: &Path, bytes: u64) -> Result<PathBuf> {
    let path = folder.join("disk");
    write(&path, bytes).with_context(|| path.display().to_string())?;
    Ok(path)
}

fn write(path: &Path, bytes: u64) -> Result<()> {
    let mut file = File::create(path)?;
    let content = Content::new(1, "disk");
    let mut piece = vec![0; LARGE_BYTES as usize];
    for offset in (0..bytes).step_by(piece.len()) {
        content.fill(offset, &mut piece);
        file.write_all(&piece)?;
    }
    Ok(file.sync_all()?)
}

/// Microseconds for a read, the mean of so many.
fn alone(path: &Path, round: u64, bytes: u64, reads: u32) -> Result<f64> {
    let mut reader = Reader::open(path, round, bytes)?;
    let begun = Instant::now();
    for _ in 0..reads {
        reader.read()?;
    }
    Ok(begun.elapsed().as_secs_f64() * 1e6 / f64::from(reads))
}

/// Reads a second of all readers together.
fn crowded(path: &Path, round: u64) -> Result<f64> {
    let begun = Instant::now();
    let work = |number| -> Result<u64> {
        let mut reader = Reader::open(path, round * READERS + number, SMALL_BYTES)?;
        let mut reads = 0;
        while begun.elapsed() < CROWDED {
            reader.read()?;
            reads += 1;
        }
        Ok(reads)
    };
    let reads = thread::scope(|scope| {
        let readers: Vec<_> = (0..READERS).map(|number| scope.spawn(move || work(number))).collect();
        readers.into_iter().map(|reader| reader.join().expect("readers do not panic")).sum::<Result<u64>>()
    })?;
    Ok(reads as f64 / begun.elapsed().as_secs_f64())
}

/// Reads pieces of a file, here and there, without the page cache.
struct Reader {
    file: File,
    file_bytes: u64,
    bytes: u64,
    buffer: Vec<u8>,
    random: flash_traffic::sample::Generator,
}

impl Reader {
    fn open(path: &Path, seed: u64, bytes: u64) -> Result<Reader> {
        let direct = OFlags::DIRECT.bits() as i32;
        let file = OpenOptions::new().read(true).custom_flags(direct).open(path);
        let file = file.with_context(|| format!("{}: reading past the page cache", path.display()))?;
        let buffer = vec![0; bytes as usize + ALIGNED];
        let file_bytes = file.metadata()?.len();
        Ok(Reader { file, file_bytes, bytes, buffer, random: generator(seed, bytes) })
    }

    fn read(&mut self) -> Result<()> {
        let place = self.random.random_range(0..self.file_bytes / self.bytes) * self.bytes;
        let start = self.buffer.as_ptr().align_offset(ALIGNED);
        let buffer = &mut self.buffer[start..start + self.bytes as usize];
        self.file.read_exact_at(buffer, place).context("reading from the disk")
    }
}
