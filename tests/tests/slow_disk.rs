//! Flash on disks that are slow or hang: a network mount, and a local disk whose metadata is slow too.

#![forbid(unsafe_code)]

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use flash_slowdisk::{Kind, SlowDisk, SlowImage};
use flash_tests::{PATIENCE, Server, site};
use tempfile::TempDir;

const COLD_FILES: usize = 60;

/// A site of many small files, and where to mount it; none, and a line about it, where nothing can be mounted.
fn place() -> Option<(TempDir, TempDir)> {
    if let Some(missing) = flash_slowdisk::missing() {
        eprintln!("NOT TESTED, a slow disk cannot be mounted: {missing}");
        return None;
    }
    let (folder, mountpoint) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    site::write(&folder.path().join("hot.txt"), b"hot\n");
    for n in 0..COLD_FILES {
        let path = folder.path().join(cold(n).trim_start_matches('/'));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        site::write(&path, cold(n).as_bytes());
    }
    Some((folder, mountpoint))
}

fn cold(n: usize) -> String {
    format!("/{}/{}/{n}.txt", n % 5, n % 7)
}

/// Asks for every cold file, each once, a few at a time.
fn get_cold(server: &Server) {
    thread::scope(|scope| {
        for first in 0..4 {
            scope.spawn(move || {
                for n in (first..COLD_FILES).step_by(4) {
                    let reply = server.get(&cold(n));
                    assert_eq!((reply.status, reply.body), (200, cold(n).into_bytes()));
                }
            });
        }
    });
}

/// The longest wait for the hot file, which is asked for again and again while something else goes on.
fn hot_wait(server: &Server, goes_on: impl Fn() -> bool) -> Duration {
    let mut longest = Duration::ZERO;
    while goes_on() {
        let asked = Instant::now();
        assert_eq!(server.get("/hot.txt").body, b"hot\n");
        longest = longest.max(asked.elapsed());
        thread::sleep(Duration::from_millis(1));
    }
    longest
}

#[test]
fn hot_files_are_served_while_others_on_their_mount_hang() {
    let Some((folder, mountpoint)) = place() else { return };
    let disk = SlowDisk::mount(folder.path(), mountpoint.path(), "lookup delay exp:3ms\nread delay exp:3ms")
        .unwrap();
    // Looks for changes would go to the disk too, and hang with it.
    let server = Server::start("amped", disk.mountpoint(), &["--revalidate", "100s"]);
    assert_eq!(server.get("/hot.txt").body, b"hot\n");
    disk.rule("hang prefix /0/").unwrap();
    let hung: Vec<usize> = (0..COLD_FILES).filter(|n| n % 5 == 0).take(4).collect();
    thread::scope(|scope| {
        let clients: Vec<_> = hung
            .iter()
            .map(|&n| {
                scope.spawn({
                    let server = &server;
                    move || server.get(&cold(n))
                })
            })
            .collect();
        let given_up = Instant::now() + PATIENCE;
        while disk.counters().hung == 0 {
            assert!(Instant::now() < given_up, "nothing hangs");
            thread::sleep(Duration::from_millis(5));
        }
        let until = Instant::now() + Duration::from_millis(500);
        let longest = hot_wait(&server, || Instant::now() < until);
        assert!(longest < Duration::from_secs(5), "half of the disk's deadline: {longest:?}");
        assert!(clients.iter().all(|client| !client.is_finished()));
        disk.clear();
        for (client, n) in clients.into_iter().zip(hung) {
            assert_eq!(client.join().unwrap().body, cold(n).into_bytes());
        }
    });
    get_cold(&server);
    assert!(server.stop().contains("loop_blocks=0"));
}

/// Serves cold files from a slow local disk. How often loops slept on the way.
fn cold_from_slow_local_disk(arch: &str, folder: &Path, mountpoint: &Path) -> u64 {
    let image = SlowImage::mount(folder, mountpoint, 16, "").unwrap();
    let server = Server::start(arch, mountpoint, &[]);
    assert_eq!(server.get("/hot.txt").body, b"hot\n");
    fs::write("/proc/sys/vm/drop_caches", "3").unwrap();
    image.disk().rule("read delay uniform:1ms-10ms\nconcurrent 4").unwrap();
    let reads = image.disk().counters().answered(Kind::Read);
    get_cold(&server);
    assert!(image.disk().counters().answered(Kind::Read) > reads + 35, "folders and files were cold");
    let said = server.stop();
    let blocks = said.split("loop_blocks=").nth(1).and_then(|rest| rest.split_whitespace().next());
    blocks.and_then(|blocks| blocks.parse().ok()).unwrap_or_else(|| panic!("no loop_blocks: {said}"))
}

#[test]
fn loops_never_wait_for_a_slow_local_disk_but_where_they_are_meant_to() {
    let Some((folder, mountpoint)) = place() else { return };
    assert_eq!(cold_from_slow_local_disk("amped", folder.path(), mountpoint.path()), 0);
    let blocks = cold_from_slow_local_disk("sped", folder.path(), mountpoint.path());
    assert!(blocks > 35, "the disk was slow, and was waited for: {blocks}");
}
