//! A thread that sleeps on purpose, and the recorder of it, as a server asks it.

use std::thread::sleep;

use flash_sleep::Cause;

use super::*;

fn thread() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs()
}

/// None, and a line that says so, where the kernel gives no stacks.
fn recording(connect: ConnectRecorder) -> Option<RecorderClient> {
    let mut client = RecorderClient::new(connect);
    match client.record(thread()) {
        Ok(is_new) => {
            assert!(is_new && !client.record(thread()).unwrap());
            Some(client)
        }
        Err(error) => {
            eprintln!("NOT TESTED, the sleep recorder: {error}");
            None
        }
    }
}

fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

#[test]
fn sleeps_are_counted_and_the_longest_of_a_section_is_explained() {
    let Some(mut client) = recording(recorder_thread()) else { return };
    let since_ns = now_ns();
    for _ in 0..3 {
        sleep(Duration::from_millis(2));
    }
    let until_ns = now_ns();
    sleep(Duration::from_millis(1));
    let explanation = client.explain(thread(), since_ns, until_ns).unwrap().expect("it slept");
    assert!(
        explanation.cause == Cause::Timer && explanation.functions.contains("nanosleep"),
        "{explanation}"
    );
    assert_eq!(client.explain(thread(), 0, since_ns).unwrap(), None, "nothing was recorded before");
    let timers = |totals: &[Total]| -> u64 {
        totals.iter().filter(|total| total.explanation.cause == Cause::Timer).map(|total| total.sleeps).sum()
    };
    let totals = client.totals();
    assert_eq!(timers(&totals), 4, "{totals:?}");
    assert!(totals.iter().all(|total| total.explanation.cause != Cause::Events), "{totals:?}");
}

#[test]
fn a_wait_for_events_is_no_block() {
    let Some(mut client) = recording(recorder_thread()) else { return };
    let epoll = rustix::event::epoll::create(rustix::event::epoll::CreateFlags::empty()).unwrap();
    let since_ns = now_ns();
    let patience = Timespec { tv_sec: 0, tv_nsec: 2_000_000 };
    let mut events: Vec<rustix::event::epoll::Event> = Vec::with_capacity(1);
    rustix::event::epoll::wait(&epoll, rustix::buffer::spare_capacity(&mut events), Some(&patience)).unwrap();
    assert_eq!(client.explain(thread(), since_ns, now_ns()).unwrap(), None);
}

#[test]
fn threads_of_other_processes_are_not_recorded() {
    let mut client = RecorderClient::new(recorder_thread());
    for stranger in [1, u32::MAX] {
        let error = client.record(stranger).unwrap_err();
        assert_eq!(error.to_string(), "it is no thread of the server");
    }
}

#[test]
fn a_recorder_that_has_ended_is_asked_again_through_another() {
    let Some(mut client) = recording(recorder_thread()) else { return };
    // Nonsense ends it.
    ipc::send(client.socket(), b"nonsense", &[]).unwrap();
    let error = (0..100).find_map(|_| client.record(thread()).err()).expect("it ends");
    assert_eq!(error.to_string(), "the sleep recorder has ended");
    assert!(client.record(thread()).unwrap(), "another one");
}

#[test]
fn a_thread_that_does_not_block_any_more_is_let_go() {
    let mut recorder =
        Recorder { process: std::process::id(), threads: HashMap::new(), names: KernelNames::default() };
    let begun = Instant::now();
    if recorder.record(thread(), begun).is_err() {
        return eprintln!("NOT TESTED, the end of recording: the kernel gives no stacks");
    }
    sleep(Duration::from_millis(1));
    recorder.look(begun + IDLE_MAX);
    assert!(recorder.is_recording());
    recorder.look(begun + IDLE_MAX + Duration::from_secs(1));
    assert!(!recorder.is_recording());
    assert!(!recorder.totals().is_empty(), "what it did before still counts");
    assert!(recorder.record(thread(), begun).unwrap(), "it is recorded anew");
}
