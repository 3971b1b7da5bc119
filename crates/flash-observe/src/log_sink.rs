//! The sink of a log: a file or the socket of a log daemon. It is opened at start and again after a rotation, and gets whole
//! batches.
//!
//! Every call here may wait for the destination without limit, so only a log's writer thread makes them. The one exception is
//! the opening at the start, because its failure should end the start. This module knows no buffers.

use std::fmt;
use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

mod daemon;
mod daemon_socket;
mod rotations;

pub use self::daemon::{LogDaemon, Severity};
use self::daemon_socket::DaemonSocket;
use self::rotations::{Rotations, TURN_PAUSE};

/// Where a log goes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Destination {
    Stdout,
    Stderr,
    /// A file, made if there is none, appended to otherwise; or a FIFO, whether or not anybody reads it.
    Path(PathBuf),
    Daemon(LogDaemon),
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Destination::Stdout => f.write_str("standard output"),
            Destination::Stderr => f.write_str("standard error"),
            Destination::Path(path) => path.display().fmt(f),
            Destination::Daemon(daemon) => daemon.fmt(f),
        }
    }
}

impl Destination {
    /// The same, where a relative path begins at this folder.
    #[must_use]
    pub fn below(&self, folder: &Path) -> Self {
        match self {
            Destination::Path(path) => Destination::Path(folder.join(path)),
            Destination::Daemon(daemon) => Destination::Daemon(daemon.below(folder)),
            Destination::Stdout | Destination::Stderr => self.clone(),
        }
    }

    fn open(&self, opener: Option<&Opener>) -> io::Result<Output> {
        match (self, opener) {
            // A descriptor of our own: the standard library's handles would add a lock and a buffer.
            (Destination::Stdout, _) => Ok(Output::File(io::stdout().as_fd().try_clone_to_owned()?.into())),
            (Destination::Stderr, _) => Ok(Output::File(io::stderr().as_fd().try_clone_to_owned()?.into())),
            (Destination::Path(path), Some(opener)) => opener(path).map(Output::File),
            (Destination::Path(path), None) => flash_trust::open_log(path).map(Output::File),
            (Destination::Daemon(daemon), _) => DaemonSocket::open(daemon).map(Output::Daemon),
        }
    }

    fn device(&self, output: &Output) -> io::Result<Device> {
        let file = match (output, self) {
            (Output::Daemon(_), Destination::Daemon(daemon)) => return Ok(Device::Daemon(daemon.clone())),
            (Output::Daemon(_), _) => unreachable!("only a daemon's destination opens its socket"),
            (Output::File(file), _) => file.metadata()?,
        };
        Ok(match file.is_file() {
            true => Device::Disk(file.dev()),
            false => Device::Special { device: file.dev(), inode: file.ino() },
        })
    }
}

/// Opens a log's path on behalf of a process that may not.
pub type Opener = Arc<dyn Fn(&Path) -> io::Result<File> + Send + Sync>;

/// What hangs as a whole.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Device {
    /// The device of a regular file.
    Disk(u64),
    /// A FIFO, a socket or a terminal, by its inode.
    Special {
        device: u64,
        inode: u64,
    },
    Daemon(LogDaemon),
}

/// An open destination.
pub struct LogSink {
    destination: Destination,
    output: Output,
    device: Device,
    opener: Option<Opener>,
    /// The last write broke off inside a line.
    torn: bool,
    /// How many rotations it knows of.
    rotations: u64,
    /// When it was last opened to see if it was rotated, or first might have been.
    looked_at: Option<Instant>,
}

/// Of the logs of this process.
static ROTATIONS: Rotations = Rotations::new();

enum Output {
    File(File),
    Daemon(DaemonSocket),
}

/// What a write could not do.
pub(crate) struct WriteError {
    pub(crate) why: io::Error,
    pub(crate) lines_lost: u64,
}

impl LogSink {
    pub fn open(destination: Destination) -> io::Result<LogSink> {
        LogSink::open_by(destination, None)
    }

    /// Opens a destination by `opener`, if there is one. It opens the path later, too.
    pub fn open_by(destination: Destination, opener: Option<Opener>) -> io::Result<LogSink> {
        let output = destination.open(opener.as_ref())?;
        LogSink::new(destination, output, opener)
    }

    fn new(destination: Destination, output: Output, opener: Option<Opener>) -> io::Result<LogSink> {
        let device = destination.device(&output)?;
        Ok(LogSink {
            destination,
            output,
            device,
            opener,
            torn: false,
            rotations: ROTATIONS.count(),
            looked_at: None,
        })
    }

