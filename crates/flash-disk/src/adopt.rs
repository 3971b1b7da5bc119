//! Files that another process has opened and passes on, to have their windows brought into memory.
//!
//! The other process is not trusted: its descriptor may be anything. A call to a remote file could wait for as long as that
//! process likes. So only files of local mounts are taken.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use flash_core::file::header::HeaderTemplate;
use flash_core::file::{Content, File};
use flash_http::media;
use flash_os::{file_stat, walk};
use rustix::fs::{FileType, OFlags, fcntl_getfl};

use crate::disk::Disk;
use crate::stat::{FileStat, examine};

impl Disk {
    /// The file behind a descriptor. Never waits.
    ///
    /// # Errors
    /// The descriptor, if it is no regular file of a local mount, or not open for reading. Closing it may wait.
    pub fn adopt(&self, file: OwnedFd) -> Result<Arc<File>, OwnedFd> {
        let Some(examined) = self.examine_local(&file) else { return Err(file) };
        let open = self.open_window(file, &examined);
        let template = HeaderTemplate::default();
        let content = Content::Open(Arc::new(open));
        Ok(Arc::new(File::new(examined.stamp, media::of(b""), None, false, (&template, None), content)))
    }

    fn examine_local(&self, file: &OwnedFd) -> Option<FileStat> {
        let flags = fcntl_getfl(file).ok()?;
        let is_readable = (flags & OFlags::RWMODE) != OFlags::WRONLY;
        if !is_readable || flags.intersects(walk::UNCACHED) {
            return None;
        }
        // Whatever it is, this makes no call to a server or a program.
        let mount = file_stat::mount_now(file)?;
        if !self.device_of_mount(Some(mount)).class.is_local() {
            return None;
        }
        examine(file).ok().filter(|examined| examined.kind == FileType::RegularFile)
    }
}
