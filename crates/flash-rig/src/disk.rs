//! The disk below a folder, its read-ahead, and the caches above it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use rustix::fs::{Advice, fadvise, major, minor, stat, sync};

use crate::journal::{Change, Journal};
use crate::rights::need_root;
use crate::undo::Undo;

/// The disk below a folder.
#[derive(Clone, Debug)]
pub struct Disk {
    /// `8:0`
    pub device: String,
    /// In `/sys`.
    block: PathBuf,
}

impl Disk {
    /// # Errors
    /// When the folder is on no disk, but in memory or on the network.
    pub fn below(folder: &Path) -> Result<Disk> {
        let device = stat(folder).with_context(|| format!("looking at {}", folder.display()))?.st_dev;
        let device = format!("{}:{}", major(device), minor(device));
        let link = PathBuf::from(format!("/sys/dev/block/{device}"));
        let mut block =
            fs::canonicalize(&link).with_context(|| format!("{} is on no disk", folder.display()))?;
        if block.join("partition").exists() {
            // Limits and read-ahead belong to the disk, not to its partition.
            block.pop();
        }
        let device = fs::read_to_string(block.join("dev"))?.trim().to_owned();
        Ok(Disk { device, block })
    }

    /// `vda`
    pub fn name(&self) -> String {
        self.block.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// A file of the queue's folder: `scheduler`, `rotational`.
    pub(crate) fn queue(&self, file: &str) -> Option<String> {
        let text = fs::read_to_string(self.block.join("queue").join(file)).ok()?;
        Some(text.trim().to_owned())
    }

    /// # Errors
    /// When the kernel does not say.
    pub fn read_ahead_kilobytes(&self) -> Result<u32> {
        let text = self.queue("read_ahead_kb").context("the disk does not report its read-ahead")?;
        text.parse().with_context(|| format!("a read-ahead of {text}"))
    }
}

/// A changed read-ahead; dropping it puts the old one back.
pub struct ReadAhead {
    _change: Change,
}

impl ReadAhead {
    pub(crate) fn set(journal: &Arc<Journal>, disk: &Disk, kilobytes: u32) -> Result<ReadAhead> {
        let file = disk.block.join("queue/read_ahead_kb");
        let value = disk.read_ahead_kilobytes()?.to_string();
        let change = journal.begin(Undo::Write { file: file.clone(), value })?;
        fs::write(&file, kilobytes.to_string())
            .with_context(|| format!("setting the read-ahead: writing {}", file.display()))?;
        Ok(ReadAhead { _change: change })
    }
}

/// Empties the page, dentry and inode caches. A page counts against the group that first touched it, so a
/// server's limit would not feel files that others have read.
///
/// # Errors
/// Without root.
pub fn empty_caches() -> Result<()> {
    need_root("emptying the caches")?;
    sync();
    fs::write("/proc/sys/vm/drop_caches", "3").context("emptying the page cache")
}

/// Drops the cached pages of all files of a folder, which takes no root. Their names stay cached.
///
/// # Errors
/// When a file cannot be opened.
pub fn drop_pages(folder: &Path) -> Result<()> {
    // A page that is not written yet cannot be dropped.
    sync();
    drop_pages_below(folder)
}

fn drop_pages_below(folder: &Path) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))? {
        let entry = entry?;
        let (path, kind) = (entry.path(), entry.file_type()?);
        if kind.is_dir() {
            drop_pages_below(&path)?;
        } else if kind.is_file() {
            let file = fs::File::open(&path).with_context(|| format!("opening {}", path.display()))?;
            fadvise(&file, 0, None, Advice::DontNeed)
                .with_context(|| format!("dropping the pages of {}", path.display()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How much of a file is in memory, in pages.
    fn cached(path: &Path) -> String {
        let words = ["--bytes", "--noheadings", "--output", "RES"];
        crate::undo::run(std::process::Command::new("fincore").args(words).arg(path)).expect("fincore says")
    }

    #[test]
    fn pages_of_files_are_dropped_without_root() {
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("a folder on a disk");
        let below = folder.path().join("below");
        fs::create_dir(&below).expect("a folder");
        let file = below.join("file");
        fs::write(&file, vec![b'x'; 1 << 20]).expect("a file");
        assert_eq!(cached(&file).trim(), (1 << 20).to_string());
        drop_pages(folder.path()).expect("they are our own");
        assert_eq!(cached(&file).trim(), "0");
    }
}
