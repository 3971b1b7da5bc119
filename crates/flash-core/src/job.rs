//! Jobs: the only things a request ever asks for that may wait for a disk.
//!
//! The request path makes them and takes their results; `flash-disk` does them; `flash-arch` decides who.

use std::ops::{AddAssign, Range};
use std::sync::Arc;

use flash_http::status::Status;

use crate::entry::Entry;
use crate::file::{File, Window};
use crate::listing::{Names, Order};
use crate::path::SitePath;

#[derive(Clone, Debug)]
pub enum Job {
    Find(Find),
    Load(Load),
    List(List),
}

/// Walk to a pathname, examine what is there, open it, and bring in its content or its first window.
#[derive(Clone, Debug)]
pub struct Find {
    pub path: SitePath<'static>,
    /// The entry that is held now, when this is a second look. It serves until the answer is there.
    pub known: Option<Arc<Entry>>,
    /// When it was asked for, in the server's milliseconds: the answer is at least as new.
    pub asked_ms: u64,
}

/// Make one window of an open file ready to send.
#[derive(Clone, Debug)]
pub struct Load {
    pub file: Arc<File>,
    pub window: Range<u64>,
    /// Bring back the bytes themselves: the page cache did not hold on to them last time.
    pub copy: bool,
}

/// Write the next rows of a folder's listing.
#[derive(Clone, Debug)]
pub struct List {
    pub path: SitePath<'static>,
    pub order: Order,
    /// The folder's names as first read; the first job reads them.
    pub names: Option<Arc<Names>>,
    pub from: usize,
}

/// How a job ended, and what it took.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub done: Done,
    pub spent: Spent,
}

/// Where the time of jobs went, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// Following names and looking at what they lead to.
    pub walk_ns: u64,
    /// Opening files.
    pub open_ns: u64,
    /// Reading their bytes, or a folder's names.
    pub read_ns: u64,
    /// Waiting for a helper.
    pub queue_ns: u64,
    /// A helper's work, of which the first three are parts.
    pub help_ns: u64,
}

#[derive(Clone, Debug)]
pub enum Done {
    Found(Arc<Entry>),
    Window(Window),
    Listed(Listed),
    Failed(Failure),
}

#[derive(Clone, Debug)]
pub struct Listed {
    /// Finished HTML of the rows.
    pub rows: Vec<u8>,
    pub names: Arc<Names>,
    /// Where the following job begins; `None` after the last row.
    pub next: Option<usize>,
}

/// Why a job has no result. None of these says anything about the file, so none is kept in a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// No helper, no descriptor, no memory: worth trying again. Answered with 503.
    Busy,
    /// It took longer than the deadline. Answered with 503.
    Late,
    /// Its device has not answered others. Answered with 503, at once.
    Sick,
    /// The disk said no. Answered with 500.
    Broken,
    /// It is gone since its folder was looked at. Answered with 404.
    Gone,
}

impl From<Done> for Outcome {
    /// One that took nothing.
    fn from(done: Done) -> Self {
        Self { done, spent: Spent::default() }
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

impl Failure {
    pub fn status(self) -> Status {
        match self {
            Self::Busy | Self::Late | Self::Sick => Status::SERVICE_UNAVAILABLE,
            Self::Broken => Status::INTERNAL_SERVER_ERROR,
            Self::Gone => Status::NOT_FOUND,
        }
    }
}

impl Job {
    /// What the job works on, for the error log.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Find(_) => "find",
            Self::Load(_) => "load",
            Self::List(_) => "list",
        }
    }
}
