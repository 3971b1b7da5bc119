//! No answer is older than twice `--revalidate`: not after a pause, for no size, with no helpers, and under no load.

#![forbid(unsafe_code)]

use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use flash_slowdisk::SlowDisk;
use flash_tests::{ARCHITECTURES, PROCESSES, Server, Stop, site};
use tempfile::TempDir;

const REVALIDATE: Duration = Duration::from_millis(400);
/// Longer than any answer may be old.
const PAUSE: Duration = Duration::from_millis(900);
/// Sent from a copy in the heap, from a snapshot, and window by window.
const SIZES: [usize; 3] = [1_000, 300_000, 5_000_000];

/// Puts a file in the place of another, as a deploy does. Its bytes are on the disk and not in memory.
fn replace(path: &Path, bytes: &[u8]) {
    let new = path.with_extension("new");
    site::write(&new, bytes);
    site::make_cold(&new);
    fs::rename(&new, path).unwrap();
}

#[test]
fn what_was_left_alone_for_a_while_is_looked_at_before_it_is_sent() {
    for arch in ARCHITECTURES {
        // On the disk of the workspace, because a file of a memory filesystem is never cold.
        let folder = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let path = |name: &str| folder.path().join(name);
        for size in SIZES {
            site::write(&path(&format!("{size}.bin")), &vec![b'1'; size]);
        }
        site::write(&path("goes.txt"), b"here");
        let server = Server::start(arch, folder.path(), &["--revalidate", "400ms"]);
        for _ in 0..2 {
            for size in SIZES {
                assert_eq!(server.get(&format!("/{size}.bin")).body, vec![b'1'; size], "{arch}");
            }
            assert_eq!(server.get("/goes.txt").status, 200);
            assert_eq!(server.get("/comes.txt").status, 404);
        }
        for size in SIZES {
            replace(&path(&format!("{size}.bin")), &vec![b'2'; size]);
        }
        fs::remove_file(path("goes.txt")).unwrap();
        site::write(&path("comes.txt"), b"here");
        thread::sleep(PAUSE);
        for size in SIZES {
            let body = server.get(&format!("/{size}.bin")).body;
            assert_eq!((body.len(), body[0]), (size, b'2'), "{arch}: the first answer is the old one");
        }
        assert_eq!(server.get("/goes.txt").status, 404, "{arch}");
        assert_eq!(server.get("/comes.txt").status, 200, "{arch}");
        server.stop();
    }
}

#[test]
fn a_flood_of_new_names_does_not_make_answers_old() {
    if let Some(missing) = flash_slowdisk::missing() {
        eprintln!("NOT TESTED, a slow disk cannot be mounted: {missing}");
        return;
    }
    for arch in ["amped", PROCESSES, "uring", "pipelined"] {
        let (behind, point) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        let path = behind.path().join("hot.txt");
        site::write(&path, b"0");
        let disk = SlowDisk::mount(behind.path(), point.path(), "lookup delay fixed:10ms").unwrap();
        let flags = ["--revalidate", "400ms", "--helpers-max", "2", "--helper-queue-max", "16"];
        let server = Server::start(arch, point.path(), &flags);
        assert_eq!(server.get("/hot.txt").body, b"0");
        // When each version was replaced by the next.
        let replaced = Mutex::new(Vec::<Instant>::new());
        let (stop, names, refused) = (AtomicBool::new(false), AtomicUsize::new(0), AtomicUsize::new(0));
        thread::scope(|scope| {
            for _ in 0..32 {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        let name = names.fetch_add(1, Ordering::Relaxed);
                        if server.get(&format!("/missing-{name}")).status == 503 {
                            refused.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                });
            }
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    thread::sleep(Duration::from_millis(50));
                    let mut replaced = replaced.lock().unwrap();
                    let new = path.with_extension("new");
                    site::write(&new, (replaced.len() + 1).to_string().as_bytes());
                    fs::rename(&new, &path).unwrap();
                    replaced.push(Instant::now());
                }
            });
            // Whatever comes, the others end as well.
            let _stop = Stop(&stop);
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_secs(4) {
                thread::sleep(Duration::from_millis(20));
                let asked = Instant::now();
                let reply = server.get("/hot.txt");
                assert_eq!(reply.status, 200, "{arch}");
                let version: usize = String::from_utf8(reply.body).unwrap().parse().unwrap();
                let old =
                    replaced.lock().unwrap().get(version).map(|at| asked.saturating_duration_since(*at));
                // Twice is the promise. In a flood that came first, it would be as old as the flood.
                assert!(old.is_none_or(|old| old < 4 * REVALIDATE), "{arch}: {old:?}");
            }
        });
        assert!(refused.into_inner() > 0, "{arch}: the flood is one");
        server.stop();
        drop(disk);
    }
}
