//! The rights that changes of the machine take.

use anyhow::{Result, bail};
use rustix::process::geteuid;

/// Said first, for the kernel only speaks of a file that may not be written.
pub(crate) fn need_root(what: &str) -> Result<()> {
    if !geteuid().is_root() {
        bail!("{what} needs root");
    }
    Ok(())
}