    /// The same destination for another writer: opened anew, since the file may have been renamed, or shared with this
    /// one where that fails. If there is an `opener`, it opens the path from now on.
    pub fn again(&self, opener: Option<Opener>) -> io::Result<LogSink> {
        let destination = self.destination.clone();
        let output = destination.open(opener.as_ref()).or_else(|_| match &self.output {
            Output::File(file) => file.try_clone().map(Output::File),
            Output::Daemon(socket) => socket.again().map(Output::Daemon),
        })?;
        LogSink::new(destination, output, opener)
    }

    /// From now on this opens the path again.
    #[must_use]
    pub fn opened_again_by(self, opener: Option<Opener>) -> LogSink {
        LogSink { opener, ..self }
    }

    pub fn destination(&self) -> &Destination {
        &self.destination
    }

    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    /// Opens the path again, after a rotation renamed the file. On failure the old file stays in use.
    pub(crate) fn reopen(&mut self) -> io::Result<()> {
        if let (Output::Daemon(socket), Destination::Daemon(daemon)) = (&mut self.output, &self.destination) {
            socket.reopen(daemon)?;
            self.torn = false;
            return Ok(());
        }
        self.switch(self.destination.open(self.opener.as_ref())?)
    }

    /// Opens the path again if another file has it by now. Where there is none, the old one stays in use: who rotates the files makes
    /// another one.
    pub(crate) fn follow(&mut self, now: Instant) {
        let (Output::File(file), Destination::Path(path)) = (&self.output, &self.destination) else { return };
        match fs::metadata(path) {
            // What cannot be opened stays as it is.
            Ok(there) if file.metadata().is_ok_and(|own| identity(&there) != identity(&own)) => {
                _ = self.reopen()
            }
            Err(error) if error.kind() == ErrorKind::PermissionDenied => self.follow_unseen(now, &ROTATIONS),
            _ => {}
        }
    }

    /// The same where this process may not look at the path, and has it opened: another process does that, which is work. So one log is
    /// opened for all, and the others if it was rotated. Each has its turn in the end, lest one be missed that is rotated alone.
    fn follow_unseen(&mut self, now: Instant, rotations: &Rotations) {
        let (Output::File(file), Some(opener)) = (&self.output, &self.opener) else { return };
        let knows_all = self.rotations == rotations.count();
        let has_turn = now >= *self.looked_at.get_or_insert(now) + TURN_PAUSE;
        if knows_all && !has_turn && !rotations.may_look(now) {
            return;
        }
        (self.rotations, self.looked_at) = (rotations.count(), Some(now));
        let Ok(there) = self.destination.open(Some(opener)) else { return };
        let Output::File(next) = &there else { return };
        let (Ok(next), Ok(own)) = (next.metadata(), file.metadata()) else { return };
        if identity(&next) != identity(&own) {
            if knows_all {
                self.rotations = rotations.add();
            }
            _ = self.switch(there);
        }
    }

    /// Writes to this output from now on.
    fn switch(&mut self, next: Output) -> io::Result<()> {
        self.device = self.destination.device(&next)?;
        self.output = next;
        self.torn = false;
        Ok(())
    }

    /// Writes whole lines, in one system call where the destination takes them at once.
    pub(crate) fn write(&mut self, mut lines: &[u8]) -> Result<(), WriteError> {
        if let (Output::Daemon(socket), Destination::Daemon(daemon)) = (&mut self.output, &self.destination) {
            let written = socket.write(daemon, lines);
            return written.map_err(|(why, lines_lost)| WriteError { why, lines_lost });
        }
        if self.torn && !lines.is_empty() {
            // End the torn line, lest it spoil the first of the new ones.
            self.write_all(&mut &b"\n"[..])
                .map_err(|why| WriteError { why, lines_lost: count_lines(lines) })?;
            self.torn = false;
        }
        let all = lines;
        self.write_all(&mut lines).map_err(|why| {
            let written = &all[..all.len() - lines.len()];
            self.torn = written.last().is_some_and(|byte| *byte != b'\n');
            WriteError { why, lines_lost: count_lines(lines) }
        })
    }

    /// Moves `bytes` on past what was written, so that the caller sees how far it got.
    fn write_all(&mut self, bytes: &mut &[u8]) -> io::Result<()> {
        const BETWEEN_TRIES: Duration = Duration::from_millis(10);
        let Output::File(file) = &mut self.output else { return Ok(()) };
        while !bytes.is_empty() {
            match file.write(bytes) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(n) => *bytes = &bytes[n..],
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // Somebody who shares our standard output made it non-blocking.
                Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::sleep(BETWEEN_TRIES),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

fn identity(file: &Metadata) -> (u64, u64) {
    (file.dev(), file.ino())
}

pub(crate) fn count_lines(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|byte| **byte == b'\n').count() as u64
}

#[cfg(test)]
mod tests;
