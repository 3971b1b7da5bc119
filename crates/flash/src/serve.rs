//! `flash serve`: flags become a site, listeners and an architecture.

use std::fmt;
use std::io::{self, ErrorKind, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use flash_arch::{Arch, HelperLimits, Limits, Listener, Offload, ServerParts, SocketAccess};
use flash_core::cache::{CacheLimits, PathCache};
use flash_core::forwarded::TrustedProxies;
use flash_core::hosts::Hosts;
use flash_core::memory_budget::Budget;
use flash_core::refusal::RefusalLog;
use flash_core::server::{Server, Settings};
use flash_disk::{Disk, Opened, SendMode, Spool};
use flash_observe::{AccessLog, ErrorLog};
use flash_os::allocator;
use flash_process::{Child, ForkHelper};

use crate::failure::{Failure, cannot};
use crate::flags::{self, FileCache, Listen, UnixPlace};
use crate::serve::descriptors::Table;
use crate::serve::dir::Dir;
use crate::serve::folders::temporary_folder;
use crate::serve::logs::Logs;
use crate::serve::privileges::Privileges;
use crate::serve::programs::Programs;
use crate::serve::shares::Shares;
use crate::serve::site_plan::SitePlan;

mod browser;
mod check;
mod denied;
mod descriptors;
mod dir;
mod fallback;
mod folders;
mod logs;
mod memory;
mod privileges;
mod programs;
mod reach;
mod response_extras;
mod shares;
mod site_plan;
mod supervisor;

/// More descriptors than most ever use: room for them is made at the start.
const DESCRIPTORS_READY: usize = 128 << 10;

/// For `--drain 0`: a century.
const AS_LONG_AS_IT_TAKES: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

pub(crate) use check::check;

pub(crate) fn run(flags: &flags::Serve) -> Result<(), Failure> {
    // The memory of the command line's parser would stay with this thread, which allocates little from now on.
    allocator::collect();
    privileges::check(flags)?;
    check::sites(flags)?;
    shares::check_counts(flags)?;
    let dir = Dir::new(&flags.dir)
        .map_err(|error| cannot(format_args!("serve {}", flags.dir.display()), &error))?;
    let shares = Shares::new(flags, memory::available_bytes(Path::new("/")));
    // Before this process raises its limits, which are not for programs.
    let sites = site_plan::all(flags, &dir.real_path)?;
    let table = table(flags, &shares, &sites);
    let share = table.share();
    let arch = arch(flags, &Shares { helpers_max: share.helpers, ..shares }, share.connections);
    let plan = Plan { flags, shares, sites, arch, cached_files: share.cached };
    // What is wrong with the folders shall be said before anybody listens.
    let file_bytes_max = PathCache::new(plan.cache_limits(0)).file_bytes_max();
    let open = |root| plan.disk(0, &dir, root, file_bytes_max);
    dir.open()
        .and_then(open)
        .map_err(|error| cannot(format_args!("serve {}", flags.dir.display()), &error))?;
    let supervisor::Started { process, fork_helper } =
        supervisor::start(flags, &dir, plan.first().programs.setup(), &open)?;
    let listeners = flags
        .listen
        .iter()
        .map(|place| listen(place, &flags.listen, flags.user.as_deref()))
        .collect::<Result<Vec<_>, _>>()?;
    let places = listeners.iter().map(Listener::to_string).collect::<Vec<_>>().join(" and ");
    let logs = Logs::open(flags, &supervisor::socket_paths(flags))?;
    if flags.open {
        browser::open(&listeners);
    }
    let spool = || plan.spool();
    let site = privileges::Site { dir: &dir, open: &open, spool: &spool };
    // Refused or not, the server serves. In a sandbox they would be refused.
    let _ = flash_os::preload::disable_huge_pages();
    let _ = flash_os::preload::grow_descriptor_table(table.limit.min(DESCRIPTORS_READY));
    let privileges = Privileges::give_up(flags, &site, process.as_ref())?;
    // The parent of mp keeps the idle connections, and little else.
    let room = match plan.arch {
        Arch::Mp { .. } => table.limit.saturating_sub(table.own).max(1),
        _ => share.connections,
    };
    let connections_max = room.min(flags.connections_max.unwrap_or(usize::MAX));
    let drain = if flags.drain.is_zero() { AS_LONG_AS_IT_TAKES } else { flags.drain };
    let limits = Limits { connections_max, drain };
    let ready = || {
        let (shape, caches) = (Shape(plan.arch), plan.caches());
        let folder = match &plan.sites[..] {
            [_] => dir.real_path.display().to_string(),
            sites => format!("{} sites", sites.len()),
        };
        let line = format!("flash: serving {folder} at {places} ({shape}{privileges}{caches})\n");
        // With standard error closed there is nobody who waits for this line.
        let _ = io::stderr().write_all(line.as_bytes());
        if let Some(warning) = table.warning() {
            let _ = writeln!(io::stderr(), "flash: {warning}");
        }
        if let Some(warning) = dir.warning() {
            let _ = writeln!(io::stderr(), "flash: {warning}");
        }
        privileges.log_unenforced();
        for refusal in site_plan::programs(&plan.sites).into_iter().flat_map(Programs::refusals) {
            let _ = writeln!(io::stderr(), "flash: {refusal}");
        }
    };
    let needed: Vec<Child> = process.iter().map(|process| process.child()).collect();
    let parts = |number| plan.parts(number, &dir, &logs, &privileges, fork_helper.as_ref());
    let served = flash_arch::serve(plan.arch, limits, listeners, &needed, parts, ready);
    logs.tidy_up();
    served.map_err(|error| match error.kind() {
        ErrorKind::WouldBlock => cannot(format_args!("serve"), &error),
        _ => Failure::Run(error.to_string()),
    })
}

/// The flags, and what was worked out of them once.
struct Plan<'a> {
    flags: &'a flags::Serve,
    shares: Shares,
    sites: Vec<SitePlan>,
    arch: Arch,
    /// Files that the caches of a process may hold open.
    cached_files: usize,
}

