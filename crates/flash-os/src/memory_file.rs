//! Files without a name, in memory, that processes pass to each other. Sealed ones change no more.
//!
//! Where there is no `memfd_create`, it is a file whose name is gone, in the filesystem that the system has in memory, or else
//! among temporary files. Such a file has no seals: whoever gets it has to bear that it may shrink or change, and that it may lie
//! on a disk. It carries messages between two processes, of which the one that wrote it could have written anything. What many
//! share is sealed, or is not shared.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rustix::fs::FileType;
use rustix::io::Errno;

use crate::system_calls::{Call, has};
use crate::{file_stat, system};

/// Where files in memory have names, on systems that have such a place.
const SHARED_MEMORY: &str = "/dev/shm";

/// An empty file. The name is for those who look at the process.
///
/// # Errors
/// If no descriptor or memory is left.
pub fn new(name: &'static str) -> Result<OwnedFd, Errno> {
    match folder() {
        None => system::memory_file::new(name),
        Some(folder) => tempfile::tempfile_in(folder).map(OwnedFd::from).map_err(|error| why(&error)),
    }
}

/// The same, never on a disk, and with seals.
///
/// # Errors
/// As [`new`]; and where files cannot be sealed.
pub fn in_memory(name: &'static str) -> Result<OwnedFd, Errno> {
    if folder().is_none() { new(name) } else { Err(Errno::NOSYS) }
}

/// A file of these bytes, sealed.
///
/// # Errors
/// As [`new`].
pub fn of(name: &'static str, bytes: &[u8]) -> Result<OwnedFd, Errno> {
    let mut file = File::from(new(name)?);
    file.write_all(bytes).map_err(|error| why(&error))?;
    seal(&file)?;
    Ok(file.into())
}

/// From now on it cannot change in any process, if it can have seals.
///
/// # Errors
/// If somebody has it mapped to write it.
pub fn seal(file: impl AsFd) -> Result<(), Errno> {
    if has(Call::MemfdCreate) { system::memory_file::seal(file) } else { Ok(()) }
}

/// Whether another process has sent a file that changes no more. Without seals, one that has no name.
pub fn is_sealed(file: impl AsFd) -> bool {
    match has(Call::MemfdCreate) {
        true => system::memory_file::is_sealed(file),
        false => {
            file_stat::of(file).is_ok_and(|stat| stat.kind() == FileType::RegularFile && stat.links == 0)
        }
    }
}

/// The folder where these files are made. `None` if they need none.
pub fn folder() -> Option<&'static Path> {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    (!has(Call::MemfdCreate)).then(|| &**FOLDER.get_or_init(choose))
}

fn why(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

fn choose() -> PathBuf {
    match tempfile::tempfile_in(SHARED_MEMORY) {
        Ok(_) => SHARED_MEMORY.into(),
        Err(_) => std::env::temp_dir(),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn what_is_sealed_changes_no_more() {
        let mut file = File::from(of("flash-test", b"123").unwrap());
        assert!(is_sealed(&file) && folder().is_none());
        assert!(file.write_all(b"4").is_err() && file.set_len(1).is_err());
        assert!(!is_sealed(new("flash-test").unwrap()));
    }

    #[test]
    fn where_none_can_be_had_a_file_without_a_name_takes_its_place() {
        let mut file = tempfile::tempfile_in(choose()).unwrap();
        file.write_all(b"123").unwrap();
        let mut copy = String::new();
        std::io::Seek::rewind(&mut file).unwrap();
        file.read_to_string(&mut copy).unwrap();
        assert_eq!(copy, "123");
        assert_eq!(file_stat::of(&file).unwrap().links, 0);
    }
}
