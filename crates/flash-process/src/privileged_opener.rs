//! The privileged opener: a small process that keeps the rights of the start, and opens for the server what it may not.
//!
//! A server that root starts opens its logs, certificates and keys, and becomes another user (`--user`), who may read and write
//! none of them. The privileged opener is forked before that: a [supervisor process](crate::supervisor_process) of its own,
//! because no other may have those rights. Each request gets a forked process, so a disk that hangs delays no other one. There
//! are three kinds of request:
//!
//! - The number of a log. The process replies with a descriptor that appends to the log.
//! - To open [files that the configuration names](named_files) for reading.
//! - To remove the names of the server's sockets at the end.
//!
//! Other code decides when files are opened again, and what happens if that fails.
//!
//! The server's user may own the folder of the logs, and must not gain the rights of the start by it. [`flash_trust`] says what may
//! be opened there.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use rustix::io::Errno;

use crate::ipc;
use crate::role::{OnEnd, Role};
use crate::supervisor_process::{SupervisorProcess, SupervisorSetup};

use self::named_files::{NamedFiles, ReadNames};

pub(crate) mod named_files;

/// In what it logs.
const NAME: &str = "the privileged opener";
/// In the place of a log's number.
/// Processes that open something at a time. A server that was taken over keeps no more of them.
const AT_ONCE_MAX: usize = 16;
const TIDY_UP: u8 = u8::MAX;
const NAMED_FILES: u8 = u8::MAX - 1;

#[derive(Debug)]
pub struct PrivilegedOpener {
    process: SupervisorProcess,
    /// As the flags name them, in the order of their numbers.
    paths: Vec<PathBuf>,
}

impl PrivilegedOpener {
    /// Forks the process that opens these logs, and the files that the configuration names.
    ///
    /// # Errors
    /// When the process has more than one thread, or the kernel refuses another process.
    pub fn start(paths: &[PathBuf], sockets: &[PathBuf], names: &ReadNames<'_>) -> io::Result<Self> {
        let requested = |message: &[u8], socket: Rc<OwnedFd>| {
            let [number] = *message else { return None };
            let to = Rc::clone(&socket);
            let main: Rc<dyn Fn() -> io::Result<()>> = match number {
                TIDY_UP => Rc::new(|| tidy_up(sockets)),
                NAMED_FILES => Rc::new(move || named_files::answer(&to, names)),
                number => {
                    let log = paths.get(usize::from(number));
                    Rc::new(move || answer(&to, log))
                }
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
        Ok(Self { process, paths: paths.to_vec() })
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

    /// Opens a log for appending, and creates it if there is none.
    ///
    /// # Errors
    /// As opening it fails, or when the privileged opener has ended.
    pub fn open(&self, path: &Path) -> io::Result<File> {
        let number = self.paths.iter().position(|known| known == path).ok_or(ErrorKind::NotFound)?;
        let number = u8::try_from(number).map_err(|_| ErrorKind::InvalidInput)?;
        let socket = self.process.request(&[number])?;
        let mut buffer = ipc::buffer();
        let Some(reply) = ipc::receive(&socket, &mut buffer)? else {
            return Err(io::Error::other(format!("{NAME} did not answer")));
        };
        match reply.descriptors.into_iter().next() {
            Some(log) => Ok(log.into()),
            None if reply.is_incomplete => Err(Errno::MFILE.into()),
            None => Err(io::Error::other(String::from_utf8_lossy(&reply.bytes).into_owned())),
        }
    }
}

/// The life of a process that removes names of sockets.
fn tidy_up(sockets: &[PathBuf]) -> io::Result<()> {
    // One that stays is taken over by the next server.
    sockets.iter().for_each(|path| _ = flash_trust::remove_abandoned(path));
    Ok(())
}

/// The life of a process that opens one log.
fn answer(to: &OwnedFd, log: Option<&PathBuf>) -> io::Result<()> {
    let log = match log {
        Some(path) => flash_trust::open_log(path),
        None => Err(io::Error::other("it is none of the logs")),
    };
    // If the process that asked has ended meanwhile, nobody needs the reply.
    let _ = match log {
        Ok(log) => ipc::send(to, b"log", &[log.as_fd()]),
        Err(error) => ipc::send(to, error.to_string().as_bytes(), &[]),
    };
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;
    use std::thread;

    use super::*;
    use crate::supervisor::Child;

    /// A thread in the place of the process: a test cannot fork.
    fn opener(paths: &[PathBuf]) -> PrivilegedOpener {
        let logs = paths.to_vec();
        let (control, theirs) = ipc::pair().unwrap();
        thread::spawn(move || {
            let mut buffer = ipc::buffer();
            while let Ok(Some(request)) = ipc::receive(&theirs, &mut buffer) {
                answer(&request.descriptors[0], logs.get(usize::from(request.bytes[0]))).unwrap();
            }
        });
        of(control, paths)
    }

    fn of(control: OwnedFd, paths: &[PathBuf]) -> PrivilegedOpener {
        let child = Child { pid: rustix::process::getpid(), name: NAME };
        PrivilegedOpener { process: SupervisorProcess::at(control, child), paths: paths.to_vec() }
    }

    #[test]
    fn a_log_is_created_again_and_appended_to() {
        let folder = tempfile::tempdir().unwrap();
        let (log, moved) = (folder.path().join("log"), folder.path().join("moved"));
        fs::write(&log, "before\n").unwrap();
        let opener = opener(std::slice::from_ref(&log));
        opener.open(&log).unwrap().write_all(b"after\n").unwrap();
        assert_eq!(fs::read_to_string(&log).unwrap(), "before\nafter\n");
        fs::rename(&log, &moved).unwrap();
        opener.open(&log).unwrap().write_all(b"new\n").unwrap();
        assert_eq!(fs::read_to_string(&log).unwrap(), "new\n");
        fs::remove_dir_all(folder.path()).unwrap();
        assert!(opener.open(&log).unwrap_err().to_string().contains("No such file"));
        assert_eq!(opener.open(&moved).unwrap_err().kind(), ErrorKind::NotFound);
    }

    #[test]
    fn one_that_has_ended_says_so() {
        let (control, theirs) = ipc::pair().unwrap();
        drop(theirs);
        let opener = of(control, &["/log".into()]);
        assert_eq!(
            opener.open(Path::new("/log")).unwrap_err().to_string(),
            "the privileged opener has ended"
        );
    }
}
