//! The three ways to do a job: [waiting](Disk::run), [at once or not at all](Disk::try_now), and [for a thread that
//! must not wait](Disk::help). Other modules do the work of each kind of job.

use std::sync::Arc;

use flash_core::file::Window;
use flash_core::job::{self, Done, Failure, Find, Job, List, Outcome, ReadAhead, Spent};

use crate::blocking::Blocking;
use crate::call_timer;
use crate::disk::Disk;
use crate::find::not_open;
use crate::lookup_error::LookupError;
use crate::mounts::Device;
use crate::retry::again_if;
use crate::site_root::SiteRoot;

impl Disk {
    /// Does the job, and waits as long as it takes.
    pub fn run(&self, job: &Job) -> Outcome {
        let (done, spent, error) = call_timer::measured(|| match job {
            Job::Find(find) => again_if(is_busy, || self.find(find, Blocking::Anywhere))
                .unwrap_or_else(|stop| find.failed(stop.failure())),
            Job::Load(load) => load.checked(load.file.wait_for_window(load.window.clone(), load.goes_to)),
            Job::ReadAhead(ahead) => read_ahead(ahead),
            Job::List(list) => {
                let done =
                    self.list(list, Blocking::Anywhere, &mut |job| self.part(&job, Blocking::Anywhere));
                done.unwrap_or(Done::Failed(Failure::Broken))
            }
            Job::Spool(spool) => self.spool(spool),
            Job::Folder(_) => self.part(job, Blocking::Anywhere).unwrap_or(Done::Failed(Failure::Broken)),
        });
        Outcome { done, spent, error }
    }

    /// Does the job if it need not wait. Makes no call to a device that is not known to be local.
    pub fn try_now(&self, job: &Job) -> Option<Outcome> {
        let (done, spent, error) = call_timer::measured(|| self.done_now(job));
        done.map(|done| Outcome { done, spent, error })
    }

    fn done_now(&self, job: &Job) -> Option<Done> {
        match job {
            Job::Find(find) => match self.find(find, Blocking::Never) {
                Ok(done) => Some(done),
                // A helper can retry until a descriptor or memory is free.
                Err(LookupError::WouldBlock | LookupError::Busy) => {
                    if let Some(folder_reader) =
                        self.folder_reader.as_ref().filter(|_| !self.is_users(find.site, &find.path))
                    {
                        folder_reader.left(find.site, self.name_of(find));
                    }
                    None
                }
                Err(stop) => Some(find.failed(stop.failure())),
            },
            Job::Load(load)
                if self.device_of_file(&load.file).is_some_and(|device| !device.class.is_local()) =>
            {
                None
            }
            Job::Load(load) => match load.file.window_now(load.window.clone()) {
                Window::Absent => None,
                window if load.is_completed_by(&window) && !load.file.is_one_version_now() => None,
                window => Some(Done::Window(window)),
            },
            Job::List(list) => self.list_now(list),
            // No system call reads a folder or writes a file without waiting, and a disk's queue may be full.
            Job::ReadAhead(_) | Job::Folder(_) | Job::Spool(_) => None,
        }
    }

    /// Does the job for a thread that must not wait.
    ///
    /// A helper of a local device waits for no other device. Returns `None` if the name leads to one.
    pub fn help(&self, job: &Job, device: Device) -> Option<Outcome> {
        let blocking = blocking(device);
        let (done, spent, error) = call_timer::measured(|| match job {
            Job::Find(find) => helped(find, again_if(is_busy, || self.find(find, blocking))),
            Job::Load(load) => {
                load.file.read_ahead(load.window.start..load.goes_to);
                Some(load.checked(load.file.load_window(load.window.clone(), load.copy)))
            }
            Job::ReadAhead(ahead) => Some(read_ahead(ahead)),
            Job::List(list) => self.list(list, blocking, &mut |job| self.part(&job, blocking)),
            Job::Folder(_) => self.part(job, blocking),
            Job::Spool(spool) => Some(self.spool(spool)),
        });
        if let (Job::Find(_), Some(folder_reader)) = (job, &self.folder_reader) {
            folder_reader.helped();
        }
        done.map(|done| Outcome { done, spent, error })
    }

    /// The root that a job works in. Opens its site, if it is not open. An error is what [`help`](Self::help) would return.
    ///
    /// # Errors
    /// What becomes of the job.
    // What comes back is an outcome, not an error that travels far.
    #[allow(clippy::result_large_err)]
    pub fn open_root(&self, job: &Job, device: Device) -> Result<Arc<SiteRoot>, Option<Outcome>> {
        // Other jobs begin with what was found, or open the site themselves.
        let Job::Find(find) = job else { return Ok(self.root_of(job)) };
        match again_if(is_busy, || self.sites.ask(find.site, blocking(device))) {
            Ok(site) => Ok(site.current_owned()),
            Err(stop) => Err(helped(find, not_open(find, stop)).map(Outcome::from)),
        }
    }

    /// Does a step of a listing, and has `ask` read the folder.
    pub fn list_with(
        &self,
        list: &List,
        device: Device,
        mut ask: impl FnMut(&Job) -> Option<Outcome>,
    ) -> Option<Outcome> {
        let blocking = blocking(device);
        let (mut spent, mut error) = (Spent::default(), None);
        let done = self.list(list, blocking, &mut |job| {
            let outcome = ask(&job)?;
            spent += outcome.spent;
            error = outcome.error.or(error);
            Some(outcome.done)
        });
        done.map(|done| Outcome { done, spent, error })
    }

    /// Reads a part of a folder. `None` if it would wait for another device.
    fn part(&self, job: &Job, blocking: Blocking) -> Option<Done> {
        let Job::Folder(folder) = job else { return Some(Done::Failed(Failure::Broken)) };
        match again_if(is_busy, || self.folder(folder, blocking)) {
            Err(LookupError::Elsewhere) => None,
            result => Some(result.map_or_else(|stop| Done::Failed(stop.failure()), Done::Folder)),
        }
    }

    /// Writes a part of a request body, or reads one back.
    fn spool(&self, spool: &job::Spool) -> Done {
        let done = match spool {
            job::Spool::Write { file, bytes } => {
                let new = || self.spool.as_ref().map(|spool| spool.body(self.remote_closer.clone()));
                let file = file.clone().or_else(new).ok_or(Failure::Full);
                file.and_then(|file| file.append(bytes).map(|()| Done::Spooled(file)))
            }
            job::Spool::Read { file, range } => file.read(range.clone()).map(Done::Unspooled),
        };
        done.unwrap_or_else(Done::Failed)
    }
}

fn read_ahead(ahead: &ReadAhead) -> Done {
    ahead.file.read_ahead(ahead.rest.clone());
    Done::Window(Window::Warmed)
}

/// Whether a helper of that device may wait for others.
fn blocking(device: Device) -> Blocking {
    if device.class.is_local() { Blocking::ThisDevice } else { Blocking::Anywhere }
}

/// `None` if the name leads to another device.
fn helped(find: &Find, result: Result<Done, LookupError>) -> Option<Done> {
    match result {
        Err(LookupError::Elsewhere) => None,
        result => Some(result.unwrap_or_else(|stop| find.failed(stop.failure()))),
    }
}

fn is_busy<T>(result: &Result<T, LookupError>) -> bool {
    matches!(result, Err(LookupError::Busy))
}
