//! Windows that stay shut: each wait has a deadline, and no client pays for the silence of another's program.

use super::*;
use crate::connection::tests::programs::{manner, world_of_programs};
use crate::exchange::id::ExchangeId;
use crate::job::{Done, Failure};
use crate::upstream::UpstreamProtocol;

/// A client with uploads that wait for the disk, which writes their first part. Each of them holds as much as its window
/// allows.
fn client_with_waiting_uploads(world: &mut World, count: u32) -> H2Client {
    let mut client = H2Client::connect(world, WINDOW);
    for stream in (0..count).map(|number| 2 * number + 1) {
        let fields = [("content-length", "1000000")];
        client.send(world, &H2Client::request(stream, "POST", "/cgi/waits", &fields, 0));
        while client.upload(world, stream, &[0; 1_000_000], usize::MAX) > 0 {}
    }
    assert_eq!(client.jobs.len(), count as usize);
    client
}

/// The disk does not take an upload.
fn refuse(client: &mut H2Client, world: &mut World, stream: u32) {
    let id = ExchangeId::of_stream(stream);
    client.jobs.retain(|(of, _)| *of != id);
    client.finish(world, id, Done::Failed(Failure::Overloaded));
    assert_eq!(client.answers[&stream].status(), "503");
}

#[test]
fn uploads_that_wait_for_the_disk_do_not_stop_another() {
    let mut world = world_of_programs();
    let mut client = client_with_waiting_uploads(&mut world, 3);
    world.manner = Some(manner(UpstreamProtocol::Cgi));
    world.jobs = Jobs::AtOnce;
    let length = 300_000;
    let fields = [("content-length", &*length.to_string())];
    client.send(&mut world, &H2Client::request(7, "POST", "/cgi/reads", &fields, 0));
    let body = text(length);
    let mut sent = 0;
    while sent < length {
        let count = client.upload(&mut world, 7, &body[sent..], usize::MAX);
        assert!(count > 0, "no window is open after {sent} bytes");
        sent += count;
    }
    client.hear(&mut world, 7, |program| {
        assert!(program.told == body && program.told_end);
        program.say(b"A: b\n\n");
        program.ended = true;
    });
    assert_eq!(client.answer(7).status(), "200");
}

#[test]
fn an_upload_whose_client_may_not_send_is_not_late() {
    let mut world = world_of_programs();
    world.server.settings.disk_deadline_ms = 60_000;
    let mut client = client_with_waiting_uploads(&mut world, 5);
    world.manner = Some(manner(UpstreamProtocol::Cgi));
    world.jobs = Jobs::AtOnce;
    let fields = [("content-length", "40000")];
    client.send(&mut world, &H2Client::request(13, "POST", "/cgi/reads", &fields, 0));
    assert_eq!(client.upload(&mut world, 13, text(40_000), usize::MAX), 0);
    for _ in 0..30 {
        client.pass_ms(&mut world, 1_000);
    }
    assert!(!client.answers.contains_key(&13), "{:?}", client.answers[&13]);
    refuse(&mut client, &mut world, 3);
    assert_eq!(client.upload(&mut world, 13, text(40_000), usize::MAX), 40_000);
    client.hear(&mut world, 13, |program| {
        assert_eq!(program.told, text(40_000));
        program.say(b"A: b\n\n");
        program.ended = true;
    });
    assert_eq!(client.answer(13).status(), "200");
    // A client that may send, and does not, is late.
    client.send(&mut world, &H2Client::request(15, "POST", "/cgi/reads", &fields, 0));
    let mut passed_ms = 0;
    while client.answers.get(&15).is_none_or(|answer| answer.status() == "none") {
        client.pass_ms(&mut world, 1_000);
        passed_ms += 1_000;
        assert!(passed_ms < 15_000, "a silent upload stays");
    }
    assert_eq!(client.answers[&15].status(), "408");
}

#[test]
fn a_connection_whose_window_stays_shut_is_cut_off() {
    for path in ["/large.bin", "/middle.txt"] {
        let mut world = world();
        let mut client = H2Client::connect(&mut world, WIDE);
        // Eleven of them are more than the connection's first window.
        for count in 0..11 {
            client.get(&mut world, 2 * count + 1, path);
        }
        while !client.jobs.is_empty() {
            client.complete(&mut world, 0);
        }
        let bytes: usize = client.answers.values().map(|answer| answer.body.len()).sum();
        assert_eq!(bytes, 65_535);
        let mut passed_ms = 0;
        while client.pass_ms(&mut world, 1_000) != Waits::Closed {
            passed_ms += 1_000;
            assert!(passed_ms < 300_000, "{path}: a stalled connection stays");
        }
        assert!(client.is_reset());
        drop(client);
        let World { server, local, disk, .. } = world;
        drop((server, local));
        assert_eq!(disk.open_files(), 0, "{path}: something still holds a file");
    }
}

#[test]
fn the_rest_of_a_body_is_dropped_once_its_response_is_complete() {
    // The client has the response at once, or opens its window afterwards.
    for window in [WINDOW, 0] {
        let mut world = world();
        let mut client = H2Client::connect(&mut world, window);
        let length = 500_000;
        let fields = [("content-length", &*length.to_string())];
        client.send(&mut world, &H2Client::request(1, "POST", "/small.txt", &fields, 0));
        let mut sent = 0;
        while sent < length {
            let count = client.upload(&mut world, 1, &text(length)[sent..], usize::MAX);
            assert!(count > 0, "{window}: the client may send no more after {sent} bytes");
            sent += count;
        }
        client.grant(&mut world, 1, 1);
        client.grant(&mut world, 1, WINDOW);
        assert_eq!(client.answer(1).status(), "405");
        assert!(client.connection().is_idle());
    }
}

/// Clients take a reset for a failure, and read the response only after they have sent everything (RFC 9113 §8.1).
#[test]
fn the_window_of_an_answered_upload_stays_open_for_half_a_minute() {
    let mut world = world();
    let mut client = H2Client::connect(&mut world, WINDOW);
    client.send(&mut world, &H2Client::request(1, "POST", "/small.txt", &[], 0));
    assert_eq!(client.answer(1).status(), "405");
    let (mut sent, rest) = (0, text(1 << 20));
    for second in 0..30 {
        assert!(!client.connection().is_idle(), "after {second} s");
        sent += client.upload(&mut world, 1, rest, rest.len() - 1);
        client.pass_ms(&mut world, 1_000);
    }
    assert!(client.connection().is_idle(), "it is told to stop, by a reset that is no error");
    assert!(sent > 29 << 19, "{sent}");
    assert!(client.goaways.is_empty());
}

#[test]
fn a_client_that_goes_silent_within_an_answered_upload_is_told_to_stop() {
    let mut world = world();
    let mut client = H2Client::connect(&mut world, WINDOW);
    client.send(&mut world, &H2Client::request(1, "POST", "/small.txt", &[], 0));
    client.pass_ms(&mut world, 1_999);
    client.upload(&mut world, 1, text(100), 10);
    client.pass_ms(&mut world, 4_999);
    assert!(!client.connection().is_idle());
    client.pass_ms(&mut world, 1);
    assert!(client.connection().is_idle(), "it is told to stop");
    client.get(&mut world, 3, "/small.txt");
    assert_eq!(client.answer(3).body, text(100));
}
