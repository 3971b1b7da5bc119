//! Jobs that a helper process does: the request, the reply, and their descriptors.
//!
//! The server encodes a job ([`Disk::ask`]), a helper process does it ([`Disk::answer`]), and the server decodes the
//! reply ([`Disk::understand`]). A helper reads files of strangers, so the server does not trust its replies, and
//! checks each value. A helper can choose the bytes of a response, and nothing else.
//!
//! How messages travel, and what happens to a helper with a malformed reply, is not decided here.

mod folder;
mod reply;
mod request;
mod stamp;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use flash_core::cache::memory_budget::Budget;
use flash_core::file::Window;
use flash_core::file::entry::Resource;
use flash_core::job::{Done, Failure, Job, Outcome, Spent};
use flash_core::listing::{FolderRead, Part};
use flash_process::codec::{Reader, Writer};

pub use self::reply::Malformed;

use crate::disk::Disk;
use crate::mounts::{Capabilities, Device, DeviceClass};
use crate::names;
use crate::site_root::SiteRoot;

/// An encoded job.
#[derive(Debug)]
pub struct Request<'a> {
    pub bytes: Vec<u8>,
    /// The open file or folder of the job, if it has one.
    pub descriptor: Option<BorrowedFd<'a>>,
}

/// An encoded result.
#[derive(Debug)]
pub struct Reply {
    pub bytes: Vec<u8>,
    /// Keeps the descriptors open until they have been sent.
    done: Done,
}

impl Disk {
    /// Encodes a job, for a helper of that device.
    pub fn ask<'a>(&self, job: &'a Job, device: Device) -> Request<'a> {
        let mut message = Writer::default();
        message.u8(device.class.is_local().into());
        message.u32(self.names_wanted(job));
        let descriptor = request::write(self, job, self.copies.left_bytes(), &mut message);
        Request { bytes: message.bytes, descriptor }
    }

    /// Does the job of a request. `None` if the request is malformed.
    pub fn answer(&mut self, request: &[u8], descriptors: Vec<OwnedFd>) -> Option<Reply> {
        let mut message = Reader(request);
        // Only the class of the device matters: whether the helper may wait for other devices.
        let device = if message.bool()? {
            Device { number: 0, class: DeviceClass::Local(Capabilities::ALL) }
        } else {
            Device::ELSEWHERE
        };
        let names_max = message.u32()?.min(names::TABLE_NAMES_MAX);
        let reserved_bytes = message.u64()?;
        let job = request::read(self, &mut message, descriptors)?;
        message.end()?;
        // A copy stays in the server's memory, so the server's budget counts.
        self.copies = Budget::new(reserved_bytes);
        // A loop sends its files.
        self.senders_wait = false;
        let mut message = Writer::default();
        let Some(Outcome { done, spent, error }) = self.help(&job, device) else {
            message.u8(ELSEWHERE);
            return Some(Reply { bytes: message.bytes, done: Done::Failed(Failure::Overloaded) });
        };
        message.u8(HERE);
        [spent.walk_ns, spent.open_ns, spent.read_ns].into_iter().for_each(|ns| message.u64(ns));
        message.u32(error.unwrap_or_default().cast_unsigned());
        reply::write(&job, &done, &mut message);
        if let (Job::Find(find), Done::Found(entry)) = (&job, &done)
            && matches!(entry.resource, Resource::Missing)
        {
            folder::write(&self.root().root, self.name_of(find), names_max, &mut message);
        }
        // The server has the folder already.
        let is_open = |part: &Part| matches!(part, Part::Names { open: Some(_), .. });
        let is_known = matches!(&job, Job::Folder(folder) if is_open(&folder.part));
        Some(Reply {
            bytes: message.bytes,
            done: if is_known { Done::Failed(Failure::Overloaded) } else { done },
        })
    }

    /// How many names of its folder the helper reports if the job's name is missing.
    fn names_wanted(&self, job: &Job) -> u32 {
        match job {
            Job::Find(find) if !self.is_users(find.site, &find.path) => {
                self.root_of(job).root.names_wanted(self.name_of(find))
            }
            _ => 0,
        }
    }

    /// Decodes the reply to this job, of a helper that works in this root. Returns what [`Disk::help`] would have returned.
    pub fn understand(
        &self,
        site: &SiteRoot,
        job: &Job,
        answer: &[u8],
        descriptors: Vec<OwnedFd>,
    ) -> Result<Option<Outcome>, Malformed> {
        let mut message = Reader(answer);
        match message.u8() {
            Some(HERE) => {}
            Some(ELSEWHERE) if answer.len() == 1 && descriptors.is_empty() => return Ok(None),
            _ => return Err(Malformed),
        }
        let spent = spent(&mut message).ok_or(Malformed)?;
        let error = message.u32().ok_or(Malformed)?.cast_signed();
        let mut descriptors = descriptors.into_iter();
        let done = reply::read(self, site, job, &mut message, &mut descriptors)?;
        match (message.end(), descriptors.next()) {
            (Some(()), None) => Ok(Some(Outcome { done, spent, error: (error != 0).then_some(error) })),
            _ => Err(Malformed),
        }
    }
}

/// Whether the server has to do the rest of the job. A window of a changed file is compared with what was handed out,
/// which only the server knows.
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
        let open = entry.files().filter_map(|file| file.open_file()).map(|open| open.as_fd());
        // A reply that the entry is unchanged has no open file.
        open.collect()
    }
}

/// The job is done.
const HERE: u8 = 0;
/// The name leads to another device.
const ELSEWHERE: u8 = 1;

/// The times of the helper's calls. They are limited, so that sums cannot overflow.
fn spent(message: &mut Reader<'_>) -> Option<Spent> {
    let mut ns = || message.u64().map(|ns| ns.min(SPENT_NS_MAX));
    Some(Spent { walk_ns: ns()?, open_ns: ns()?, read_ns: ns()?, ..Spent::default() })
}

/// An hour.
const SPENT_NS_MAX: u64 = 3_600_000_000_000;
