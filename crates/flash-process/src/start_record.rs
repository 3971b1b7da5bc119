//! Which programs the fork helper was about to start, in memory that it shares with one server process.
//!
//! Each folder and each command has a place for a number. If the fork helper is killed, the server knows from it which
//! requests may have been started.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use flash_os::memory_file;

use crate::protocol::ProgramRef;

#[derive(Debug)]
pub(crate) struct StartRecord(OwnedFd);

/// ProgramRef a record says.
#[derive(Debug)]
pub(crate) struct LastStarted {
    /// By folder and command. `None` if the record cannot be read.
    numbers: Option<Vec<u64>>,
}

const NUMBER_BYTES: usize = size_of::<u64>();
/// 256 folders and 256 commands.
const PAGE_BYTES: usize = 4096;

impl StartRecord {
    pub(crate) fn new() -> io::Result<Self> {
        let memory = memory_file::new("flash-starts")?;
        // Its page exists from now on, so that no later write can fail.
        rustix::io::write(&memory, &[0; PAGE_BYTES])?;
        Ok(Self(memory))
    }

    pub(crate) fn from_server(descriptor: OwnedFd) -> Self {
        Self(descriptor)
    }

    /// Before the program is executed.
    pub(crate) fn note(&self, what: &ProgramRef, number: u64) -> io::Result<()> {
        let offset = (NUMBER_BYTES * index(what)) as u64;
        rustix::io::pwrite(&self.0, &number.to_ne_bytes(), offset)?;
        Ok(())
    }

    pub(crate) fn read(&self) -> LastStarted {
        let read = || -> io::Result<Vec<u64>> {
            let mut bytes = vec![0; rustix::fs::fstat(&self.0)?.st_size as usize];
            let length = rustix::io::pread(&self.0, &mut bytes, 0)?;
            let (numbers, _) = bytes[..length].as_chunks::<NUMBER_BYTES>();
            Ok(numbers.iter().copied().map(u64::from_ne_bytes).collect())
        };
        LastStarted { numbers: read().ok() }
    }
}

impl AsFd for StartRecord {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl LastStarted {
    pub(crate) fn may_include(&self, what: &ProgramRef, number: u64) -> bool {
        let Some(numbers) = &self.numbers else { return true };
        number <= numbers.get(index(what)).copied().unwrap_or_default()
    }

    pub(crate) fn is_none(&self) -> bool {
        self.numbers.as_ref().is_some_and(|numbers| numbers.iter().all(|&number| number == 0))
    }
}

fn index(what: &ProgramRef) -> usize {
    match *what {
        ProgramRef::Script { folder, .. } => 2 * usize::from(folder),
        ProgramRef::Command { command } => 2 * usize::from(command) + 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_folder_and_command_has_a_number_of_its_own() {
        let record = StartRecord::new().unwrap();
        let script = |folder| ProgramRef::Script { folder, path: Vec::new() };
        let command = |command| ProgramRef::Command { command };
        assert!(record.read().is_none());
        assert!(!record.read().may_include(&script(0), 1));
        record.note(&script(2), 7).unwrap();
        record.note(&command(1), 9).unwrap();
        let last = record.read();
        assert!(!last.is_none());
        assert!(last.may_include(&script(2), 7) && !last.may_include(&script(2), 8));
        assert!(last.may_include(&command(1), 9) && !last.may_include(&command(1), 10));
        for other in [script(0), script(1), script(3), command(0), command(2)] {
            assert!(!last.may_include(&other, 1), "{other:?}");
        }
    }
}
