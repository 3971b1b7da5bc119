//! The number of the tracepoint that each system call passes, which tracefs tells.
//!
//! Where tracefs is not mounted, root gets a mount of it that has no place in any folder and ends with its descriptor.

use std::fs;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

/// Where tracefs is mounted, if it is.
const MOUNTED: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
const NUMBER: &str = "events/raw_syscalls/sys_enter/id";

/// The number of `raw_syscalls:sys_enter`, if this program may know it.
pub(crate) fn of_calls() -> Option<u64> {
    let mounted = MOUNTED.iter().find_map(|place| fs::read_to_string(Path::new(place).join(NUMBER)).ok());
    mounted.or_else(|| read_unmounted().ok())?.trim().parse().ok()
}

fn read_unmounted() -> io::Result<String> {
    let context = fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&context)?;
    let mount = fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::MOUNT_ATTR_RDONLY)?;
    let file = rustix::fs::openat(&mount, NUMBER, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let mut text = String::new();
    File::from(file).read_to_string(&mut text)?;
    Ok(text)
}
