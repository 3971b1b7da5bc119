//! A thread that closes files, because the last close of a deleted file frees its blocks.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Sender, channel};
use std::thread;

#[derive(Debug)]
pub(crate) struct Closer {
    files: Sender<OwnedFd>,
}

impl Closer {
    pub(crate) fn start() -> io::Result<Self> {
        // As many as there are descriptors: that is its bound.
        let (files, closed) = channel::<OwnedFd>();
        thread::Builder::new()
            .name("closer".into())
            .stack_size(64 << 10)
            .spawn(move || closed.iter().for_each(drop))?;
        Ok(Self { files })
    }

    pub(crate) fn close(&self, file: OwnedFd) {
        // Should the thread be gone, the file is closed here and now.
        let _ = self.files.send(file);
    }
}
