//! A helper process. It confines itself, and then answers requests until the server closes the socket.
//!
//! It has one socket, and the root that the server sends first. Then a socket comes for each thread, whose requests it answers one
//! after the other. A malformed request ends the thread, because its server never sends one.

use std::ffi::CString;
use std::io;
use std::os::fd::OwnedFd;
use std::thread;

use flash_disk::{Disk, Opened, SiteRoot, real_path};
use flash_process::ipc;
use rustix::io::Errno;

use crate::limits::HELPER_NICE;

/// As much as a helper thread of the server has.
const STACK_BYTES: usize = 256 << 10;

pub(super) fn run(
    number: usize,
    socket: &OwnedFd,
    open: &dyn Fn(Opened) -> io::Result<Disk>,
    confine: &dyn Fn(&SiteRoot) -> io::Result<()>,
) -> io::Result<()> {
    flash_os::process::set_name(&CString::new(format!("helper-{number}"))?);
    // If the kernel refuses, the helper runs all the same.
    let _ = flash_os::preload::disable_huge_pages();
    let _ = rustix::process::nice(HELPER_NICE);
    let mut buffer = ipc::buffer();
    // The server has gone, or never sent a root.
    let Some(message) = ipc::receive(socket, &mut buffer)? else { return Ok(()) };
    let root = message.descriptors.into_iter().next().ok_or(io::ErrorKind::InvalidData)?;
    let real_path = real_path(&root)?;
    let disk = open((root, real_path))?;
    confine(&disk.root())?;
    while let Some(message) = ipc::receive(socket, &mut buffer)? {
        // Where no descriptor was free it has been closed, and the server repeats the job elsewhere, too.
        let Some(socket) = message.descriptors.into_iter().next() else { continue };
        let mut disk = disk.for_another_thread();
        // If no thread can be started, the socket closes, and the server repeats the job elsewhere.
        let _ = thread::Builder::new().stack_size(STACK_BYTES).spawn(move || answer(&mut disk, &socket));
    }
    Ok(())
}

/// The body of a thread.
fn answer(disk: &mut Disk, socket: &OwnedFd) -> io::Result<()> {
    let mut buffer = ipc::buffer();
    // Its processor time tells the server whether it works or waits for a disk.
    ipc::send(socket, &std::process::id().to_ne_bytes(), &[])?;
    while let Some(message) = ipc::receive(socket, &mut buffer)? {
        let Some(answer) = disk.answer(&message.bytes, message.descriptors) else { break };
        match ipc::send(socket, &answer.bytes, &answer.descriptors()) {
            // The server has ended meanwhile.
            Err(Errno::PIPE) => break,
            sent => sent?,
        }
    }
    Ok(())
}
