//! Finding files: what the caches keep and for how long, and how failures are answered.

use super::*;

#[test]
fn a_second_request_asks_nobody() {
    let mut world = world();
    for _ in 0..3 {
        assert_eq!(reply(&world.ask(get("/small.txt"))).status, 200);
    }
    assert_eq!(world.disk.done["find"], 1);
}

/// A copy is worth it from the second request on. It is made when the first look is not too young.
#[test]
fn a_file_that_is_requested_again_may_get_a_copy_before_its_entry_is_due() {
    let mut world = world();
    let mut client = world.connect();
    let mut finds_after_ms = |ms| {
        world.pass_ms(&mut client, ms);
        assert_eq!(reply(&world.ask(get("/one-window.bin"))).status, 200);
        world.disk.done["find"]
    };
    assert_eq!([0, 99].map(&mut finds_after_ms), [1, 1]);
    assert_eq!([1, 99, 1].map(&mut finds_after_ms), [2, 2, 3], "the disk has none to give");
    world.server.settings.copies_content = false;
    assert_eq!(reply(&world.ask(get("/one-window.bin"))).status, 200);
    world.pass_ms(&mut client, 100);
    assert_eq!(world.disk.done["find"], 3);
}

/// A missing name gets an entry at its second request. Otherwise made-up names would evict useful entries.
#[test]
fn a_missing_name_is_remembered_when_it_is_asked_for_again() {
    let mut world = world();
    for _ in 0..4 {
        assert_eq!(reply(&world.ask(get("/missing"))).status, 404);
    }
    assert_eq!(world.disk.done["find"], 2);
}

