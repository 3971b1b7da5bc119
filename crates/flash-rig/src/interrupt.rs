//! Ctrl-C as a flag. Loops look at it, return an error, and the guards on the way out end servers, remove
//! cgroups and put the disk's read-ahead back.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

static STOP: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Makes SIGINT, SIGTERM and SIGHUP set the flag.
pub fn register() -> Result<()> {
    let flag = STOP.get_or_init(Arc::default);
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, flag.clone())?;
    }
    Ok(())
}

/// An error after a signal to stop.
pub fn check() -> Result<()> {
    if STOP.get().is_some_and(|flag| flag.load(Ordering::Relaxed)) {
        bail!("interrupted");
    }
    Ok(())
}

/// Sleeps, but not past a Ctrl-C.
pub fn sleep(duration: Duration) -> Result<()> {
    let end = Instant::now() + duration;
    while let Some(left) = end.checked_duration_since(Instant::now()) {
        check()?;
        thread::sleep(left.min(Duration::from_millis(50)));
    }
    check()
}
