//! Jobs: the only work of a request that may wait for a disk.
//!
//! The request path makes jobs and takes their results. `flash-disk` executes them. `flash-arch` decides which thread or
//! process does.

pub(crate) mod failure;

use std::fmt::Debug;
use std::ops::{AddAssign, Range};
use std::sync::Arc;

use bytes::Bytes;
use flash_http::negotiate::CodingSet;

use crate::cache::memory_budget::BudgetedBytes;
use crate::file::entry::{Entry, STALE_AFTER};
use crate::file::{File, HEAP_FILE_BYTES_MAX, Window};
pub use crate::job::failure::Failure;
use crate::listing::{Folder, FolderRead, Listing, Order};
use crate::path::SitePath;
use crate::site::id::SiteId;

#[derive(Clone, Debug)]
pub enum Job {
    Find(Find),
    Load(Load),
    ReadAhead(ReadAhead),
    List(List),
    Spool(Spool),
    /// A part of a [`List`]. The listing itself asks for it, and its helper may pass it to another process.
    Folder(Box<Folder>),
}

/// Follow a pathname, examine the file, open it, and read its content or its first window.
#[derive(Clone, Debug)]
pub struct Find {
    pub site: SiteId,
    pub path: SitePath<'static>,
    /// The cached entry, if the disk was asked before.
    pub known: Option<Arc<Entry>>,
    /// When the job was asked for, in the server's milliseconds. The result is at least as new.
    pub asked_ms: u64,
    pub worth: Worth,
    /// The codings that the client takes. The disk is asked for no other siblings.
    pub codings: CodingSet,
}

/// What of a file would be worth its room in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Worth {
    /// The largest content. A file with a larger one is kept open, if at all.
    pub content_bytes_max: u64,
    /// What there is room for. A file whose pages a loop may not read gets that at its first request.
    pub free_bytes: u64,
    /// An open file, or a snapshot, which takes a descriptor as well.
    pub open: bool,
}

impl Worth {
    pub const ANYTHING: Self = Self { content_bytes_max: u64::MAX, free_bytes: u64::MAX, open: true };

    /// Whether a file of the entry should be copied into memory. Larger files than this are not.
    pub(crate) fn of_copies(&self, entry: &Entry, file_bytes_max: u64) -> bool {
        entry.to_copy(file_bytes_max).any(|file| self.of_content(file.size()))
    }

    /// Whether there is room for a content of this size.
    pub fn has_room_for(&self, size: u64) -> bool {
        Self { content_bytes_max: self.free_bytes, ..*self }.of_content(size)
    }

    /// Whether a content of this size is worth a copy. One that is too large for the heap takes a descriptor.
    pub fn of_content(&self, size: u64) -> bool {
        size <= self.content_bytes_max && (size <= HEAP_FILE_BYTES_MAX || self.open)
    }
}

/// Make one window of an open file ready to send.
#[derive(Clone, Debug)]
pub struct Load {
    /// Of the request. `None` if it is not known any more.
    pub site: Option<SiteId>,
    pub file: Arc<File>,
    pub window: Range<u64>,
    /// The part of the file that is to be sent goes on to here.
    pub goes_to: u64,
    /// Return the bytes themselves, because the page cache did not keep them last time.
    pub copy: bool,
    /// Set if the window completes a response. Earlier bytes of the response come from this range.
    pub completes: Option<Box<Range<u64>>>,
}

/// Bring the beginning of what is to be sent of an open file into the page cache, before it is due.
#[derive(Clone, Debug)]
pub struct ReadAhead {
    pub file: Arc<File>,
    pub rest: Range<u64>,
}

/// Do the next step of a listing, or write one of its pages.
#[derive(Clone, Debug)]
pub struct List {
    pub site: SiteId,
    pub path: SitePath<'static>,
    pub order: Order,
    /// When the request came, in the server's milliseconds.
    pub asked_ms: u64,
    /// `None` in the first job of a request, which joins a listing or begins one.
    pub listing: Option<Arc<Listing>>,
    pub page: u32,
}

/// Write a part of a request's body to a file, or read a part back.
#[derive(Clone, Debug)]
pub enum Spool {
    /// Appends to the file. The first part has no file yet.
    Write { file: Option<Arc<dyn SpoolFile>>, bytes: Arc<BudgetedBytes> },
    /// Reads at least one byte, and none beyond the end.
    Read { file: Arc<dyn SpoolFile>, range: Range<u64> },
}

/// The file of a stored body, on the disk side. The request path only passes it on. The file is removed with its last
/// handle.
pub trait SpoolFile: Debug + Send + Sync {
    /// # Errors
    /// [`Failure::Full`] if there is no space, and [`Failure::Broken`].
    fn append(&self, bytes: &[u8]) -> Result<(), Failure>;

    /// # Errors
    /// [`Failure::Broken`].
    fn read(&self, range: Range<u64>) -> Result<Bytes, Failure>;
}

/// The result of a job, and the time that it took.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub done: Done,
    pub spent: Spent,
    /// The system's error, if the disk has failed.
    pub error: Option<i32>,
}

