//! The cache of paths through upgrades: the new server has looked up what the old one was asked for most often.

use std::fs;
use std::time::{Duration, Instant};

use flash_slowdisk::SlowDisk;
use flash_tests::{PATIENCE, reply, site, wait_for};

use super::setup::Setup;

/// Those whose processes share a cache.
const SHARED: [&str; 7] = [
    "amped",
    "amped --helpers process",
    "amped --helpers process --sandbox required",
    "uring",
    "sped",
    "pipelined",
    "mt",
];

fn hits_and_misses(setup: &Setup) -> (u64, u64) {
    let metrics = setup.metrics();
    let value = |name: &str| {
        let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.and_then(|value| value.parse::<f64>().ok()).unwrap_or_else(|| panic!("{name}: {metrics}")) as u64
    };
    (value("flash_cache_hits_total"), value("flash_cache_misses_total") + value("flash_helper_jobs_total"))
}

#[test]
fn the_first_requests_for_hot_files_need_no_look_at_the_disk() {
    for arch in SHARED {
        let mut setup = Setup::new(arch, &["--revalidate", "60s"]);
        let hot = ["/a.txt", "/a.txt?again", "/page.html"];
        for path in hot.iter().cycle().take(12) {
            assert_eq!(setup.server.get(path).status, 200, "{arch}");
        }
        setup.upgraded();
        // Until its end, the old server accepts connections, too.
        assert_eq!(setup.server.wait(PATIENCE), Some(Some(0)), "{arch}");
        let (hits, misses) = hits_and_misses(&setup);
        for path in hot {
            assert_eq!(setup.server.get(path).status, 200, "{arch}");
        }
        // Whichever codings a client takes, the copies have been looked for.
        let coded = b"GET /page.html HTTP/1.1\r\nHost: h\r\nAccept-Encoding: br\r\nConnection: close\r\n\r\n";
        assert_eq!(reply::only(&setup.server.raw(coded)).body, b"br bytes", "{arch}");
        // Loops count after they have answered.
        wait_for("hits", || hits_and_misses(&setup).0 == hits + 4);
        assert_eq!(hits_and_misses(&setup).1, misses, "{arch}");
        setup.stop();
    }
}

#[test]
fn a_folder_that_hangs_does_not_hold_up_an_upgrade() {
    if let Some(missing) = flash_slowdisk::missing() {
        eprintln!("NOT TESTED, a slow disk cannot be mounted: {missing}");
        return;
    }
    for arch in ["amped", "mt"] {
        let behind = tempfile::tempdir().unwrap();
        for number in 0..50 {
            site::write(&behind.path().join(format!("{number}.txt")), b"far");
        }
        let mut setup = Setup::new(arch, &["--upgrade-drain", "1s"]);
        let point = setup.site.path().join("far");
        fs::create_dir(&point).unwrap();
        let disk = SlowDisk::mount(behind.path(), &point, "lookup delay fixed:1ms").unwrap();
        for number in 0..50 {
            assert_eq!(setup.server.get(&format!("/far/{number}.txt")).status, 200, "{arch}");
        }
        assert_eq!(setup.server.get("/a.txt").status, 200, "{arch}");
        disk.rule("hang prefix /").unwrap();
        let asked = Instant::now();
        setup.upgraded();
        assert!(asked.elapsed() < Duration::from_secs(8), "{arch}: {:?}", asked.elapsed());
        assert_eq!(setup.server.get("/a.txt").status, 200, "{arch}");
        // What hangs would hold up the servers' ends, too.
        drop(disk);
        setup.stop();
    }
}
