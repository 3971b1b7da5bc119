//! The rights that changes of the machine take.

use anyhow::{Result, bail};
use rustix::process::geteuid;

/// Whether this process may change the machine.
pub fn is_root() -> bool {
    geteuid().is_root()
}

/// Said first, for the kernel only speaks of a file that may not be written.
pub(crate) fn need_root(what: &str) -> Result<()> {
    if !is_root() {
        bail!("{what} needs root");
    }
    Ok(())
}
