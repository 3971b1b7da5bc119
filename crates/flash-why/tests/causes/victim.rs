//! What sleeps: a loop that waits for events, and between two waits does one thing that puts it to sleep.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Advice, FlockOperation, fadvise, flock};

pub(crate) const CASE: &str = "FLASH_WHY_VICTIM";
/// Where it enters a cgroup.
pub(crate) const GROUP: &str = "FLASH_WHY_GROUP";
pub(crate) const FOLDER: &str = "FLASH_WHY_FOLDER";

const A_WHILE: Duration = Duration::from_millis(2);

/// No test: the program that the others start.
#[test]
fn victim() {
    let Ok(case) = std::env::var(CASE) else { return };
    let folder = PathBuf::from(std::env::var_os(FOLDER).expect("a folder is given"));
    if let Some(group) = std::env::var_os(GROUP) {
        fs::write(group, std::process::id().to_string()).expect("a process can be moved");
    }
    crate::loops::run(&case, &folder);
    let (quiet, other) = UnixStream::pair().expect("sockets");
    let mut act = action(&case, &folder);
    let wait = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };
    loop {
        let mut descriptors = [PollFd::new(&quiet, PollFlags::IN), PollFd::new(&other, PollFlags::IN)];
        poll(&mut descriptors, Some(&wait)).expect("it can wait");
        act();
    }
}

#[expect(clippy::too_many_lines, reason = "a table of the causes")]
fn action(case: &str, folder: &Path) -> Box<dyn FnMut()> {
    match case {
        "pipe" => {
            let (read, write) = rustix::pipe::pipe().expect("a pipe");
            again(move || {
                rustix::io::write(&write, b"x").expect("it takes a byte");
            });
            Box::new(move || {
                rustix::io::read(&read, &mut [0; 1]).expect("a byte");
            })
        }
        "socket" => {
            let (mut read, mut write) = UnixStream::pair().expect("sockets");
            again(move || write.write_all(b"x").expect("it takes a byte"));
            Box::new(move || read.read_exact(&mut [0]).expect("a byte"))
        }
        "futex" => {
            let lock = Arc::new(Mutex::new(()));
            let other = Arc::clone(&lock);
            thread::spawn(move || {
                loop {
                    let held = other.lock().expect("nobody panics");
                    thread::sleep(A_WHILE);
                    drop(held);
                    thread::yield_now();
                }
            });
            Box::new(move || drop(lock.lock()))
        }
        "crowd" => {
            for _ in 0..4 {
                let (mut one, mut other) = UnixStream::pair().expect("sockets");
                let mut back = other.try_clone().expect("a socket");
                thread::spawn(move || {
                    for count in 0_u32.. {
                        // A worker that waits in poll for one answer is no loop either.
                        if count % 16 == 0 {
                            poll(&mut [PollFd::new(&other, PollFlags::IN)], None).expect("it can wait");
                        }
                        if other.read_exact(&mut [0]).and_then(|()| back.write_all(b"x")).is_err() {
                            return;
                        }
                    }
                });
                thread::spawn(
                    move || while one.write_all(b"x").and_then(|()| one.read_exact(&mut [0])).is_ok() {},
                );
            }
            Box::new(|| thread::sleep(A_WHILE))
        }
        "timer" => Box::new(|| thread::sleep(A_WHILE)),
        "file-lock" => {
            let path = folder.join("lock");
            let (ours, theirs) = (File::create(&path).expect("a file"), File::create(&path).expect("a file"));
            again(move || {
                flock(&theirs, FlockOperation::LockExclusive).expect("a lock");
                thread::sleep(A_WHILE);
                flock(&theirs, FlockOperation::Unlock).expect("no lock");
            });
            Box::new(move || {
                flock(&ours, FlockOperation::LockExclusive).expect("a lock");
                flock(&ours, FlockOperation::Unlock).expect("no lock");
            })
        }
        "child" => {
            let mut children = Vec::new();
            Box::new(move || {
                // Whoever starts it waits for it, and reads nothing from it.
                children.push(Command::new("/bin/true").spawn().expect("a program"));
                let _ = children.pop().expect("it was started").wait();
            })
        }
        "cold-read" => {
            let (hot, cold) = files(folder);
            let mut at = 0;
            Box::new(move || {
                for file in &hot {
                    file.read_at(&mut [0; 4096], 0).expect("it is hot");
                }
                forget(&cold);
                at = (at + (1 << 20)) % (8 << 20);
                cold.read_at(&mut [0; 4096], at).expect("it is cold");
            })
        }
        "cold-sendfile" => {
            let (hot, cold) = files(folder);
            let (mut read, write) = UnixStream::pair().expect("sockets");
            Box::new(move || {
                forget(&cold);
                for file in hot.iter().chain([&cold]) {
                    let mut at = 0;
                    rustix::fs::sendfile(&write, file, Some(&mut at), 4096).expect("it is sent");
                    read.read_exact(&mut [0; 4096]).expect("it was sent");
                }
            })
        }
        "open-all" => {
            let mut paths = Vec::new();
            let folder = folder.to_owned();
            let mut next = 0;
            Box::new(move || {
                if paths.is_empty() {
                    paths = (0..400).map(|file| folder.join(format!("d{}/f{file}", file % 40))).collect();
                }
                next = (next + 7) % paths.len();
                let mut bytes = [0; 4096];
                File::open(&paths[next]).and_then(|mut file| file.read_exact(&mut bytes)).expect("a file");
            })
        }
        "spin" => Box::new(|| {
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_millis(20) {
                std::hint::spin_loop();
            }
        }),
        "write" => writer(folder, 256 << 20),
        // What fits onto a small disk.
        "dirty" => writer(folder, 16 << 20),
        "storm" => {
            for storm in 0..6 {
                let (a, b) = (folder.join(format!("a{storm}")), folder.join(format!("b{storm}")));
                fs::write(&a, b"x").expect("a file");
                thread::spawn(move || {
                    loop {
                        fs::rename(&a, &b).expect("a name");
                        fs::rename(&b, &a).expect("a name");
                    }
                });
            }
            let path = folder.join("ours");
            Box::new(move || {
                for _ in 0..20 {
                    drop(OpenOptions::new().create(true).append(true).open(&path).expect("a file"));
                    fs::remove_file(&path).expect("it was made");
                }
            })
        }
        other => panic!("no case {other}"),
    }
}

/// Writes a file of so many bytes, again and again.
fn writer(folder: &Path, size: u64) -> Box<dyn FnMut()> {
    let bytes = vec![7; 1 << 20];
    let file = File::create(folder.join("written")).expect("a file");
    let mut written = 0_u64;
    Box::new(move || {
        file.write_all_at(&bytes, written % size).expect("there is room");
        written += bytes.len() as u64;
    })
}

fn again(mut act: impl FnMut() + Send + 'static) {
    thread::spawn(move || {
        loop {
            thread::sleep(A_WHILE);
            act();
        }
    });
}

fn files(folder: &Path) -> (Vec<File>, File) {
    let open = |name: &str| File::open(folder.join(name)).expect("the test has made it");
    ((0..20).map(|file| open(&format!("hot-{file}"))).collect(), open("cold"))
}

fn forget(file: &File) {
    fadvise(file, 0, None, Advice::DontNeed).expect("pages can be dropped");
}
