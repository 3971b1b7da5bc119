//! The system's list of mounts.

use std::io::{self, PipeReader};

use crate::system;

/// One mount, as the system describes it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MountInfo {
    /// What [`crate::file_stat`] tells of the files on it.
    pub id: u64,
    /// The mount that this one is mounted upon.
    pub parent: u64,
    /// The filesystem's own number, the same for all its mounts. On btrfs and overlay `stat` has others for some files.
    pub major: u32,
    pub minor: u32,
    /// Absolute, without symbolic links.
    pub point: Vec<u8>,
    pub kind: Vec<u8>,
    /// The filesystem's own options, such as the layers of an overlay.
    pub options: Vec<u8>,
}

/// The list, held open: a sandbox may not let it be opened again. To read it never waits for a filesystem.
#[derive(Debug)]
pub struct MountList(system::mounts::List);

impl MountList {
    /// The mounts that this thread and its children can see. `None` if nobody tells: then nothing is known of any.
    pub fn open() -> Option<Self> {
        system::mounts::List::open().map(Self)
    }

    /// # Errors
    /// If the system cannot make the list.
    pub fn read(&mut self) -> io::Result<Vec<MountInfo>> {
        self.0.read()
    }

    /// Waits until the list has changed since it was read. False if the other end of the pipe was closed before.
    pub fn wait(&self, over: &PipeReader) -> bool {
        self.0.wait(over)
    }
}
