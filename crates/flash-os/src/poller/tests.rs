//! The same events from all pollers that there are here.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use super::*;

const NOW: Option<Duration> = Some(Duration::ZERO);
const SOON: Option<Duration> = Some(Duration::from_secs(30));

fn all() -> [Poller; 2] {
    [Poller::of_system().unwrap(), Poller::of_poll().unwrap()]
}

/// Whether it is one of those that poll(2) can watch.
fn may_be_polled(poller: &Poller) -> bool {
    let may_be = cfg!(not(feature = "libkqueue")) || matches!(poller.kind, Kind::Poll(_));
    if !may_be {
        eprintln!("NOT TESTED, a kqueue among other descriptors: poll(2) knows the BSDs' own only");
    }
    may_be
}

fn pair() -> (UnixStream, UnixStream) {
    let (near, far) = UnixStream::pair().unwrap();
    near.set_nonblocking(true).unwrap();
    far.set_nonblocking(true).unwrap();
    (near, far)
}

fn events(poller: &Poller, timeout: Option<Duration>) -> Vec<Event> {
    let mut events = Vec::with_capacity(8);
    poller.wait(&mut events, timeout).unwrap();
    events
}

fn tokens(poller: &Poller) -> Vec<u64> {
    events(poller, NOW).iter().map(|event| event.token).collect()
}

#[test]
fn a_level_is_told_for_as_long_as_it_lasts() {
    for poller in all() {
        let (mut near, mut far) = pair();
        poller.add(&near, 7, Interest::INPUT).unwrap();
        assert!(!poller.has_event());
        far.write_all(b"x").unwrap();
        assert!(!may_be_polled(&poller) || poller.has_event());
        let told = events(&poller, SOON);
        assert_eq!((told.len(), told[0].token), (1, 7), "{poller:?}");
        assert!(told[0].ready.may_be_read() && !told[0].ready.is_gone());
        assert_eq!(tokens(&poller), [7]);
        poller.modify(&near, 8, Interest::BOTH).unwrap();
        assert!(events(&poller, NOW).iter().any(|event| event.ready.intersects(Ready::ROOM)));
        poller.modify(&near, 8, Interest::INPUT).unwrap();
        near.read_exact(&mut [0]).unwrap();
        assert_eq!(tokens(&poller), []);
        far.write_all(b"x").unwrap();
        poller.delete(&near).unwrap();
        assert_eq!(poller.delete(&near), Err(Errno::NOENT));
        assert_eq!(tokens(&poller), []);
    }
}

#[test]
fn an_edge_is_told_once_and_what_is_known_wakes_nobody() {
    for poller in all() {
        let (mut near, mut far) = pair();
        poller.add(&near, 7, Interest::INPUT.edge()).unwrap();
        far.write_all(b"x").unwrap();
        assert_eq!(tokens(&poller), [7]);
        // It is known that there are bytes, and they are not wanted.
        assert_eq!(tokens(&poller), []);
        poller.rearm(&near, 7, false, false).unwrap();
        assert_eq!(tokens(&poller), [], "{poller:?}");
        near.read_exact(&mut [0]).unwrap();
        poller.rearm(&near, 7, true, false).unwrap();
        assert_eq!(tokens(&poller), []);
        far.write_all(b"x").unwrap();
        assert_eq!(tokens(&poller), [7]);
        poller.rearm(&near, 7, false, false).unwrap();
        drop(far);
        let told = events(&poller, SOON);
        assert!(told.iter().all(|event| event.ready.has_ended()), "{told:?}");
        assert_eq!(tokens(&poller), []);
    }
}

#[test]
fn what_is_told_once_is_silent_until_it_is_asked_for_again() {
    for poller in all() {
        let (near, mut far) = pair();
        poller.add(&near, 1, Interest::NONE.once()).unwrap();
        far.write_all(b"x").unwrap();
        assert_eq!(tokens(&poller), []);
        for _ in 0..2 {
            poller.modify(&near, 1, Interest::INPUT.once()).unwrap();
            assert_eq!(poller.wait_for_one(SOON).unwrap().map(|event| event.token), Some(1));
            assert_eq!(poller.wait_for_one(NOW).unwrap(), None);
        }
    }
}

#[test]
fn a_waker_wakes_each_time_and_needs_no_draining() {
    for poller in all() {
        let waker = Waker::new().unwrap();
        poller.add_waker(&waker, 3).unwrap();
        assert_eq!(tokens(&poller), []);
        for _ in 0..3 {
            waker.wake();
            waker.wake();
            assert_eq!(tokens(&poller), [3], "{poller:?}");
            assert_eq!(tokens(&poller), []);
        }
    }
}

#[test]
fn each_has_its_turn_where_one_is_told_at_a_time() {
    for poller in all() {
        let pairs = [pair(), pair(), pair()];
        for ((near, far), token) in pairs.iter().zip(0..) {
            poller.add(near, token, Interest::INPUT).unwrap();
            (&*far).write_all(b"x").unwrap();
        }
        let mut told: Vec<u64> =
            (0..3).map(|_| poller.wait_for_one(NOW).unwrap().expect("an event").token).collect();
        told.sort_unstable();
        assert_eq!(told, [0, 1, 2], "{poller:?}");
    }
}

