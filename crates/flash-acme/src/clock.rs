//! The time, as files and certificates have it.

use std::time::SystemTime;

/// Tells the seconds since 1970.
pub type Clock<'a> = &'a (dyn Fn() -> u64 + Sync);

/// What the system's clock says.
pub fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
