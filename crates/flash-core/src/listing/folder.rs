//! What a listing asks about its folder, and the answers. The disk side reads the folder.

use std::fmt::Debug;
use std::os::fd::AsFd;
use std::sync::Arc;

use bytes::Bytes;

use super::batch::Batch;
use super::name::Seen;
use crate::path::SitePath;
use crate::site::id::SiteId;
use crate::site::root::OpenRoot;

/// A header or a footer has at most so many bytes.
pub const TEXT_BYTES_MAX: u64 = 64 << 10;

/// Read a part of a folder.
#[derive(Clone, Debug)]
pub struct Folder {
    pub site: SiteId,
    pub path: SitePath<'static>,
    pub part: Part,
    /// The root that the listing is of. `None` for the only one there is.
    pub root: Option<Arc<dyn OpenRoot>>,
}

#[derive(Clone, Debug)]
pub enum Part {
    /// The next names from this position on. If the folder is not open yet, it is opened.
    Names { open: Option<Arc<dyn OpenFolder>>, from: u64 },
    /// The details of these names.
    Details(Batch),
    /// The file of this name, or of this path of the site if it begins with a slash.
    Text(Box<[u8]>),
}

/// An open folder of the disk side. The request path only passes it on.
pub trait OpenFolder: AsFd + Debug + Send + Sync {}

/// What was read of a folder.
#[derive(Clone, Debug)]
pub enum FolderRead {
    /// Names of a folder, and the position of the next ones; `None` after the last.
    Names { names: Batch, open: Arc<dyn OpenFolder>, next: Option<u64> },
    /// The details, in the order of the names. `None` for a name that would not be served.
    Details(Vec<Option<Seen>>),
    /// The content. `None` if there is no such file, or one of more than [`TEXT_BYTES_MAX`].
    Text(Option<Bytes>),
}
