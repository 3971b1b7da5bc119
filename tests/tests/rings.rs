//! `--arch uring` where there are no rings: it says so in one line, and serves.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::thread;

use flash_tests::{Server, site};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, apply_filter};

/// The same on every machine: `<asm-generic/unistd.h>`.
const IO_URING_SETUP: i64 = 425;
const EPERM: u32 = 1;
const ENOSYS: u32 = 38;

/// Forbids rings to the calling thread and the programs that it starts.
fn forbid_rings(error: u32) {
    let machine = std::env::consts::ARCH.try_into().expect("a machine that filters know");
    let calls = BTreeMap::from([(IO_URING_SETUP, Vec::new())]);
    let filter = SeccompFilter::new(calls, SeccompAction::Allow, SeccompAction::Errno(error), machine);
    let program: BpfProgram = filter.expect("a sound filter").try_into().expect("a short filter");
    apply_filter(&program).expect("every process may give up a call");
}

#[test]
fn without_rings_it_serves_as_amped_and_says_so() {
    let site = site::make();
    for (error, why) in [
        (
            EPERM,
            "flash: io_uring is not available here (forbidden by kernel.io_uring_disabled or a sandbox): serving as amped\n",
        ),
        (ENOSYS, "flash: io_uring is not available here (the kernel has none): serving as amped\n"),
    ] {
        let root = site.path().to_owned();
        let server = thread::spawn(move || {
            forbid_rings(error);
            Server::start("uring", &root, &["--loops", "2"])
        });
        let server = server.join().unwrap();
        assert_eq!(server.get("/a.txt").status, 200);
        assert_eq!(server.get("/3000000.bin").body.len(), 3_000_000);
        let said = server.stop();
        assert!(said.starts_with(why), "{said}");
        assert!(
            said.lines().nth(1).is_some_and(|line| line.contains("(amped, 2 loops, file cache ")),
            "{said}"
        );
    }
}

#[test]
fn with_rings_it_serves_as_uring() {
    let site = site::make();
    let server = Server::start("uring", site.path(), &["--loops", "2"]);
    let said = server.stop();
    if said.contains("io_uring is not available here") {
        eprintln!("NOT TESTED: {said}");
    } else {
        assert!(
            said.lines().next().is_some_and(|line| line.contains("(uring, 2 loops, file cache ")),
            "{said}"
        );
    }
}
