//! A ring with real sockets: receiving, sending, and the cleanup when it is dropped.

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::Instant;

use super::*;
use crate::operations::{BROKEN, READABLE, WRITABLE};

/// A ring that has begun, or none, which is said.
fn ring() -> Option<Ring> {
    match Ring::new() {
        Ok(mut ring) => {
            ring.begin().unwrap();
            Some(ring)
        }
        Err(error) => {
            eprintln!("NOT TESTED: this system has no rings for us ({error})");
            None
        }
    }
}

const SOON: Option<Duration> = Some(Duration::from_secs(5));

/// What comes next, with its bytes.
fn next(ring: &mut Ring) -> (Completion, Vec<u8>) {
    loop {
        if let Some(completion) = ring.next_completion() {
            let bytes = ring.received().to_vec();
            return (completion, bytes);
        }
        let start = Instant::now();
        ring.wait(SOON).unwrap();
        assert!(start.elapsed() < SOON.unwrap(), "nothing happened");
    }
}

#[test]
fn one_receive_brings_everything_in_order_to_the_end() {
    let Some(mut ring) = ring() else { return };
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    ring.receive(ours.as_fd(), 7);
    // More than there are buffers, so that each is used again.
    let sent: Vec<u8> = (0..3_000_000u32).map(|number| (number % 251) as u8).collect();
    let copy = sent.clone();
    let writer = std::thread::spawn(move || theirs.write_all(&copy).unwrap());
    let mut got = Vec::new();
    loop {
        let (completion, bytes) = next(&mut ring);
        assert_eq!(completion.tag, 7);
        match completion.outcome {
            Outcome::Received(Ok(0)) => break assert!(completion.last),
            Outcome::Received(Ok(length)) => assert_eq!(length, bytes.len()),
            Outcome::Received(Err(error)) if error.raw_os_error() == Some(libc::ENOBUFS) => {}
            other => panic!("{other:?}"),
        }
        got.extend_from_slice(&bytes);
        if completion.last {
            ring.receive(ours.as_fd(), 7);
        }
    }
    writer.join().unwrap();
    assert!(got == sent, "{} bytes of {}", got.len(), sent.len());
}

#[test]
fn copies_are_sent_as_far_as_the_socket_takes_them() {
    let Some(mut ring) = ring() else { return };
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let text = String::from("two slices ");
    assert!(ring.send(ours.as_fd(), 1, &[IoSlice::new(text.as_bytes()), IoSlice::new(b"as one")]));
    drop(text);
    let (completion, _) = next(&mut ring);
    assert!(matches!(completion, Completion { tag: 1, outcome: Outcome::Sent(Ok(17)), last: true }));
    let mut got = [0; 17];
    theirs.read_exact(&mut got).unwrap();
    assert_eq!(&got, b"two slices as one");
    let full = vec![0; sends::SEND_BYTES_MAX];
    assert!(!ring.send(ours.as_fd(), 2, &[IoSlice::new(&full), IoSlice::new(b"x")]), "too long for a copy");
    let refused = loop {
        assert!(ring.send(ours.as_fd(), 3, &[IoSlice::new(&full)]));
        let (completion, _) = next(&mut ring);
        match completion.outcome {
            Outcome::Sent(Ok(count)) => assert!(count > 0),
            Outcome::Sent(Err(error)) => break error,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(refused.kind(), io::ErrorKind::WouldBlock, "nobody reads");
}

#[test]
fn sends_have_a_bound_and_may_be_under_way_at_the_end() {
    let Some(mut ring) = ring() else { return };
    let (ours, _theirs) = UnixStream::pair().unwrap();
    let sends = (0..1000).take_while(|&tag| ring.send(ours.as_fd(), tag, &[IoSlice::new(b"x")])).count();
    assert_eq!(sends, sends::SENDS_MAX);
    drop(ring);
}

#[test]
fn a_close_is_seen_while_the_ring_sleeps() {
    let Some(mut ring) = ring() else { return };
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let (other, mut bell) = UnixStream::pair().unwrap();
    theirs.set_read_timeout(SOON).unwrap();
    let reader = std::thread::spawn(move || {
        assert_eq!(theirs.read(&mut [0; 1]).unwrap(), 0);
        bell.write_all(b"x").unwrap();
    });
    ring.poll(other.as_fd(), 1, READABLE, false);
    ring.close(ours.into());
    let (completion, _) = next(&mut ring);
    assert_eq!(completion.tag, 1, "it was still asleep when the other side knew");
    reader.join().unwrap();
}

#[test]
fn a_close_waits_for_its_turn_and_the_other_side_sees_it() {
    let Some(mut ring) = ring() else { return };
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    theirs.set_read_timeout(SOON).unwrap();
    ring.receive(ours.as_fd(), 1);
    ring.wait(Some(Duration::ZERO)).unwrap();
    ring.cancel_receive(1);
    ring.close(ours.into());
    let (completion, _) = next(&mut ring);
    assert!(completion.last);
    assert!(
        matches!(completion.outcome, Outcome::Received(Err(error)) if error.raw_os_error() == Some(libc::ECANCELED))
    );
    assert_eq!(theirs.read(&mut [0; 1]).unwrap(), 0);
}

#[test]
fn what_was_asked_for_is_done_also_when_the_ring_is_dropped() {
    let Some(mut ring) = ring() else { return };
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    theirs.set_read_timeout(SOON).unwrap();
    ring.receive(ours.as_fd(), 1);
    ring.cancel_receive(1);
    ring.close(ours.into());
    drop(ring);
    assert_eq!(theirs.read(&mut [0; 1]).unwrap(), 0);
}

#[test]
fn polls_once_or_at_every_edge() {
    let Some(mut ring) = ring() else { return };
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    ring.poll(ours.as_fd(), 3, READABLE, true);
    ring.poll(ours.as_fd(), 4, WRITABLE, false);
    let (completion, _) = next(&mut ring);
    assert!(matches!(completion, Completion { tag: 4, outcome: Outcome::Polled(Ok(WRITABLE)), last: true }));
    for _ in 0..3 {
        theirs.write_all(b"x").unwrap();
        let (completion, _) = next(&mut ring);
        assert!(matches!(completion, Completion { tag: 3, outcome: Outcome::Polled(Ok(_)), last: false }));
    }
    ring.wait(Some(Duration::from_millis(20))).unwrap();
    assert!(ring.next_completion().is_none(), "no edge, no event");
    drop(theirs);
    let (completion, _) = next(&mut ring);
    assert!(matches!(completion.outcome, Outcome::Polled(Ok(events)) if events & BROKEN != 0));
}

#[test]
fn more_operations_than_the_queue_holds() {
    let Some(mut ring) = ring() else { return };
    let (ours, _theirs) = UnixStream::pair().unwrap();
    let count = u64::from(SUBMISSIONS_MAX) * 5;
    for tag in 0..count {
        ring.poll(ours.as_fd(), tag, WRITABLE, false);
    }
    let mut seen = 0;
    while seen < count {
        let (completion, _) = next(&mut ring);
        assert_eq!(completion.tag, seen);
        seen += 1;
    }
}

#[test]
fn the_ring_does_nothing_but_its_five_operations() {
    let Some(mut ring) = ring() else { return };
    let path = c"/etc/hostname";
    let open = opcode::OpenAt::new(Fd(libc::AT_FDCWD), path.as_ptr()).build();
    ring.push(open, 9, Kind::Poll);
    let (completion, _) = next(&mut ring);
    assert!(
        matches!(completion.outcome, Outcome::Polled(Err(error)) if error.raw_os_error() == Some(libc::EACCES))
    );
}
