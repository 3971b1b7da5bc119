//! A site: its settings, its error pages and its caches. All connections share it, and none changes it.

use std::sync::Arc;

use crate::cache::PathCache;
use crate::forwarded::TrustedProxies;
use crate::header::HeaderTemplate;
use crate::job::{Done, Job};
use crate::page::Pages;
use crate::path_rules::PathRules;
use crate::refusal::RefusalLog;
use crate::root::Generation;
use crate::routes::Routes;
use crate::site_id::SiteId;

#[derive(Debug)]
pub struct Site {
    pub id: SiteId,
    pub settings: Settings,
    pub template: HeaderTemplate,
    pub pages: Pages,
    pub paths: PathCache,
    pub refusals: RefusalLog,
    /// The generation of the root that is served, shared with the disk side.
    pub generation: Arc<Generation>,
    /// The routes to upstreams, if there are any.
    pub routes: Option<Routes>,
}

#[derive(Clone, Debug)]
pub struct Settings {
    pub head: flash_http::head::Limits,
    /// The limit for request bodies. A body that is of no use to a file is read and dropped.
    pub body_bytes_max: u64,
    /// From a head's first byte to its last.
    pub head_timeout_ms: u64,
    /// Between one response and the next request's first byte.
    pub idle_timeout_ms: u64,
    /// A client that reads a response, or sends a body, more slowly than this on average is cut off.
    pub bytes_per_second_min: u64,
    /// From asking for a job to its result.
    pub disk_deadline_ms: u64,
    /// For an upstream to open, and for its next bytes.
    pub program_silence_ms: u64,
    /// How long an entry answers before the disk is asked again.
    pub revalidate_ms: u64,
    pub dotfiles: bool,
    /// Paths that lead nowhere, whatever lies there.
    pub deny: PathRules,
    pub list: bool,
    /// Every look-up that the worker's own cache does not answer becomes a job. The driver calls [`Site::look_up`] for it.
    /// Different threads can then read a request, find its file and answer it.
    pub lookup_as_job: bool,
    /// Whether exchanges are recorded.
    pub log: bool,
    /// The site's own `/404.html` is the page for names that lead nowhere, as long as there is one.
    pub own_missing_page: bool,
    /// Who may say which client a request is from.
    pub trusted_proxies: TrustedProxies,
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
            deny: PathRules::default(),
            list: false,
            lookup_as_job: false,
            log: false,
            own_missing_page: false,
            trusted_proxies: TrustedProxies::default(),
        }
    }
}

/// A file of at most this size is sent in one piece with its head, without a second slice.
pub(crate) const INLINE_BYTES_MAX: u64 = 4 << 10;

/// A large file is made ready and sent in windows of at most this size.
pub const WINDOW_BYTES: u64 = 1 << 20;

impl Site {
    /// Caches the result of a finished job; a missing name only when it is requested again. Called once, after the job.
    /// Returns `false` if the cache is locked: a caller that may block tries again.
    pub fn cache_result(&self, job: &Job, done: &Done) -> bool {
        if let (Job::Find(find), Done::Found(entry)) = (job, done)
            && entry.generation() >= self.generation.get()
        {
            let is_kept = match &find.known {
                Some(known) => !Arc::ptr_eq(known, entry),
                None => entry.leads_somewhere() || self.paths.admits_refusal(find.site, &find.path),
            };
            if is_kept {
                return self.paths.insert(find.site, &find.path, entry);
            }
        }
        true
    }
}