#[test]
fn a_thread_that_waits_hears_of_what_others_add() {
    for poller in all() {
        let poller = Arc::new(poller);
        let threads: Vec<_> = (0..3)
            .map(|_| {
                let poller = Arc::clone(&poller);
                // One that is woken may find that another thread was faster, if the system is libkqueue.
                let wait = move || loop {
                    if let Some(event) = poller.wait_for_one(SOON).unwrap() {
                        return event.token;
                    }
                };
                thread::spawn(wait)
            })
            .collect();
        let pairs = [pair(), pair(), pair()];
        for ((near, far), token) in pairs.iter().zip(0..) {
            thread::sleep(Duration::from_millis(20));
            (&*far).write_all(b"x").unwrap();
            poller.add(near, token, Interest::INPUT.once()).unwrap();
        }
        let mut told: Vec<u64> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        told.sort_unstable();
        assert_eq!(told, [0, 1, 2], "each event wakes one thread");
    }
}

#[test]
fn a_listener_that_is_deleted_and_closed_refuses_whoever_waits() {
    use std::net::{TcpListener, TcpStream};
    for poller in all() {
        let poller = Arc::new(poller);
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        poller.add(&listener, 1, Interest::INPUT.once()).unwrap();
        let waiter = Arc::clone(&poller);
        let thread =
            thread::spawn(
                move || while waiter.wait_for_one(SOON).unwrap().is_none_or(|event| event.token == 1) {},
            );
        thread::sleep(Duration::from_millis(20));
        poller.delete(&listener).unwrap();
        drop(listener);
        let start = Instant::now();
        while TcpStream::connect(address).is_ok() {
            assert!(start.elapsed() < Duration::from_secs(10), "{poller:?}");
            thread::sleep(Duration::from_millis(1));
        }
        let (near, mut far) = pair();
        far.write_all(b"x").unwrap();
        poller.add(&near, 2, Interest::INPUT).unwrap();
        thread.join().unwrap();
    }
}

#[test]
fn a_wait_ends_in_time_whoever_else_waits() {
    for poller in all() {
        let poller = Arc::new(poller);
        let start = Instant::now();
        let threads: Vec<_> = [50, 100]
            .map(|ms| {
                let poller = Arc::clone(&poller);
                thread::spawn(move || poller.wait_for_one(Some(Duration::from_millis(ms))).unwrap())
            })
            .into_iter()
            .collect();
        assert!(threads.into_iter().all(|thread| thread.join().unwrap().is_none()));
        assert!(start.elapsed() < Duration::from_secs(10));
    }
}

#[test]
fn one_poller_is_watched_among_others() {
    for poller in all().into_iter().filter(may_be_polled) {
        let (near, mut far) = pair();
        poller.add(&near, 1, Interest::INPUT).unwrap();
        let is_told =
            || rustix::event::poll(&mut poller.polled(), Some(&rustix::event::Timespec::default())) == Ok(1);
        assert!(!is_told());
        far.write_all(b"x").unwrap();
        assert!(is_told(), "{poller:?}");
    }
}

#[test]
fn another_descriptor_of_a_closed_ones_number_is_another_watch() {
    let poller = Poller::of_poll().unwrap();
    let (near, mut far) = pair();
    poller.add(&near, 1, Interest::INPUT.edge()).unwrap();
    far.write_all(b"x").unwrap();
    poller.disarm(&near);
    drop((near, far));
    let (again, _far) = pair();
    poller.add(&again, 2, Interest::INPUT.edge()).unwrap();
    assert_eq!(tokens(&poller), []);
}

#[test]
fn an_end_that_nobody_wants_to_know_is_told_once() {
    for poller in all() {
        let (near, far) = pair();
        poller.add(&near, 7, Interest::INPUT.edge()).unwrap();
        drop(far);
        assert_eq!(events(&poller, SOON).len(), 1, "{poller:?}");
        for _ in 0..3 {
            poller.rearm_wanted(&near, 7, false, false).unwrap();
            assert_eq!(tokens(&poller), [], "{poller:?}");
        }
        // It still counts as watched.
        poller.modify(&near, 8, Interest::BOTH.edge()).unwrap();
        assert_eq!(tokens(&poller), [8], "{poller:?}");
        poller.delete(&near).unwrap();
    }
}

#[test]
fn what_is_watched_no_more_is_not_modified() {
    for poller in all() {
        let (near, mut far) = pair();
        far.write_all(b"x").unwrap();
        poller.add(&near, 7, Interest::INPUT.once()).unwrap();
        assert_eq!(events(&poller, SOON).len(), 1, "{poller:?}");
        poller.modify(&near, 7, Interest::INPUT.once()).unwrap();
        assert_eq!(events(&poller, SOON).len(), 1, "{poller:?}");
        poller.delete(&near).unwrap();
        // A kqueue would watch it.
        if matches!(poller.kind, Kind::Poll(_)) || cfg!(not(feature = "libkqueue")) {
            assert_eq!(poller.modify(&near, 7, Interest::INPUT.once()), Err(Errno::NOENT));
            assert_eq!(tokens(&poller), [], "{poller:?}");
        }
    }
}
