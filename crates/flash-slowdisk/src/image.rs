//! A slow local disk: an ext4 image in a folder that a [`SlowDisk`] shows, on a loop device, mounted. Names, inodes
//! and pages of its files come from that disk when they are cold, and from the kernel's caches when they are warm.
//!
//! Every layer is read-only. Tests only read a site, and the slow disk below refuses writes. The image has no journal, so no
//! waits for a journal mix with the waits of a test. It does not even need `noload`.
//!
//! The loop device reads by direct I/O. Through the page cache it would keep a second copy of everything, which makes cold
//! files warm. Also, one kernel thread would then read block after block. The disk would do one operation at a time, whatever
//! its rules say.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use tempfile::TempDir;

use crate::cleanup::Cleanup;
use crate::slow_disk::{SlowDisk, about, demand, read_rules};

/// A mounted image on a slow disk. It unmounts when it is dropped, whatever hangs.
pub struct SlowImage {
    mountpoint: PathBuf,
    /// The filesystem's number, by which it is known to be there.
    device: u64,
    // Dropped in this order: the disk goes before the folder in which it lies.
    disk: SlowDisk,
    _cleanup: Cleanup,
    _folder: TempDir,
}

impl SlowImage {
    /// Copies a folder into an image of this size and mounts that. The rules are about the one file `/disk.img`.
    ///
    /// # Errors
    /// Those of [`SlowDisk::mount`], and when the image is too small, or `mke2fs` or `losetup` is not there.
    pub fn mount(folder: &Path, mountpoint: &Path, image_mib: u32, rules: &str) -> io::Result<SlowImage> {
        let image_bytes = Some(u64::from(image_mib) << 20);
        read_rules(rules, image_bytes)?;
        demand()?;
        let mountpoint = mountpoint.canonicalize().map_err(|error| about(mountpoint, error))?;
        let work = tempfile::Builder::new().prefix("flash-slowdisk-").tempdir()?;
        let (below, slow) = (work.path().join("below"), work.path().join("slow"));
        fs::create_dir(&below)?;
        fs::create_dir(&slow)?;
        let size = format!("{image_mib}M");
        // An inode for every block: as many small files as there is room for.
        let options = ["-q", "-t", "ext4", "-b", "4096", "-i", "4096", "-m", "0", "-O", "^has_journal", "-d"];
        let image = below.join("disk.img");
        let words = [folder.as_os_str(), image.as_os_str(), size.as_ref()];
        run(Command::new("mke2fs").args(options).args(words))?;

        let script = "umount -l \"$1\"; umount -l \"$2\"; rm -rf --one-file-system -- \"$3\"";
        let guard =
            Cleanup::new(script, &[mountpoint.as_os_str(), slow.as_os_str(), work.path().as_os_str()])?;
        // The rules wait until all is in place: a disk that hangs cannot be mounted.
        let disk = SlowDisk::with(&below, &slow, "", image_bytes)?;
        let attach = ["--find", "--show", "--read-only", "--direct-io=on"];
        let device = run(Command::new("losetup").args(attach).arg(slow.join("disk.img")))?;
        let mounted = mount(&*device, &mountpoint, "ext4", MountFlags::RDONLY, None);
        // A device that is detached while it is in use goes with its last user.
        let detached = run(Command::new("losetup").args(["--detach", &device]));
        mounted.map_err(|error| about(&mountpoint, error.into()))?;
        let device = mountpoint.metadata()?.dev();
        let image = SlowImage { mountpoint, device, disk, _cleanup: guard, _folder: work };
        detached?;
        image.disk.rule(rules)?;
        Ok(image)
    }

    /// The disk below: its rules and counters.
    pub fn disk(&self) -> &SlowDisk {
        &self.disk
    }

    pub fn mountpoint(&self) -> &Path {
        &self.mountpoint
    }

    /// False after another process has unmounted it.
    pub fn is_mounted(&self) -> bool {
        self.mountpoint.metadata().is_ok_and(|found| found.dev() == self.device)
    }
}

impl Drop for SlowImage {
    fn drop(&mut self) {
        // What is being read arrives, so that unmounting does not wait for it.
        self.disk.clear();
        if self.is_mounted() {
            let _ = unmount(&self.mountpoint, UnmountFlags::DETACH);
        }
    }
}

/// Runs a program, and returns the one line that it prints.
fn run(command: &mut Command) -> io::Result<String> {
    let name = command.get_program().display().to_string();
    let output = command.output().map_err(|error| about(name.as_ref(), error))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let words: Vec<&str> = said.split_whitespace().collect();
        return Err(io::Error::other(format!("{name}: {}", words.join(" "))));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().into())
}
