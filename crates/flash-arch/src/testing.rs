//! Shared by the tests of several modules: a site in a folder, and random numbers from a seed.

// One generator for the simulations of all crates.
#[path = "../../flash-core/src/testing/random.rs"]
mod random;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use flash_core::cache::{CacheLimits, PathCache};
use flash_core::experiments::Experiments;
use flash_core::file::header::HeaderTemplate;
use flash_core::file::validators::TagSource;
use flash_core::listing::Texts;
use flash_core::record::refusal_log::RefusalLog;
use flash_core::server::{Server, Settings};
use flash_core::site::Site;
use flash_core::site::hosts::Hosts;
use flash_core::site::media_types::MediaTypes;
use flash_core::site::path_rules::PathRules;
use flash_disk::{Disk, FollowLinks};
use flash_http::negotiate::CodingSet;
use flash_observe::metrics::MetricsMemory;
use flash_observe::{AccessLogs, Destination, ErrorLog};

pub(crate) use self::random::{Random, each_seed};
use crate::Limits;
use crate::helper_processes::HelperKind;
use crate::server_state::{ServerParts, ServerState};

/// The state of a server for this folder.
pub(crate) fn shared(folder: &Path, limits: Limits, disk_deadline_ms: u64) -> Arc<ServerState> {
    ServerState::new(parts(folder, disk_deadline_ms), limits)
}

pub(crate) fn parts(folder: &Path, disk_deadline_ms: u64) -> ServerParts {
    let settings = flash_disk::Settings {
        site: flash_disk::SiteSettings {
            index: Vec::new(),
            follow_links: FollowLinks::Inside,
            digests: false,
            texts: Texts::default(),
            precompressed: false,
            etag: TagSource::Time,
            compress: CodingSet::EMPTY,
            scripts: Vec::new(),
            program_folders: Arc::default(),
            extensions: Vec::new(),
            types: MediaTypes::default(),
            no_programs: PathRules::default(),
            deny: PathRules::default(),
            user_dirs: None,
            dotfiles: false,
            template: HeaderTemplate::default(),
            strip_prefix: Vec::new(),
        },
        memory_file_bytes_max: 1 << 10,
        single_copy: false,
        copies_bytes_max: 1 << 20,
        listings_bytes_max: 16 << 20,
        revalidate_ms: 1_000,
        zero_copy: true,
        names_briefly: Duration::from_secs(1),
        ahead_bytes_max: 64 << 20,
        others_open: false,
        experiments: Experiments::default(),
    };
    let cache = CacheLimits {
        entries_max: 100,
        bytes_max: 1 << 20,
        descriptors_max: 100,
        threads: 1,
        local_caches: 1,
    };
    ServerParts {
        tls: Arc::default(),
        server: Server {
            number: Arc::default(),
            settings: Settings { disk_deadline_ms, ..Settings::default() },
            hosts: Hosts::one(Site::default()),
            paths: PathCache::new(cache).into(),
            refusals: RefusalLog::default().into(),
        },
        disk: Disk::open(folder, settings).unwrap(),
        access_logs: AccessLogs::default(),
        error_log: ErrorLog::open(Destination::Path(folder.join("errors")), Default::default()).unwrap(),
        helper_kind: HelperKind::Threads,
        programs: None,
        sleep_recorder: flash_observe::recorder_thread(),
        metrics_memory: MetricsMemory::for_loops(1).unwrap().into(),
        verbose: false,
    }
}
