//! How much of a file is in the page cache, asked of the file itself: no mapping, and no read.
//!
//! Pages that are still being read count; where that matters, see [`crate::residency`].

use std::io;
use std::ops::Range;
use std::os::fd::AsFd;

#[cfg(target_os = "linux")]
pub use crate::linux::cachestat::SYS_CACHESTAT;
use crate::{page, system};

/// Whether every page of `range` is in the cache. An error where the kernel does not say: before Linux 6.5, and to those
/// who neither own the file nor may write it.
pub fn holds(file: impl AsFd, range: Range<u64>) -> io::Result<bool> {
    if range.is_empty() {
        return Ok(true);
    }
    Ok(system::cachestat::cached(file, &range)? >= pages(&range, page::bytes()))
}

fn pages(range: &Range<u64>, page_bytes: u64) -> u64 {
    range.end.div_ceil(page_bytes) - range.start / page_bytes
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

    use super::*;

    #[test]
    fn a_range_touches_all_pages_that_it_has_a_byte_of() {
        for (page_bytes, expected) in [(4096, 3), (16_384, 2), (65_536, 1)] {
            assert_eq!(pages(&(12_287..20_000), page_bytes), expected, "{page_bytes}");
            assert_eq!(pages(&(page_bytes..2 * page_bytes), page_bytes), 1);
            assert_eq!(pages(&(page_bytes - 1..page_bytes + 1), page_bytes), 2);
        }
    }

    #[test]
    fn what_was_read_is_held_and_what_was_evicted_is_not() {
        // Not on a filesystem that lives in memory.
        let folder = std::env::current_dir().unwrap().join(format!("cachestat-{}", std::process::id()));
        fs::write(&folder, [1; 10_000]).unwrap();
        let file = File::open(&folder).unwrap();
        match holds(&file, 0..10_000) {
            Err(error) => eprintln!("NOT TESTED, this kernel does not tell what is cached: {error}"),
            Ok(held) => {
                assert!(held);
                assert!(holds(&file, 5..5).unwrap());
                crate::residency::evict(&file).unwrap();
                assert!(!holds(&file, 9_999..10_000).unwrap());
            }
        }
        fs::remove_file(folder).unwrap();
    }
}
