//! Which threads are loops: programs that are one, seem to be one, or are one that never gets to sleep in its wait.

use std::fs::File;
use std::io::Write;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;

use flash_slowdisk::SlowImage;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use super::*;

const ALL_LEVELS: [Level; 3] = [Level::Ebpf, Level::Perf, Level::Proc];
const WATCHED: Duration = Duration::from_secs(2);
const A_MOMENT: Duration = Duration::from_millis(5);
/// A program writes it when it is about to begin.
const READY: &str = "ready";

const READY_FOLDER: &str = "FLASH_WHY_READY";

/// Runs a program of this name for ever; comes back if there is none.
pub(crate) fn run(case: &str, folder: &Path) {
    let ready = std::env::var_os(READY_FOLDER).map(|folder| Path::new(&folder).join(READY));
    if let Some(ready) = ready {
        fs::write(ready, b"").expect("a file");
    }
    let cold = || File::open(folder.join("cold")).expect("the test has made it");
    match case {
        "saturated-epoll" | "saturated-poll" => saturated(case, &cold()),
        "idle" => {
            let (listener, epoll) = listening();
            wait(&epoll, None);
            drop(listener);
        }
        "pool" => {
            for _ in 0..2 {
                let cold = cold();
                thread::spawn(move || read_for_ever(&cold));
            }
            let (_listener, epoll) = listening();
            wait(&epoll, None);
        }
        "unused" => {
            let (_listener, _epoll) = listening();
            read_for_ever(&cold());
        }
        "one-client" => {
            let (ours, _theirs) = UnixStream::pair().expect("sockets");
            let (epoll, wake_up) = (new_epoll(), eventfd(0, EventfdFlags::empty()).expect("a counter"));
            add(&epoll, &ours);
            add(&epoll, &wake_up);
            for at in 0.. {
                wait(&epoll, Some(Duration::from_millis(1)));
                read(&cold(), at);
            }
        }
        "one-answer" => {
            let (ours, _theirs) = UnixStream::pair().expect("sockets");
            let time = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };
            for at in 0.. {
                poll(&mut [PollFd::new(&ours, PollFlags::IN)], Some(&time)).expect("it can wait");
                read(&cold(), at);
            }
        }
        "comers" => loop {
            thread::spawn(|| thread::sleep(4 * A_MOMENT));
            thread::sleep(A_MOMENT / 5);
        },
        _ => {}
    }
}

/// A loop with a client that always wants something.
fn saturated(case: &str, cold: &File) {
    let (ours, mut theirs) = UnixStream::pair().expect("sockets");
    theirs.write_all(b"x").expect("it takes a byte");
    let (listener, epoll) = listening();
    add(&epoll, &ours);
    for at in 0.. {
        if case == "saturated-epoll" {
            wait(&epoll, None);
        } else {
            let mut both = [PollFd::new(&ours, PollFlags::IN), PollFd::new(&listener, PollFlags::IN)];
            poll(&mut both, None).expect("it can wait");
        }
        read(cold, at);
    }
}

fn new_epoll() -> OwnedFd {
    epoll::create(CreateFlags::CLOEXEC).expect("an instance")
}

/// An epoll instance with a socket that clients come to.
fn listening() -> (TcpListener, OwnedFd) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let epoll = new_epoll();
    add(&epoll, &listener);
    (listener, epoll)
}

fn add(epoll: &OwnedFd, file: impl std::os::fd::AsFd) {
    epoll::add(epoll, file, EventData::new_u64(0), EventFlags::IN).expect("it can be added");
}

fn wait(epoll: &OwnedFd, time: Option<Duration>) {
    let time = time.map(|time| Timespec { tv_sec: 0, tv_nsec: time.subsec_nanos().into() });
    let mut events = Vec::with_capacity(8);
    epoll::wait(epoll, rustix::buffer::spare_capacity(&mut events), time.as_ref()).expect("it can wait");
}

fn read_for_ever(cold: &File) {
    for at in 0.. {
        read(cold, at);
    }
}

