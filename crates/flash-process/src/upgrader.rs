//! The upgrader: a small process that keeps the rights of the start, and executes the next server of an upgrade.
//!
//! A server that has given up its rights cannot start itself again. The upgrader is forked before that: a [supervisor
//! process](crate::supervisor_process) of its own, with the arguments of the start. For each upgrade
//! it forks a process that executes the program and watches it: its standard error, its end, and the time. The server sends the
//! listening sockets, and decides what happens once the new process is ready.
//!
//! A server that was taken over by an attacker must not gain the rights of the start by it. So the program is that of the start, and
//! only root may [name another one](authorization). Either has to be a [program](flash_trust::program) that nobody else could have
//! written. The environment and the working directory are the upgrader's own.

mod attempt;
mod authorization;
mod wanted;

use std::env;
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use self::attempt::NextServer;
pub use self::authorization::Authorization;
use self::authorization::Authorizations;
use self::wanted::{LISTENERS_MAX, NAME};
use crate::codec::Writer;
use crate::earlier_servers;
use crate::ipc::{self, DESCRIPTORS_MAX, Received};
use crate::predecessor::{FAILED, GO};
use crate::role::{OnEnd, Role};
use crate::supervisor_process::{SupervisorProcess, SupervisorSetup};

/// What an upgrade is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpgradeRequest {
    /// The program to execute, which root has to [name](Authorization). Without one it is that of this server, as it is on the disk now.
    pub binary: Option<PathBuf>,
    /// How long the new server may take until it is ready.
    pub ready_within: Duration,
}

/// The process that executes new servers, as the server sees it.
#[derive(Debug)]
pub struct Upgrader {
    process: SupervisorProcess,
    /// Where root names another program. `None` if no such socket could be made.
    socket: Option<OwnedFd>,
    /// The server itself. A sandbox would not let it open this later.
    this: Option<OwnedFd>,
}

/// Requests: to execute the program of the start, or one that root names.
const OWN: &[u8] = b"own";
const NAMED: &[u8] = b"named";
/// New servers at a time. The server wants one, while an earlier one may be ending.
const AT_ONCE_MAX: usize = 4;

/// An upgrade that is under way. If it is dropped, the new server ends.
#[derive(Debug)]
pub struct Upgrade(OwnedFd);

impl Default for UpgradeRequest {
    fn default() -> Self {
        Self { binary: None, ready_within: Duration::from_secs(30) }
    }
}

impl Upgrader {
    /// Forks the process. `environment` is that of new servers.
    ///
    /// # Errors
    /// When the process has more than one thread, or the kernel refuses another process.
    pub fn start(environment: &[(OsString, OsString)]) -> io::Result<Self> {
        // The file may be replaced later, and the link would lead to the old one.
        let own = env::current_exe()?;
        let (authorizations, socket) = Authorizations::open().ok().unzip();
        let requested = |request: &[u8], socket: Rc<OwnedFd>| {
            let named = match (request, &authorizations) {
                (NAMED, Some(authorizations)) => authorizations.take(),
                _ => Vec::new(),
            };
            let (server, next) = (Rc::clone(&socket), NextServer { own: own.clone(), named, environment });
            let main = Rc::new(move || attempt::run(&server, &next));
            Some(Role { name: NAME.into(), on_end: OnEnd::Forget, socket: Some(socket), main })
        };
        let keep: Vec<BorrowedFd<'_>> = authorizations.iter().map(AsFd::as_fd).collect();
        let process = SupervisorProcess::start(SupervisorSetup {
            title: c"flash-upgrade",
            name: NAME,
            keep: &keep,
            requested: &requested,
            requested_max: AT_ONCE_MAX,
            ..SupervisorSetup::default()
        })?;
        Ok(Self { process, socket, this: earlier_servers::this() })
    }

    /// Where root [names another program](Authorization::give).
    #[must_use]
    pub fn socket(&self) -> Option<BorrowedFd<'_>> {
        self.socket.as_ref().map(AsFd::as_fd)
    }

    /// The pidfd of the server, for its successors.
    #[must_use]
    pub fn this(&self) -> Option<BorrowedFd<'_>> {
        self.this.as_ref().map(AsFd::as_fd)
    }

    /// Starts an upgrade. The new server gets these listening sockets, and of the other descriptors as many as there is room for.
    ///
    /// # Errors
    /// If there are too many sockets, or the upgrader has ended.
    pub fn begin<'a>(
        &self,
        request: &UpgradeRequest,
        mut sockets: Vec<(BorrowedFd<'a>, String)>,
        others: Vec<(BorrowedFd<'a>, String)>,
    ) -> io::Result<Upgrade> {
        if sockets.len() > LISTENERS_MAX {
            let count = sockets.len();
            return Err(io::Error::other(format!(
                "it has {count} listening sockets: {LISTENERS_MAX} may be passed on"
            )));
        }
        let room = LISTENERS_MAX - sockets.len();
        sockets.extend(others.into_iter().take(room));
        let to = self.process.request(if request.binary.is_some() { NAMED } else { OWN })?;
        let mut message = Writer::default();
        message.u64(u64::try_from(request.ready_within.as_millis()).unwrap_or(u64::MAX));
        message.bytes(request.binary.as_ref().map_or(b"", |path| path.as_os_str().as_bytes()));
        ipc::send(&to, &message.bytes, &[])?;
        for some in sockets.chunks(DESCRIPTORS_MAX) {
            let names: Vec<&str> = some.iter().map(|(_, name)| &**name).collect();
            let descriptors: Vec<BorrowedFd<'_>> = some.iter().map(|(socket, _)| *socket).collect();
            ipc::send(&to, names.join(":").as_bytes(), &descriptors)?;
        }
        ipc::send(&to, b"", &[])?;
        Ok(Upgrade(to))
    }
}

impl Upgrade {
    /// Readable when there is an [outcome](Self::outcome).
    #[must_use]
    pub fn events(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// The number of the new process once it is ready, or why there is none. `None` for as long as neither is known.
    pub fn outcome(&self) -> Option<Result<u32, String>> {
        let mut buffer = ipc::buffer();
        let message = match ipc::try_receive(&self.0, &mut buffer) {
            Ok(Received::Nothing) => return None,
            Ok(Received::Message(message)) => message,
            Ok(Received::Gone) | Err(_) => return Some(Err(format!("{NAME} has ended"))),
        };
        match message.bytes.split_first() {
            Some((&FAILED, why)) => Some(Err(String::from_utf8_lossy(why).into_owned())),
            Some((_, pid)) => Some(Ok(pid.try_into().map_or(0, u32::from_ne_bytes))),
            None => None,
        }
    }

    /// The new server goes on alone.
    pub fn release(self) {
        // If it has ended meanwhile, nothing can be done about it. The process in between ends with this one, so it comes first.
        let _ = ipc::send(&self.0, GO, &[]);
        let _ = ipc::receive(&self.0, &mut ipc::buffer());
    }
}
