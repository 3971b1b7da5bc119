//! Files that the configuration names, opened for reading with the rights of the start: certificates, their keys, and the like.
//!
//! The process that opens them reads the configuration itself. So a server that was taken over gains no other file by it. It
//! serves one look at the files, however many there are, and ends when the server closes the socket.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::ipc;

/// Reads the configuration, and returns the files that it names.
pub type ReadNames<'a> = dyn Fn() -> io::Result<Vec<PathBuf>> + 'a;

/// A process that opens files of the configuration.
#[derive(Debug)]
pub struct NamedFiles {
    pub(super) socket: OwnedFd,
}

impl NamedFiles {
    /// Opens a file for reading.
    ///
    /// # Errors
    /// As opening it fails, or when the configuration does not name the file by this path.
    pub fn open(&self, path: &Path) -> io::Result<File> {
        ipc::send(&self.socket, path.as_os_str().as_bytes(), &[])?;
        let mut buffer = ipc::buffer();
        let Some(reply) = ipc::receive(&self.socket, &mut buffer)? else {
            return Err(io::Error::other("the privileged opener did not answer"));
        };
        match reply.descriptors.into_iter().next() {
            Some(file) => Ok(file.into()),
            None if reply.is_incomplete => Err(Errno::MFILE.into()),
            None if reply.bytes.is_empty() => Err(Errno::NOENT.into()),
            None => Err(io::Error::other(String::from_utf8_lossy(&reply.bytes).into_owned())),
        }
    }
}

/// The life of the process.
pub(super) fn answer(socket: &OwnedFd, names: &ReadNames<'_>) -> io::Result<()> {
    let names = names();
    let mut buffer = ipc::buffer();
    while let Some(message) = ipc::receive(socket, &mut buffer)? {
        let path = Path::new(OsStr::from_bytes(&message.bytes));
        let opened = match &names {
            Ok(names) if names.iter().any(|name| name == path) => {
                flash_trust::open(path).map_err(|why| match why.kind() {
                    ErrorKind::NotFound => String::new(),
                    _ => why.to_string(),
                })
            }
            Ok(_) => Err("the configuration does not name it".into()),
            Err(why) => Err(why.to_string()),
        };
        let sent = match opened {
            Ok(file) => ipc::send(socket, b"file", &[file.as_fd()]),
            Err(why) => ipc::send(socket, why.as_bytes(), &[]),
        };
        match sent {
            // The server has ended meanwhile.
            Err(Errno::PIPE | Errno::CONNRESET) => break,
            sent => sent?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Read;
    use std::os::unix::fs::symlink;
    use std::thread;

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    /// A thread in the place of the process: a test cannot fork.
    fn named_files(names: io::Result<Vec<PathBuf>>) -> NamedFiles {
        let (socket, theirs) = ipc::pair().unwrap();
        thread::spawn(move || {
            let again = || match &names {
                Ok(names) => Ok(names.clone()),
                Err(why) => Err(io::Error::other(why.to_string())),
            };
            answer(&theirs, &again).unwrap();
        });
        NamedFiles { socket }
    }

    #[test]
    fn files_that_the_configuration_names_are_opened_and_no_others() {
        let folder = tempfile::tempdir().unwrap();
        let [key, live, other, none] = ["key", "live", "other", "none"].map(|name| folder.path().join(name));
        fs::write(&key, "secret").unwrap();
        fs::write(&other, "another's").unwrap();
        symlink("key", &live).unwrap();
        let files = named_files(Ok(vec![key.clone(), live.clone(), none.clone(), folder.path().into()]));
        for path in [&key, &live, &key] {
            let mut text = String::new();
            files.open(path).unwrap().read_to_string(&mut text).unwrap();
            assert_eq!(text, "secret");
        }
        for (path, why) in [
            (other, "the configuration does not name it"),
            (none, "No such file or directory (os error 2)"),
            (folder.path().into(), "it is not a file"),
        ] {
            let error = files.open(&path).unwrap_err();
            assert_eq!(error.to_string(), why, "{}", path.display());
            assert_eq!(error.kind() == ErrorKind::NotFound, path.ends_with("none"));
        }
    }

    #[test]
    fn a_fifo_that_nobody_writes_to_stops_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("fifo");
        mknodat(CWD, &fifo, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        let files = named_files(Ok(vec![fifo.clone()]));
        assert_eq!(files.open(&fifo).unwrap_err().to_string(), "it is not a file");
    }

    #[test]
    fn a_configuration_with_errors_names_nothing() {
        let files = named_files(Err(io::Error::other("the configuration has errors")));
        assert_eq!(files.open(Path::new("/key")).unwrap_err().to_string(), "the configuration has errors");
    }
}
