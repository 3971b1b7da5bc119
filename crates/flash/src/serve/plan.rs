//! What the flags lead to, worked out once: sizes, sites and settings. Nothing here is open, and nothing serves.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use flash_acme::Board;
use flash_arch::{Arch, Limits};
use flash_auth::Successes;
use flash_core::cache::CacheLimits;
use flash_core::clients::Clients;
use flash_core::clients::forwarded::TrustedProxies;
use flash_core::experiments::FileCache;
use flash_core::record::log_choice::LogNumber;
use flash_core::server::Settings;
use flash_disk::{DigestStore, Disk, Opened, Spool};

use super::access;
use super::certificates::{self, Certificates, TlsSites};
use super::descriptors::{self, Table};
use super::dir::Dir;
use super::folders::{temporary_folder, usual_digest_store};
use super::log_numbers::LogNumbers;
use super::memory;
use super::named_files::{self, ReadNamed, Secrets};
use super::programs::Programs;
use super::programs::runnable::Runnable;
use super::shape::{self, processors};
use super::shares::Shares;
use super::site_plan::{self, Known, SitePlans};
use crate::failure::{Failure, cannot};
use crate::flags;

/// For `--drain 0` and `--upgrade-drain 0`: a century.
const AS_LONG_AS_IT_TAKES: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

pub(super) struct Plan {
    pub(super) flags: Arc<flags::Serve>,
    pub(super) shares: Shares,
    pub(super) sites: SitePlans,
    /// What each client has used of its limits.
    pub(super) clients: Clients,
    /// Log-ins that were right a moment ago.
    successes: Successes,
    pub(super) certificates: Arc<Certificates>,
    pub(super) log_numbers: LogNumbers,
    pub(super) arch: Arch,
    pub(super) table: Table,
    /// Connections that there is room for.
    connections: usize,
    /// Files that the caches of a process may hold open.
    cached_files: usize,
}

impl Plan {
    pub(super) fn new(flags: Arc<flags::Serve>, dir: &Dir, secrets: Secrets) -> Result<Self, Failure> {
        let shares = Shares::new(&flags, memory::available_bytes(Path::new("/")));
        // Before this process raises its limits, which are not for programs.
        let successes = access::successes()?;
        let log_numbers = LogNumbers::default();
        let known = Known { successes: &successes, log_numbers: &log_numbers };
        let named: ReadNamed<'_> = (&named_files::open, secrets);
        let sites = site_plan::all(&flags, &dir.real_path, known, Runnable::new(), (named, None))
            .map_err(site_plan::first_fault)?;
        let table = shape::table(&flags, &shares, &sites, descriptors::raise_limit());
        let share = table.share();
        let shares_with = Shares { helpers_max: share.helpers, ..shares };
        let arch = shape::arch(&flags, &shares_with, share.connections);
        let (connections, cached_files) = (share.connections, share.cached);
        let clients = access::clients(&flags, sites.are_limited(), table.limit)
            .map_err(|error| cannot(format_args!("share memory"), &error))?;
        Ok(Self {
            flags,
            shares,
            sites,
            clients,
            successes,
            certificates: Arc::default(),
            log_numbers,
            arch,
            table,
            connections,
            cached_files,
        })
    }

    /// What the flags lead to after a reload. All that cannot change is as it was in this plan. `named` opens what
    /// the flags name. In a sandbox no other file can be read.
    pub(super) fn next(
        &self,
        (flags, certificates): (Arc<flags::Serve>, Arc<Certificates>),
        dir: &Dir,
        named: ReadNamed<'_>,
        in_sandbox: bool,
    ) -> Result<Self, Failure> {
        let read = (named, in_sandbox.then_some(&self.sites));
        let successes = self.successes.clone();
        let runnable = self.sites.runnable.fixed();
        let log_numbers = self.log_numbers.clone();
        let known = Known { successes: &successes, log_numbers: &log_numbers };
        let sites =
            site_plan::all(&flags, &dir.real_path, known, runnable, read).map_err(site_plan::first_fault)?;
        let helpers_max = Shares::new(&flags, Some(self.shares.memory_bytes)).helpers_max;
        let shares = Shares { helpers_max, ..self.shares };
        let table = shape::table(&flags, &shares, &sites, self.table.limit);
        let share = table.share();
        let (connections, arch) = (share.connections, shape::with_helpers(self.arch, share.helpers));
        let clients = match sites.are_limited() == self.sites.are_limited() {
            true => self.clients.clone(),
            false => access::rates_again(self.clients.clone(), sites.are_limited())
                .map_err(|error| cannot(format_args!("share memory"), &error))?,
        };
        let cached_files = self.cached_files;
        let mut plan = Self {
            flags,
            shares,
            sites,
            clients,
            successes,
            certificates,
            log_numbers,
            arch,
            table,
            connections,
            cached_files,
        };
        plan.forget_sites();
        Ok(plan)
    }

