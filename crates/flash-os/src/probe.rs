//! Tries the calls that a kernel or container may lack.

use crate::system;
use crate::system_calls::{self, Calls};

/// The first call that is refused here and has nothing in its place.
pub fn refused() -> Option<&'static str> {
    system::probe::refused()
}

/// Tries each call that is allowed; from now on those that do not work are not used. For the start of a process.
pub fn run(allowed: Calls) {
    system_calls::set(|call| allowed.contains(call) && system::probe::is_present(call));
}
