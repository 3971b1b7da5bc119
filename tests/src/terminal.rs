//! A terminal without a screen: what a program writes to its own side is read from the other.

use std::fs::{File, OpenOptions};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

/// Our side, and the program's. The terminal hangs up when ours is dropped.
pub fn open() -> (File, File) {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).expect("a terminal");
    grantpt(&ours).expect("its rights");
    unlockpt(&ours).expect("its other side");
    let name = ptsname(&ours, Vec::new()).expect("a name").into_string().expect("a name in ASCII");
    let theirs = OpenOptions::new().read(true).write(true).open(name).expect("the program's side");
    (ours.into(), theirs)
}
