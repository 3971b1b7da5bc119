//! A thread that sleeps on purpose, where the kernel gives stacks.

use std::thread;
use std::time::Duration;

use super::*;

fn open(begin: Begin) -> Option<SleepRecorder> {
    match SleepRecorder::open(THIS_THREAD, 8, begin) {
        Ok(recorder) => Some(recorder),
        Err(error) => {
            eprintln!("NOT TESTED, kernel stacks of sleeps: {error}");
            None
        }
    }
}

fn read(recorder: &mut SleepRecorder) -> Vec<Sleep> {
    let mut sleeps = Vec::new();
    recorder.read(&mut |sleep| sleeps.push(sleep));
    sleeps.retain(|sleep| !sleep.preempted);
    sleeps
}

#[test]
fn each_sleep_has_a_stack_a_length_and_arguments() {
    let Some(mut recorder) = open(Begin::Enabled) else { return };
    for _ in 0..3 {
        thread::sleep(Duration::from_millis(5));
    }
    let sleeps = read(&mut recorder);
    assert_eq!(sleeps.len(), 3, "{sleeps:?}");
    for sleep in &sleeps {
        assert!(sleep.stack.len() > 4 && sleep.stack.iter().all(|&address| address >> 63 == 1), "{sleep:x?}");
        let ms = (sleep.until_ns - sleep.since_ns) / 1_000_000;
        assert!((4..1000).contains(&ms), "{ms} ms");
        // clock_nanosleep(clock, flags, …): the realtime or the monotonic clock.
        assert!(sleep.arguments[0] <= 1, "{:x?}", sleep.arguments);
    }
    assert_eq!((recorder.asleep(), recorder.lost()), (None, 0));
}

#[test]
fn a_disabled_recorder_records_nothing() {
    let Some(mut recorder) = open(Begin::Disabled) else { return };
    let nap = || thread::sleep(Duration::from_millis(2));
    nap();
    assert_eq!(read(&mut recorder), []);
    recorder.enable();
    nap();
    recorder.disable();
    nap();
    assert_eq!(read(&mut recorder).len(), 1);
}

#[test]
fn a_full_ring_says_what_was_lost() {
    let Some(mut recorder) = open(Begin::Enabled) else { return };
    for _ in 0..400 {
        thread::sleep(Duration::from_micros(50));
    }
    assert!(read(&mut recorder).len() < 400);
    thread::sleep(Duration::from_millis(1));
    assert!(read(&mut recorder).len() <= 1 && recorder.lost() > 100, "{}", recorder.lost());
    thread::sleep(Duration::from_millis(1));
    assert_eq!(read(&mut recorder).len(), 1, "it goes on after a loss");
}

#[test]
fn a_sleep_that_lasts_is_told_apart() {
    let (tell, told) = std::sync::mpsc::channel();
    let (leave, left) = std::sync::mpsc::channel::<()>();
    let sleeper = thread::spawn(move || {
        let number = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        tell.send(number).expect("somebody waits");
        thread::sleep(Duration::from_millis(50));
        thread::sleep(Duration::from_millis(400));
        tell.send(number).expect("somebody waits");
        // What it does at its end is not counted.
        let _ = left.recv();
    });
    let opened = SleepRecorder::open(told.recv().expect("it tells"), 8, Begin::Enabled);
    let Ok(mut recorder) = opened else { return eprintln!("NOT TESTED, a sleep that lasts") };
    thread::sleep(Duration::from_millis(200));
    // The first one began before the recorder did, or just after.
    assert!(read(&mut recorder).len() <= 1);
    let asleep = recorder.asleep().expect("it sleeps now");
    assert!(asleep.until_ns == 0 && asleep.since_ns > 0, "{asleep:?}");
    told.recv().expect("it has slept");
    assert_eq!(read(&mut recorder).len(), 1);
    drop(leave);
    sleeper.join().expect("it does not panic");
}

#[test]
fn a_thread_that_is_not_there() {
    let error = SleepRecorder::open(u32::MAX >> 2, 8, Begin::Enabled).expect_err("there is none");
    assert!(matches!(error.raw_os_error(), Some(libc::ESRCH | libc::EACCES | libc::EPERM)), "{error}");
}
