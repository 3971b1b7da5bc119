//! `flash helper`: flags become roots, a socket, a sandbox, and the daemon.

use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use flash_arch::{FileService, HelperKind, HelperLimits, ServerParts, sandbox};
use flash_core::cache::{CacheLimits, PathCache};
use flash_core::experiments::Experiments;
use flash_core::file::header::HeaderTemplate;
use flash_core::file::validators::TagSource;
use flash_core::listing::Texts;
use flash_core::record::refusal_log::RefusalLog;
use flash_core::server::{Server, Settings};
use flash_core::site::Site;
use flash_core::site::hosts::Hosts;
use flash_core::site::id::SiteId;
use flash_core::site::media_types::MediaTypes;
use flash_core::site::path_rules::PathRules;
use flash_disk::{Disk, OpensHere, SiteSettings, open_root};
use flash_helper::{Daemon, Listener, Quotas, Root};
use flash_http::negotiate::CodingSet;
use flash_observe::{AccessLogs, Destination, ErrorLog};

use crate::failure::{Failure, cannot};
use crate::flags::{self, FollowLinks, Sandbox};
use crate::serve::{as_user_first, become_user, make_folder, raise_limit, user_of, usual_helpers};

/// Descriptors of the daemon itself, beside its askers' and its caches'.
const OWN: usize = 256;
/// The caches get at most this part of all descriptors.
const CACHED_PART: usize = 2;

pub(crate) fn run(flags: &flags::Helper) -> Result<(), Failure> {
    let roots = roots(flags)?;
    let users = users(flags)?;
    // The sandbox hides how much memory there is.
    let helpers_max = flags.helpers_max.unwrap_or_else(usual_helpers);
    let descriptors = raise_limit();
    let listener = listener(flags)?;
    if let Some(name) = &flags.user {
        become_user(name)?;
    }
    let own_user = rustix::process::geteuid().as_raw();
    let cached = flags.path_cache.min(descriptors.saturating_sub(OWN) / CACHED_PART).max(1);
    let paths = PathCache::new(CacheLimits {
        entries_max: flags.path_cache,
        bytes_max: flags.file_cache_bytes,
        descriptors_max: cached,
        threads: 1,
        local_caches: 0,
    });
    let (disk, sites) = open(flags, &roots, paths.file_bytes_max())?;
    let told = roots.iter().zip(&sites);
    let told = told.map(|(root, site)| Root::new(name_of(&root.given), Arc::clone(&site.generation)));
    let told = told.collect();
    let gaps = confine(flags, &roots)?;
    let error_log = ErrorLog::open(Destination::Stderr, flash_observe::Limits::default())
        .map_err(|error| cannot(format_args!("write the log"), &error))?;
    let parts = ServerParts {
        tls: Arc::default(),
        server: server(flags, sites, paths, error_log.clone()),
        disk,
        access_logs: AccessLogs::default(),
        error_log: error_log.clone(),
        helper_kind: HelperKind::Threads,
        programs: None,
        // No loop of it reads files.
        sleep_recorder: flash_observe::recorder_thread(),
        metrics_memory: flash_observe::metrics::MetricsMemory::for_loops(1)
            .map_err(|error| cannot(format_args!("start the helpers"), &error))?
            .into(),
        verbose: flags.verbose,
    };
    let helpers = HelperLimits { helpers_max, queue_max: flags.helper_queue_max };
    let service = FileService::start(parts, helpers)
        .map_err(|error| cannot(format_args!("start the helpers"), &error))?;
    let settings = flash_helper::Settings {
        users: users.into_iter().chain([own_user]).collect(),
        askers_max: flags.askers_max,
        quotas: Quotas {
            questions_max: flags.questions_max,
            descriptors_max: flags.descriptors_max,
            bytes_max: flags.asker_bytes_max,
        },
    };
    let place = listener.to_string();
    let daemon = Daemon::new(service, settings, told, listener)
        .map_err(|error| cannot(format_args!("start the daemon"), &error))?;
    say(&roots, &place, gaps.as_ref());
    let ended = daemon.run();
    if ended.is_err() || flags.verbose {
        // The last lines would be lost with the process.
        error_log.close();
    }
    ended.map_err(|error| Failure::Run(error.to_string()))
}

/// The socket that the service manager has passed on, or one at the path of the flags.
fn listener(flags: &flags::Helper) -> Result<Listener, Failure> {
    let passed = Listener::passed().map_err(|error| Failure::Run(error.to_string()))?;
    passed.map_or_else(
        || {
            make_folder(&flags.listen)
                .and_then(|()| as_user_first(flags.user.as_deref(), || Listener::bind(&flags.listen)))
                .map_err(|error| cannot(format_args!("listen at unix:{}", flags.listen.display()), &error))
        },
        Ok,
    )
}

fn server(flags: &flags::Helper, sites: Vec<Site>, paths: PathCache, log: ErrorLog) -> Server {
    Server {
        number: Arc::default(),
        settings: Settings {
            disk_deadline_ms: ms(flags.disk_deadline),
            revalidate_ms: ms(flags.revalidate),
            // Askers send local files themselves.
            copies_content: false,
            ..Settings::default()
        },
        hosts: Hosts::new(sites.into_iter().map(|site| (site, Vec::new())).collect()),
        paths: paths.into(),
        refusals: RefusalLog::new(move |refused| log.refused(refused, None)).into(),
    }
}

/// A root as it was given, made absolute, and where it leads.
struct RootFolder {
    given: PathBuf,
    real: PathBuf,
}

