//! The shape that every workload has, whether it comes from a log, a mix or a distribution.

use std::sync::Arc;
use std::time::Duration;

/// The place of a file in its catalogue.
pub type FileId = u32;

/// Everything that a workload may ask for.
#[derive(Debug, Default)]
pub struct Catalogue {
    /// All files, each at the place that is its [`FileId`].
    pub files: Vec<File>,
    /// The names of the classes that results are told apart by, such as `hot` and `cold`; never empty where there are files.
    pub classes: Vec<String>,
}

/// A file on the server, as clients know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// In origin form, ready to be sent: `/images/a%20b.png`.
    pub target: Box<str>,
    /// What the body of a whole reply weighs, before any coding. None where only the server knows.
    pub bytes: Option<u64>,
    /// The place of its class in [`Catalogue::classes`].
    pub class: u16,
    /// A program answers: nothing on a disk holds these bytes.
    pub program: bool,
}

/// One request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// What is asked for.
    pub file: FileId,
    /// When it was sent, from the beginning of the log; for workloads that have a time of their own.
    pub at: Option<Duration>,
    /// The last request of its session: a client with kept-alive connections closes this one after it.
    pub closes: bool,
    /// What it says besides its target, if anything.
    pub message: Option<Arc<Message>>,
}

/// What a request says besides its target.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// Whole lines for the head, each with its end: `Cookie: a=b\r\n`.
    pub fields: String,
    /// The body to post; without it, a request is a GET.
    pub body: Option<Arc<[u8]>>,
}

impl Ask {
    /// For a file and nothing else, at no time of its own, within a session.
    pub fn of(file: FileId) -> Ask {
        Ask { file, at: None, closes: false, message: None }
    }
}

/// Which share of the requests a thread sends: the `index`th of `of`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Below `of`.
    pub index: u32,
    /// How many parts there are; never 0.
    pub of: u32,
}

impl Part {
    /// All of them.
    pub const WHOLE: Part = Part { index: 0, of: 1 };
}

/// The requests of one part, in order. None is the end; what goes on for ever has none.
pub trait Sequence: Send {
    /// The next request.
    fn next(&mut self) -> Option<Ask>;
}

/// The requests, and their order.
pub trait Workload: Send + Sync {
    /// Everything that any of its sequences asks for.
    fn catalogue(&self) -> &Arc<Catalogue>;

    /// The same seed gives the same requests. A log deals its lines out to the parts in turn; a distribution gives each part
    /// a stream of its own.
    fn sequence(&self, part: Part, seed: u64) -> Box<dyn Sequence>;
}