    /// Reads certificates, keys and passwords. Processes that were started before do not have them.
    pub(super) fn read_secrets(
        &mut self,
        sites: &TlsSites,
        board: Option<Arc<Board>>,
    ) -> Result<(), Failure> {
        self.certificates = certificates::read(&self.flags, sites, board)?.into();
        self.sites.read_secrets(&named_files::open)
    }

    /// From now on the sites are no longer known by their flags.
    pub(super) fn forget_sites(&mut self) {
        if let Some(flags) = Arc::get_mut(&mut self.flags) {
            flags.sites = Vec::new();
        }
    }

    /// How many helpers a device may have, if that is a setting.
    pub(super) fn helpers_max(&self) -> Option<usize> {
        match self.arch {
            Arch::Amped { helpers, .. } | Arch::Uring { helpers, .. } => Some(helpers.helpers_max),
            Arch::Pipelined { .. } | Arch::Sped { .. } | Arch::Mt { .. } | Arch::Mp { .. } => None,
        }
    }

    pub(super) fn limits(&self) -> Limits {
        // The parent of mp keeps the idle connections, and little else.
        let room = match self.arch {
            Arch::Mp { .. } => self.table.limit.saturating_sub(self.table.own).max(1),
            _ => self.connections,
        };
        let or_as_long = |time: Duration| if time.is_zero() { AS_LONG_AS_IT_TAKES } else { time };
        let (drain, upgrade_drain) = (or_as_long(self.flags.drain), or_as_long(self.flags.upgrade_drain));
        let connections_max = room.min(self.flags.connections_max.unwrap_or(usize::MAX));
        // The other half is for those who have shown that they speak TLS.
        let handshakes_max = self.flags.handshakes_max.unwrap_or((connections_max / 2).max(1));
        Limits { connections_max, handshakes_max, drain, upgrade_drain }
    }

    /// The access logs of the server and of its sites.
    pub(super) fn access_logs(&self) -> BTreeSet<LogNumber> {
        self.sites.access_logs().collect()
    }

    pub(super) fn settings(&self) -> Settings {
        let flags = &self.flags;
        let mut settings = Settings {
            head_timeout_ms: ms(flags.head_timeout),
            idle_timeout_ms: ms(flags.idle_timeout),
            send_rate_min: flags.send_rate_min,
            disk_deadline_ms: ms(flags.disk_deadline),
            disk_share_of_new: flags.disk_share,
            program_silence_ms: ms(flags.programs.program_deadline),
            tunnel_idle_ms: ms(flags.programs.http.tunnel_idle),
            program_fin_ms: ms(flags.programs.program_fin_timeout),
            program_send_ms: ms(flags.programs.program_send_timeout),
            revalidate_ms: ms(flags.revalidate),
            copies_content: flags.experiments.file_cache == FileCache::Memory,
            http2: flags.http2 == flags::Switch::On,
            access_log: self.sites.access_log,
            trace_context: flags.trace_context.into(),
            clients: self.clients.clone(),
            has_users: self.sites.have_users(),
            certificates: self.certificates.first(),
            challenges: self.certificates.board.clone().map(|board| board as _),
            trusted_proxies: TrustedProxies::new(
                flags.trusted_proxies.clone(),
                shape::forwarded_field(flags),
            ),
            ..Settings::default()
        };
        settings.program_head =
            flash_cgi::response::Limits::of_bytes(flags.programs.program_head_bytes_max as usize);
        settings.head.head_bytes_max = flags.head_bytes_max as usize;
        settings.head.target_bytes_max = flags.target_bytes_max as usize;
        settings
    }

