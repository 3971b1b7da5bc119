//! `flash serve`: flags become a site, listeners and an architecture.

use std::fmt;
use std::io::{self, ErrorKind, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::thread;
use std::time::Duration;

use flash_arch::{Arch, HelperLimits, Limits, Listener, Offload, Parts};
use flash_core::cache::{CacheLimits, PathCache};
use flash_core::header::HeaderTemplate;
use flash_core::page::Pages;
use flash_core::site::{Settings, Site};
use flash_disk::{Disk, FollowLinks, Sending};
use flash_observe::{AccessLog, ErrorLog};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::failure::Failure;
use crate::flags::{self, FileCache, Listen};
use crate::serve::logs::Logs;
use crate::serve::programs::Programs;
use crate::serve::rights::Rights;

mod logs;
mod programs;
mod rights;

/// The part of a user's home that is served.
const PUBLIC_FOLDER: &str = "public_html";
/// More descriptors than most ever use: room for them is made at the start.
const DESCRIPTORS_READY: usize = 128 << 10;
/// Descriptors for logs, helpers and the like.
const DESCRIPTORS_ASIDE: usize = 64;

pub(crate) fn run(flags: &flags::Serve) -> Result<(), Failure> {
    rights::check(flags)?;
    let folder = flags
        .dir
        .canonicalize()
        .map_err(|error| cannot(format_args!("serve {}", flags.dir.display()), &error))?;
    // Before anything is open that programs could inherit, and before this process is large.
    let programs = Programs::prepare(flags, &folder)?;
    let descriptors = descriptors();
    let plan =
        Plan { flags, programs, arch: arch(flags), path_entries: flags.path_cache.min(descriptors / 2) };
    // What is wrong with the folders shall be said before anybody listens.
    let file_bytes_max = PathCache::new(plan.cache_limits()).file_bytes_max();
    let open = || plan.disk(&folder, file_bytes_max);
    open().map_err(|error| cannot(format_args!("serve {}", flags.dir.display()), &error))?;
    let pages = plan.pages()?;
    let listeners = flags.listen.iter().map(listen).collect::<Result<Vec<_>, _>>()?;
    let places = listeners.iter().map(Listener::to_string).collect::<Vec<_>>().join(" and ");
    let logs = Logs::open(flags)?;
    let site = rights::Site { folder: &folder, open: &open, listeners: &listeners, logs: &logs.paths };
    // Refused or not, the server serves. In a sandbox they would be refused.
    let _ = flash_os::pin::refuse_huge_pages();
    let _ = flash_os::pin::widen_descriptor_table(descriptors.min(DESCRIPTORS_READY));
    let rights = Rights::give_up(flags, &site)?;
    let helpers = flags.helpers_max * if rights.has_processes() { 2 } else { 1 };
    let room = descriptors.saturating_sub(plan.path_entries + helpers + DESCRIPTORS_ASIDE);
    let room = plan.programs.leave(room, &flags.programs).max(1);
    let limits =
        Limits { connections_max: flags.connections_max.unwrap_or(room).min(room), drain: flags.drain };
    let ready = || {
        let line =
            format!("flash: serving {} at {places} ({}{rights})\n", folder.display(), Shape(plan.arch));
        // With standard error closed there is nobody who waits for this line.
        let _ = io::stderr().write_all(line.as_bytes());
        rights.say_gaps();
    };
    flash_arch::serve(plan.arch, limits, listeners, || plan.parts(&folder, &pages, &logs, &rights), ready)
        .map_err(|error| Failure::Run(error.to_string()))
}

/// The flags, and what was worked out of them once.
struct Plan<'a> {
    flags: &'a flags::Serve,
    programs: Programs,
    arch: Arch,
    path_entries: usize,
}

