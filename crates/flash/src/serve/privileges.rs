//! The server's rights, in the order in which it gives them up. The first are root's, if it started as root. Then come the
//! rights that helper processes have from now on in its place.
//!
//! All of this happens while the process has one thread, after it has opened its listeners and logs. [`flash_arch::sandbox`]
//! defines the sandbox.

use std::cell::RefCell;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flash_arch::sandbox::{self, Unenforced, confine_server};
use flash_arch::{HelperKind, HelperProcesses, SiteOpeners};
use flash_core::experiments::{FileCache, Offload};
use flash_disk::{DigestStore, Disk, FollowLinks, Opened, SiteRoot, SiteSettings, Spool};
use flash_observe::ConnectRecorder;
use flash_os::user::{self, User};
use flash_process::SupervisorProcess;
use flash_upstream::Connector;

use super::dir::Dir;
use super::folders::temporary_folder;
use crate::failure::{Failure, cannot};
use crate::flags::{self, Helpers, Sandbox, Switch};

/// What is left.
pub(super) struct Privileges {
    helpers: Option<Arc<HelperProcesses>>,
    sandbox: SandboxState,
    /// The folder, opened while that was possible, for the component that sends the files that helpers find in it.
    disk: RefCell<Option<Disk>>,
    /// Why long bodies cannot be kept.
    spool: Option<io::Error>,
    /// Why digests are made again after a restart.
    digests: Option<io::Error>,
    /// Why other processes of its user may look into its memory.
    open_memory: Option<io::Error>,
    /// Started while the server had all rights.
    sleep_recorder: ConnectRecorder,
}

/// What stands around the process that serves.
enum SandboxState {
    None,
    Whole,
    /// The kernel could not do all of it, and the operator wants to go on all the same.
    Unenforced(Unenforced),
}

/// What the process that serves opens before it gives up its rights.
pub(super) struct Site<'a> {
    pub(super) dir: &'a Dir,
    /// Makes a disk of a root.
    pub(super) open: &'a dyn Fn(Opened) -> io::Result<Disk>,
    /// Makes what the process that serves keeps bodies in.
    pub(super) spool: &'a dyn Fn() -> io::Result<Option<Spool>>,
    /// Opens what it keeps digests in.
    pub(super) digests: &'a dyn Fn() -> io::Result<Option<DigestStore>>,
}

/// What a name is looked up with, and what others change while the server runs.
pub(super) const NAME_FILES: [&str; 8] = [
    "/etc/resolv.conf",
    "/etc/hosts",
    "/etc/host.conf",
    "/etc/nsswitch.conf",
    "/etc/gai.conf",
    "/etc/services",
    "/run/systemd/resolve",
    "/run/resolvconf",
];

/// Finds fault with flags that do not go together.
pub(super) fn check(flags: &flags::Serve) -> Result<(), Failure> {
    let usage = |what: &str| Err(Failure::Usage(format!("{what} (see flash serve --help)")));
    match (flags.helpers, flags.sandbox) {
        (Helpers::Process, _) if flags.experiments.file_cache == FileCache::Off => {
            usage("--file-cache off needs --helpers thread: only there can the server open files anew")
        }
        (Helpers::Process, _) if flags.experiments.offload == Offload::NotOpening => {
            usage("--offload not-opening needs --helpers thread: only there can the server open files")
        }
        (Helpers::Thread, Some(Sandbox::On | Sandbox::Required)) => {
            usage("--sandbox needs --helpers process: threads have the rights of their process")
        }
        _ => Ok(()),
    }
}