#[test]
fn a_flood_of_made_up_names_evicts_nothing() {
    let mut world = world();
    let names: Vec<&'static str> =
        (0..500).map(|number| -> &'static str { format!("/visited-{number}").leak() }).collect();
    for (number, name) in names.iter().enumerate() {
        world.disk.put(name, text(100));
        assert_eq!(reply(&world.ask(get(name))).status, 200);
        for made_up in 0..10 {
            assert_eq!(reply(&world.ask(get(&format!("/{number}-{made_up}")))).status, 404);
        }
    }
    let before = world.disk.done["find"];
    names.iter().for_each(|name| assert_eq!(reply(&world.ask(get(name))).status, 200));
    assert_eq!(world.disk.done["find"] - before, 0, "of {} were looked for once more", names.len());
}

#[test]
fn one_of_many_looks_again_after_a_while() {
    let mut world = world();
    let mut client = world.connect();
    world.receive(&mut client, get("/small.txt").as_bytes());
    world.pass_ms(&mut client, 999);
    world.ask(get("/small.txt"));
    assert_eq!(world.disk.done["find"], 1);
    world.pass_ms(&mut client, 1);
    world.jobs = Jobs::Later;
    assert_eq!(world.receive(&mut client, get("/small.txt").as_bytes()), Waits::ForJob);
    let mut other = world.connect();
    assert_eq!(
        world.receive(&mut other, get("/small.txt").as_bytes()),
        Waits::ForBytes,
        "the old answer serves"
    );
    world.complete(&mut client);
    assert_eq!(world.disk.done["find"], 2);
    assert_eq!(statuses(&client.got), [200, 200]);
}

#[test]
fn what_is_twice_as_old_as_allowed_answers_nobody_before_it_is_looked_at() {
    let mut world = world();
    world.ask(get("/small.txt"));
    let (mut one, mut other) = (world.connect(), world.connect());
    world.pass_ms(&mut one, 1_999);
    world.jobs = Jobs::Later;
    assert_eq!(world.receive(&mut one, get("/small.txt").as_bytes()), Waits::ForJob, "it has it looked at");
    assert_eq!(world.receive(&mut other, get("/small.txt").as_bytes()), Waits::ForBytes);
    world.pass_ms(&mut other, 1);
    assert_eq!(
        world.receive(&mut other, get("/small.txt").as_bytes()),
        Waits::ForJob,
        "it is too old by now"
    );
    world.complete(&mut one);
    world.complete(&mut other);
    assert_eq!((statuses(&one.got), statuses(&other.got)), (vec![200], vec![200, 200]));
}

#[test]
fn a_disk_that_does_not_answer_is_answered_for_with_the_age() {
    for (failure, status, age) in [
        (Failure::DeviceDown, 200, Some("7")),
        (Failure::Broken, 200, Some("7")),
        (Failure::Overloaded, 503, None),
        (Failure::TimedOut, 503, None),
    ] {
        for (path, fields) in [("/small.txt", ""), ("/small.txt", "Range: bytes=0-3\r\n"), ("/missing", "")] {
            let mut world = world();
            // A name that leads nowhere is remembered when it is asked for again.
            (0..2).for_each(|_| drop(world.ask(get(path))));
            let mut client = world.connect();
            world.disk.failure = Some(failure);
            let request = format!("GET {path} HTTP/1.1\r\nHost: h\r\n{fields}\r\n");
            world.pass_ms(&mut client, 1_500);
            let young = reply(&world.ask(&request));
            assert!(young.status != 503 && young.field("Age").is_none(), "{failure:?} {path}: {young:?}");
            world.pass_ms(&mut client, 6_000);
            let old = reply(&world.ask(&request));
            let status = if status == 200 { young.status } else { status };
            assert_eq!((old.status, old.field("Age")), (status, age), "{failure:?} {path}");
        }
    }
}

#[test]
fn found_apart_every_search_is_a_job_and_the_caches_are_asked_by_whoever_gets_it() {
    let mut world = world();
    world.local = None;
    for _ in 0..3 {
        assert_eq!(reply(&world.ask(get("/small.txt"))).status, 200);
    }
    assert_eq!(world.disk.done["find"], 1);
    let mut client = world.connect();
    world.with(&mut client, |connection, cx| connection.received(get("/small.txt").as_bytes(), cx));
    let want = world.with(&mut client, |connection, cx| connection.want(cx));
    assert!(matches!(&want, Want::Job(_, Job::Find(find)) if find.known.is_none()), "{want:?}");
    assert!(client.connection.output().is_none());
}

#[test]
fn a_replaced_file_gets_a_new_entry_and_who_has_begun_the_old_one_ends_it() {
    let mut world = world();
    let mut slow = world.connect();
    slow.socket = Socket::with_room(1_000);
    world.receive(&mut slow, get("/large.bin").as_bytes());
    let new: Vec<u8> = text(20_000).iter().rev().copied().collect();
    world.disk.put("/large.bin", new.clone());
    world.pass_ms(&mut slow, 1_000);
    assert_eq!(reply(&world.ask(get("/large.bin"))).body, new);
    assert_eq!(world.make_room(&mut slow, 1 << 30), Waits::ForBytes);
    assert_eq!(reply(&slow.got).body, text(LARGE_BYTES));
}

#[test]
fn failures_have_their_statuses_and_are_not_remembered() {
    for (failure, status) in [
        (Failure::Overloaded, 503),
        (Failure::TimedOut, 503),
        (Failure::Broken, 500),
        (Failure::NotFound, 404),
    ] {
        let mut world = world();
        world.disk.failure = Some(failure);
        let reply_then = reply(&world.ask(get("/small.txt")));
        assert_eq!(reply_then.status, status, "{failure:?}");
        assert_eq!(reply_then.field("Retry-After"), (status == 503).then_some("1"));
        world.disk.failure = None;
        assert_eq!(reply(&world.ask(get("/small.txt"))).status, 200, "{failure:?}");
    }
}

#[test]
fn hidden_and_impossible_names_need_no_disk() {
    let mut world = world();
    for (path, status) in [
        ("/.git/config", 404),
        ("/a/.b", 404),
        ("/a%2f.b", 404),
        ("/a%2f..%2f../etc", 400),
        ("/../etc", 400),
        ("/%00", 400),
        ("/%zz", 400),
    ] {
        assert_eq!(reply(&world.ask(get(path))).status, status, "{path}");
    }
    assert!(world.disk.done.is_empty());
}

#[test]
fn a_folder_without_its_slash_is_redirected_with_its_query() {
    let reply = reply(&world().ask(get("/folder?sort=size")));
    assert_eq!((reply.status, reply.field("Location")), (301, Some("/folder/?sort=size")));
}

/// A client that takes no coding costs no look for copies, and its response is the same before and after one.
#[test]
fn copies_are_looked_for_when_a_client_takes_them() {
    for local in [world().local, None] {
        let mut world = World { local, ..world() };
        world.disk.put("/page.html", *b"page");
        world.disk.put("/page.html.gz", *b"gzipped");
        let mut ask = |codings: &str| {
            let fields = format!("Host: a\r\nAccept-Encoding: {codings}\r\n");
            let reply = reply(&world.ask(format!("GET /page.html HTTP/1.1\r\n{fields}\r\n")));
            (reply, world.disk.done["find"])
        };
        let (plain, _) = ask("");
        assert_eq!((&plain.body[..], plain.field("Vary")), (&b"page"[..], Some("Accept-Encoding")));
        let mut finds = Vec::new();
        for (codings, body) in [
            ("gzip", &b"gzipped"[..]),
            ("gzip", b"gzipped"),
            ("br, gzip", b"gzipped"),
            ("br", b"page"),
            ("gzip;q=0.5, identity", b"page"),
            ("zstd, br, gzip", b"gzipped"),
            ("zstd", b"page"),
        ] {
            let (reply, found) = ask(codings);
            assert_eq!(reply.body, body, "{codings}");
            finds.push(found);
        }
        let (again, found) = ask("");
        assert_eq!((again.head, again.body, found), (plain.head, plain.body, 4));
        assert_eq!(finds, [2, 2, 3, 3, 3, 4, 4], "what was looked for once is known");
    }
}
