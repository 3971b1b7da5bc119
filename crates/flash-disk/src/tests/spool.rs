//! Request bodies outside of memory: every byte comes back, and nothing is left behind.

use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use flash_core::cache::memory_budget::BudgetedBytes;
use flash_core::job::{self, SpoolFile};

use super::*;

type Kept = Arc<dyn SpoolFile>;

fn append(disk: &Disk, file: Option<&Kept>, bytes: &[u8]) -> Result<Kept, Failure> {
    let bytes = Arc::new(BudgetedBytes::from(bytes.to_vec()));
    let job = Job::Spool(job::Spool::Write { file: file.cloned(), bytes });
    assert!(disk.try_now(&job).is_none(), "never by those who must not wait");
    match disk.help(&job, disk.device_for(&job)).unwrap().done {
        Done::Spooled(file) => Ok(file),
        Done::Failed(failure) => Err(failure),
        done => panic!("{done:?}"),
    }
}

fn read(disk: &Disk, file: &Kept, bytes: u64) -> Vec<u8> {
    let mut all = Vec::new();
    while (all.len() as u64) < bytes {
        let start = all.len() as u64;
        let range = start..bytes.min(start + 65_536);
        let job = Job::Spool(job::Spool::Read { file: Arc::clone(file), range });
        assert!(disk.try_now(&job).is_none(), "never by those who must not wait");
        match disk.run(&job).done {
            Done::Unspooled(bytes) if !bytes.is_empty() => all.extend_from_slice(&bytes),
            done => panic!("{done:?}"),
        }
    }
    all
}

fn body(seed: usize, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at * 31 + at / 251 + at / 65_536 + seed) as u8).collect()
}

fn keeping(folder: &Folder) -> (Disk, Spool) {
    let mut disk = folder.disk();
    let spool = Spool::open(folder.outside.path()).unwrap();
    disk.keep_bodies_in(spool.clone());
    (disk, spool)
}

#[test]
fn bodies_come_back_whole_and_leave_nothing_behind() {
    let folder = Folder::new();
    let (disk, spool) = keeping(&folder);
    let names = || fs::read_dir(folder.outside.path()).unwrap().count();
    assert_eq!(names(), 1, "it has no name");
    for round in 0..3 {
        let bodies = [3_500_000, 1, 1 << 20, (1 << 20) + 1, 70_000].map(|bytes| body(round, bytes));
        let mut kept: Vec<(Kept, usize)> = Vec::new();
        // One after the other, and then in turns.
        for body in &bodies {
            let first = body.len().min(100_000);
            kept.push((append(&disk, None, &body[..first]).unwrap(), first));
        }
        for turn in 1.. {
            let mut done = true;
            for (body, (file, written)) in bodies.iter().zip(&mut kept) {
                let piece = &body[*written..body.len().min(*written + 77_777 * turn)];
                if !piece.is_empty() {
                    append(&disk, Some(file), piece).unwrap();
                    *written += piece.len();
                    done = false;
                }
            }
            if done {
                break;
            }
        }
        for (body, (file, _)) in bodies.iter().zip(&kept) {
            assert!(read(&disk, file, body.len() as u64) == *body, "{} bytes", body.len());
        }
        assert!(spool.size().1 >= 5_000_000);
        // What the others have is not touched when one goes.
        let large = kept.remove(0);
        let before = spool.size();
        drop(large);
        let after = spool.size();
        assert!(after.0 == before.0 && after.1 + 3_000_000 < before.1, "{before:?}, {after:?}");
        for (body, (file, _)) in bodies[1..].iter().zip(&kept) {
            assert!(read(&disk, file, body.len() as u64) == *body, "{} bytes", body.len());
        }
        drop(kept);
        assert_eq!(spool.size(), (0, 0));
        assert_eq!(names(), 1);
    }
}

#[test]
fn blocks_are_used_again() {
    let folder = Folder::new();
    let (disk, spool) = keeping(&folder);
    let first = append(&disk, None, &body(0, 10)).unwrap();
    for seed in 0..50 {
        let content = body(seed, 2_000_000);
        let file = append(&disk, None, &content).unwrap();
        assert!(read(&disk, &file, 2_000_000) == content);
    }
    assert_eq!(spool.size().0, 3);
    assert_eq!(read(&disk, &first, 10), body(0, 10));
}

#[test]
fn nothing_is_read_that_was_not_written() {
    let folder = Folder::new();
    let (disk, _spool) = keeping(&folder);
    let file = append(&disk, None, b"abc").unwrap();
    assert_eq!(file.read(1..100), Ok(Bytes::from_static(b"bc")));
    for range in [3..4, 100..200, 5_000_000..5_000_001] {
        assert_eq!(file.read(range.clone()), Err(Failure::Broken), "{range:?}");
    }
}

#[test]
fn a_loop_that_drops_a_body_waits_for_nothing() {
    let folder = Folder::new();
    let (mut disk, spool) = keeping(&folder);
    disk.close_elsewhere().unwrap();
    let file = append(&disk, None, &body(0, 300_000)).unwrap();
    drop(file);
    let give_up = Instant::now() + Duration::from_secs(30);
    while spool.size() != (0, 0) {
        assert!(Instant::now() < give_up, "it is never given back");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn where_there_is_no_room_it_is_said() {
    let folder = Folder::new();
    assert_eq!(append(&folder.disk(), None, b"abc").unwrap_err(), Failure::Full, "no file for it");
    assert!(Spool::open(&folder.path("none")).is_err());
    // Every write to this device finds the disk full.
    let full = fs::File::options().read(true).write(true).open("/dev/full").unwrap();
    let mut disk = folder.disk();
    let spool = Spool::of(full);
    disk.keep_bodies_in(spool.clone());
    assert_eq!(append(&disk, None, b"abc").unwrap_err(), Failure::Full);
    assert_eq!(spool.size().0, 0, "what it was to be written to is free");
}