fn roots(flags: &flags::Helper) -> Result<Vec<RootFolder>, Failure> {
    let root = |path: &PathBuf| {
        let failure = |error: io::Error| cannot(format_args!("answer for {}", path.display()), &error);
        let real = path.canonicalize().map_err(failure)?;
        open_root(&real).map_err(failure)?;
        Ok(RootFolder { given: std::path::absolute(path).map_err(failure)?, real })
    };
    flags.roots.iter().map(root).collect()
}

fn users(flags: &flags::Helper) -> Result<Vec<u32>, Failure> {
    let user = |name: &String| match (user_of(name), name.parse()) {
        (Ok((_, user)), _) => Ok(user.id),
        // A number needs no user of that number.
        (Err(_), Ok(number)) => Ok(number),
        (Err(why), Err(_)) => Err(Failure::Run(format!("cannot allow user {name}: {why}"))),
    };
    flags.allow_user.iter().map(user).collect()
}

/// The disk with all roots, and their sites.
fn open(
    flags: &flags::Helper,
    roots: &[RootFolder],
    file_bytes_max: u64,
) -> Result<(Disk, Vec<Site>), Failure> {
    let site = SiteSettings {
        index: flags.index.iter().map(|name| name.clone().into_bytes()).collect(),
        follow_links: match flags.follow_links {
            FollowLinks::Inside => flash_disk::FollowLinks::Inside,
            FollowLinks::Anywhere => flash_disk::FollowLinks::Anywhere,
        },
        scripts: Vec::new(),
        program_folders: Arc::default(),
        extensions: Vec::new(),
        types: MediaTypes::default(),
        no_programs: PathRules::default(),
        deny: PathRules::default(),
        etag: TagSource::Time,
        digests: false,
        texts: Texts::default(),
        precompressed: !flags.no_precompressed,
        // The asker compresses what it sends.
        compress: CodingSet::EMPTY,
        user_dirs: None,
        // The asker's configuration says what it hides.
        dotfiles: true,
        template: HeaderTemplate::default(),
        strip_prefix: Vec::new(),
    };
    let settings = flash_disk::Settings {
        site: site.clone(),
        memory_file_bytes_max: file_bytes_max,
        single_copy: false,
        copies_bytes_max: flags.file_cache_bytes / 4 * 5,
        listings_bytes_max: 0,
        ahead_bytes_max: flags.file_cache_bytes,
        revalidate_ms: ms(flags.revalidate),
        zero_copy: true,
        names_briefly: flags.revalidate,
        others_open: true,
        experiments: Experiments::default(),
    };
    let failure =
        |root: &RootFolder, error| cannot(format_args!("answer for {}", root.given.display()), &error);
    let first = &roots[0];
    let disk = Disk::open(&first.given, settings).map_err(|error| failure(first, error))?;
    let site = Arc::new(site);
    let folders = roots.iter().map(|root| (root.given.as_path().into(), Arc::clone(&site))).collect();
    let next = disk.prepare_sites(folders, |_| Arc::new(OpensHere)).map_err(|error| failure(first, error))?;
    let of_root = |(id, generation): &(SiteId, _)| Site {
        id: *id,
        generation: Arc::clone(generation),
        ..Site::default()
    };
    let sites: Vec<Site> = next.sites.iter().map(of_root).collect();
    disk.replace_sites(next);
    for (site, root) in sites.iter().zip(roots) {
        disk.site_root(site.id).ok_or_else(|| failure(root, io::ErrorKind::NotFound.into()))?;
    }
    Ok((disk, sites))
}

/// Gives up all rights but reading below the roots. Returns what the kernel could not take away.
fn confine(flags: &flags::Helper, roots: &[RootFolder]) -> Result<Option<sandbox::Unenforced>, Failure> {
    let readable: Vec<PathBuf> = match flags.follow_links {
        FollowLinks::Anywhere => vec!["/".into()],
        FollowLinks::Inside => roots.iter().flat_map(RootFolder::readable).collect(),
    };
    match (flags.sandbox, || sandbox::confine_daemon(&readable)) {
        (Sandbox::Off, _) => Ok(None),
        (Sandbox::On, confine) => Ok(confine().err()),
        (Sandbox::Required, confine) => confine().map(|()| None).map_err(|unenforced| {
            Failure::Run(format!("cannot have the sandbox that is required: {unenforced}"))
        }),
    }
}

impl RootFolder {
    /// A root behind a symbolic link is replaced by a folder beside it, so that is in reach too.
    fn readable(&self) -> Vec<PathBuf> {
        let beside = (self.given != self.real).then(|| self.real.parent().map(Path::to_owned)).flatten();
        [self.real.clone()].into_iter().chain(beside).collect()
    }
}

/// The name of a root for askers: without a slash at its end.
fn name_of(path: &Path) -> Vec<u8> {
    let bytes = path.as_os_str().as_bytes();
    bytes.strip_suffix(b"/").unwrap_or(bytes).to_vec()
}

fn say(roots: &[RootFolder], place: &str, gaps: Option<&sandbox::Unenforced>) {
    let names: Vec<String> = roots.iter().map(|root| root.given.display().to_string()).collect();
    // With standard error closed there is nobody who waits for this line.
    let _ = writeln!(io::stderr(), "flash: answering for {} at {place}", names.join(" and "));
    if let Some(gaps) = gaps {
        let _ = writeln!(io::stderr(), "flash: the sandbox has gaps: {gaps}");
    }
    if rustix::process::geteuid().is_root() {
        let _ = writeln!(io::stderr(), "flash: the daemon runs as root: --user NAME makes it another user's");
    }
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