impl Plan<'_> {
    /// All that one process needs.
    fn parts(
        &self,
        number: usize,
        dir: &Dir,
        logs: &Logs,
        privileges: &Privileges,
        fork_helper: Option<&ForkHelper>,
    ) -> io::Result<ServerParts> {
        let flags = self.flags;
        let (limits, helper_kind) = (flash_observe::Limits::default(), privileges.helper_kind());
        let error_log = ErrorLog::start(logs.error(&helper_kind)?, limits)?;
        let access_log = match logs.access(&helper_kind)? {
            Some(to) => Some(AccessLog::start(to, logs.format, limits, error_log.clone())?),
            None => None,
        };
        let paths = PathCache::new(self.cache_limits(number));
        let mut disk = match privileges.take_disk() {
            Some(disk) => disk,
            None => {
                let mut disk = self.disk(number, dir, dir.open()?, paths.file_bytes_max())?;
                // Whoever began the server has heard of a failure.
                if let Ok(Some(spool)) = self.spool() {
                    disk.keep_bodies_in(spool);
                }
                disk
            }
        };
        let server = Server {
            settings: self.settings(access_log.is_some()),
            hosts: self.hosts(&mut disk),
            paths,
            refusals: {
                let error_log = error_log.clone();
                RefusalLog::new(move |line| error_log.log(line))
            },
        };
        // Here, because a fork does not inherit it. An ordinary user may lock 8 MiB, which is enough for it; it can be done
        // without.
        let _ = flash_os::preload::mlock_program();
        let programs =
            Programs::start(&site_plan::programs(&self.sites), fork_helper, &error_log, access_log.as_ref())?;
        Ok(ServerParts { server, disk, access_log, error_log, helper_kind, programs, verbose: flags.verbose })
    }

    fn settings(&self, log: bool) -> Settings {
        let flags = self.flags;
        let mut settings = Settings {
            head_timeout_ms: ms(flags.head_timeout),
            idle_timeout_ms: ms(flags.idle_timeout),
            bytes_per_second_min: flags.send_rate_min,
            disk_deadline_ms: ms(flags.disk_deadline),
            program_silence_ms: ms(flags.programs.program_deadline),
            revalidate_ms: ms(flags.revalidate),
            log,
            trusted_proxies: TrustedProxies::new(flags.trusted_proxy.clone()),
            ..Settings::default()
        };
        settings.head.head_bytes_max = flags.head_bytes_max as usize;
        settings.head.target_bytes_max = flags.target_bytes_max as usize;
        settings
    }

    fn first(&self) -> &site_plan::Common {
        &self.sites[0].common
    }

    /// The sites by their hosts. Adds all but the first to the disk.
    fn hosts(&self, disk: &mut Disk) -> Hosts {
        let answers = Budget::new(self.shares.program_buffer_bytes);
        let sites = (0..).zip(&self.sites).map(|(number, site)| {
            let generation = match number {
                0 => disk.generation(),
                _ => disk.add_site(site.folder.clone(), Arc::clone(&site.common.disk)),
            };
            site.site(number, generation, &answers)
        });
        Hosts::new(sites.collect())
    }

    fn disk(&self, number: usize, dir: &Dir, root: Opened, memory_file_bytes_max: u64) -> io::Result<Disk> {
        let flags = self.flags;
        let settings = flash_disk::Settings {
            site: (*self.first().disk).clone(),
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
            revalidate_ms: ms(flags.revalidate),
            send_mode: match flags.experiments.file_cache {
                FileCache::Memory if flags.zero_copy == flags::Switch::Off => SendMode::Copy,
                FileCache::Memory | FileCache::Descriptor => SendMode::Sendfile,
                FileCache::Mapped => SendMode::Mmap,
                FileCache::Off => SendMode::Reopen,
            },
            names_briefly: flags.revalidate,
            residency_assumed: flags.experiments.residency == flags::Residency::Assumed,
        };
        Disk::of_root(dir.path(), root, settings)
    }

    /// Where one process keeps the bodies of requests for programs, if there are any programs.
    fn spool(&self) -> io::Result<Option<Spool>> {
        if site_plan::programs(&self.sites).iter().all(|programs| programs.is_empty()) {
            return Ok(None);
        }
        Spool::open(&temporary_folder()).map(Some)
    }

    /// Processes share the bounds, because each has caches of its own: with 32 of them 187 entries and 4 MB each.
    fn cache_limits(&self, number: usize) -> CacheLimits {
        let threads = match self.arch {
            Arch::Amped { loops, .. } | Arch::Uring { loops, .. } | Arch::Sped { loops } => loops,
            // Of a pool's threads one looks things up.
            Arch::Pipelined { pools, .. } => pools,
            Arch::Mt { threads_max, .. } => threads_max.min(processors() * 2),
            Arch::Mp { .. } => 1,
        };
        let parts = self.parts_of(number);
        CacheLimits {
            entries_max: self.flags.path_cache.div_ceil(parts),
            descriptors_max: self.cached_files,
            bytes_max: self.shares.file_cache_bytes / parts as u64,
            threads,
        }
    }

    /// Into how many parts the caches are divided for the process of this number. Those of mp that start on demand share one half
    /// of them.
    fn parts_of(&self, number: usize) -> usize {
        match self.arch {
            Arch::Mp { processes, processes_max } if processes == processes_max => processes,
            Arch::Mp { processes, .. } if number < processes => processes * 2,
            Arch::Mp { processes, processes_max } => (processes_max - processes) * 2,
            _ => 1,
        }
    }

    /// `, file cache 32M`, of all processes; nothing where none of it is kept.
    fn caches(&self) -> String {
        match self.flags.experiments.file_cache {
            FileCache::Memory => format!(", file cache {}", flags::shown_size(self.shares.file_cache_bytes)),
            FileCache::Descriptor | FileCache::Mapped | FileCache::Off => String::new(),
        }
    }
}