impl Privileges {
    /// With helper processes, which the supervisor process knows how to start.
    pub(super) fn give_up(
        flags: &flags::Serve,
        site: &Site<'_>,
        supervisor: Option<&Arc<SupervisorProcess>>,
        sleep_recorder: ConnectRecorder,
    ) -> Result<Self, Failure> {
        flags.user.as_deref().map_or(Ok(()), become_user)?;
        // Others of its user could look into its memory until then, and a folder may take long to be opened.
        let open_memory = protect_memory(flags).err();
        if let Some(name) = &flags.user {
            site.dir.open().and_then(site.open).map_err(|error| {
                cannot(format_args!("serve {} as user {name}", site.dir.path().display()), &error)
            })?;
        }
        let (spool, no_spool) = split((site.spool)());
        let (digests, no_digests) = split((site.digests)());
        let (Helpers::Process, Some(supervisor)) = (flags.helpers, supervisor) else {
            return Ok(Self {
                helpers: None,
                sandbox: SandboxState::None,
                disk: RefCell::default(),
                spool: no_spool,
                digests: no_digests,
                open_memory,
                sleep_recorder,
            });
        };
        let opened = site.dir.open().and_then(site.open);
        let mut disk = opened.map_err(|error| cannot(format_args!("start helper processes"), &error))?;
        disk.leave_to_others();
        if let Some(spool) = spool {
            disk.keep_bodies_in(spool);
        }
        if let Some(digests) = digests {
            disk.keep_digests_in(digests);
        }
        if is_confined(flags) {
            // A server that a reload adds may have to show a certificate of one of them.
            flash_tls::upstream::load_authorities();
        }
        // Confined, it could not see any more what to pin. Where there is no sandbox, the server's parts do it.
        let _ = flash_os::preload::mlock_program();
        let sandbox = confine(flags)?;
        Ok(Self {
            helpers: Some(Arc::new(HelperProcesses::new(Arc::clone(supervisor)))),
            sandbox,
            disk: RefCell::new(Some(disk)),
            spool: no_spool,
            digests: no_digests,
            open_memory,
            sleep_recorder,
        })
    }

    pub(super) fn helper_kind(&self) -> HelperKind {
        self.helpers.clone().map_or(HelperKind::Threads, HelperKind::Processes)
    }

    pub(super) fn sleep_recorder(&self) -> ConnectRecorder {
        Arc::clone(&self.sleep_recorder)
    }

    pub(super) fn is_in_sandbox(&self) -> bool {
        !matches!(self.sandbox, SandboxState::None)
    }

    /// What connects in place of a server in its sandbox, if that is needed.
    pub(super) fn connector(
        &self,
        is_needed: bool,
        openers: &SiteOpeners,
    ) -> io::Result<Option<Arc<Connector>>> {
        if !self.is_in_sandbox() || !is_needed {
            return Ok(None);
        }
        let openers = openers.clone();
        Ok(Some(Arc::new(Connector::start(move || openers.request_connector())?)))
    }

    pub(super) fn take_disk(&self) -> Option<Disk> {
        self.disk.take()
    }

    /// What is missing: rights that it still has, and walls that it does not.
    pub(super) fn unenforced(&self) -> Vec<String> {
        let is_root = rustix::process::geteuid().is_root();
        let root = is_root.then(|| "the server runs as root: --user NAME makes it another user's".to_owned());
        let gaps = match &self.sandbox {
            SandboxState::Unenforced(unenforced) => Some(format!("the sandbox has gaps: {unenforced}")),
            SandboxState::None | SandboxState::Whole => None,
        };
        let spool = self.spool.as_ref().map(|error| {
            let folder = temporary_folder();
            let folder = folder.display();
            let what = "request bodies in chunks that do not fit into memory get 507";
            format!("cannot keep files in {folder} ({error}): {what}")
        });
        let digests = self.digests.as_ref().map(|error| {
            format!("cannot keep digests (digest-store): {error}; files are read again after a restart")
        });
        let memory = self.open_memory.as_ref().map(|error| {
            format!("processes of this server's user can read its memory, with the keys in it: the system refuses to forbid it ({error})")
        });
        [root, gaps, spool, digests, memory].into_iter().flatten().collect()
    }
}

/// What was opened, or why it was not.
fn split<T>(opened: io::Result<Option<T>>) -> (Option<T>, Option<io::Error>) {
    opened.map_or_else(|error| (None, Some(error)), |opened| (opened, None))
}

impl fmt::Display for Privileges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.helpers, &self.sandbox) {
            (None, _) => Ok(()),
            (Some(_), SandboxState::None) => f.write_str(", helper processes"),
            (Some(_), SandboxState::Whole | SandboxState::Unenforced(_)) => {
                f.write_str(", helper processes, sandbox")
            }
        }
    }
}

/// Whether the user of `--user` exists, and nobody decides what the server does who may not.
pub(super) fn check_user(flags: &flags::Serve) -> Result<(), Failure> {
    if let Some(text) = &flags.user {
        user_of(text).map_err(|why| Failure::Run(format!("cannot become user {text}: {why}")))?;
    }
    check_files(&flags.files, flags)
}

