//! Deadlines: no client keeps a connection for longer than the settings say, and no disk keeps a client for longer.

use super::*;

#[test]
fn a_client_that_connects_and_says_nothing_is_let_go() {
    let mut world = world();
    let mut client = world.connect();
    assert_eq!(world.left_ms(&client), 10_000, "its first head is due: it is not an idle client");
    assert_eq!(world.pass_ms(&mut client, 9_999), Waits::ForBytes);
    assert_eq!(world.pass_ms(&mut client, 1), Waits::Closed);
    assert!(client.got.is_empty(), "and there is nothing to say to it");
}

#[test]
fn a_slow_head_is_answered_with_408() {
    let mut world = world();
    let mut client = world.connect();
    for byte in b"GET / HT" {
        assert_eq!(world.receive(&mut client, &[*byte]), Waits::ForBytes);
        assert_eq!(world.pass_ms(&mut client, 1_200), Waits::ForBytes, "a byte does not make it later");
    }
    world.pass_ms(&mut client, 400);
    let reply = reply(&client.got);
    assert_eq!((reply.status, reply.field("Connection")), (408, Some("close")));
    assert!(client.write_is_shut);
    assert_eq!(world.pass_ms(&mut client, 2_000), Waits::Closed);
}

#[test]
fn each_head_has_its_own_time() {
    let mut world = world();
    let mut client = world.connect();
    for _ in 0..3 {
        assert_eq!(world.receive(&mut client, b"GET /small.txt HTTP/1.1\r\n"), Waits::ForBytes);
        assert_eq!(world.pass_ms(&mut client, 9_999), Waits::ForBytes);
        assert_eq!(world.receive(&mut client, b"Host: a\r\n\r\n"), Waits::ForBytes);
        assert_eq!(world.left_ms(&client), 60_000);
    }
    assert_eq!(statuses(&client.got), [200; 3]);
}

/// A thread that does its jobs itself never waits for one.
#[test]
fn while_a_listing_is_made_no_client_is_late() {
    let mut world = world();
    (world.disk.short_steps, world.jobs, world.busy_ms) = (true, Jobs::AtOnce, 9_000);
    let mut client = world.connect();
    for _ in 0..2 {
        client.got.clear();
        world.receive(&mut client, get("/folder/").as_bytes());
        assert_eq!(reply(&client.got).status, 200);
        // What was made is too old by then.
        world.now.advance(world.now.us + 50_000_000);
    }
    assert!(world.disk.done["list"] > 2 * 7, "each took a minute: {:?}", world.disk.done);
}

#[test]
fn an_idle_connection_is_closed_without_a_word() {
    let mut world = world();
    let mut client = world.connect();
    world.receive(&mut client, get("/small.txt").as_bytes());
    let before = client.got.len();
    assert_eq!(world.pass_ms(&mut client, 59_999), Waits::ForBytes);
    assert_eq!(world.pass_ms(&mut client, 1), Waits::Closed);
    assert_eq!(client.got.len(), before);
}

#[test]
fn a_body_may_be_slow_but_not_too_slow() {
    let head = b"GET /small.txt HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n";
    let mut world = world();
    let mut client = world.connect();
    world.receive(&mut client, head);
    for _ in 0..60 {
        assert_eq!(world.pass_ms(&mut client, 1_000), Waits::ForBytes, "600 bytes a second are enough");
        world.receive(&mut client, &[b'x'; 600]);
    }
    let mut seconds = 0;
    while client.got.is_empty() {
        world.pass_ms(&mut client, 1_000);
        world.receive(&mut client, b"x");
        seconds += 1;
        assert!(seconds <= 17, "one byte a second is not, and it had earned 12 seconds besides");
    }
    assert_eq!(reply(&client.got).status, 408);
}

#[test]
fn a_reader_that_takes_nothing_is_let_go() {
    for path in ["/small.txt", "/middle.txt", "/large.bin", "/folder/"] {
        let mut world = world();
        world.jobs = Jobs::AtOnce;
        let mut client = world.connect();
        client.socket = Socket::FULL;
        assert_eq!(world.receive(&mut client, get(path).as_bytes()), Waits::ForRoom);
        assert_eq!(world.pass_ms(&mut client, 9_999), Waits::ForRoom, "{path}");
        assert_eq!(world.pass_ms(&mut client, 1), Waits::Closed, "{path}");
    }
}

/// Drivers that wait with the connection try again now and then. Each attempt verifies the window again. That is no
/// progress of the client.
#[test]
fn looking_at_a_window_again_does_not_give_a_slow_reader_more_time() {
    let mut world = world();
    world.jobs = Jobs::AtOnce;
    let mut client = world.connect();
    client.socket = Socket::with_room(1_000);
    world.receive(&mut client, get("/large.bin").as_bytes());
    for half_seconds in 1.. {
        if world.pass_ms(&mut client, 500) == Waits::Closed {
            break;
        }
        assert!(half_seconds < 41, "after 20 seconds it still has its connection");
    }
}

