//! The system's page.

use std::sync::atomic::{AtomicU64, Ordering};

/// No machine that we know of has a smaller page.
pub const LEAST_BYTES: u64 = 4096;

/// The size of a page, a power of two.
pub fn bytes() -> u64 {
    static BYTES: AtomicU64 = AtomicU64::new(0);
    match BYTES.load(Ordering::Relaxed) {
        0 => {
            let bytes = (rustix::param::page_size() as u64).max(LEAST_BYTES);
            BYTES.store(bytes, Ordering::Relaxed);
            bytes
        }
        bytes => bytes,
    }
}