impl Plan<'_> {
    /// All that one process needs.
    fn parts(&self, folder: &Path, pages: &Pages, logs: &Logs, rights: &Rights) -> io::Result<Parts> {
        let flags = self.flags;
        let (limits, hands) = (flash_observe::Limits::default(), rights.hands());
        let error_log = ErrorLog::start(logs.error(&hands)?, limits)?;
        let access_log = match logs.access(&hands)? {
            Some(to) => Some(AccessLog::start(to, flags.log_format.into(), limits, error_log.clone())?),
            None => None,
        };
        let site = Site {
            settings: self.settings(access_log.is_some()),
            template: self.template(),
            pages: pages.clone(),
            paths: PathCache::new(self.cache_limits()),
            routes: self.programs.routes(),
        };
        let disk = match rights.take_disk() {
            Some(disk) => disk,
            None => self.disk(folder, site.paths.file_bytes_max())?,
        };
        // Here, because a fork does not inherit it. An ordinary user may lock 8 MiB, which is enough for it; it can be done
        // without.
        let _ = flash_os::pin::pin_program();
        let programs = self.programs.start(&error_log, access_log.as_ref())?;
        Ok(Parts { site, disk, access_log, error_log, hands, programs })
    }

    fn settings(&self, log: bool) -> Settings {
        let flags = self.flags;
        let mut settings = Settings {
            body_bytes_max: flags.body_bytes_max,
            head_timeout_ms: ms(flags.head_timeout),
            idle_timeout_ms: ms(flags.idle_timeout),
            bytes_per_second_min: flags.send_rate_min,
            disk_deadline_ms: ms(flags.disk_deadline),
            program_silence_ms: ms(flags.programs.program_deadline),
            revalidate_ms: ms(flags.revalidate),
            dotfiles: flags.dotfiles,
            list: flags.list,
            log,
            ..Settings::default()
        };
        settings.head.head_bytes_max = flags.head_bytes_max as usize;
        settings.head.target_bytes_max = flags.target_bytes_max as usize;
        settings
    }

    fn template(&self) -> HeaderTemplate {
        let line = |field: &flags::Field| format!("{}: {}\r\n", field.name, field.value).into_bytes();
        HeaderTemplate {
            fields: self.flags.header.iter().flat_map(line).collect(),
            cache_control: self.flags.cache_control.clone().map(String::into_bytes),
            padding: self.flags.experiments.header_padding == flags::Switch::On,
            uncached: self.flags.experiments.header_cache == flags::Switch::Off,
        }
    }

    fn pages(&self) -> Result<Pages, Failure> {
        let Some(folder) = &self.flags.error_pages else { return Ok(Pages::default()) };
        let own = flash_disk::error_pages(folder)
            .map_err(|error| cannot(format_args!("read error pages from {}", folder.display()), &error))?;
        Ok(Pages::new(own))
    }

    fn indexes(&self) -> Vec<Vec<u8>> {
        let names = match &self.flags.index[..] {
            [] => self.flags.programs.indexes(),
            asked => asked.to_vec(),
        };
        names.into_iter().map(String::into_bytes).collect()
    }

    fn disk(&self, folder: &Path, memory_file_bytes_max: u64) -> io::Result<Disk> {
        let flags = self.flags;
        let settings = flash_disk::Settings {
            index: self.indexes(),
            follow_links: match flags.follow_links {
                flags::FollowLinks::Inside => FollowLinks::Inside,
                flags::FollowLinks::Anywhere => FollowLinks::Anywhere,
            },
            precompressed: !flags.no_precompressed,
            scripts: self.programs.suffixes(),
            program_folders: self.programs.folders().to_vec(),
            spa: flags.spa.clone().map(String::into_bytes),
            user_dirs: flags.user_dirs.then(|| PUBLIC_FOLDER.into()),
            dotfiles: flags.dotfiles,
            memory_file_bytes_max: match flags.experiments.file_cache {
                FileCache::Memory => memory_file_bytes_max,
                FileCache::Descriptor | FileCache::Mapped | FileCache::Off => 0,
            },
            // Half as much again may be on its way to clients after the cache has let it go.
            copies_bytes_max: self.cache_limits().bytes_max * 3 / 2,
            sending: match flags.experiments.file_cache {
                FileCache::Memory if flags.zero_copy == flags::Switch::Off => Sending::Copies,
                FileCache::Memory | FileCache::Descriptor => Sending::Pages,
                FileCache::Mapped => Sending::Map,
                FileCache::Off => Sending::Anew,
            },
            residency_assumed: flags.experiments.residency == flags::Residency::Assumed,
            template: self.template(),
        };
        Disk::open(folder, settings)
    }

    /// Processes share the bounds, because each has caches of its own: with 32 of them 187 entries and 4 MB each.
    fn cache_limits(&self) -> CacheLimits {
        let (processes, threads) = match self.arch {
            Arch::Amped { loops, .. } | Arch::Uring { loops, .. } | Arch::Sped { loops } => (1, loops),
            // Of a pool's threads one looks things up.
            Arch::Pipelined { pools, .. } => (1, pools),
            Arch::Mt { threads } => (1, threads.min(processors() * 2)),
            Arch::Mp { processes } => (processes, 1),
        };
        CacheLimits {
            entries_max: self.path_entries.div_ceil(processes),
            bytes_max: self.flags.file_cache_bytes / processes as u64,
            threads,
        }
    }
}

