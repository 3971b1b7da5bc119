//! Filesystems for experiments: an image on a loop device, a disk of any speed, and an image on such a disk.
//! All of them are read-only, and all go when they are dropped, whatever hangs.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use flash_slowdisk::{SlowDisk, SlowImage};
use rustix::mount::{MountFlags, mount};

use crate::journal::{Change, Journal};
use crate::undo::{self, Undo, run};

/// Makes an ext4 image that holds what is in a folder, with room for as many small files as fit. An image is made
/// once and mounted often.
///
/// # Errors
/// When it is too small, or there is no `mke2fs`.
pub fn make_image(folder: &Path, image: &Path, mebibytes: u32) -> Result<()> {
    // Without a journal there is nothing to replay, and nothing that waits but reads.
    let options =
        ["-q", "-F", "-t", "ext4", "-b", "4096", "-i", "4096", "-m", "0", "-O", "^has_journal", "-d"];
    let mut command = Command::new(tool("mke2fs")?);
    command.args(options).arg(folder).arg(image).arg(format!("{mebibytes}M"));
    run(&mut command).map(drop).with_context(|| format!("making the image {}", image.display()))
}

/// A mounted image. Its loop device has a read-ahead and limits of its own: `Disk::below` the mountpoint.
pub struct Image {
    mountpoint: PathBuf,
    // Dropped in this order: unmounted, then detached.
    _mounted: Change,
    _attached: Change,
}

impl Image {
    pub(crate) fn mount(journal: &Arc<Journal>, image: &Path, mountpoint: &Path) -> Result<Image> {
        let mountpoint = free(mountpoint)?;
        let image = image.canonicalize().with_context(|| format!("the image {}", image.display()))?;
        if !undo::loops_on(&image)?.is_empty() {
            bail!("{} is on a loop device already", image.display());
        }
        let attached = journal.begin(Undo::DetachLoops { image: image.clone() })?;
        // Direct I/O, for a second copy of all pages, below the loop device, would make cold things warm.
        let attach = ["--find", "--show", "--read-only", "--direct-io=on"];
        let device = run(Command::new(tool("losetup")?).args(attach).arg(&image))?;
        let mounted = journal.begin(Undo::Unmount { mountpoint: mountpoint.clone() })?;
        mount(&*device, &mountpoint, "ext4", MountFlags::RDONLY, None)
            .with_context(|| format!("mounting {device} at {}", mountpoint.display()))?;
        Ok(Image { mountpoint, _mounted: mounted, _attached: attached })
    }

    pub fn mountpoint(&self) -> &Path {
        &self.mountpoint
    }
}

/// The slow layer between a folder and its readers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slow {
    /// The slow filesystem alone: a network mount.
    Network,
    /// An ext4 image of this size, with a copy of the folder, on a loop device on the slow filesystem. It behaves like a slow
    /// local disk, whose metadata is slow too.
    Local { mebibytes: u32 },
}

/// A folder behind a slow disk.
pub struct SlowMount {
    mounted: Mounted,
    _change: Change,
}

enum Mounted {
    Network(SlowDisk),
    Local(SlowImage),
}

impl SlowMount {
    pub(crate) fn mount(
        journal: &Arc<Journal>,
        folder: &Path,
        mountpoint: &Path,
        slow: Slow,
        rules: &str,
    ) -> Result<SlowMount> {
        let mountpoint = free(mountpoint)?;
        let change = journal.begin(Undo::Unmount { mountpoint: mountpoint.clone() })?;
        let mounted = match slow {
            Slow::Network => SlowDisk::mount(folder, &mountpoint, rules).map(Mounted::Network),
            Slow::Local { mebibytes } => {
                SlowImage::mount(folder, &mountpoint, mebibytes, rules).map(Mounted::Local)
            }
        };
        let mounted = mounted.context("mounting a slow disk")?;
        Ok(SlowMount { mounted, _change: change })
    }

    /// The disk itself: what it counts, and new rules (`read delay exp:8ms`, `concurrent 4`) for it.
    pub fn disk(&self) -> &SlowDisk {
        match &self.mounted {
            Mounted::Network(disk) => disk,
            Mounted::Local(image) => image.disk(),
        }
    }

    pub fn mountpoint(&self) -> &Path {
        match &self.mounted {
            Mounted::Network(disk) => disk.mountpoint(),
            Mounted::Local(image) => image.mountpoint(),
        }
    }
}

/// What is mounted at a mountpoint will be unmounted, so nothing may be there yet.
fn free(mountpoint: &Path) -> Result<PathBuf> {
    let mountpoint =
        mountpoint.canonicalize().with_context(|| format!("the mountpoint {}", mountpoint.display()))?;
    if undo::is_mountpoint(&mountpoint)? {
        bail!("something is mounted at {} already", mountpoint.display());
    }
    Ok(mountpoint)
}

fn tool(name: &'static str) -> Result<PathBuf> {
    Ok(flash_system::find(name)?)
}
