//! The server's rights, in the order in which it gives them up: root's, if it began as root, then what helper processes
//! have from now on in its place.
//!
//! All of this happens while the process has one thread, after it has opened its listeners and logs. What a sandbox is,
//! [`flash_arch::sandbox`] knows.

use std::cell::RefCell;
use std::fmt;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flash_arch::sandbox::{Gaps, confine_helper, confine_server};
use flash_arch::{Chores, Hands, Listener, Nursery};
use flash_disk::Disk;
use flash_os::user;

use super::{PUBLIC_FOLDER, cannot};
use crate::failure::Failure;
use crate::flags::{self, Arch, FileCache, FollowLinks, Helpers, Offload, Sandbox};

/// What is left.
pub(super) struct Rights {
    nursery: Option<Arc<Nursery>>,
    walls: Walls,
    /// The folder, opened while that was possible; for whoever is going to send what helpers find in it.
    disk: RefCell<Option<Disk>>,
}

/// What stands around the process that serves.
enum Walls {
    None,
    Whole,
    /// The kernel could not do all of it, and the operator wants to go on all the same.
    Gaps(Gaps),
}

/// What helper processes will serve.
pub(super) struct Site<'a> {
    pub(super) folder: &'a Path,
    pub(super) open: &'a dyn Fn() -> io::Result<Disk>,
    pub(super) listeners: &'a [Listener],
    pub(super) logs: &'a [PathBuf],
}

/// Finds fault with flags that do not go together.
pub(super) fn check(flags: &flags::Serve) -> Result<(), Failure> {
    let usage = |what: &str| Err(Failure::Usage(format!("{what} (see flash serve --help)")));
    match (flags.helpers, flags.sandbox) {
        (Helpers::Process, _) if !matches!(flags.arch, Arch::Amped | Arch::Uring) => {
            usage("--helpers process needs an architecture that has helpers: --arch amped or uring")
        }
        (Helpers::Process, _) if flags.experiments.file_cache == FileCache::Off => {
            usage("--file-cache off needs --helpers thread: only there can the server open files anew")
        }
        (Helpers::Process, _) if flags.experiments.offload == Offload::NotOpening => {
            usage("--offload not-opening needs --helpers thread: only there can the server open files")
        }
        (Helpers::Thread, Some(Sandbox::On | Sandbox::Required)) => {
            usage("--sandbox needs --helpers process: threads have the rights of their process")
        }
        (Helpers::Process, sandbox)
            if sandbox != Some(Sandbox::Off)
                && !(flags.programs.fastcgi.is_empty() && flags.programs.app.is_empty()) =>
        {
            usage("--fastcgi and --app need --sandbox off: a server in its sandbox connects to nobody")
        }
        _ => Ok(()),
    }
}

impl Rights {
    pub(super) fn give_up(flags: &flags::Serve, site: &Site<'_>) -> Result<Self, Failure> {
        if let Some(name) = &flags.user {
            become_user(name)?;
            (site.open)().map_err(|error| {
                cannot(format_args!("serve {} as user {name}", site.folder.display()), &error)
            })?;
        }
        if flags.helpers == Helpers::Thread {
            return Ok(Self { nursery: None, walls: Walls::None, disk: RefCell::default() });
        }
        let failure = |error| cannot(format_args!("start helper processes"), &error);
        let nursery = start_nursery(flags, site).map_err(failure)?;
        let mut disk = (site.open)().map_err(failure)?;
        disk.leave_to_others();
        // Confined, it could not see any more what to pin. Where there is no sandbox, the server's parts do it.
        let _ = flash_os::pin::pin_program();
        let walls = confine(flags)?;
        Ok(Self { nursery: Some(Arc::new(nursery)), walls, disk: RefCell::new(Some(disk)) })
    }

    pub(super) fn hands(&self) -> Hands {
        self.nursery.clone().map_or(Hands::Threads, Hands::Processes)
    }

    pub(super) fn take_disk(&self) -> Option<Disk> {
        self.disk.take()
    }

    pub(super) fn has_processes(&self) -> bool {
        self.nursery.is_some()
    }

    pub(super) fn say_gaps(&self) {
        if let Walls::Gaps(gaps) = &self.walls {
            let _ = writeln!(io::stderr(), "flash: the sandbox has gaps: {gaps}");
        }
    }
}

impl fmt::Display for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.nursery, &self.walls) {
            (None, _) => Ok(()),
            (Some(_), Walls::None) => f.write_str(", helper processes"),
            (Some(_), Walls::Whole | Walls::Gaps(_)) => f.write_str(", helper processes, sandbox"),
        }
    }
}

pub(super) fn become_user(name: &str) -> Result<(), Failure> {
    let failure = |why: &dyn fmt::Display| Failure::Run(format!("cannot become user {name}: {why}"));
    let user = user::named(name.as_bytes()).ok_or_else(|| failure(&"there is none of that name"))?;
    user::become_user(name.as_bytes(), &user).map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => failure(&"only root can"),
        _ => failure(&error),
    })
}

fn start_nursery(flags: &flags::Serve, site: &Site<'_>) -> io::Result<Nursery> {
    let readable = readable(flags, site.folder);
    let confine = || match sandbox(flags) {
        Sandbox::Off => Ok(()),
        Sandbox::On => {
            // What is missing the server says, once for all.
            let _ = confine_helper(&readable);
            Ok(())
        }
        Sandbox::Required => confine_helper(&readable).map_err(io::Error::other),
    };
    let sockets: Vec<PathBuf> = site.listeners.iter().filter_map(Listener::path).map(Into::into).collect();
    Nursery::start(&Chores { open: site.open, confine: &confine, logs: site.logs, sockets: &sockets })
}

/// What the operator wants; with helper processes, as much as there can be.
pub(super) fn sandbox(flags: &flags::Serve) -> Sandbox {
    flags.sandbox.unwrap_or(Sandbox::On)
}

fn confine(flags: &flags::Serve) -> Result<Walls, Failure> {
    match sandbox(flags) {
        Sandbox::Off => Ok(Walls::None),
        Sandbox::On => Ok(confine_server().map_or_else(Walls::Gaps, |()| Walls::Whole)),
        Sandbox::Required => match confine_server() {
            Ok(()) => Ok(Walls::Whole),
            Err(gaps) => Err(Failure::Run(format!("cannot have the sandbox that is required: {gaps}"))),
        },
    }
}

/// Where a helper reads: the folder, and what else the flags lead to.
fn readable(flags: &flags::Serve, folder: &Path) -> Vec<PathBuf> {
    let mut readable = vec![folder.to_owned()];
    if flags.follow_links == FollowLinks::Anywhere {
        readable.push("/".into());
    }
    if flags.user_dirs {
        // Who they are is looked up there. Somebody who joins later is served after the next start.
        readable.extend(["/etc/passwd", "/etc/nsswitch.conf"].map(PathBuf::from));
        readable.extend(user::all().into_iter().map(|user| user.home.join(PUBLIC_FOLDER)));
    }
    readable
}
