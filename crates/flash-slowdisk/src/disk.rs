//! What operations work on when their time has come: the folder, what the kernel knows of it, and what it has open.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fuser::{FileAttr, FileHandle, FopenFlags, INodeNo};
use parking_lot::Mutex;
use rustix::io::Errno;

use crate::folder::{self, Folder, Row};
use crate::nodes::Nodes;
use crate::rules::{Fault, Kind, Rules};

pub(crate) struct Disk {
    pub(crate) folder: Arc<Folder>,
    pub(crate) nodes: Nodes,
    handles: Mutex<HashMap<u64, Arc<Handle>>>,
    handles_made: AtomicU64,
}

/// What the kernel has open.
pub(crate) enum Handle {
    Control { text: String },
    File { number: INodeNo, path: Arc<Path>, file: File },
    Folder { path: Arc<Path>, rows: Mutex<Vec<Row>> },
}

impl Disk {
    pub(crate) fn new(folder: Arc<Folder>) -> io::Result<Disk> {
        let nodes = Nodes::new(&folder.metadata(Path::new("/"))?);
        Ok(Disk { folder, nodes, handles: Mutex::default(), handles_made: AtomicU64::new(0) })
    }

    pub(crate) fn keep(&self, handle: Handle) -> FileHandle {
        let number = self.handles_made.fetch_add(1, Ordering::Relaxed);
        self.handles.lock().insert(number, Arc::new(handle));
        FileHandle(number)
    }

    pub(crate) fn handle(&self, handle: FileHandle) -> Option<Arc<Handle>> {
        self.handles.lock().get(&handle.0).cloned()
    }

    pub(crate) fn release(&self, handle: FileHandle) {
        self.handles.lock().remove(&handle.0);
    }

    /// Finds a name, and counts that the kernel knows it now.
    pub(crate) fn look_up(&self, path: &Path) -> io::Result<FileAttr> {
        let metadata = self.folder.metadata(path)?;
        let number = self.nodes.number(&metadata);
        self.nodes.looked_up(number, path.into());
        Ok(folder::attributes(number, &metadata))
    }

    /// Attributes of a number, even if another file has taken its place and it is only open any more.
    pub(crate) fn attributes(&self, number: INodeNo, path: &Path) -> io::Result<FileAttr> {
        let found = self.folder.metadata(path);
        if let Ok(metadata) = &found
            && self.nodes.number(metadata) == number
        {
            return Ok(folder::attributes(number, metadata));
        }
        let open = self.handles.lock().values().find(|handle| handle.is_file(number)).cloned();
        match open.as_deref() {
            Some(Handle::File { file, .. }) => Ok(folder::attributes(number, &file.metadata()?)),
            _ => Err(found.err().unwrap_or_else(|| Errno::STALE.into())),
        }
    }

    pub(crate) fn open(
        &self,
        number: INodeNo,
        path: &Path,
        rules: &Rules,
    ) -> io::Result<(FileHandle, FopenFlags)> {
        let file = self.folder.open_file(path)?;
        let metadata = file.metadata()?;
        if self.nodes.number(&metadata) != number {
            // Replaced since it was looked up. The kernel looks again.
            return Err(Errno::STALE.into());
        }
        // Through the page cache a short read would mean that the file has become shorter.
        let short = matches!(rules.judge(Kind::Read, path, 0.0, || false).fault, Some(Fault::Short { .. }));
        let flags = if rules.direct_io || short {
            FopenFlags::FOPEN_DIRECT_IO
        } else if self.nodes.opened(number, &metadata) {
            FopenFlags::FOPEN_KEEP_CACHE
        } else {
            FopenFlags::empty()
        };
        Ok((self.keep(Handle::File { number, path: path.into(), file }), flags))
    }
}

impl Handle {
    fn is_file(&self, wanted: INodeNo) -> bool {
        matches!(self, Handle::File { number, .. } if *number == wanted)
    }
}
