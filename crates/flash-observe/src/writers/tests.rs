//! How the threads share logs, with logs that hang when a test has them hang.

use std::sync::mpsc::{Receiver, Sender, channel};

use super::*;

const PATIENCE: Duration = Duration::from_secs(60);

/// A log that tells when it is written, and may be held up there.
struct Fake {
    turn: Turn,
    /// It is woken whenever it is written.
    is_busy: AtomicBool,
    device: Device,
    held: Mutex<()>,
    written: Mutex<Sender<&'static str>>,
    name: &'static str,
    writers: Writers,
}

impl Log for Fake {
    fn turn(&self) -> &Turn {
        &self.turn
    }

    fn device(&self) -> Device {
        self.device.clone()
    }

    fn work(&self) -> Option<Instant> {
        drop(self.held.lock());
        if self.is_busy.load(Ordering::Relaxed) {
            self.turn.wake();
        }
        let _ = self.written.lock().send(self.name);
        None
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.writers.end_log();
    }
}

struct Bench {
    writers: Writers,
    told: Sender<&'static str>,
    written: Receiver<&'static str>,
}

impl Bench {
    fn new() -> Self {
        let (told, written) = channel();
        Self { writers: Writers::new("test-writer").unwrap(), told, written }
    }

    fn log(&self, name: &'static str, device: Device) -> Arc<Fake> {
        self.writers.begin_log().unwrap();
        Arc::new(Fake {
            turn: Turn::default(),
            is_busy: AtomicBool::new(false),
            device,
            held: Mutex::default(),
            written: Mutex::new(self.told.clone()),
            name,
            writers: self.writers.clone(),
        })
    }

    fn next(&self) -> &'static str {
        self.written.recv_timeout(PATIENCE).unwrap()
    }

    fn wait_for(&self, what: &str, is_so: impl Fn(&PoolState) -> bool) {
        let give_up = Instant::now() + PATIENCE;
        while !is_so(&self.writers.pool().state.lock()) {
            assert!(Instant::now() < give_up, "{what}");
            thread::sleep(Duration::from_millis(2));
        }
    }
}

#[test]
fn a_device_that_hangs_holds_up_one_thread_for_all_its_logs() {
    let bench = Bench::new();
    let hung: Vec<_> = (0..40).map(|_| bench.log("hung", Device::Disk(1))).collect();
    let held: Vec<_> = hung.iter().map(|log| log.held.lock()).collect();
    hung.iter().for_each(|log| bench.writers.wake(log));
    bench.writers.wake(&bench.log("good", Device::Disk(2)));
    assert_eq!(bench.next(), "good");
    assert_eq!(bench.writers.pool().state.lock().busy.keys().collect::<Vec<_>>(), [&Device::Disk(1)]);
    assert!(bench.writers.threads() <= 3, "{}", bench.writers.threads());
    drop(held);
    assert!((0..40).all(|_| bench.next() == "hung"));
}

#[test]
fn one_thread_is_left_for_disks_that_were_quick() {
    let bench = Bench::new();
    let special = |inode| bench.log("hung", Device::Special { device: 1, inode });
    let mut hung: Vec<_> = (0..40).map(special).collect();
    // Disks that were slow are no better.
    hung.extend((10..20).map(|number| bench.log("hung", Device::Disk(number))));
    hung[40..].iter().for_each(|log| log.turn.was_slow.store(true, Ordering::Relaxed));
    let held: Vec<_> = hung.iter().map(|log| log.held.lock()).collect();
    hung.iter().for_each(|log| bench.writers.wake(log));
    bench.wait_for("all threads but one are held up", |state| {
        state.busy.len() == THREADS_MAX - 1 && state.risky.len() == hung.len() - (THREADS_MAX - 1)
    });
    for number in 100..200 {
        bench.writers.wake(&bench.log("good", Device::Disk(number)));
        assert_eq!(bench.next(), "good");
    }
    assert_eq!(bench.writers.threads(), THREADS_MAX);
    drop(held);
    assert!((0..50).all(|_| bench.next() == "hung"));
}

#[test]
fn a_busy_log_takes_turns_with_others_of_its_device() {
    let bench = Bench::new();
    let [busy, quiet] = ["busy", "quiet"].map(|name| bench.log(name, Device::Disk(1)));
    busy.is_busy.store(true, Ordering::Relaxed);
    let held = busy.held.lock();
    bench.writers.wake(&busy);
    bench.wait_for("it is written", |state| state.busy.contains_key(&busy.device));
    bench.writers.wake(&quiet);
    bench.wait_for("the other waits", |state| !state.busy[&busy.device].is_empty());
    drop(held);
    assert_eq!([bench.next(), bench.next(), bench.next()], ["busy", "quiet", "busy"]);
    busy.is_busy.store(false, Ordering::Relaxed);
}

#[test]
fn a_busy_log_leaves_the_last_thread_to_other_devices() {
    let bench = Bench::new();
    let hung: Vec<_> =
        (1..THREADS_MAX as u64).map(|number| bench.log("hung", Device::Disk(number))).collect();
    let [busy, good] =
        [("busy", 100), ("good", 101)].map(|(name, number)| bench.log(name, Device::Disk(number)));
    busy.is_busy.store(true, Ordering::Relaxed);
    let held: Vec<_> = hung.iter().map(|log| log.held.lock()).collect();
    let busy_held = busy.held.lock();
    hung.iter().for_each(|log| bench.writers.wake(log));
    bench.wait_for("all threads but one are held up", |state| state.busy.len() == THREADS_MAX - 1);
    bench.writers.wake(&busy);
    bench.wait_for("all threads are held up", |state| state.busy.len() == THREADS_MAX);
    bench.writers.wake(&good);
    drop(busy_held);
    assert!((0..3).any(|_| bench.next() == "good"));
    drop(held);
    busy.is_busy.store(false, Ordering::Relaxed);
}

#[test]
fn a_leader_stays_until_another_thread_can_be_started() {
    let bench = Bench::new();
    let logs = [1, 2, 3].map(|number| bench.log("written", Device::Disk(number)));
    bench.writers.pool().starts_none.store(true, Ordering::Relaxed);
    let held = logs[0].held.lock();
    bench.writers.wake(&logs[0]);
    bench.wait_for("it is not written", |state| state.has_ready() && state.has_leader);
    assert!(bench.writers.pool().state.lock().busy.is_empty());
    bench.writers.pool().starts_none.store(false, Ordering::Relaxed);
    bench.wait_for("it hangs", |state| state.busy.len() == 1);
    bench.writers.wake(&logs[1]);
    assert_eq!(bench.next(), "written");
    drop(held);
    assert_eq!(bench.next(), "written");
}

#[test]
fn the_last_reference_to_the_last_log_ends_the_threads() {
    let bench = Bench::new();
    let log = bench.log("due", Device::Disk(1));
    // It was woken, and then its time came.
    log.turn.wake();
    let pool = Arc::downgrade(bench.writers.pool());
    let Bench { writers, told, written } = bench;
    drop(told);
    let strong = Arc::clone(writers.pool());
    strong.state.lock().later.insert((Instant::now(), 0), log);
    drop(writers);
    strong.woken.wake();
    drop(strong);
    assert_eq!(written.iter().collect::<Vec<_>>(), ["due"]);
    let give_up = Instant::now() + PATIENCE;
    while pool.strong_count() > 0 {
        assert!(Instant::now() < give_up, "a thread is left");
        thread::sleep(Duration::from_millis(2));
    }
}
