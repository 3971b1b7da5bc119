//! Memory and tables of the kernel's that are made ready once at start, so that no thread waits for them later.

use std::io;

use crate::system;

/// Keeps the program's own code and constants in memory, with those of its libraries. If memory is short, the kernel would drop
/// them. The next thread that needs them would wait for the disk. An ordinary user may lock 8 MiB, which is less than the program.
/// What cannot be locked is mapped at least: the kernel drops it later than pages that nobody has mapped.
pub fn mlock_program() -> io::Result<()> {
    system::preload::mlock_program()
}

/// Makes the table of this process's descriptors large enough for so many, while no other thread uses it. Later, each growth
/// would wait for all processors.
pub fn grow_descriptor_table(descriptors: usize) -> io::Result<()> {
    let last = libc::c_int::try_from(descriptors).unwrap_or(libc::c_int::MAX).saturating_sub(1);
    // SAFETY: numbers only. Whether standard error is open or not, no descriptor that anybody owns is touched.
    let number = unsafe { libc::fcntl(libc::STDERR_FILENO, libc::F_DUPFD_CLOEXEC, last) };
    if number < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was made above and is known to nobody else.
    unsafe { libc::close(number) };
    Ok(())
}

/// Disables huge pages for this process. If the kernel uses them by itself, the first touch of each clears two megabytes while
/// the thread waits. Also, small allocations far apart use as much memory as large ones.
pub fn disable_huge_pages() -> io::Result<()> {
    system::preload::disable_huge_pages()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_program_is_locked() {
        mlock_program().unwrap();
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let locked = status.lines().find_map(|line| line.strip_prefix("VmLck:")).unwrap();
        assert_ne!(locked.split_ascii_whitespace().next(), Some("0"), "{locked}");
    }

    #[test]
    fn the_table_grows() {
        let slots = || {
            let status = fs::read_to_string("/proc/self/status").unwrap();
            let size = status.lines().find_map(|line| line.strip_prefix("FDSize:")).unwrap();
            size.trim().parse::<usize>().unwrap()
        };
        grow_descriptor_table(1000).unwrap();
        assert!(slots() >= 1000, "{}", slots());
    }
}
