//! What a loop does itself, and what it has helpers do meanwhile.

use std::fs::File;
use std::io::Read;
use std::thread;
use std::time::Duration;

use flash_core::cache::local::LocalCache;
use flash_core::file::Window;
use flash_core::job::{Find, Load};
use flash_core::path::SitePath;
use flash_core::site::id::SiteId;
use flash_os::{cachestat, residency};
use rustix::fs::{Advice, fadvise};

use super::*;
use crate::Limits;
use crate::testing;
use crate::worker::Worker;

const MEBIBYTE: u64 = 1 << 20;

/// A client that takes one window after the other finds each in memory.
#[test]
fn helpers_read_ahead_of_what_a_loop_has_read() {
    // Not in a filesystem that lives in memory.
    let folder = tempfile::tempdir_in(".").unwrap();
    let path = folder.path().join("large.bin");
    std::fs::write(&path, vec![7; 4 << 20]).unwrap();
    let file = File::open(&path).unwrap();
    residency::evict(&file).unwrap();
    // Without this, the kernel reads ahead too.
    fadvise(&file, 0, None, Advice::Random).unwrap();
    (&file).take(MEBIBYTE).read_to_end(&mut Vec::new()).unwrap();
    let is_held = |at: u64| cachestat::holds(&file, at..at + 1);
    let Ok(false) = is_held(MEBIBYTE * 3 / 2 - 1) else {
        return eprintln!(
            "NOT TESTED, the kernel does not tell what is cached, or keeps it: {}",
            path.display()
        );
    };
    let limits = Limits { connections_max: 1, handshakes_max: 1, ..Limits::default() };
    let shared = testing::shared(folder.path(), limits, 10_000);
    let helpers = HelperLimits { helpers_max: 1, queue_max: 8 };
    let mut dispatch = Asymmetric {
        helpers: Helpers::start(helpers, Arc::clone(&shared)).unwrap(),
        completions: Arc::new(CompletionQueue::new().unwrap()),
        shared: Arc::clone(&shared),
    };
    let path = SitePath::parse(b"/large.bin").unwrap().into_owned();
    let Done::Found(entry) = shared.disk.run(&Job::Find(Find::first(SiteId(0), path))).done else {
        panic!("it is there");
    };
    let file = Arc::clone(entry.found_files().next().unwrap());
    let worker = Worker::new(shared, Some(LocalCache::new(0)));
    let load = Load {
        site: None,
        file,
        window: 0..MEBIBYTE / 2,
        goes_to: 8 * MEBIBYTE,
        copy: false,
        completes: None,
    };
    let sent = Window::Resident(load.window.clone());
    let last = Load { goes_to: MEBIBYTE / 2, ..load.clone() };
    assert!(last.read_ahead(&sent).is_none(), "the client takes no more");
    assert_eq!(load.read_ahead(&sent).unwrap().rest.start, MEBIBYTE / 2);
    let (exchange, client) = (ExchangeId::default(), ClientNetwork::default());
    let outcome = dispatch.dispatch(Job::Load(load), 0, exchange, client, worker.metrics());
    assert!(matches!(outcome.unwrap().done, Done::Window(Window::Resident(_) | Window::Copied(_))));
    let give_up = Instant::now() + Duration::from_secs(30);
    // Half a mebibyte was sent, so what follows is read up to a mebibyte from there.
    while !is_held(MEBIBYTE * 3 / 2 - 1).unwrap() {
        assert!(Instant::now() < give_up, "nobody reads ahead");
        thread::sleep(Duration::from_millis(1));
    }
    assert!(!is_held(MEBIBYTE * 3).unwrap(), "no more than is soon needed");
}
