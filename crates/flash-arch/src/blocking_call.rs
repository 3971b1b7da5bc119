//! The blocking call of a loop that was caught sleeping: its name and its path, for the error log.

use std::os::fd::AsRawFd;

use flash_core::file::{Content, File};
use flash_core::job::{Job, Load, ReadAhead};

/// The longest call of the job that this thread has just done, and what the job was about.
pub(crate) fn of_job(job: &Job) -> (&'static str, Vec<u8>) {
    (flash_disk::longest_call().name, path_of_job(job))
}

/// What the job is about.
pub(crate) fn path_of_job(job: &Job) -> Vec<u8> {
    match job {
        Job::Find(find) => find.path.as_bytes().to_vec(),
        Job::Load(Load { file, .. }) | Job::ReadAhead(ReadAhead { file, .. }) => path_of(file),
        Job::List(list) => list.path.as_bytes().to_vec(),
        Job::Spool(_) => b"a request's body".to_vec(),
        Job::Folder(folder) => folder.path.as_bytes().to_vec(),
    }
}

/// An open file's path. The kernel tells it without asking the disk.
pub(crate) fn path_of(file: &File) -> Vec<u8> {
    let Content::Open(open) = &file.content else { return Vec::new() };
    let link = format!("/proc/self/fd/{}", open.as_fd().as_raw_fd());
    rustix::fs::readlink(link, Vec::new()).map_or_else(|_| b"an open file".to_vec(), |path| path.into_bytes())
}