/// How long jobs took, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// Following and examining names.
    pub walk_ns: u64,
    /// Opening files.
    pub open_ns: u64,
    /// Reading content, or a folder's names.
    pub read_ns: u64,
    /// Waiting for a helper, or for a server behind this one.
    pub queue_ns: u64,
    /// A helper's work. It includes the first three.
    pub help_ns: u64,
}

#[derive(Clone, Debug)]
pub enum Done {
    Found(Arc<Entry>),
    /// The look at the disk failed. `known` is the result of an earlier look.
    Unchecked {
        known: Arc<Entry>,
        failure: Failure,
    },
    Window(Window),
    Listed(Listed),
    /// A part of a body was written.
    Spooled(Arc<dyn SpoolFile>),
    /// A part of a body was read.
    Unspooled(Bytes),
    /// What a [`Job::Folder`] read.
    Folder(FolderRead),
    /// Whether a [log-in](crate::clients::login) is right. It is the result of a check, and of no job.
    Checked(bool),
    Failed(Failure),
}

#[derive(Clone, Debug)]
pub struct Listed {
    pub listing: Arc<Listing>,
    /// The page that was asked for. `None` if the listing needs another step first.
    pub page: Option<Bytes>,
}

impl From<Done> for Outcome {
    /// An outcome that took no time.
    fn from(done: Done) -> Self {
        Self { done, spent: Spent::default(), error: None }
    }
}

impl AddAssign for Spent {
    fn add_assign(&mut self, more: Self) {
        self.walk_ns += more.walk_ns;
        self.open_ns += more.open_ns;
        self.read_ns += more.read_ns;
        self.queue_ns += more.queue_ns;
        self.help_ns += more.help_ns;
    }
}

impl Done {
    /// The result of a [`Job::Folder`].
    pub fn into_folder(self) -> Result<FolderRead, Failure> {
        match self {
            Self::Folder(read) => Ok(read),
            Self::Failed(failure) => Err(failure),
            _ => Err(Failure::Broken),
        }
    }
}

impl Find {
    /// A first look at a path, by a client that takes no coding. Whatever is there is worth its room.
    pub fn first(site: SiteId, path: SitePath<'static>) -> Self {
        Self { site, path, known: None, asked_ms: 0, worth: Worth::ANYTHING, codings: CodingSet::EMPTY }
    }

    /// The known entry, if it may stay as it is. An open file that has become worth a copy is found anew, up to a size.
    pub fn known_to_keep(&self, memory_file_bytes_max: u64) -> Option<&Arc<Entry>> {
        self.known.as_ref().filter(|known| !self.worth.of_copies(known, memory_file_bytes_max))
    }

    /// The cached entry, if it may answer requests until the job is done.
    pub fn serves_meanwhile(&self, now_ms: u64, revalidate_ms: u64) -> Option<&Arc<Entry>> {
        let is_young = |known: &&Arc<Entry>| known.age_ms(now_ms) < STALE_AFTER * revalidate_ms;
        self.known.as_ref().filter(is_young).filter(|known| known.has_looked_for(|| self.codings))
    }

    /// The result if the look at the disk failed.
    pub fn failed(&self, failure: Failure) -> Done {
        match &self.known {
            Some(known) => Done::Unchecked { known: Arc::clone(known), failure },
            None => Done::Failed(failure),
        }
    }
}

impl Load {
    /// Whether this window completes the response.
    pub fn is_completed_by(&self, window: &Window) -> bool {
        self.completes.is_some() && self.end_of(window) == Some(self.window.end)
    }

    /// Where the bytes of a window end in the file.
    fn end_of(&self, window: &Window) -> Option<u64> {
        match window {
            Window::Copied(bytes) => Some(self.window.start + bytes.len() as u64),
            Window::Resident(range) => Some(range.end),
            _ => None,
        }
    }

    /// The job that reads what follows this window, if the response goes on there and nothing does so yet. Never blocks.
    pub fn read_ahead(&self, window: &Window) -> Option<ReadAhead> {
        let rest = self.end_of(window)?..self.goes_to;
        let is_due = !rest.is_empty() && self.file.lacks_ahead(rest.clone());
        is_due.then(|| ReadAhead { file: Arc::clone(&self.file), rest })
    }

    /// The result of a window. If it would mix two versions of the file, the result says that the file changed. May block.
    pub fn checked(&self, window: Window) -> Done {
        let is_whole = match &self.completes {
            Some(given) if self.is_completed_by(&window) => self.file.is_one_version(given),
            _ => true,
        };
        Done::Window(if is_whole { window } else { Window::Changed })
    }
}

impl Job {
    /// The result of a job that failed.
    pub fn failed(&self, failure: Failure) -> Done {
        match self {
            Self::Find(find) => find.failed(failure),
            Self::Load(_) | Self::ReadAhead(_) | Self::List(_) | Self::Folder(_) | Self::Spool(_) => {
                Done::Failed(failure)
            }
        }
    }

    /// The job's name in the error log.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Find(_) => "find",
            Self::Load(_) => "load",
            Self::ReadAhead(_) => "read-ahead",
            Self::List(_) => "list",
            Self::Spool(_) => "spool",
            Self::Folder(_) => "folder",
        }
    }
}
