//! The privileged opener: a small process that keeps the rights of the start, and opens for the server what it may not.
//!
//! A server that root starts opens its logs, certificates and keys, and becomes another user (`--user`), who may read and write
//! none of them. The privileged opener is forked before that: a [supervisor process](crate::supervisor_process) of its own,
//! because no other may have those rights. Each request gets a forked process, so a disk that hangs delays no other one. There
//! are three kinds of request:
//!
//! - The path of a log. The process replies with a descriptor that appends to the log, if it is one of those of the start, or if the
//!   configuration names it now.
//! - To open [files that the configuration names](named_files) for reading.
//! - To remove the names of the server's sockets at the end.
//!
//! Other code decides when files are opened again, and what happens if that fails.
//!
//! The server's user may own the folder of the logs, and must not gain the rights of the start by it. [`flash_trust`] says what may
//! be opened there.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::thread;
use std::time::{Duration, Instant};

use flash_os::semaphore::Semaphore;
use rustix::io::Errno;

use crate::ipc;
use crate::role::{OnEnd, Role};
use crate::supervisor_process::{SupervisorProcess, SupervisorSetup};

use self::named_files::{NamedFiles, ReadNames};

pub(crate) mod named_files;

/// In what it logs.
const NAME: &str = "the privileged opener";
/// Processes that open something at a time. A server that was taken over keeps no more of them.
const AT_ONCE_MAX: usize = 16;
/// Of them, those that open logs. After a rotation the writers of all logs ask at the same time, and wait for their turn.
const LOGS_AT_ONCE_MAX: usize = AT_ONCE_MAX / 2;
const TURN_MAX: Duration = Duration::from_secs(60);
/// Before a log is asked for again. Other processes of the server had used up the maximum.
const PAUSE: Duration = Duration::from_millis(20);
/// The first byte of a request. The path of a log follows its own.
const TIDY_UP: u8 = 0;
const NAMED_FILES: u8 = 1;
const LOG: u8 = 2;

#[derive(Debug)]
pub struct PrivilegedOpener {
    process: SupervisorProcess,
    /// One for each process that may open a log.
    turns: Semaphore,
}

impl PrivilegedOpener {
    fn at(process: SupervisorProcess) -> Self {
        let turns = Semaphore::default();
        (0..LOGS_AT_ONCE_MAX).for_each(|_| turns.post());
        Self { process, turns }
    }

    /// Forks the process that opens these logs, and the logs and files that the configuration names.
    ///
    /// # Errors
    /// When the process has more than one thread, or the kernel refuses another process.
    pub fn start(
        logs: &[PathBuf],
        sockets: &[PathBuf],
        (log_names, names): (&ReadNames<'_>, &ReadNames<'_>),
    ) -> io::Result<Self> {
        let requested = |message: &[u8], socket: Rc<OwnedFd>| {
            let (kind, path) = message.split_first()?;
            let to = Rc::clone(&socket);
            let main: Rc<dyn Fn() -> io::Result<()>> = match *kind {
                TIDY_UP => Rc::new(|| tidy_up(sockets)),
                NAMED_FILES => Rc::new(move || named_files::answer(&to, names)),
                LOG => {
                    let path = PathBuf::from(OsStr::from_bytes(path));
                    Rc::new(move || answer(&to, &path, logs, log_names))
                }
                _ => return None,
            };
            Some(Role { name: NAME.into(), on_end: OnEnd::Forget, socket: Some(socket), main })
        };
        let process = SupervisorProcess::start(SupervisorSetup {
            title: c"flash-opener",
            name: NAME,
            requested: &requested,
            requested_max: AT_ONCE_MAX,
            ..SupervisorSetup::default()
        })?;
        Ok(Self::at(process))
    }

    /// Removes the names of the server's sockets, which are shut.
    pub fn tidy_up(&self) {
        if let Ok(socket) = self.process.request(&[TIDY_UP]) {
            // The end of the process is its answer.
            let _ = ipc::receive(&socket, &mut ipc::buffer());
        }
    }

