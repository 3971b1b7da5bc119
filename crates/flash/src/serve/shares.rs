//! The size of each part of the server if no flag sets it: a share of the machine's or cgroup's memory, up to a maximum.
//!
//! All of them together, and the process itself, fit into the memory of a small container. A quarter of the memory is for the
//! file cache, and up to a quarter as much again for files in responses. An eighth is for responses of programs. Threads of mt
//! may take a quarter, and helpers a thirty-second part. Listings may use a quarter of the file cache's size.

use crate::failure::Failure;
use crate::flags;

const FILE_CACHE_BYTES_MAX: u64 = 128 << 20;
const PATHS_MIN: usize = 6_000;
/// The part of the file cache for each path. A path without content takes less than an eighth of that,
/// and its counters take 16 bytes from the start.
const PATH_BYTES: u64 = 8 << 10;
/// Files that the cache holds open, so that connections have the most descriptors. Small files need none once they have a copy.
const OPEN_FILES_MAX: u64 = 6_000;
/// The memory of a machine for each of them. The kernel holds less than two KiB for it.
const OPEN_FILE_BYTES: u64 = 32 << 10;
const PROGRAM_BUFFER_BYTES_MAX: u64 = 64 << 20;
/// 200,000 names of 15 bytes, in order of their sizes.
const LISTINGS_BYTES_LEAST: u64 = 8 << 20;
const THREADS: usize = 64;
const THREADS_MAX: u64 = 4096;
const PROCESSES: u64 = 32;
const PROCESSES_MAX: u64 = 512;
/// The memory of a machine for each thread or process. A busy thread of mt holds a quarter of a mebibyte. A process of mp holds one,
/// and its part of the caches.
const THREAD_BYTES: u64 = 1 << 20;
const PROCESS_BYTES: u64 = 4 << 20;
const HELPERS_MAX: u64 = 64;
/// The memory of a machine for each helper. A busy one holds a quarter of a mebibyte, which other files could use. docs/decisions/disk.md
/// has the measurement.
const HELPER_BYTES: u64 = 8 << 20;
/// See [`Shares::cache_is_large`].
const LARGE_PART: u64 = 16;

/// No architecture begins with more workers than it may have.
pub(super) fn check_counts(flags: &flags::Serve) -> Result<(), Failure> {
    let counts = [
        ("--threads", flags.threads, flags.threads_max),
        ("--processes", flags.processes, flags.processes_max),
    ];
    for (flag, count, max) in counts {
        if let (Some(count), Some(max)) = (count, max)
            && count > max
        {
            let text = format!("{flag} {count} is more than {flag}-max {max} (see flash serve --help)");
            return Err(Failure::Usage(text));
        }
    }
    Ok(())
}

/// The helpers of a device, with so much memory, or of any amount if it is not known.
pub(super) fn helpers_max(memory_bytes: Option<u64>) -> usize {
    (memory_bytes.unwrap_or(u64::MAX) / HELPER_BYTES).clamp(1, HELPERS_MAX) as usize
}

/// Sizes that depend on the memory there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shares {
    pub(super) file_cache_bytes: u64,
    /// Entries of the path cache, and those that may hold a file open.
    pub(super) paths: usize,
    pub(super) open_files: usize,
    pub(super) program_buffer_bytes: u64,
    pub(super) helpers_max: usize,
    /// Threads of mt: at the start, and at most.
    pub(super) threads: usize,
    pub(super) threads_max: usize,
    /// Processes of mp: at the start, and at most.
    pub(super) processes: usize,
    pub(super) processes_max: usize,
    /// The memory there is.
    pub(super) memory_bytes: u64,
}

impl Shares {
    /// What the flags say, and elsewhere a share of so much memory; of any amount where it is not known.
    pub(super) fn new(flags: &flags::Serve, memory_bytes: Option<u64>) -> Self {
        let memory = memory_bytes.unwrap_or(u64::MAX);
        let count = |bytes_each: u64, most: u64| (memory / bytes_each).clamp(1, most) as usize;
        let threads = flags.threads.unwrap_or(THREADS);
        let usual_max = || count(THREAD_BYTES, THREADS_MAX).max(flags.threads.unwrap_or(1));
        let threads_max = flags.threads_max.unwrap_or_else(usual_max);
        let processes = flags.processes.unwrap_or_else(|| count(PROCESS_BYTES, PROCESSES));
        let usual_max = || count(PROCESS_BYTES, PROCESSES_MAX).max(processes);
        let processes_max = flags.processes_max.unwrap_or_else(usual_max);
        let file_cache_bytes = flags.file_cache_bytes.unwrap_or((memory / 4).min(FILE_CACHE_BYTES_MAX));
        let paths =
            flags.path_cache.unwrap_or_else(|| PATHS_MIN.max((file_cache_bytes / PATH_BYTES) as usize));
        Self {
            file_cache_bytes,
            paths,
            open_files: flags.path_cache.unwrap_or_else(|| count(OPEN_FILE_BYTES, OPEN_FILES_MAX)),
            program_buffer_bytes: flags
                .programs
                .program_buffer_bytes
                .unwrap_or((memory / 8).min(PROGRAM_BUFFER_BYTES_MAX)),
            helpers_max: flags.helpers_max.unwrap_or_else(|| helpers_max(memory_bytes)),
            threads: threads.min(threads_max),
            threads_max,
            processes: processes.min(processes_max),
            processes_max,
            memory_bytes: memory,
        }
    }

