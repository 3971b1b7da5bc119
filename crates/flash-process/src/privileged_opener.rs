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
//! The server's user may own the folder of the logs, and must not gain the rights of the start by it. So a log's path is
//! resolved once, at the start. Later the privileged opener follows no link to a log, and refuses one that has a second name.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use crate::ipc;
use crate::role::{OnEnd, Role};
use crate::socket_name;
use crate::supervisor_process::{SupervisorProcess, SupervisorSetup};

use self::named_files::{NamedFiles, ReadNames};

pub(crate) mod named_files;

/// In what it logs.
const NAME: &str = "the privileged opener";
/// In the place of a log's number.
const TIDY_UP: u8 = u8::MAX;
const NAMED_FILES: u8 = u8::MAX - 1;
/// The same as at the start: readable for the group, so that a log analyser needs no more.
const MODE: Mode = Mode::from_raw_mode(0o640);

#[derive(Debug)]
pub struct PrivilegedOpener {
    process: SupervisorProcess,
    /// As the flags name them, in the order of their numbers.
    paths: Vec<PathBuf>,
}

impl PrivilegedOpener {
    /// Forks the process that opens these logs, which exist already, and the files that the configuration names.
    ///
    /// # Errors
    /// When the process has more than one thread, or the kernel refuses another process.
    pub fn start(paths: &[PathBuf], sockets: &[PathBuf], names: &ReadNames<'_>) -> io::Result<Self> {
        let resolved: Vec<Option<PathBuf>> = paths.iter().map(|path| fs::canonicalize(path).ok()).collect();
        let requested = |message: &[u8], socket: Rc<OwnedFd>| {
            let [number] = *message else { return None };
            let to = Rc::clone(&socket);
            let main: Rc<dyn Fn() -> io::Result<()>> = match number {
                TIDY_UP => Rc::new(|| tidy_up(sockets)),
                NAMED_FILES => Rc::new(move || named_files::answer(&to, names)),
                number => {
                    let log = resolved.get(usize::from(number));
                    Rc::new(move || answer(&to, log))
                }
            };
            Some(Role { name: NAME.into(), on_end: OnEnd::Forget, socket: Some(socket), main })
        };
        let process = SupervisorProcess::start(SupervisorSetup {
            title: c"flash-opener",
            name: NAME,
            requested: &requested,
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
    sockets.iter().for_each(|path| _ = socket_name::remove_abandoned(path));
    Ok(())
}

/// The life of a process that opens one log.
fn answer(to: &OwnedFd, log: Option<&Option<PathBuf>>) -> io::Result<()> {
    let log = match log {
        Some(Some(path)) => open(path),
        Some(None) => Err(io::Error::other("its path led nowhere at the start")),
        None => Err(io::Error::other("it is none of the logs")),
    };
    // If the process that asked has ended meanwhile, nobody needs the reply.
    let _ = match log {
        Ok(log) => ipc::send(to, b"log", &[log.as_fd()]),
        Err(error) => ipc::send(to, error.to_string().as_bytes(), &[]),
    };
    Ok(())
}

fn open(path: &Path) -> io::Result<OwnedFd> {
    let open = |access| {
        // Nonblocking: a FIFO that nobody reads must not stop this process.
        let flags = access | OFlags::NONBLOCK | OFlags::CREATE | OFlags::NOCTTY | OFlags::CLOEXEC;
        rustix::fs::openat2(CWD, path, flags, MODE, ResolveFlags::NO_SYMLINKS)
    };
    let log = match open(OFlags::WRONLY | OFlags::APPEND) {
        // fifo(7): it has no reader yet, and opens for both ways.
        Err(Errno::NXIO) => open(OFlags::RDWR),
        Err(Errno::LOOP) => return Err(io::Error::other("it has become a symbolic link")),
        opened => opened,
    }?;
    let status = rustix::fs::fstat(&log)?;
    if FileType::from_raw_mode(status.st_mode) == FileType::RegularFile && status.st_nlink > 1 {
        return Err(io::Error::other("the file has a second name"));
    }
    rustix::fs::fcntl_setfl(&log, OFlags::APPEND)?;
    Ok(log)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::symlink;
    use std::thread;

    use rustix::fs::mknodat;

    use super::*;
    use crate::supervisor::Child;

    /// A thread in the place of the process: a test cannot fork.
    fn opener(paths: &[PathBuf]) -> PrivilegedOpener {
        let resolved: Vec<Option<PathBuf>> = paths.iter().map(|path| fs::canonicalize(path).ok()).collect();
        let (control, theirs) = ipc::pair().unwrap();
        thread::spawn(move || {
            let mut buffer = ipc::buffer();
            while let Ok(Some(request)) = ipc::receive(&theirs, &mut buffer) {
                answer(&request.descriptors[0], resolved.get(usize::from(request.bytes[0]))).unwrap();
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
    fn the_servers_user_gains_no_other_file_by_it() {
        let folder = tempfile::tempdir().unwrap();
        let [log, other, real] = ["log", "other", "real"].map(|name| folder.path().join(name));
        fs::write(&other, "root's").unwrap();
        fs::write(&real, "").unwrap();
        // A link that was there at the start is the operator's.
        symlink(&real, &log).unwrap();
        let opener = opener(std::slice::from_ref(&log));
        opener.open(&log).unwrap().write_all(b"line\n").unwrap();
        assert_eq!(fs::read_to_string(&real).unwrap(), "line\n");
        fs::remove_file(&real).unwrap();
        symlink(&other, &real).unwrap();
        assert_eq!(opener.open(&log).unwrap_err().to_string(), "it has become a symbolic link");
        fs::remove_file(&real).unwrap();
        fs::hard_link(&other, &real).unwrap();
        assert_eq!(opener.open(&log).unwrap_err().to_string(), "the file has a second name");
        assert_eq!(fs::read_to_string(&other).unwrap(), "root's");
    }

    #[test]
    fn a_fifo_that_nobody_reads_stops_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("fifo");
        mknodat(CWD, &fifo, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        let opener = opener(std::slice::from_ref(&fifo));
        opener.open(&fifo).unwrap().write_all(b"line\n").unwrap();
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