    /// Requests a process that opens files of the configuration. It has read the configuration before it answers.
    ///
    /// # Errors
    /// When the privileged opener has ended.
    pub fn named_files(&self) -> io::Result<NamedFiles> {
        Ok(NamedFiles { socket: self.process.request(&[NAMED_FILES])? })
    }

    /// Opens a log for appending, and creates it if there is none. Waits while many others are opened.
    ///
    /// # Errors
    /// As opening it fails, or when the privileged opener has ended. `NotFound` if it is none of the logs. `TimedOut` if others hang.
    pub fn open(&self, path: &Path) -> io::Result<File> {
        let until = Instant::now() + TURN_MAX;
        if !self.turns.wait(TURN_MAX) {
            let why = format!("{NAME} waits for the disks of other logs");
            return Err(io::Error::new(ErrorKind::TimedOut, why));
        }
        let opened = loop {
            match self.open_now(path) {
                Err(busy) if busy.kind() == ErrorKind::WouldBlock && Instant::now() < until => {
                    thread::sleep(PAUSE);
                }
                opened => break opened,
            }
        };
        self.turns.post();
        opened
    }

    /// `WouldBlock` if the process has no room for the request.
    fn open_now(&self, path: &Path) -> io::Result<File> {
        let socket = self.process.request(&[&[LOG], path.as_os_str().as_bytes()].concat())?;
        let mut buffer = ipc::buffer();
        let Some(reply) = ipc::receive(&socket, &mut buffer)? else {
            return Err(io::Error::new(ErrorKind::WouldBlock, format!("{NAME} did not answer")));
        };
        let opened = match reply.descriptors.into_iter().next() {
            Some(log) => Ok(log.into()),
            None if reply.is_incomplete => Err(Errno::MFILE.into()),
            None if reply.bytes.is_empty() => Err(ErrorKind::NotFound.into()),
            None => Err(io::Error::other(String::from_utf8_lossy(&reply.bytes).into_owned())),
        };
        // Until the process has ended, it counts as one of those at a time.
        let _ = ipc::receive(&socket, &mut buffer);
        opened
    }
}

/// The life of a process that removes names of sockets.
fn tidy_up(sockets: &[PathBuf]) -> io::Result<()> {
    // One that stays is taken over by the next server.
    sockets.iter().for_each(|path| _ = flash_trust::remove_abandoned(path));
    Ok(())
}