    /// The disk of the process of this number.
    pub(super) fn disk(
        &self,
        number: usize,
        dir: &Dir,
        root: Opened,
        memory_file_bytes_max: u64,
    ) -> io::Result<Disk> {
        let settings = self.disk_settings(number, self.sites.first_on_disk(), memory_file_bytes_max);
        Disk::of_root(dir.path(), root, settings)
    }

    /// The settings of a disk whose first site is this one.
    pub(super) fn disk_settings(
        &self,
        number: usize,
        site: &flash_disk::SiteSettings,
        memory_file_bytes_max: u64,
    ) -> flash_disk::Settings {
        let flags = &self.flags;
        flash_disk::Settings {
            site: site.clone(),
            memory_file_bytes_max: match flags.experiments.file_cache {
                FileCache::Memory => memory_file_bytes_max,
                FileCache::Descriptor | FileCache::Mapped | FileCache::Off => 0,
            },
            // Processes of mp share what is in the page cache.
            single_copy: !matches!(self.arch, Arch::Mp { .. })
                && self.shares.cache_is_large(self.cache_limits(number).bytes_max),
            // A quarter as much again may be on its way to clients after the cache has let it go.
            copies_bytes_max: self.cache_limits(number).bytes_max / 4 * 5,
            listings_bytes_max: self.shares.listings_bytes(self.parts_of(number)),
            ahead_bytes_max: self.shares.memory_bytes / 8,
            revalidate_ms: ms(flags.revalidate),
            zero_copy: flags.zero_copy == flags::Switch::On,
            names_briefly: flags.revalidate,
            others_open: false,
            experiments: flags.experiments.settings(),
        }
    }

    /// Where one process keeps the bodies of requests for programs, if there are any programs.
    pub(super) fn spool(&self) -> io::Result<Option<Spool>> {
        if self.sites.programs().all(Programs::is_empty) {
            return Ok(None);
        }
        Spool::open(&temporary_folder()).map(Some)
    }

    /// What keeps digests after the end of the server. A reload may need it that cannot open it any more.
    pub(super) fn digest_store(&self) -> io::Result<Option<DigestStore>> {
        let path = self.flags.digest_store.clone().or_else(usual_digest_store);
        match path.map(|path| DigestStore::open(&path)).transpose() {
            Err(_) if !self.sites.have_digests() => Ok(None),
            opened => opened,
        }
    }

    /// Processes share the bounds, because each has caches of its own: with 32 of them 512 entries and 4 MB each.
    pub(super) fn cache_limits(&self, number: usize) -> CacheLimits {
        let threads = match self.arch {
            Arch::Amped { loops, .. } | Arch::Uring { loops, .. } | Arch::Sped { loops } => loops,
            // Of a pool's threads one looks things up.
            Arch::Pipelined { pools, .. } => pools,
            Arch::Mt { threads_max, .. } => threads_max.min(processors() * 2),
            Arch::Mp { .. } => 1,
        };
        let parts = self.parts_of(number);
        CacheLimits {
            entries_max: self.shares.paths.div_ceil(parts),
            descriptors_max: self.cached_files,
            bytes_max: self.shares.file_cache_bytes / parts as u64,
            threads,
            local_caches: if matches!(self.arch, Arch::Mt { .. } | Arch::Mp { .. }) { 0 } else { threads },
        }
    }

    /// Into how many parts the caches are divided for the process of this number. Those of mp that start on demand share one half
    /// of them.
    pub(super) fn parts_of(&self, number: usize) -> usize {
        match self.arch {
            Arch::Mp { processes, processes_max } if processes == processes_max => processes,
            Arch::Mp { processes, .. } if number < processes => processes * 2,
            Arch::Mp { processes, processes_max } => (processes_max - processes) * 2,
            _ => 1,
        }
    }

    /// `, file cache 32M`, of all processes; nothing where none of it is kept.
    pub(super) fn caches(&self) -> String {
        match self.flags.experiments.file_cache {
            FileCache::Memory => format!(", file cache {}", flags::shown_size(self.shares.file_cache_bytes)),
            FileCache::Descriptor | FileCache::Mapped | FileCache::Off => String::new(),
        }
    }
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
