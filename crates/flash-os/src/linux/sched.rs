//! sched_setattr(2).

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