/// A configuration of a server that root has started is root's, or also one other user's. The server of these flags and its programs
/// do not become that user: otherwise they could say what root does next.
pub(super) fn check_files(files: &[PathBuf], flags: &flags::Serve) -> Result<(), Failure> {
    let texts = [&flags.user, &flags.programs.cgi_user].into_iter().flatten();
    let own: Vec<(&String, u32)> = texts.filter_map(|text| Some((text, user_of(text).ok()?.1.id))).collect();
    if own.is_empty() && !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let mut decider = None;
    for path in files {
        let user = match flash_trust::user_of_configuration(path) {
            Err(why) if flash_trust::is_refusal(&why) => {
                return Err(cannot(format_args!("read {}", path.display()), &why));
            }
            // It was opened, or its reader says why not.
            found => found.ok().flatten(),
        };
        if let Some((text, _)) = own.iter().find(|(_, id)| Some(*id) == user && *id != 0) {
            return Err(Failure::Run(format!(
                "cannot become user {text}: that user can write {}",
                path.display()
            )));
        }
        if let Some(user) = user
            && decider.replace(user).is_some_and(|other| other != user)
        {
            return Err(Failure::Run(format!(
                "cannot read {}: more than one user besides root would decide what the server does",
                path.display()
            )));
        }
    }
    Ok(())
}

/// Only root reads the memory of this process, attaches to it (ptrace), and gets its descriptors. Otherwise programs that run as the
/// same user would find keys there. The kernel may forget it when the process becomes another user, and processes that are forked
/// inherit it. Where the system refuses, it is a [gap](Privileges::unenforced).
pub(super) fn protect_memory(flags: &flags::Serve) -> io::Result<()> {
    flash_os::process::set_open_to_others(flags.core_dumps == Switch::On)
}

pub(crate) fn become_user(text: &str) -> Result<(), Failure> {
    let failure = |why: &dyn fmt::Display| Failure::Run(format!("cannot become user {text}: {why}"));
    let (name, user) = user_of(text).map_err(|why| failure(&why))?;
    // A service manager has made the server that user.
    let (own, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    if user.id != 0 && (own, group) == (user.id, user.group) {
        return Ok(());
    }
    // An ordinary user may lock too little. It can be done without.
    let _ = flash_os::preload::mlock_program();
    user::become_user(name.as_deref(), &user).map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => failure(
            &"only root can. Leave `user` out where the service manager has made the server another user",
        ),
        _ => failure(&error),
    })
}

/// Does this with the rights of the server's user, and if they are not enough, with those of the start. What these may be used for,
/// [`flash_trust`] decides.
pub(crate) fn as_user_first<T>(user: Option<&str>, work: impl Fn() -> io::Result<T>) -> io::Result<T> {
    let user = user.filter(|_| rustix::process::geteuid().is_root());
    // Whoever becomes that user says what is wrong with it.
    let Some(Ok((name, user))) = user.map(user_of) else { return work() };
    match user::as_user(name.as_deref(), &user, &work)? {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => work(),
        done => done,
    }
}

/// `NAME`, `NAME:GROUP`, and numbers for either. A number without a user has no groups, so a group must be given.
pub(crate) fn user_of(text: &str) -> Result<(Option<Vec<u8>>, User), &'static str> {
    let (user, group) = text.split_once(':').map_or((text, None), |(user, group)| (user, Some(group)));
    let group = match group {
        Some(group) => {
            Some(user::group_named(group.as_bytes()).or(number(group)).ok_or("there is no such group")?)
        }
        None => None,
    };
    let named = |name: &[u8]| Some((Some(name.to_vec()), user::named(name)?));
    let of_number = |id| user::name_of(id).and_then(|name| named(&name));
    let (name, found) = match (named(user.as_bytes()), number(user)) {
        (Some(found), _) => found,
        (None, Some(id)) => match (of_number(id), group) {
            (Some(found), _) => found,
            (None, Some(group)) => (None, User { id, group, home: "/".into() }),
            (None, None) => return Err("nobody has that number: add a group, as in 1000:1000"),
        },
        (None, None) => return Err("there is none of that name"),
    };
    Ok((name, User { group: group.unwrap_or(found.group), ..found }))
}

/// -1 stands for no user and no group.
fn number(text: &str) -> Option<u32> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|&number| digits && number != u32::MAX)
}

