//! A helper process: it confines itself, and then answers questions until nobody asks any more.
//!
//! It knows one socket and the folder. A question that makes no sense is its end: whoever asks is not the server it was
//! made for.

use std::ffi::CString;
use std::io;
use std::os::fd::OwnedFd;

use flash_disk::Disk;
use flash_process::ipc;
use rustix::io::Errno;

use crate::helpers::HELPER_NICE;

pub(super) fn run(
    number: usize,
    socket: &OwnedFd,
    mut disk: Disk,
    confine: &dyn Fn() -> io::Result<()>,
) -> io::Result<()> {
    rustix::thread::set_name(&CString::new(format!("helper-{number}"))?)?;
    // Refused or not, the helper helps.
    let _ = flash_os::preload::disable_huge_pages();
    let _ = rustix::process::nice(HELPER_NICE);
    confine()?;
    // Its processor time tells the server whether it works or waits for a disk.
    ipc::send(socket, &std::process::id().to_ne_bytes(), &[])?;
    let mut buffer = ipc::buffer();
    while let Some(message) = ipc::receive(socket, &mut buffer)? {
        let Some(answer) = disk.answer(&message.bytes, message.descriptors) else { break };
        match ipc::send(socket, &answer.bytes, &answer.descriptors()) {
            // The server has gone while it was working.
            Err(Errno::PIPE) => break,
            sent => sent?,
        }
    }
    Ok(())
}
