//! A site: its settings, its error pages and its caches. Shared by every connection, changed by none.

use std::sync::Arc;

use crate::cache::PathCache;
use crate::header::HeaderTemplate;
use crate::job::{Done, Job};
use crate::page::Pages;
use crate::routes::Routes;

#[derive(Debug)]
pub struct Site {
    pub settings: Settings,
    pub template: HeaderTemplate,
    pub pages: Pages,
    pub paths: PathCache,
    /// Where programs answer, if any do.
    pub routes: Option<Routes>,
}

#[derive(Clone, Debug)]
pub struct Settings {
    pub head: flash_http::head::Limits,
    /// A request body is of no use to a file: it is read up to here and dropped.
    pub body_bytes_max: u64,
    /// From a head's first byte to its last.
    pub head_timeout_ms: u64,
    /// Between one response and the next request's first byte.
    pub idle_timeout_ms: u64,
    /// A client that acknowledges a response, or sends a body, more slowly than this on average is cut off.
    pub bytes_per_second_min: u64,
    /// For a job, from its asking to its result.
    pub disk_deadline_ms: u64,
    /// For a program, to begin, and for its next bytes.
    pub program_silence_ms: u64,
    /// How long an entry serves before somebody looks again.
    pub revalidate_ms: u64,
    pub dotfiles: bool,
    pub list: bool,
    /// Every search for a file that the runner's own cache does not answer becomes a job, and [`Site::look_up`] its
    /// driver's business, so that different threads can read a request, find its file and answer it.
    pub lookup_as_job: bool,
    /// Whether exchanges are to be recorded.
    pub log: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            head: flash_http::head::Limits::default(),
            body_bytes_max: 1 << 20,
            head_timeout_ms: 10_000,
            idle_timeout_ms: 60_000,
            bytes_per_second_min: 500,
            disk_deadline_ms: 10_000,
            program_silence_ms: 60_000,
            revalidate_ms: 1_000,
            dotfiles: false,
            list: false,
            lookup_as_job: false,
            log: false,
        }
    }
}

/// A file's bytes up to this size leave in one piece with their head, without a second slice.
pub(crate) const INLINE_BYTES_MAX: u64 = 4 << 10;

/// A large file is made ready and sent by at most this much at a time.
pub const WINDOW_BYTES: u64 = 1 << 20;

impl Site {
    /// Keeps what a finished job found out; of a name that leads nowhere, when it is asked for again. Whoever did the job
    /// calls this, once. Returns `false` when the cache was not to be had: who can wait may try again.
    pub fn cache_result(&self, job: &Job, done: &Done) -> bool {
        if let (Job::Find(find), Done::Found(entry)) = (job, done) {
            let is_kept = match &find.known {
                Some(known) => !Arc::ptr_eq(known, entry),
                None => entry.leads_somewhere() || self.paths.admits_refusal(&find.path),
            };
            if is_kept {
                return self.paths.insert(&find.path, entry);
            }
        }
        true
    }
}