/// Reads from the disk.
fn read(cold: &File, at: u64) {
    rustix::fs::fadvise(cold, 0, None, rustix::fs::Advice::DontNeed).expect("pages can be dropped");
    cold.read_at(&mut [0; 4096], (at << 20) % (8 << 20)).expect("it is cold");
}

/// What is seen of a program that has begun.
fn seen(level: Level, case: &str, folder: &Path) -> Seen {
    let ready = TempDir::new().expect("a folder");
    let victim = Victim::start_with(case, folder, None, &[(READY_FOLDER, ready.path())]);
    while !ready.path().join(READY).exists() {
        std::thread::sleep(A_MOMENT);
    }
    let mut watch = Watch::begin(&Target::Pid(victim.0.id()), Some(level)).expect("it could begin before");
    let (begun, mut blocks) = (Instant::now(), Vec::new());
    while begun.elapsed() < WATCHED {
        watch.poll(&mut |block| blocks.push(block)).expect("the kernel tells");
        std::thread::sleep(watch.interval());
    }
    watch.unfinished(&mut |block| blocks.push(block));
    Seen { blocks, threads: watch.threads() }
}

/// How many loops there are, and how many of them, and of the other threads, slept for files. Samples see a part of it.
fn counts(seen: &Seen) -> (usize, usize, usize) {
    let part_us = WATCHED.as_micros() as u64 / 10;
    let reads = |thread: &&ThreadTotals| {
        let of_thread = seen.blocks.iter().filter(|block| block.thread == thread.thread);
        of_thread.filter(|block| block.cause.is_of_files()).map(|block| block.us).sum::<u64>() > part_us
    };
    let (loops, others): (Vec<&ThreadTotals>, Vec<_>) =
        seen.threads.iter().partition(|thread| thread.is_loop);
    (loops.len(), loops.into_iter().filter(reads).count(), others.into_iter().filter(reads).count())
}

#[test]
fn a_loop_is_one_without_a_sleep_in_its_wait() {
    let _alone = alone();
    if let Some(missing) = missing().or_else(flash_slowdisk::missing) {
        return eprintln!("NOT TESTED, which threads are loops: {missing}");
    }
    let (site, point) = (TempDir::new().expect("a folder"), TempDir::new().expect("a folder"));
    fs::write(site.path().join("cold"), vec![7; 8 << 20]).expect("a file");
    let image =
        SlowImage::mount(site.path(), point.path(), 16, "read delay fixed:20ms").expect("a slow image");
    let folder = image.mountpoint();
    let judge = |levels: &[Level], case: &str, expected: (usize, usize, usize)| {
        for &level in levels {
            let seen = seen(level, case, folder);
            eprintln!("{case} at {level}: {:?}", counts(&seen));
            assert_eq!(counts(&seen), expected, "{case} at {level}: {:#?}", seen.threads);
        }
    };
    judge(&ALL_LEVELS, "saturated-epoll", (1, 1, 0));
    // Without a descriptor to look for, it takes a look at calls.
    judge(&LEVELS, "saturated-poll", (1, 1, 0));
    judge(&ALL_LEVELS, "idle", (1, 0, 0));
    judge(&ALL_LEVELS, "pool", (1, 0, 2));
    judge(&LEVELS, "unused", (0, 0, 1));
    judge(&ALL_LEVELS, "one-client", (0, 0, 1));
    judge(&ALL_LEVELS, "one-answer", (0, 0, 1));
}

#[test]
fn a_thread_that_has_just_come_did_not_sleep_all_along() {
    let _alone = alone();
    if let Some(missing) = missing() {
        return eprintln!("NOT TESTED, sleeps of threads that come and go: {missing}");
    }
    for level in LEVELS {
        let seen = seen(level, "comers", Path::new("/"));
        let longest =
            seen.blocks.iter().filter(|block| &*block.call == "clock_nanosleep").map(|block| block.us);
        let longest = longest.max().expect("threads slept");
        assert!(longest < WATCHED.as_micros() as u64 / 2, "{level}: {longest} us of {A_MOMENT:?}");
    }
}
