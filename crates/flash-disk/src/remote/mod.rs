//! Jobs that another process does: a question, an answer, and the descriptors that go along with them.
//!
//! The process that serves puts a job into words ([`Disk::ask`]), a helper process does it ([`Disk::answer`]), and the
//! first makes the result of what comes back ([`Disk::understand`]). A helper reads what strangers have put on a disk, so
//! its answers are not trusted: each is checked until there is nothing left that could confuse whoever takes it. A
//! helper's right is to choose the bytes of a response, and no more.
//!
//! How questions and answers travel, and what becomes of a helper that answers nonsense, is not decided here.

mod folder;
mod reply;
mod request;
mod stamp;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use flash_core::entry::Resource;
use flash_core::file::{Content, Window};
use flash_core::job::{Done, Failure, Job, Outcome, Spent};
use flash_core::listing::{FolderRead, Part};
use flash_core::memory_budget::Budget;
use flash_http::status::Status;
use flash_process::codec::{Reader, Writer};

pub use self::reply::Malformed;

use crate::disk::Disk;
use crate::mounts::{Capabilities, Device, DeviceClass};
use crate::names;

/// A job in words.
#[derive(Debug)]
pub struct Request<'a> {
    pub bytes: Vec<u8>,
    /// The open file that it is about, if it is about one.
    pub descriptor: Option<BorrowedFd<'a>>,
}

/// A result in words.
#[derive(Debug)]
pub struct Reply {
    pub bytes: Vec<u8>,
    /// Keeps the descriptors open until they have been sent.
    done: Done,
}

impl Disk {
    /// Puts a job into words, for a helper at that device.
    pub fn ask<'a>(&self, job: &'a Job, device: Device) -> Request<'a> {
        let mut words = Writer::default();
        words.u8(device.class.is_local().into());
        words.u32(self.names_wanted(job));
        let descriptor = request::write(job, self.copies.left_bytes(), &mut words);
        Request { bytes: words.bytes, descriptor }
    }

    /// Does what a question asks for; `None` when it has no meaning.
    pub fn answer(&mut self, request: &[u8], descriptors: Vec<OwnedFd>) -> Option<Reply> {
        let mut words = Reader(request);
        // Which device it is does not matter, only whether others may be waited for.
        let device = if words.bool()? {
            Device { number: 0, class: DeviceClass::Local(Capabilities::ALL) }
        } else {
            Device::ELSEWHERE
        };
        let names_max = words.u32()?.min(names::TABLE_NAMES_MAX);
        let reserved_bytes = words.u64()?;
        let job = request::read(self, &mut words, descriptors)?;
        words.end()?;
        // Copies stay in memory when they are sent, so it is the asker's room that counts.
        self.copies = Budget::new(reserved_bytes);
        // Its files are sent by a loop.
        self.senders_wait = false;
        let mut words = Writer::default();
        let Some(Outcome { done, spent }) = self.help(&job, device) else {
            words.u8(ELSEWHERE);
            return Some(Reply { bytes: words.bytes, done: Done::Failed(Failure::Overloaded) });
        };
        words.u8(HERE);
        [spent.walk_ns, spent.open_ns, spent.read_ns].into_iter().for_each(|ns| words.u64(ns));
        reply::write(&job, &done, &mut words);
        if let (Job::Find(find), Done::Found(entry)) = (&job, &done)
            && matches!(entry.resource, Resource::Refused(Status::NOT_FOUND))
        {
            folder::write(&self.root, find.path.relative(), names_max, &mut words);
        }
        // The asker has the folder already.
        let is_open = |part: &Part| matches!(part, Part::Names { open: Some(_), .. });
        let is_known = matches!(&job, Job::Folder(folder) if is_open(&folder.part));
        Some(Reply {
            bytes: words.bytes,
            done: if is_known { Done::Failed(Failure::Overloaded) } else { done },
        })
    }

    /// How many names of its folder are to be told of a name that turns out to be missing.
    fn names_wanted(&self, job: &Job) -> u32 {
        match job {
            Job::Find(find) if !self.is_users(&find.path) => self.root.names_wanted(find.path.relative()),
            _ => 0,
        }
    }

    /// What an answer to this job means: what [`Disk::help`] would have returned.
    pub fn understand(
        &self,
        job: &Job,
        answer: &[u8],
        descriptors: Vec<OwnedFd>,
    ) -> Result<Option<Outcome>, Malformed> {
        let mut words = Reader(answer);
        match words.u8() {
            Some(HERE) => {}
            Some(ELSEWHERE) if answer.len() == 1 && descriptors.is_empty() => return Ok(None),
            _ => return Err(Malformed),
        }
        let spent = spent(&mut words).ok_or(Malformed)?;
        let mut descriptors = descriptors.into_iter();
        let done = reply::read(self, job, &mut words, &mut descriptors)?;
        match (words.end(), descriptors.next()) {
            (Some(()), None) => Ok(Some(Outcome { done, spent })),
            _ => Err(Malformed),
        }
    }
}

/// Whether a helper process could not do all of the job: a window of a file that has changed is compared with what was
/// handed out of it, which the server alone knows. Its thread does that, the file is open there.
pub fn is_for_the_asker(job: &Job, outcome: &Outcome) -> bool {
    match (job, &outcome.done) {
        (Job::Load(_), Done::Window(Window::Absent | Window::Changed)) => true,
        (Job::Load(load), Done::Window(window)) => {
            load.is_completed_by(window) && !load.file.is_one_version_now()
        }
        _ => false,
    }
}

impl Reply {
    pub fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        let entry = match &self.done {
            Done::Found(entry) => entry,
            Done::Folder(FolderRead::Names { open, .. }) => return vec![open.as_fd()],
            _ => return Vec::new(),
        };
        let open = entry.files().filter_map(|file| match &file.content {
            Content::Open(open) => Some(open.as_fd()),
            Content::Memory(_) => None,
        });
        // An answer that says only that nothing has changed holds no open file.
        open.collect()
    }
}

/// The job is done.
const HERE: u8 = 0;
/// The name leads to another device.
const ELSEWHERE: u8 = 1;

/// What the helper says that its calls took: times that can be added up without end.
fn spent(words: &mut Reader<'_>) -> Option<Spent> {
    let mut ns = || words.u64().map(|ns| ns.min(SPENT_NS_MAX));
    Some(Spent { walk_ns: ns()?, open_ns: ns()?, read_ns: ns()?, ..Spent::default() })
}

/// An hour.
const SPENT_NS_MAX: u64 = 3_600_000_000_000;
