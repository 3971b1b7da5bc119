//! Mounts of one's own, for tests.

use std::io;

/// Gives this thread, and those it starts from now on, a copy of the list of mounts. Where it is refused, as it is to all
/// but the superuser, nothing has changed. What is done to the copy reaches the original until its mounts are made
/// private.
pub fn unshare_mounts() -> io::Result<()> {
    // SAFETY: no memory is involved, and no file descriptors: threads go on sharing both.
    match unsafe { libc::unshare(libc::CLONE_NEWNS) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::read_link;
    use std::thread;

    #[test]
    fn it_is_this_threads_own() {
        let look = || read_link("/proc/thread-self/ns/mnt").unwrap();
        let before = look();
        let own = thread::spawn(move || super::unshare_mounts().map(|()| look()));
        match own.join().unwrap() {
            Ok(own) => assert_ne!(own, before),
            Err(error) => eprintln!("skipped: no mounts of one's own: {error}"),
        }
        assert_eq!(look(), before);
    }
}
