//! `memfd_create` and its seals.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, memfd_create};
use rustix::io::Errno;

const SEALS: SealFlags =
    SealFlags::SEAL.union(SealFlags::SHRINK).union(SealFlags::GROW).union(SealFlags::WRITE);

pub(crate) fn new(name: &str) -> Result<OwnedFd, Errno> {
    memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)
}

pub(crate) fn seal(file: impl AsFd) -> Result<(), Errno> {
    fcntl_add_seals(file, SEALS)
}

/// Only memory has seals. Bytes that are added do no harm, and other releases leave that open.
pub(crate) fn is_sealed(file: impl AsFd) -> bool {
    let needed = SealFlags::SHRINK | SealFlags::WRITE;
    fcntl_get_seals(file).is_ok_and(|seals| seals.contains(needed))
}
