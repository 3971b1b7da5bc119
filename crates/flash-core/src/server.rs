//! What all connections of a server share: its settings, its sites, and the cache of paths. None of them changes it.
//!
//! A reload makes another server with the same cache. Requests that are under way keep their sites.

use std::sync::Arc;

use flash_http::negotiate::CodingSet;

use crate::cache::PathCache;
use crate::challenges::Challenges;
use crate::clients::forwarded::TrustedProxies;
use crate::clients::{Clients, Counted, TooMany};
use crate::connection::transport::{CertificatesId, TransportInfo};
use crate::job::{Done, Find, Job};
use crate::path::SitePath;
use crate::record::log_choice::LogNumber;
use crate::record::refusal_log::RefusalLog;
use crate::record::trace::TraceContext;
use crate::site::configuration_number::ConfigurationNumber;
use crate::site::hosts::Hosts;

#[derive(Debug)]
pub struct Server {
    /// All sites hold it, too.
    pub number: Arc<ConfigurationNumber>,
    pub settings: Settings,
    pub hosts: Hosts,
    pub paths: Arc<PathCache>,
    pub refusals: Arc<RefusalLog>,
}

/// The settings that hold before a request's site is known, and those that all sites share.
#[derive(Clone, Debug)]
pub struct Settings {
    pub head: flash_http::head::Limits,
    /// Of the heads that programs write.
    pub program_head: flash_cgi::response::Limits,
    /// From a head's first byte to its last.
    pub head_timeout_ms: u64,
    /// Between one response and the next request's first byte.
    pub idle_timeout_ms: u64,
    /// A client that reads a response, or sends a body, more slowly than this on average is cut off.
    pub send_rate_min: u64,
    /// From asking for a job to its result.
    pub disk_deadline_ms: u64,
    /// The percentage of a disk's time that new clients have together while others wait.
    pub disk_share_of_new: u8,
    /// For an upstream to open, and for its next bytes.
    pub program_silence_ms: u64,
    /// How long neither side may say anything through a tunnel.
    pub tunnel_idle_ms: u64,
    /// The same, once the client has closed its side.
    pub program_fin_ms: u64,
    /// How long a program may wait for a client that takes nothing.
    pub program_send_ms: u64,
    /// How long an entry answers before the disk is asked again.
    pub revalidate_ms: u64,
    /// Whether the caches hold copies of files.
    pub copies_content: bool,
    /// Whether clients may speak HTTP/2 without having agreed on it (RFC 9113 §3.3).
    pub http2: bool,
    /// The log of what belongs to no site, such as bytes that are no request.
    pub access_log: Option<LogNumber>,
    /// What is done with the traces that requests belong to.
    pub trace_context: TraceContext,
    /// Who may say which client a request is from.
    pub trusted_proxies: TrustedProxies,
    /// What each client has used of its limits.
    pub clients: Clients,
    /// Whether some site or place has users who log in.
    pub has_users: bool,
    /// What clients are shown that name no host, or one that no site has, if there are certificates.
    pub certificates: Option<CertificatesId>,
    /// What a certificate authority may ask now, if certificates come from one.
    pub challenges: Option<Arc<dyn Challenges>>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            head: flash_http::head::Limits::default(),
            program_head: flash_cgi::response::Limits::default(),
            head_timeout_ms: 10_000,
            idle_timeout_ms: 60_000,
            send_rate_min: 500,
            disk_deadline_ms: 10_000,
            disk_share_of_new: 50,
            program_silence_ms: 60_000,
            tunnel_idle_ms: 3_600_000,
            program_fin_ms: 10_000,
            program_send_ms: 5_000,
            revalidate_ms: 1_000,
            copies_content: true,
            http2: true,
            access_log: None,
            trace_context: TraceContext::default(),
            trusted_proxies: TrustedProxies::default(),
            clients: Clients::unlimited(),
            has_users: false,
            certificates: None,
            challenges: None,
        }
    }
}

impl Settings {
    /// Whether the connection's client may open another one. Proxies have the connections of many clients.
    pub fn may_connect(&self, transport: &TransportInfo) -> bool {
        self.is_proxy(transport) || self.clients.may_enter(transport.peer)
    }

    /// Counts the connection, unless its client is not known or not limited.
    pub(crate) fn count_connection(&self, transport: &TransportInfo) -> Result<Option<Counted>, TooMany> {
        if self.is_proxy(transport) { Ok(None) } else { self.clients.enter(transport.peer) }
    }

    fn is_proxy(&self, transport: &TransportInfo) -> bool {
        transport.proxy_header || self.trusted_proxies.trust(transport.peer)
    }
}

impl Server {
    /// Whether any site lists folders.
    pub fn lists(&self) -> bool {
        self.hosts.lists()
    }

    /// The paths that were requested most often lately, each with a host that leads to its site. To be called by a thread that may wait.
    pub fn hot_paths(&self, count: usize) -> Vec<(Vec<u8>, Box<[u8]>)> {
        let hosts = self.hosts.names();
        let named = |(site, path)| Some((hosts.get(&site)?.clone(), path));
        self.paths.most_requested(count).into_iter().filter_map(named).collect()
    }

    /// The look-up of a path, in the site of this host, that answers all clients. `None` if it leads to no site.
    pub fn first_look(&self, host: &[u8], path: &[u8]) -> Option<Find> {
        let path = SitePath::of_decoded(path)?;
        let site = self.hosts.find(Some(host))?.at_path(&path).id;
        Some(Find { codings: CodingSet::ALL, ..Find::first(site, path) })
    }

    /// Caches the result of a finished job; a missing name only when it is requested again. Called once, after the job.
    /// Returns `false` if the cache is locked: a caller that may block tries again.
    pub fn cache_result(&self, job: &Job, done: &Done) -> bool {
        if let (Job::Find(find), Done::Found(entry)) = (job, done)
            && let Some(generation) = self.hosts.generation(find.site)
            && entry.generation() >= generation
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
