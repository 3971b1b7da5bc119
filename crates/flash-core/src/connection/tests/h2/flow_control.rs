//! Windows that stay shut: each wait has a deadline, and no client pays for the silence of another's program.

use super::*;
use crate::connection::tests::programs::{manner, world_of_programs};
use crate::exchange_id::ExchangeId;
use crate::testing::Manner;
use crate::upstream::{OpenError, Opened, UpstreamProtocol};

/// A client with uploads that wait for their programs to start, whose number is the next stream's. Each of them holds as much
/// as its window allows.
fn client_with_waiting_uploads(world: &mut World, count: u32) -> H2Client {
    let mut client = H2Client::connect(world, WINDOW);
    for stream in (0..count).map(|number| 2 * number + 1) {
        let fields = [("content-length", "1000000")];
        client.send(world, &H2Client::request(stream, "POST", "/cgi/waits", &fields, 0));
        assert_eq!(client.upload(world, stream, &[0; 1_000_000], usize::MAX), WINDOW as usize);
    }
    assert_eq!(client.opens.len(), count as usize);
    client
}

/// The program of an upload does not start.
fn refuse(client: &mut H2Client, world: &mut World, stream: u32) {
    let (id, refused) = (ExchangeId::of_stream(stream), Opened::Failed(OpenError::Busy));
    assert!(client.with(world, |connection, cx| connection.begun(id, refused, cx)));
    client.turn(world);
    assert_eq!(client.answers[&stream].status(), "503");
}

#[test]
fn uploads_that_wait_for_their_programs_do_not_stop_another() {
    let mut world = world_of_programs();
    let mut client = client_with_waiting_uploads(&mut world, 3);
    world.manner = Some(manner(UpstreamProtocol::Cgi));
    let length = 300_000;
    let fields = [("content-length", &*length.to_string())];
    client.send(&mut world, &H2Client::request(7, "POST", "/cgi/reads", &fields, 0));
    let body = text(length);
    let mut sent = 0;
    while sent < length {
        let count = client.upload(&mut world, 7, &body[sent..], usize::MAX);
        assert!(count > 0, "no window is open after {sent} bytes");
        sent += count;
        client.hear(&mut world, 7, |program| _ = program.live());
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
    let mut client = client_with_waiting_uploads(&mut world, 4);
    world.manner = Some(manner(UpstreamProtocol::Cgi));
    let fields = [("content-length", "50000")];
    client.send(&mut world, &H2Client::request(9, "POST", "/cgi/reads", &fields, 0));
    assert_eq!(client.upload(&mut world, 9, text(50_000), usize::MAX), 0);
    for _ in 0..30 {
        client.pass_ms(&mut world, 1_000);
    }
    assert!(!client.answers.contains_key(&9), "{:?}", client.answers[&9]);
    refuse(&mut client, &mut world, 3);
    assert_eq!(client.upload(&mut world, 9, text(50_000), usize::MAX), 50_000);
    client.hear(&mut world, 9, |program| {
        assert_eq!(program.told, text(50_000));
        program.say(b"A: b\n\n");
        program.ended = true;
    });
    assert_eq!(client.answer(9).status(), "200");
    // A client that may send, and does not, is late.
    client.send(&mut world, &H2Client::request(11, "POST", "/cgi/reads", &fields, 0));
    let mut passed_ms = 0;
    while client.answers.get(&11).is_none_or(|answer| answer.status() == "none") {
        client.pass_ms(&mut world, 1_000);
        passed_ms += 1_000;
        assert!(passed_ms < 15_000, "a silent upload stays");
    }
    assert_eq!(client.answers[&11].status(), "408");
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
        let mut world = world_of_programs();
        world.manner = Some(Manner { room: 0, ..manner(UpstreamProtocol::Cgi) });
        let mut client = H2Client::connect(&mut world, window);
        let length = 500_000;
        let fields = [("content-length", &*length.to_string())];
        client.send(&mut world, &H2Client::request(1, "POST", "/cgi/does-not-read", &fields, 0));
        let mut sent = client.upload(&mut world, 1, text(length), usize::MAX);
        assert!(sent < length && client.upload_room(1) == 0);
        client.hear(&mut world, 1, |program| {
            program.say(b"A: b\n\nno");
            program.ended = true;
        });
        while sent < length {
            let count = client.upload(&mut world, 1, &text(length)[sent..], usize::MAX);
            assert!(count > 0, "{window}: the client may send no more after {sent} bytes");
            sent += count;
        }
        client.grant(&mut world, 1, 1);
        client.grant(&mut world, 1, WINDOW);
        assert_eq!(client.answer(1).body, b"no");
        assert!(client.connection().is_idle());
    }
}