fn arch(flags: &flags::Serve, shares: &Shares, connections: usize) -> Arch {
    let (loops, helpers) = (loops(flags), helpers(flags, shares));
    match flags.arch {
        flags::Arch::Amped => Arch::Amped { loops, helpers },
        flags::Arch::Uring => match rings(flags) {
            Ok(()) => Arch::Uring { loops, helpers },
            Err(why) => {
                let line = format!("flash: io_uring is not available here ({why}): serving as amped\n");
                // As with the line that says where: nobody may be listening.
                let _ = io::stderr().write_all(line.as_bytes());
                Arch::Amped { loops, helpers }
            }
        },
        flags::Arch::Sped => Arch::Sped { loops },
        flags::Arch::Pipelined => Arch::Pipelined { pools: loops, helpers },
        flags::Arch::Mt => {
            // One more can take a connection that waits until another one ends.
            let threads_max = shares.threads_max.min(connections + 1);
            Arch::Mt { threads: shares.threads.min(threads_max), threads_max }
        }
        flags::Arch::Mp => Arch::Mp { processes: shares.processes, processes_max: shares.processes_max },
    }
}

fn helpers(flags: &flags::Serve, shares: &Shares) -> HelperLimits {
    HelperLimits {
        helpers_max: shares.helpers_max,
        queue_max: flags.helper_queue_max,
        single_flight: flags.experiments.single_flight == flags::Switch::On,
        offload: match flags.experiments.offload {
            flags::Offload::Needed => Offload::Needed,
            flags::Offload::Always => Offload::Always,
            flags::Offload::NotOpening => Offload::NotOpening,
        },
    }
}

/// Why there can be none.
fn rings(flags: &flags::Serve) -> Result<(), String> {
    match flags.helpers == flags::Helpers::Process && privileges::sandbox(flags) != flags::Sandbox::Off {
        true => Err("a sandbox cannot see what they do".into()),
        false => flash_arch::uring::probe().map_err(|why| why.to_string()),
    }
}

