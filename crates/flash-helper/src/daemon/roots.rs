//! The roots: each asker gets them as open folders, at the start and whenever one leads to another folder.
//!
//! A thread of `flash-arch` looks where a root leads. The loop compares generations.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

use flash_core::site::id::SiteId;
use flash_disk::SiteRoot;
use flash_os::walk::{self, Resolve};
use rustix::fs::OFlags;
use rustix::io::Errno;

use super::Daemon;
use crate::answer::{Attached, Outgoing};
use crate::protocol::{self, flag};

impl Daemon {
    /// Tells all askers of roots that have changed.
    pub(super) fn look_at_roots(&mut self) -> io::Result<()> {
        for number in 0..self.roots.len() {
            let root = &mut self.roots[number];
            let generation = root.generation.get();
            if std::mem::replace(&mut root.told, generation) == generation {
                continue;
            }
            if let Some(root) = self.service.disk().site_root(SiteId(number as u32)) {
                check_reach(&root)?;
            }
            let keys: Vec<usize> = self.askers.iter().map(|(key, _)| key).collect();
            keys.into_iter().for_each(|key| self.tell_root(key, number));
        }
        Ok(())
    }

    pub(super) fn tell_root(&mut self, key: usize, number: usize) {
        let Some(root) = self.service.disk().site_root(SiteId(number as u32)) else { return };
        // From a folder that is gone nothing more is opened.
        let looks_now = root.looks_now() && !root.is_gone();
        let mut flags = 0;
        if looks_now {
            flags |= flag::INLINE;
            flags |= if root.notes_access() { flag::ACCESS_TIMES } else { 0 };
        }
        let path = self.roots[number].path.clone();
        let message = protocol::Root { flags, number: number as u32, path }.encode();
        self.send(key, Outgoing { attached: Attached::Root(root), ..Outgoing::message(message) });
    }
}

/// The sandbox lets the daemon read below folders that were there at its start. If a new root is outside of them, only a new
/// process can read it, and the service manager starts one.
fn check_reach(root: &Arc<SiteRoot>) -> io::Result<()> {
    match walk::open(root.as_fd(), b".", OFlags::RDONLY | OFlags::DIRECTORY, Resolve::CACHED) {
        Err(Errno::ACCESS) => {
            let path = root.real_path().display();
            let why = format!("{path} is a new folder, which the sandbox does not reach: start me again");
            Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
        }
        _ => Ok(()),
    }
}
