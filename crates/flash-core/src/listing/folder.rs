//! What a listing asks about its folder, and what it is told. The disk side reads the folder.

use std::fmt::Debug;
use std::os::fd::AsFd;
use std::sync::Arc;

use super::batch::Batch;
use super::name::Seen;
use crate::path::SitePath;

/// Read a part of a folder.
#[derive(Clone, Debug)]
pub struct Folder {
    pub path: SitePath<'static>,
    pub part: Part,
}

#[derive(Clone, Debug)]
pub enum Part {
    /// The next names from this place on. A folder that is not open yet is opened.
    Names { open: Option<Arc<dyn OpenFolder>>, from: u64 },
    /// What each of these names leads to.
    Details(Batch),
}

/// A folder held open while its names are read, as the disk side made it. The request path passes it on.
pub trait OpenFolder: AsFd + Debug + Send + Sync {}

/// What was read of a folder.
#[derive(Clone, Debug)]
pub enum FolderRead {
    /// Names of a folder, and where the following ones begin; `None` after the last.
    Names { names: Batch, open: Arc<dyn OpenFolder>, next: Option<u64> },
    /// In the order of the question. None for a name that would not be served.
    Details(Vec<Option<Seen>>),
}