fn arch(flags: &flags::Serve) -> Arch {
    let loops = flags.loops.unwrap_or_else(processors);
    match flags.arch {
        flags::Arch::Amped => Arch::Amped { loops, helpers: helpers(flags) },
        flags::Arch::Uring => match rings(flags) {
            Ok(()) => Arch::Uring { loops, helpers: helpers(flags) },
            Err(why) => {
                let line = format!("flash: io_uring is not available here ({why}): serving as amped\n");
                // As with the line that says where: nobody may be listening.
                let _ = io::stderr().write_all(line.as_bytes());
                Arch::Amped { loops, helpers: helpers(flags) }
            }
        },
        flags::Arch::Sped => Arch::Sped { loops },
        flags::Arch::Pipelined => Arch::Pipelined { pools: loops, helpers: helpers(flags) },
        flags::Arch::Mt => Arch::Mt { threads: flags.threads },
        flags::Arch::Mp => Arch::Mp { processes: flags.processes },
    }
}

fn helpers(flags: &flags::Serve) -> HelperLimits {
    HelperLimits {
        helpers_max: flags.helpers_max,
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
    match flags.helpers == flags::Helpers::Process && rights::sandbox(flags) != flags::Sandbox::Off {
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

/// Raises the limit of open files as far as it goes, and returns it.
fn descriptors() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let current = if setrlimit(Resource::Nofile, raised).is_ok() { raised.current } else { limit.current };
    current.map_or(1 << 20, |current| current as usize)
}

fn listen(place: &Listen) -> Result<Listener, Failure> {
    let listener = match place {
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
        Listen::Unix(path) => Listener::unix(path),
    };
    listener.map_err(|error| cannot(format_args!("listen at {place}"), &error))
}

fn cannot(what: fmt::Arguments<'_>, error: &io::Error) -> Failure {
    let why = match error.kind() {
        ErrorKind::NotFound => "there is no such folder".into(),
        ErrorKind::NotADirectory => "it is not a folder".into(),
        ErrorKind::AddrInUse => "another program listens there".into(),
        ErrorKind::AddrNotAvailable => "this machine does not have that address".into(),
        ErrorKind::PermissionDenied => {
            "permission denied (ports below 1024 and foreign folders need rights)".into()
        }
        _ => error.to_string(),
    };
    Failure::Run(format!("cannot {what}: {why}"))
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
            Arch::Mt { threads } => ("mt", threads, "thread"),
            Arch::Mp { processes } => ("mp", processes, "process"),
        };
        let plural = match (count, unit) {
            (1, _) => "",
            (_, "process") => "es",
            _ => "s",
        };
        write!(f, "{name}, {count} {unit}{plural}")
    }
}
