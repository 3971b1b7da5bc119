//! close_range(2), and the list of open descriptors in `/proc`.

use libc::{c_int, c_uint};

/// Whether the kernel has done it.
pub(crate) fn close(first: u32, last: u32) -> bool {
    close_range(first, last, 0)
}

/// Whether the kernel has done it.
pub(crate) fn close_on_exec(first: u32) -> bool {
    close_range(first, u32::MAX, libc::CLOSE_RANGE_CLOEXEC)
}

fn close_range(first: u32, last: u32, flags: c_uint) -> bool {
    // SAFETY: descriptors are numbers to the kernel, and no memory is involved. Whoever thinks to own one finds it closed, which
    // callers take care does not happen.
    unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) == 0 }
}

/// Where a name begins in an entry: after its inode, its offset, its length and its type (getdents64(2)).
const NAME_AT: usize = 19;
const LENGTH_AT: usize = 16;
const BUFFER_BYTES: usize = 2048;

/// Calls this for each open descriptor of this process, which may close it. False if they are not listed. The list is read in
/// the order of numbers, from the one after the last.
pub(crate) fn for_each_open(first: u32, last: u32, each: &mut dyn FnMut(c_int)) -> bool {
    let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC;
    // SAFETY: the path ends with a zero.
    let list = unsafe { libc::open(c"/proc/self/fd".as_ptr(), flags) };
    if list == -1 {
        return false;
    }
    let mut buffer = [0_u8; BUFFER_BYTES];
    let is_whole = loop {
        // SAFETY: the kernel writes at most as many bytes as the buffer has.
        let count = unsafe { libc::syscall(libc::SYS_getdents64, list, buffer.as_mut_ptr(), BUFFER_BYTES) };
        let Ok(count) = usize::try_from(count) else { break false };
        let mut entries = &buffer[..count];
        while let Some((number, rest)) = next(entries) {
            entries = rest;
            let is_meant = |number: &u32| (first..=last).contains(number) && *number != list.unsigned_abs();
            if let Some(number) = number.filter(is_meant) {
                each(number as c_int);
            }
        }
        if count == 0 {
            break true;
        }
    };
    // SAFETY: it was opened above, and is known to nobody else.
    unsafe { libc::close(list) };
    is_whole
}

/// The number that the first entry is named by, and the entries after it.
fn next(entries: &[u8]) -> Option<(Option<u32>, &[u8])> {
    let length = entries.get(LENGTH_AT..)?.first_chunk().map(|bytes| u16::from_ne_bytes(*bytes))?;
    let (entry, rest) = entries.split_at_checked(length.into())?;
    let name = entry.get(NAME_AT..)?.split(|&byte| byte == 0).next()?;
    Some((std::str::from_utf8(name).ok().and_then(|name| name.parse().ok()), rest))
}
