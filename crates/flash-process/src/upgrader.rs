//! The upgrader: a small process that keeps the rights of the start, and executes the next server of an upgrade.
//!
//! A server that has given up its rights cannot start itself again. The upgrader is forked before that: a [supervisor
//! process](crate::supervisor_process) of its own, with the arguments, the environment and the folder of the start. For each upgrade
//! it forks a process that executes the program and watches it: its standard error, its end, and the time. The server sends the
//! listening sockets, and decides what happens once the new process is ready.
//!
//! A server that was taken over by an attacker must not gain the rights of the start by it. So a server that has given up rights
//! may name only programs that nobody else could have written.

mod attempt;
mod wanted;

use std::env;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use self::wanted::{LISTENERS_MAX, NAME};
use crate::codec::Writer;
use crate::ipc::{self, DESCRIPTORS_MAX, Received};
use crate::predecessor::{FAILED, GO};
use crate::role::{OnEnd, Role};
use crate::supervisor_process::{SupervisorProcess, SupervisorSetup};

/// What an upgrade is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpgradeRequest {
    /// The program to execute. Without one it is that of this server, as it is on the disk now.
    pub binary: Option<PathBuf>,
    /// How long the new server may take until it is ready.
    pub ready_within: Duration,
}

/// The process that executes new servers, as the server sees it.
#[derive(Debug)]
pub struct Upgrader(SupervisorProcess);

/// An upgrade that is under way. If it is dropped, the new server ends.
#[derive(Debug)]
pub struct Upgrade(OwnedFd);

impl Default for UpgradeRequest {
    fn default() -> Self {
        Self { binary: None, ready_within: Duration::from_secs(30) }
    }
}

impl Upgrader {
    /// Forks the process. `gives_up_rights` says whether the server will have fewer rights than it has now.
    ///
    /// # Errors
    /// When the process has more than one thread, or the kernel refuses another process.
    pub fn start(gives_up_rights: bool) -> io::Result<Self> {
        // The file may be replaced later, and the link would lead to the old one.
        let own = env::current_exe()?;
        let requested = |_: &[u8], socket: Rc<OwnedFd>| {
            let (own, server) = (own.clone(), Rc::clone(&socket));
            let main = Rc::new(move || attempt::run(&server, &own, gives_up_rights));
            Some(Role { name: NAME.into(), on_end: OnEnd::Forget, socket: Some(socket), main })
        };
        SupervisorProcess::start(SupervisorSetup {
            title: c"flash-upgrade",
            name: NAME,
            requested: &requested,
            ..SupervisorSetup::default()
        })
        .map(Self)
    }

    /// Starts an upgrade. The new server gets these listening sockets and the memory with hot paths, by these names.
    ///
    /// # Errors
    /// If there are too many sockets, or the upgrader has ended.
    pub fn begin(
        &self,
        request: &UpgradeRequest,
        sockets: &[(BorrowedFd<'_>, String)],
    ) -> io::Result<Upgrade> {
        if sockets.len() > LISTENERS_MAX {
            let count = sockets.len();
            return Err(io::Error::other(format!(
                "it has {count} listening sockets: {LISTENERS_MAX} may be passed on"
            )));
        }
        let to = self.0.request(b"upgrade")?;
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

    /// The new server goes on alone. It gets the other end of a socket for `connections`. An older one does not take it.
    pub fn release(self, connections: Option<BorrowedFd<'_>>) {
        // If it has ended meanwhile, nothing can be done about it. The process in between ends with this one, so it comes first.
        let _ = ipc::send(&self.0, GO, connections.as_slice());
        let _ = ipc::receive(&self.0, &mut ipc::buffer());
    }
}
