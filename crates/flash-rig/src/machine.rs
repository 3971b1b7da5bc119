//! The machine, held by one run at a time: whatever is changed on it goes through here, and is put back.
//!
//! A guard puts back when it is dropped, also after a panic or, where the caller's loops [`interrupt::check`], after
//! Ctrl-C. A process that is killed leaves the journal, and the next [`Machine::take`] does what it says.
//!
//! [`interrupt::check`]: crate::interrupt::check

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;

use crate::cgroup::{Cgroup, Limits};
use crate::disk::{Disk, ReadAhead};
use crate::journal::{self, Journal};
use crate::mounts::{Image, Slow, SlowMount};
use crate::rights::need_root;

/// The right to change this machine.
#[derive(Clone)]
pub struct Machine {
    pub(crate) journal: Arc<Journal>,
    restored: Arc<Vec<String>>,
}

impl Machine {
    /// Takes the machine, and first puts back what a killed run left, if anything: [`Machine::restored`].
    ///
    /// # Errors
    /// When another run holds it.
    pub fn take() -> Result<Machine> {
        Machine::take_with(&journal::folder())
    }

    /// The same with a journal elsewhere. Runs with different journals must not change the same things.
    ///
    /// # Errors
    /// As [`Machine::take`].
    pub fn take_with(journal: &Path) -> Result<Machine> {
        let (journal, restored) = Journal::take(journal)?;
        Ok(Machine { journal, restored: Arc::new(restored) })
    }

    /// What had to be put back after a killed run, a line each, also of what could not be. To be said.
    pub fn restored(&self) -> &[String] {
        &self.restored
    }

    /// A cgroup with limits. Those of reads are for one disk; memory alone needs none.
    ///
    /// # Errors
    /// Without root, or without cgroups for memory and io.
    pub fn group<'a>(&self, limits: &Limits, disk: impl Into<Option<&'a Disk>>) -> Result<Cgroup> {
        need_root("limiting a server")?;
        Cgroup::create(&self.journal, limits, disk.into())
    }

    /// Another read-ahead for a disk.
    ///
    /// # Errors
    /// Without root.
    pub fn read_ahead(&self, disk: &Disk, kilobytes: u32) -> Result<ReadAhead> {
        need_root("another read-ahead")?;
        ReadAhead::set(&self.journal, disk, kilobytes)
    }

    /// Mounts an image ([`make_image`](crate::make_image)) by a loop device.
    ///
    /// # Errors
    /// Without root or loop devices, or when something is mounted there.
    pub fn image(&self, image: &Path, mountpoint: &Path) -> Result<Image> {
        need_root("mounting an image")?;
        Image::mount(&self.journal, image, mountpoint)
    }

    /// Shows a folder through a slow disk, whose rules are those of [`flash_slowdisk`].
    ///
    /// # Errors
    /// Without root or FUSE, when something is mounted there, or a rule makes no sense.
    pub fn slow(&self, folder: &Path, mountpoint: &Path, slow: Slow, rules: &str) -> Result<SlowMount> {
        SlowMount::mount(&self.journal, folder, mountpoint, slow, rules)
    }
}