fn processors() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Who wants what of the table of open files.
fn table(flags: &flags::Serve, shares: &Shares, sites: &[SitePlan]) -> Table {
    let of_sites = sites.iter().map(|site| site.common.programs.descriptors(&flags.programs));
    // Programs run for one site only, and FastCGI servers may answer for all.
    let (of_programs, of_connection) =
        of_sites.fold((0, 1), |(programs, each), of| (programs.max(of.0), each.max(of.1)));
    let limit = descriptors::raise_limit();
    let connections = match flags.arch {
        // A process has a table of its own, and one connection.
        flags::Arch::Mp => Some(1),
        _ => flags.connections_max,
    };
    Table {
        limit,
        own: descriptors::own(flags.arch, loops(flags), flags.listen.len())
            // A site that was visited holds its folder open.
            + (sites.len() - 1).min(limit / 2),
        helpers: match flags.arch {
            flags::Arch::Amped | flags::Arch::Uring => shares.helpers_max,
            _ => 0,
        },
        programs: of_programs,
        of_connection,
        connections,
        entries: match flags.arch {
            flags::Arch::Mp => flags.path_cache.div_ceil(shares.processes),
            _ => flags.path_cache,
        },
    }
}

fn loops(flags: &flags::Serve) -> usize {
    flags.loops.unwrap_or_else(processors)
}

/// Where the port's IPv4 is asked for besides, `[::]` is for IPv6 alone.
fn listen(place: &Listen, all: &[Listen], user: Option<&str>) -> Result<Listener, Failure> {
    let takes_ipv4_of = |port: u16| {
        let is_it =
            |place: &Listen| matches!(place, Listen::Inet(SocketAddr::V4(other)) if other.port() == port);
        port != 0 && all.iter().any(is_it)
    };
    let listener = match place {
        Listen::Inet(address) if address.is_ipv6() && takes_ipv4_of(address.port()) => {
            Listener::inet6(*address)
        }
        Listen::Inet(address) => Listener::inet(*address),
        Listen::EveryAddress(port) => {
            Listener::inet(SocketAddr::from((Ipv6Addr::UNSPECIFIED, *port))).or_else(|error| {
                match error.kind() {
                    // A machine without IPv6.
                    ErrorKind::AddrNotAvailable | ErrorKind::Unsupported => {
                        Listener::inet(SocketAddr::from((Ipv4Addr::UNSPECIFIED, *port)))
                    }
                    _ if error.raw_os_error() == Some(rustix::io::Errno::AFNOSUPPORT.raw_os_error()) => {
                        Listener::inet(SocketAddr::from((Ipv4Addr::UNSPECIFIED, *port)))
                    }
                    _ => Err(error),
                }
            })
        }
        Listen::Unix(place) => {
            socket_access(place, user).and_then(|access| Listener::unix(&place.path, access))
        }
    };
    listener.map_err(|error| match (place, error.kind()) {
        (Listen::Inet(_) | Listen::EveryAddress(_), ErrorKind::PermissionDenied) => Failure::Run(format!(
            "cannot listen at {place}: ports below 1024 are for root, and for programs with CAP_NET_BIND_SERVICE"
        )),
        _ => cannot(format_args!("listen at {place}"), &error),
    })
}

/// Who may connect. With --user the socket is that user's, and the group's that is given or that user's own.
fn socket_access(place: &UnixPlace, user: Option<&str>) -> io::Result<SocketAccess> {
    let user = user.map(privileges::user_of).transpose().map_err(io::Error::other)?.map(|(_, user)| user);
    let group = match &place.group {
        Some(name) => {
            let group = flash_os::user::group_named(name.as_bytes()).or_else(|| name.parse().ok());
            Some(group.ok_or_else(|| io::Error::other(format!("there is no group {name}")))?)
        }
        None => user.as_ref().map(|user| user.group),
    };
    Ok(SocketAccess { mode: place.mode, user: user.map(|user| user.id), group })
}

/// `amped, 2 loops`.
struct Shape(Arch);

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, count, unit) = match self.0 {
            Arch::Amped { loops, .. } => ("amped", loops, "loop"),
            Arch::Uring { loops, .. } => ("uring", loops, "loop"),
            Arch::Sped { loops } => ("sped", loops, "loop"),
            Arch::Pipelined { pools, .. } => ("pipelined", pools, "pool"),
            Arch::Mt { threads, .. } => ("mt", threads, "thread"),
            Arch::Mp { processes, .. } => ("mp", processes, "process"),
        };
        let plural = match (count, unit) {
            (1, _) => "",
            (_, "process") => "es",
            _ => "s",
        };
        write!(f, "{name}, {count} {unit}{plural}")
    }
}