    /// Whether a file cache of this size is a large part of the memory there is. Second copies in the page cache would then
    /// take the place of other files.
    pub(super) fn cache_is_large(&self, bytes: u64) -> bool {
        bytes >= self.memory_bytes / LARGE_PART
    }

    /// The memory for listings of each of so many processes. It is a quarter of the file cache, but at least the size of the
    /// names of a huge folder.
    pub(super) fn listings_bytes(&self, processes: usize) -> u64 {
        let processes = processes as u64;
        let least = (self.memory_bytes / 8 / processes).min(LISTINGS_BYTES_LEAST);
        (self.file_cache_bytes / 4 / processes).max(least)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::{Command, Flags};

    fn shares(words: &[&str], mebibytes: Option<u64>) -> Shares {
        let words = ["flash", "serve"].iter().chain(words).map(Into::into);
        match Flags::read(words).expect("the flags are right").command {
            Some(Command::Serve(flags)) => Shares::new(&flags, mebibytes.map(|mebibytes| mebibytes << 20)),
            other => panic!("{other:?}"),
        }
    }

    fn shown(shares: Shares) -> (u64, u64, usize, usize) {
        let Shares { file_cache_bytes, program_buffer_bytes, helpers_max, processes, .. } = shares;
        (file_cache_bytes >> 20, program_buffer_bytes >> 20, helpers_max, processes)
    }

    #[test]
    fn a_large_machine_and_one_that_does_not_say_have_the_same() {
        for memory in [None, Some(512), Some(100_000)] {
            assert_eq!(shown(shares(&[], memory)), (128, 64, 64, 32), "{memory:?}");
        }
    }

    #[test]
    fn a_small_one_has_shares() {
        assert_eq!(shown(shares(&[], Some(128))), (32, 16, 16, 32));
        assert_eq!(shown(shares(&[], Some(64))), (16, 8, 8, 16));
        assert_eq!(shown(shares(&[], Some(1))), (0, 0, 1, 1), "there is always one");
    }

    #[test]
    fn paths_follow_the_file_cache_and_open_files_the_memory() {
        let files = |words: &[&str], memory| {
            let Shares { paths, open_files, .. } = shares(words, memory);
            (paths, open_files)
        };
        assert_eq!(files(&[], None), (16_384, 6_000));
        assert_eq!(files(&[], Some(512)), (16_384, 6_000));
        assert_eq!(files(&[], Some(128)), (6_000, 4_096));
        assert_eq!(files(&["--file-cache-bytes=0"], None), (6_000, 6_000));
        assert_eq!(files(&["--path-cache=10"], None), (10, 10));
        assert_eq!(files(&["--path-cache=0"], None), (0, 0));
    }

    #[test]
    fn threads_begin_few_and_grow_as_far_as_there_is_memory() {
        let threads = |words: &[&str], mebibytes| {
            let Shares { threads, threads_max, .. } = shares(words, mebibytes);
            (threads, threads_max)
        };
        assert_eq!((threads(&[], None), threads(&[], Some(64))), ((64, 4096), (64, 64)));
        assert_eq!(threads(&[], Some(512)), (64, 512));
        assert_eq!(threads(&[], Some(4)), (4, 4), "no more at the start than at most");
        assert_eq!(threads(&["--threads-max=8"], None), (8, 8));
        assert_eq!(threads(&["--threads=600"], Some(64)), (600, 600), "what is asked for is given");
        assert_eq!(threads(&["--threads=4", "--threads-max=9000"], Some(64)), (4, 9000));
    }

    #[test]
    fn no_more_begin_than_there_may_be() {
        let complaint = |words: &[&str]| {
            let words = ["flash", "serve"].iter().chain(words).map(Into::into);
            match Flags::read(words).expect("each flag is right").command {
                Some(Command::Serve(flags)) => check_counts(&flags).err().map(|failure| failure.to_string()),
                other => panic!("{other:?}"),
            }
        };
        let wrong = complaint(&["--threads=9", "--threads-max=8"]).expect("a complaint");
        assert!(wrong.contains("--threads 9 is more than --threads-max 8"), "{wrong}");
        for words in [&["--threads=8", "--threads-max=8"][..], &["--threads-max=8"], &["--threads=9000"]] {
            assert_eq!(complaint(words), None);
        }
    }

    #[test]
    fn listings_have_a_part_of_the_file_cache_and_enough_for_one() {
        let mebibytes = |words: &[&str], memory, processes| {
            shares(words, memory).listings_bytes(processes) as f64 / f64::from(1 << 20)
        };
        assert_eq!(mebibytes(&[], None, 1), 32.0);
        assert_eq!(mebibytes(&[], Some(128), 1), 8.0);
        assert_eq!(mebibytes(&["--file-cache-bytes=0"], None, 1), 8.0);
        assert_eq!(mebibytes(&["--file-cache-bytes=1G"], None, 1), 256.0);
        assert_eq!(mebibytes(&[], Some(32), 1), 4.0);
        assert_eq!(mebibytes(&[], None, 32), 8.0, "each for itself");
        assert_eq!(mebibytes(&[], Some(64), 16), 0.5);
    }

    #[test]
    fn what_is_asked_for_is_given() {
        let words =
            ["--file-cache-bytes=1G", "--program-buffer-bytes=0", "--helpers-max=500", "--processes=100"];
        assert_eq!(shown(shares(&words, Some(64))), (1024, 0, 500, 100));
    }
}
