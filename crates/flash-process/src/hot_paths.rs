//! The paths that a server is asked for most often, on their way to the server that takes its place.
//!
//! They are in memory of their own, whose descriptor goes with the listening sockets. The new server looks the paths up before it
//! says that it is ready.

use std::io;
use std::os::fd::OwnedFd;

use flash_os::memory_file;

use crate::codec::{Reader, Writer};
use crate::ipc;

/// The name of the memory, among the sockets that a predecessor passes on.
pub const HOT_PATHS: &str = "flash=hot-paths";
/// Paths that need more bytes are left out.
const BYTES_MAX: usize = 1 << 20;
/// The longest host and the longest path.
const NAME_BYTES_MAX: usize = 64 << 10;

/// A path that was requested often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HotPath {
    /// A host that leads to its site.
    pub host: Vec<u8>,
    /// Decoded.
    pub path: Vec<u8>,
}

/// Writes paths, the most frequent first.
///
/// # Errors
/// If the process cannot have a descriptor more.
pub fn write(paths: &[HotPath]) -> io::Result<OwnedFd> {
    let mut all = Writer::default();
    for HotPath { host, path } in paths {
        if all.bytes.len() + host.len() + path.len() > BYTES_MAX {
            break;
        }
        all.bytes(host);
        all.bytes(path);
    }
    Ok(memory_file::of("flash-message", &all.bytes)?)
}

/// Reads what a predecessor has written. Later releases may write something else, of which nothing is read.
#[must_use]
pub fn read(memory: &OwnedFd) -> Vec<HotPath> {
    let bytes = ipc::from_memory(memory).unwrap_or_default();
    let mut reader = Reader(&bytes);
    let mut next = || {
        let host = reader.bytes(NAME_BYTES_MAX)?.to_vec();
        Some(HotPath { host, path: reader.bytes(NAME_BYTES_MAX)?.to_vec() })
    };
    std::iter::from_fn(&mut next).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_arrive_as_far_as_there_is_room() {
        let hot = |number: usize, bytes: usize| HotPath {
            host: number.to_string().into_bytes(),
            path: vec![b'a'; bytes],
        };
        let few: Vec<_> = (0..1000).map(|number| hot(number, number)).collect();
        assert_eq!(read(&write(&few).unwrap()), few);
        assert!(read(&write(&[]).unwrap()).is_empty());
        let many: Vec<_> = (0..1000).map(|number| hot(number, 8000)).collect();
        let arrived = read(&write(&many).unwrap());
        assert!((100..200).contains(&arrived.len()) && many.starts_with(&arrived));
    }

    #[test]
    fn what_is_no_list_is_empty() {
        assert!(read(&memory_file::of("flash-message", &[9; 7]).unwrap()).is_empty());
        assert!(read(&std::fs::File::open("/proc/self/exe").unwrap().into()).is_empty());
    }
}
