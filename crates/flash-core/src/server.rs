//! What all connections of a server share: its settings, its sites, and the cache of paths. None of them changes it.

use std::sync::Arc;

use crate::cache::PathCache;
use crate::forwarded::TrustedProxies;
use crate::hosts::Hosts;
use crate::job::{Done, Job};
use crate::refusal::RefusalLog;

#[derive(Debug)]
pub struct Server {
    pub settings: Settings,
    pub hosts: Hosts,
    pub paths: PathCache,
    pub refusals: RefusalLog,
}

/// The settings that hold before a request's site is known, and those that all sites share.
#[derive(Clone, Debug)]
pub struct Settings {
    pub head: flash_http::head::Limits,
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
    /// Every look-up that the worker's own cache does not answer becomes a job. The driver calls [`Server::look_up`] for it.
    /// Different threads can then read a request, find its file and answer it.
    pub lookup_as_job: bool,
    /// Whether exchanges are recorded.
    pub log: bool,
    /// Who may say which client a request is from.
    pub trusted_proxies: TrustedProxies,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            head: flash_http::head::Limits::default(),
            head_timeout_ms: 10_000,
            idle_timeout_ms: 60_000,
            bytes_per_second_min: 500,
            disk_deadline_ms: 10_000,
            program_silence_ms: 60_000,
            revalidate_ms: 1_000,
            lookup_as_job: false,
            log: false,
            trusted_proxies: TrustedProxies::default(),
        }
    }
}

impl Server {
    /// Whether any site lists folders.
    pub fn lists(&self) -> bool {
        self.hosts.iter().any(|site| site.settings.list)
    }

    /// Caches the result of a finished job; a missing name only when it is requested again. Called once, after the job.
    /// Returns `false` if the cache is locked: a caller that may block tries again.
    pub fn cache_result(&self, job: &Job, done: &Done) -> bool {
        if let (Job::Find(find), Done::Found(entry)) = (job, done)
            && let Some(site) = self.hosts.site(find.site)
            && entry.generation() >= site.generation.get()
        {
            let is_kept = match &find.known {
                Some(known) => !Arc::ptr_eq(known, entry),
                None => entry.leads_somewhere() || self.paths.admits_refusal(find.site, &find.path),
            };
            if is_kept {
                return self.paths.insert(find.site, &find.path, &entry.kept());
            }
        }
        true
    }
}
