//! Descriptors closed or marked by their numbers, for processes that have just been forked. Nothing here allocates.

use crate::system_calls::{Call, has};
use crate::{posix, system};

/// Closes those of these numbers that are open.
pub(crate) fn close(first: u32, last: u32) {
    if !(has(Call::CloseRange) && system::descriptor_range::close(first, last)) {
        walk(first, last, &mut |number| posix::descriptor_range::close(number));
    }
}

/// Has those from this number on close when this process becomes another program.
pub(crate) fn close_on_exec(first: u32) {
    if !(has(Call::CloseRangeCloexec) && system::descriptor_range::close_on_exec(first)) {
        walk(first, u32::MAX, &mut |number| posix::descriptor_range::close_on_exec(number));
    }
}

fn walk(first: u32, last: u32, each: &mut dyn FnMut(i32)) {
    if !system::descriptor_range::for_each_open(first, last, each) {
        posix::descriptor_range::for_each_possible(first, last, each);
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::{AsRawFd, IntoRawFd};

    use super::*;

    type Walk = fn(u32, u32, &mut dyn FnMut(i32));

    const WALKS: [Walk; 3] = [
        walk,
        |first, last, each| assert!(system::descriptor_range::for_each_open(first, last, each)),
        |first, last, each| posix::descriptor_range::for_each_possible(first, last, each),
    ];

    fn open() -> File {
        File::open("/dev/null").unwrap()
    }

    fn flags(number: i32) -> i32 {
        // SAFETY: asks for the flags of a number.
        unsafe { libc::fcntl(number, libc::F_GETFD) }
    }

    #[test]
    fn each_open_descriptor_of_the_range_is_met() {
        // More than one read of their list returns.
        let open: Vec<File> = (0..200).map(|_| open()).collect();
        let numbers: Vec<i32> = open.iter().map(AsRawFd::as_raw_fd).collect();
        let (first, last) = (numbers.iter().min().unwrap(), numbers.iter().max().unwrap());
        for each_of in WALKS {
            let mut met = Vec::new();
            each_of(first.unsigned_abs(), last.unsigned_abs(), &mut |number| met.push(number));
            assert!(numbers.iter().all(|number| met.contains(number)));
            assert!(met.iter().all(|number| (first..=last).contains(&number)));
        }
    }

    #[test]
    fn a_child_closes_while_it_walks() {
        let numbers: Vec<i32> = (0..300).map(|_| open().into_raw_fd()).collect();
        for each_of in WALKS {
            // SAFETY: the child calls the kernel alone, and ends.
            let child = unsafe { libc::fork() };
            if child == 0 {
                each_of(3, u32::MAX, &mut posix::descriptor_range::close);
                let is_open = numbers.iter().any(|&number| flags(number) != -1);
                // SAFETY: ends the child without the code that a test's end runs.
                unsafe { libc::_exit(i32::from(is_open)) };
            }
            let mut status = 0;
            // SAFETY: `status` is a number of ours.
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
            assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "{status}");
        }
        // SAFETY: they are the ones that were opened above.
        numbers.into_iter().for_each(|number| _ = unsafe { libc::close(number) });
    }

    #[test]
    fn a_descriptor_is_marked() {
        let file = open();
        // SAFETY: changes a flag of an open file.
        assert_eq!(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFD, 0) }, 0);
        posix::descriptor_range::close_on_exec(file.as_raw_fd());
        assert_eq!(flags(file.as_raw_fd()), libc::FD_CLOEXEC);
    }
}
