//! sched_setattr(2), and ioprio_set(2).

use std::io;

pub(crate) fn set_slice(slice_ns: u64) -> io::Result<()> {
    // SAFETY: all fields are integers, for which zero is a value: no flags, no limits, the ordinary policy.
    let mut attributes: libc::sched_attr = unsafe { std::mem::zeroed() };
    attributes.size = size_of::<libc::sched_attr>() as u32;
    // SAFETY: 0 is this thread; the kernel writes no more than the size it is given of a structure of that size.
    let read = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, attributes.size, 0) };
    if read != 0 {
        return Err(io::Error::last_os_error());
    }
    attributes.sched_runtime = slice_ns;
    // SAFETY: 0 is this thread; the kernel only reads the structure, whose size it finds in its first field.
    match unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// linux/ioprio.h
const IOPRIO_WHO_PROCESS: libc::c_int = 1;
const IOPRIO_CLASS_IDLE: libc::c_int = 3;
const IOPRIO_CLASS_SHIFT: libc::c_int = 13;

pub(crate) fn read_last() -> bool {
    let class = IOPRIO_CLASS_IDLE << IOPRIO_CLASS_SHIFT;
    // SAFETY: numbers only. 0 is this thread.
    unsafe { libc::syscall(libc::SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, class) == 0 }
}