#[test]
fn a_reader_that_takes_a_byte_a_second_is_let_go_whatever_it_reads() {
    for path in ["/middle.txt", "/large.bin"] {
        let mut world = world();
        world.jobs = Jobs::AtOnce;
        let mut client = world.connect();
        client.socket = Socket::with_room(1_000);
        world.receive(&mut client, get(path).as_bytes());
        for seconds in 1.. {
            if world.pass_ms(&mut client, 1_000) == Waits::Closed {
                break;
            }
            world.make_room(&mut client, 1);
            assert!(seconds < 21, "{path}: after 20 seconds it still has its connection");
        }
    }
}

#[test]
fn a_reader_that_is_slow_but_steady_gets_it_all() {
    let mut world = world();
    world.jobs = Jobs::AtOnce;
    let mut client = world.connect();
    client.socket = Socket::FULL;
    let mut waits = world.receive(&mut client, get("/one-window.bin").as_bytes());
    while waits == Waits::ForRoom {
        assert_ne!(world.pass_ms(&mut client, 1_000), Waits::Closed, "600 bytes a second are enough");
        waits = world.make_room(&mut client, 600);
    }
    assert_eq!(reply(&client.got).body, text(10_000));
}

#[test]
fn a_late_find_is_answered_503_and_its_result_ignored() {
    let mut world = world();
    world.jobs = Jobs::Later;
    let mut client = world.connect();
    assert_eq!(world.receive(&mut client, get("/small.txt").as_bytes()), Waits::ForJob);
    let (id, job) = client.pending.take().expect("it is looked for");
    assert_eq!(world.left_ms(&client), 10_000);
    client.pending = Some((id, job.clone()));
    assert_eq!(world.pass_ms(&mut client, 9_999), Waits::ForJob);
    assert_eq!(world.pass_ms(&mut client, 1), Waits::Closed);
    let reply_then = reply(&client.got);
    assert_eq!((reply_then.status, reply_then.field("Retry-After")), (503, Some("1")));
    assert_eq!(reply_then.field("Connection"), Some("close"));
    let done = world.disk.help(&job);
    assert_eq!(world.finish(&mut client, id, done), Waits::Closed);
    assert_eq!(reply(&client.got).status, 503, "nothing more is said");
}

#[test]
fn a_late_window_ends_the_connection_and_its_result_is_ignored() {
    let mut world = world();
    world.disk.script([Look::Resident, Look::Absent]);
    let mut client = world.connect();
    assert_eq!(world.receive(&mut client, get("/large.bin").as_bytes()), Waits::ForJob);
    let before = client.got.len();
    let (id, job) = client.pending.clone().expect("a window is loaded");
    assert_eq!(world.pass_ms(&mut client, 9_999), Waits::ForJob);
    assert_eq!(world.pass_ms(&mut client, 1), Waits::Closed);
    let done = world.disk.help(&job);
    assert_eq!(world.finish(&mut client, id, done), Waits::Closed);
    assert_eq!(client.got.len(), before);
}

/// Bytes sent during a job do not move its deadline. The client that has read everything still gets its answer.
#[test]
fn a_late_find_behind_a_response_that_has_left_is_answered_503_too() {
    let mut world = world();
    world.ask(get("/small.txt"));
    world.jobs = Jobs::Later;
    let mut client = world.connect();
    let both = get("/small.txt") + &get("/middle.txt");
    assert_eq!(world.receive(&mut client, both.as_bytes()), Waits::ForJob);
    assert_eq!(world.pass_ms(&mut client, 9_999), Waits::ForJob);
    assert_eq!(world.pass_ms(&mut client, 1), Waits::Closed);
    assert_eq!(statuses(&client.got), [200, 503]);
}

#[test]
fn a_slow_disk_may_take_its_time_for_each_window() {
    let mut world = world();
    world.jobs = Jobs::Later;
    let mut client = world.connect();
    let mut waits = world.receive(&mut client, get("/large.bin").as_bytes());
    while waits == Waits::ForJob {
        assert_eq!(world.pass_ms(&mut client, 6_000), Waits::ForJob, "each job has the whole deadline");
        waits = world.complete(&mut client);
    }
    assert_eq!(reply(&client.got).body, text(LARGE_BYTES));
}

#[test]
fn a_deadline_that_is_not_due_does_nothing() {
    let mut world = world();
    let mut client = world.connect();
    for _ in 0..1_000 {
        assert_eq!(world.pass_ms(&mut client, 0), Waits::ForBytes);
    }
    world.receive(&mut client, get("/small.txt").as_bytes());
    assert_eq!(statuses(&client.got), [200]);
}