/// The life of a process that opens one log.
fn answer(to: &OwnedFd, path: &Path, logs: &[PathBuf], names: &ReadNames<'_>) -> io::Result<()> {
    let is_in = |logs: &[PathBuf]| logs.iter().any(|log| log == path);
    let is_log = is_in(logs) || names().is_ok_and(|names| is_in(&names));
    // If the process that asked has ended meanwhile, nobody needs the reply.
    let _ = match is_log.then(|| flash_trust::open_log(path)) {
        Some(Ok(log)) => ipc::send(to, b"log", &[log.as_fd()]),
        Some(Err(error)) => ipc::send(to, error.to_string().as_bytes(), &[]),
        None => ipc::send(to, b"", &[]),
    };
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;

    use super::*;
    use crate::supervisor::Child;

    /// A thread in the place of the process: a test cannot fork.
    fn opener(of_start: &[PathBuf], named_now: &[PathBuf]) -> PrivilegedOpener {
        let (logs, named) = (of_start.to_vec(), named_now.to_vec());
        let (control, theirs) = ipc::pair().unwrap();
        thread::spawn(move || {
            let mut buffer = ipc::buffer();
            while let Ok(Some(request)) = ipc::receive(&theirs, &mut buffer) {
                assert_eq!(request.bytes[0], LOG);
                let path = Path::new(OsStr::from_bytes(&request.bytes[1..]));
                answer(&request.descriptors[0], path, &logs, &|| Ok(named.clone())).unwrap();
            }
        });
        of(control)
    }

    fn of(control: OwnedFd) -> PrivilegedOpener {
        let child = Child { pid: rustix::process::getpid(), name: NAME };
        PrivilegedOpener::at(SupervisorProcess::at(control, child))
    }

    #[test]
    fn a_log_is_created_again_and_appended_to() {
        let folder = tempfile::tempdir().unwrap();
        let [log, new, moved] = ["log", "new", "moved"].map(|name| folder.path().join(name));
        fs::write(&log, "before\n").unwrap();
        let opener = opener(std::slice::from_ref(&log), std::slice::from_ref(&new));
        opener.open(&new).unwrap().write_all(b"of a site since a reload\n").unwrap();
        opener.open(&log).unwrap().write_all(b"after\n").unwrap();
        assert_eq!(fs::read_to_string(&log).unwrap(), "before\nafter\n");
        fs::rename(&log, &moved).unwrap();
        opener.open(&log).unwrap().write_all(b"new\n").unwrap();
        assert_eq!(fs::read_to_string(&log).unwrap(), "new\n");
        fs::remove_dir_all(folder.path()).unwrap();
        assert!(opener.open(&log).unwrap_err().to_string().contains("No such file"));
        assert_eq!(opener.open(&moved).unwrap_err().kind(), ErrorKind::NotFound);
    }

    /// The process closes the socket of a request beyond its maximum at once.
    #[test]
    fn the_writers_of_many_logs_take_turns() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let (control, theirs) = ipc::pair().unwrap();
        let opener = of(control);
        thread::scope(|scope| {
            let ask = || scope.spawn(|| opener.open(&log).map(drop).map_err(|error| error.to_string()));
            let asked: Vec<_> = (0..4 * LOGS_AT_ONCE_MAX).map(|_| ask()).collect();
            let mut buffer = ipc::buffer();
            for _ in 0..4 {
                let receive = |_| ipc::receive(&theirs, &mut buffer).unwrap().unwrap().descriptors.remove(0);
                let under_way: Vec<OwnedFd> = (0..LOGS_AT_ONCE_MAX).map(receive).collect();
                let more = ipc::try_receive(&theirs, &mut buffer);
                assert!(matches!(more, Ok(ipc::Received::Nothing)), "{more:?}");
                let logs = std::slice::from_ref(&log);
                under_way.iter().for_each(|to| answer(to, &log, logs, &|| Ok(Vec::new())).unwrap());
            }
            for asked in asked {
                assert_eq!(asked.join().unwrap(), Ok(()));
            }
            // Or in a panic, so that no writer waits for ever.
            drop(theirs);
        });
    }

    /// As processes of mp do, which do not know of each other.
    #[test]
    fn a_request_that_found_no_room_is_made_again() {
        let folder = tempfile::tempdir().unwrap();
        let log = &folder.path().join("log");
        let (control, theirs) = ipc::pair().unwrap();
        let opener = of(control);
        thread::scope(|scope| {
            let asked = scope.spawn(move || opener.open(log).map(drop).map_err(|error| error.to_string()));
            let mut buffer = ipc::buffer();
            for has_room in [false, false, true] {
                let to = ipc::receive(&theirs, &mut buffer).unwrap().unwrap().descriptors.remove(0);
                if has_room {
                    answer(&to, log, std::slice::from_ref(log), &|| Ok(Vec::new())).unwrap();
                }
            }
            assert_eq!(asked.join().unwrap(), Ok(()));
        });
    }

    #[test]
    fn one_that_has_ended_says_so() {
        let (control, theirs) = ipc::pair().unwrap();
        drop(theirs);
        let opener = of(control);
        assert_eq!(
            opener.open(Path::new("/log")).unwrap_err().to_string(),
            "the privileged opener has ended"
        );
    }
}
