//! The list of what is mapped in `/proc`, and prctl(2).

use std::fs;
use std::io;

/// Pages come with the mapping, so that no thread that writes there has a fault.
pub(crate) use libc::MAP_POPULATE;

pub(crate) fn mlock_program() -> io::Result<()> {
    let maps = fs::read_to_string("/proc/self/maps")?;
    let mut result = Ok(());
    for (start, end) in maps.lines().filter_map(of_file) {
        let (start, bytes) = (start as *mut libc::c_void, end - start);
        // SAFETY: locking reads and writes no memory, and ranges that have gone meanwhile are refused.
        if unsafe { libc::mlock(start, bytes) } != 0 {
            result = Err(io::Error::last_os_error());
            // SAFETY: mapping what is there changes no memory, and ranges that have gone meanwhile are refused.
            unsafe { libc::madvise(start, bytes, libc::MADV_POPULATE_READ) };
        }
    }
    result
}

/// The range of a line of `/proc/self/maps`, if a file lies behind it and it can be read. Memory that is shared with other processes
/// has a name there too, and is no part of the program.
fn of_file(line: &str) -> Option<(usize, usize)> {
    let mut fields = line.split_ascii_whitespace();
    let (start, end) = fields.next()?.split_once('-')?;
    let rights = fields.next()?;
    let path = fields.nth(3)?;
    let address = |text| usize::from_str_radix(text, 16).ok();
    let is_program = rights.starts_with('r') && rights.ends_with('p') && path.starts_with('/');
    is_program.then_some((address(start)?, address(end)?))
}

pub(crate) fn disable_huge_pages() -> io::Result<()> {
    // SAFETY: numbers only; it changes how later page faults are served, and no memory that is there.
    match unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, 1, 0, 0, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_files_are_told_from_others() {
        assert_eq!(of_file("7f00-8000 r-xp 00000000 08:01 123 /usr/bin/x y"), Some((0x7f00, 0x8000)));
        for other in [
            "7f00-8000 rw-p 00000000 00:00 0",
            "7f00-8000 rw-p 00000000 00:00 0 [stack]",
            "7f00-8000 ---p 00000000 08:01 123 /usr/bin/x",
            "7f00-8000 rw-s 00000000 00:01 123 /dev/zero (deleted)",
            "",
        ] {
            assert_eq!(of_file(other), None, "{other}");
        }
    }
}
