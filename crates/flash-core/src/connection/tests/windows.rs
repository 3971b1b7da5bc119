//! Large files, window by window: each window is verified right before it is sent, and again after every wait.

use super::*;

/// The ranges of the windows that were verified or loaded since the last call.
fn asked(world: &World) -> Vec<(u64, u64)> {
    world.disk.take_asked().into_iter().map(|range| (range.start, range.end)).collect()
}

#[test]
fn windows_begin_at_multiples_of_their_size() {
    let mut world = world();
    assert_eq!(reply(&world.ask(get("/large.bin"))).body, text(LARGE_BYTES));
    let end = LARGE_BYTES as u64;
    assert_eq!(asked(&world), [(0, WINDOW_BYTES), (WINDOW_BYTES, 2 * WINDOW_BYTES), (2 * WINDOW_BYTES, end)]);

    let part = world.ask("GET /large.bin HTTP/1.1\r\nHost: a\r\nRange: bytes=1000-1200000\r\n\r\n");
    assert_eq!(reply(&part).body, text(LARGE_BYTES)[1000..=1_200_000]);
    assert_eq!(asked(&world), [(1000, WINDOW_BYTES), (WINDOW_BYTES, 1_200_001)]);
}

#[test]
fn what_the_socket_does_not_take_is_looked_at_again() {
    let mut world = world();
    let mut client = world.connect();
    client.socket = Socket::with_room(5_000);
    assert_eq!(world.receive(&mut client, get("/one-window.bin").as_bytes()), Waits::ForRoom);
    let body_sent = reply_body_bytes(&client.got);
    assert_eq!(asked(&world), [(0, 10_000)]);
    world.make_room(&mut client, 1_000);
    assert_eq!(asked(&world), [(body_sent, 10_000)], "before the next attempt");
    world.make_room(&mut client, 100_000);
    assert_eq!(asked(&world), [(body_sent + 1_000, 10_000)]);
    assert_eq!(reply(&client.got).body, text(10_000));
}

/// Bytes behind the head, so far.
fn reply_body_bytes(got: &[u8]) -> u64 {
    let head = memchr::memmem::find(got, b"\r\n\r\n").expect("a head") + 4;
    (got.len() - head) as u64
}

/// The wire fills up within the head. The window behind it has not left either, and is verified again.
#[test]
fn a_window_behind_a_blocked_head_is_looked_at_again() {
    let mut world = world();
    let mut client = world.connect();
    client.socket = Socket::with_room(20);
    assert_eq!(world.receive(&mut client, get("/one-window.bin").as_bytes()), Waits::ForRoom);
    assert_eq!(asked(&world), [(0, 10_000)]);
    // The driver asserts that a window is sent only after a look since the last wait.
    world.make_room(&mut client, 100_000);
    assert_eq!(asked(&world), [(0, 10_000)]);
    assert_eq!(reply(&client.got).body, text(10_000));
}

#[test]
fn a_window_that_left_the_cache_meanwhile_is_loaded_again() {
    let mut world = world();
    world.disk.script([Look::Resident, Look::Absent]);
    let mut client = world.connect();
    client.socket = Socket::with_room(5_000);
    world.receive(&mut client, get("/one-window.bin").as_bytes());
    assert_eq!(world.make_room(&mut client, 100_000), Waits::ForJob);
    assert_eq!(world.complete(&mut client), Waits::ForBytes);
    assert_eq!(reply(&client.got).body, text(10_000));
}

#[test]
fn a_warmed_window_is_asked_for_again_and_then_copied() {
    let mut world = world();
    world.disk.script([Look::Absent, Look::Absent]);
    let mut client = world.connect();
    assert_eq!(world.receive(&mut client, get("/one-window.bin").as_bytes()), Waits::ForJob);
    assert!(matches!(&client.pending, Some((_, Job::Load(load))) if !load.copy));
    assert_eq!(world.complete(&mut client), Waits::ForJob);
    assert!(
        matches!(&client.pending, Some((_, Job::Load(load))) if load.copy),
        "it did not stay the first time"
    );
    assert_eq!(world.complete(&mut client), Waits::ForBytes);
    assert_eq!(reply(&client.got).body, text(10_000));
}