/// Confines a helper process to its root and to what is readable beside it, as far as the operator wants it.
pub(super) fn confine_helper(flags: &flags::Serve, root: &SiteRoot) -> io::Result<()> {
    let mut readable = readable_beside(root.settings());
    let users = root.settings().user_dirs.as_deref().map(flash_disk::users_folders).unwrap_or_default();
    // By their descriptors, because their paths may lead elsewhere by now.
    let open = users.iter().map(AsFd::as_fd).chain([root.as_fd()]);
    readable.extend(open.map(|folder| PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd()))));
    let readable = &readable;
    match sandbox(flags) {
        Sandbox::Off => Ok(()),
        Sandbox::On => {
            // What is missing the server says, once for all.
            let _ = sandbox::confine_helper(readable);
            Ok(())
        }
        Sandbox::Required => sandbox::confine_helper(readable).map_err(io::Error::other),
    }
}

/// Whether the server will have fewer rights than it began with.
pub(super) fn are_given_up(flags: &flags::Serve) -> bool {
    flags.user.is_some() || is_confined(flags)
}

/// Whether the server will be in a sandbox.
fn is_confined(flags: &flags::Serve) -> bool {
    flags.helpers == Helpers::Process && sandbox(flags) != Sandbox::Off
}

/// What the operator wants; with helper processes, as much as there can be.
pub(super) fn sandbox(flags: &flags::Serve) -> Sandbox {
    flags.sandbox.unwrap_or(Sandbox::On)
}

fn confine(flags: &flags::Serve) -> Result<SandboxState, Failure> {
    match sandbox(flags) {
        Sandbox::Off => Ok(SandboxState::None),
        Sandbox::On => Ok(confine_server().map_or_else(SandboxState::Unenforced, |()| SandboxState::Whole)),
        Sandbox::Required => match confine_server() {
            Ok(()) => Ok(SandboxState::Whole),
            Err(unenforced) => {
                Err(Failure::Run(format!("cannot have the sandbox that is required: {unenforced}")))
            }
        },
    }
}

/// Confines a process that looks names up and connects: it changes files below this folder alone.
pub(super) fn confine_client(flags: &flags::Serve, writable: &Path) -> io::Result<()> {
    confine_to_names(flags, |readable| sandbox::confine_client(readable, &[writable.to_owned()]))
}

/// Confines the connector, which makes the sockets of applications below these folders.
pub(super) fn confine_connector(flags: &flags::Serve, sockets: &[PathBuf]) -> io::Result<()> {
    confine_to_names(flags, |readable| sandbox::confine_connector(readable, sockets))
}

/// Confines a process to what it looks names up with, and to what else that allows.
fn confine_to_names(
    flags: &flags::Serve,
    confine: impl FnOnce(&[PathBuf]) -> Result<(), Unenforced>,
) -> io::Result<()> {
    let confine = || confine(&NAME_FILES.map(PathBuf::from));
    match sandbox(flags) {
        Sandbox::Off => Ok(()),
        // What is missing the server says, if it is confined itself.
        Sandbox::On => {
            let _ = confine();
            Ok(())
        }
        Sandbox::Required => confine().map_err(io::Error::other),
    }
}

/// Where a helper reads beside its root: what else the settings of its site lead to.
fn readable_beside(settings: &SiteSettings) -> Vec<PathBuf> {
    let mut readable = Vec::new();
    if settings.follow_links == FollowLinks::Anywhere {
        readable.push("/".into());
    }
    if settings.user_dirs.is_some() {
        // Who they are is looked up there.
        readable.extend(["/etc/passwd", "/etc/nsswitch.conf"].map(PathBuf::from));
    }
    readable
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_by_name_and_by_number() {
        let ids = |text: &str| user_of(text).map(|(name, user)| (name.map(|_| "named"), user.id, user.group));
        for text in ["root", "0", "root:root", "0:0", "root:0", "0:root"] {
            assert_eq!(ids(text), Ok((Some("named"), 0, 0)), "{text}");
        }
        assert_eq!(ids("root:1234"), Ok((Some("named"), 0, 1234)));
        assert_eq!(ids("4000000001:1234"), Ok((None, 4_000_000_001, 1234)));
        for (text, why) in [
            ("", "none of that name"),
            (":0", "none of that name"),
            ("root:", "no such group"),
            ("root:no-such-group-here", "no such group"),
            ("no-such-user-here:0", "none of that name"),
            ("4000000001", "1000:1000"),
            ("4294967295:0", "none of that name"),
            ("0:4294967295", "no such group"),
            ("-1:-1", "no such group"),
            ("+0:0", "none of that name"),
        ] {
            let said = ids(text).expect_err(text);
            assert!(said.contains(why), "{text}: {said}");
        }
    }
}