#[test]
fn a_warmed_window_that_stayed_is_sent_from_the_file() {
    let mut world = world();
    world.disk.script([Look::Absent, Look::Resident]);
    let mut client = world.connect();
    world.receive(&mut client, get("/one-window.bin").as_bytes());
    assert_eq!(world.complete(&mut client), Waits::ForBytes);
    assert_eq!(reply(&client.got).body, text(10_000));
}

#[test]
fn of_a_window_that_is_resident_in_part_the_rest_is_asked_for() {
    let mut world = world();
    world.disk.script([Look::ResidentUpTo(4_000), Look::Absent, Look::ResidentUpTo(1), Look::Copied]);
    let mut client = world.connect();
    assert_eq!(world.receive(&mut client, get("/one-window.bin").as_bytes()), Waits::ForJob);
    assert_eq!(reply_body_bytes(&client.got), 4_000);
    assert_eq!(world.complete(&mut client), Waits::ForBytes);
    assert_eq!(
        asked(&world),
        [(0, 10_000), (4_000, 10_000), (4_000, 10_000), (4_000, 10_000), (4_001, 10_000)]
    );
    assert_eq!(reply(&client.got).body, text(10_000));
}

#[test]
fn what_is_put_back_is_asked_for_together_with_what_follows() {
    for look in [Look::ResidentUpTo(4_000), Look::Copied] {
        let mut world = world();
        world.disk.script([look]);
        let mut client = world.connect();
        client.socket = Socket::with_room(2_000);
        world.receive(&mut client, get("/one-window.bin").as_bytes());
        let body_sent = reply_body_bytes(&client.got);
        world.make_room(&mut client, 100_000);
        assert_eq!(asked(&world), [(0, 10_000), (body_sent, 10_000)], "{look:?}");
        assert_eq!(reply(&client.got).body, text(10_000));
    }
}

#[test]
fn a_file_that_changes_ends_its_connection_and_nothing_else() {
    for look in [Look::Changed, Look::Failed] {
        let mut world = world();
        world.disk.script([Look::Resident, look]);
        let mut other = world.connect();
        let mut client = world.connect();
        let both = get("/large.bin") + &get("/small.txt");
        assert_eq!(world.receive(&mut client, both.as_bytes()), Waits::Closed, "{look:?}");
        assert_eq!(reply_body_bytes(&client.got), WINDOW_BYTES, "one window had left");
        assert_eq!(world.receive(&mut other, get("/large.bin").as_bytes()), Waits::ForBytes);
        assert_eq!(reply(&other.got).body, text(LARGE_BYTES));
    }
}

#[test]
fn multiple_ranges_with_every_amount_of_room() {
    let (window, size, content) = (WINDOW_BYTES as usize, LARGE_BYTES, text(LARGE_BYTES));
    let (first, last) = (window - 100, window + 100);
    let range = format!("Range: bytes=100-300,{first}-{last},-50\r\n");
    let request = format!("GET /large.bin HTTP/1.1\r\nHost: a\r\n{range}\r\n");
    let expected = [
        (format!("bytes 100-300/{size}"), content[100..=300].to_vec()),
        (format!("bytes {first}-{last}/{size}"), content[first..=last].to_vec()),
        (format!("bytes {}-{}/{size}", size - 50, size - 1), content[size - 50..].to_vec()),
    ];
    let whole = world().ask(&request);
    assert_eq!(reply(&whole).parts(), expected);
    for room in 1..whole.len() {
        assert!(world().exchange(request.as_bytes(), &[], &[room]).got == whole, "{room} bytes at a time");
    }
}

#[test]
fn multiple_ranges_from_memory_and_from_windows_are_framed_alike() {
    for path in ["/middle.txt", "/one-window.bin"] {
        let got =
            world().ask(format!("GET {path} HTTP/1.1\r\nHost: a\r\nRange: bytes=0-0,10-19,4000-\r\n\r\n"));
        let reply = reply(&got);
        let content = text(if path == "/middle.txt" { 6_000 } else { 10_000 });
        let bodies: Vec<Vec<u8>> = reply.parts().into_iter().map(|(_, body)| body).collect();
        assert_eq!(bodies, [&content[..1], &content[10..20], &content[4000..]], "{path}");
    }
}
