//! Listings are sent page by page. Their length is sent if all pages are in memory. No chunk before the last is empty (RFC
//! 9112 §7.1).

use super::*;
use crate::job::{Done, List, Listed};
use crate::listing::cache::ListingCache;
use crate::site::Site;
use crate::site::id::SiteId;

fn links(reply: &Reply) -> Vec<String> {
    let html = String::from_utf8(reply.body.clone()).expect("listings are UTF-8");
    assert!(html.starts_with("<!doctype html>") && html.ends_with("</html>\n"), "{html}");
    html.split("<tr><td><a href=\"")
        .skip(1)
        .filter(|link| !link.starts_with("../"))
        .map(|link| link[..link.find('"').expect("a quote")].to_owned())
        .collect()
}

/// A world whose listings take as many jobs as possible, each asked for by the connection.
fn slow_world() -> World {
    let mut world = world();
    world.disk.short_steps = true;
    world
}

/// Does jobs until the response has begun.
fn complete_head(world: &mut World, client: &mut Client) -> Waits {
    let mut waits = world.turn(client);
    while client.got.is_empty() {
        waits = world.complete(client);
    }
    waits
}

#[test]
fn a_listing_that_is_read_at_once_is_sent_with_its_length() {
    let mut world = world();
    let mut client = world.connect();
    assert_eq!(world.receive(&mut client, get("/folder/").as_bytes()), Waits::ForJob);
    assert!(client.got.is_empty(), "its head waits for the folder");
    assert_eq!(world.complete(&mut client), Waits::ForBytes);
    let reply = reply(&client.got);
    assert_eq!(reply.field("Transfer-Encoding"), None);
    assert_eq!(reply.field("Content-Length"), Some(&*reply.body.len().to_string()));
    assert_eq!(links(&reply), ["0-0.txt", "0-1.txt", "0-2.txt", "1-0.txt", "1-1.txt"]);
    assert_eq!(world.disk.done["list"], 1);
}

#[test]
fn a_long_listing_leaves_page_by_page() {
    let mut world = slow_world();
    let mut client = world.connect();
    assert_eq!(world.receive(&mut client, get("/folder/").as_bytes()), Waits::ForJob);
    assert_eq!(complete_head(&mut world, &mut client), Waits::ForJob);
    assert!(world.disk.done["list"] > 4, "names come in several jobs: {:?}", world.disk.done);
    let half = client.got.len();
    assert!(client.got.ends_with(b"</tr>\n\r\n"), "then a chunk of whole rows");
    assert_eq!(world.complete_all(&mut client), Waits::ForBytes);
    assert!(client.got.len() > half);
    let reply = reply(&client.got);
    assert_eq!(reply.field("Transfer-Encoding"), Some("chunked"));
    assert_eq!(links(&reply), ["0-0.txt", "0-1.txt", "0-2.txt", "1-0.txt", "1-1.txt"]);
}

/// Its generation says nothing about the first root's.
#[test]
fn a_folder_of_a_next_root_is_listed_after_a_deploy() {
    let mut world = world();
    let next = Site { id: SiteId(1), settings: Arc::clone(&world.site().settings), ..Site::default() };
    world.site().next_root = Some(Arc::new(next));
    world.site().generation.set(1);
    world.disk.generations.insert(SiteId(0), 1);
    world.disk.empty = Some(SiteId(0));
    for _ in 0..2 {
        assert_eq!(links(&reply(&world.ask(get("/folder/")))).len(), 5);
    }
}

/// A request that finds only what is of an earlier root does not look for ever.
#[test]
fn what_is_always_of_an_earlier_root_ends_the_request() {
    for generation in [0, 1] {
        let mut world = world();
        world.site().generation.set(1);
        world.disk.generations.insert(SiteId(0), generation);
        assert_eq!(reply(&world.ask(get("/folder/"))).status, 503, "{generation}");
    }
}

/// The second request finds all pages. The first of them was sent in chunks.
#[test]
fn who_comes_later_needs_no_job() {
    let mut world = slow_world();
    let mut first = world.connect();
    world.receive(&mut first, get("/folder/").as_bytes());
    world.complete_all(&mut first);
    let jobs = world.disk.done["list"];
    let second = reply(&world.ask(get("/folder/")));
    assert_eq!(world.disk.done["list"], jobs);
    assert_eq!(second.field("Content-Length"), Some(&*second.body.len().to_string()));
    assert_eq!(second.body, reply(&first.got).body);
    // A second and more later it is read again; in another order at any time.
    world.now.advance(world.now.us + 1_001_000);
    world.ask(get("/folder/"));
    let again = world.disk.done["list"];
    assert!(again > jobs);
    world.ask(get("/folder/?order=desc"));
    assert!(world.disk.done["list"] > again);
}

#[test]
fn requests_that_come_meanwhile_join_it_and_those_that_leave_end_it() {
    let mut world = slow_world();
    world.disk.listings = ListingCache::new(0, 1 << 20);
    let mut clients = [(); 3].map(|()| world.connect());
    for client in &mut clients {
        world.receive(client, get("/folder/").as_bytes());
        world.complete(client);
        world.complete(client);
    }
    // Each of them has the listing one step further, until they are done.
    while clients.iter().any(|client| client.pending.is_some()) {
        for client in clients.iter_mut().filter(|client| client.pending.is_some()) {
            world.complete(client);
        }
    }
    for client in &clients {
        assert_eq!(links(&reply(&client.got)).len(), 5);
    }
    // What one request alone takes, and a last page for each.
    let mut alone = slow_world();
    let mut client = alone.connect();
    alone.receive(&mut client, get("/folder/").as_bytes());
    alone.complete_all(&mut client);
    assert!(world.disk.done["list"] <= alone.disk.done["list"] + 4, "{:?}", world.disk.done);
    assert_eq!(world.disk.open_files(), 0);

    let mut client = world.connect();
    world.receive(&mut client, get("/folder/").as_bytes());
    world.complete(&mut client);
    assert_eq!(world.disk.open_files(), 1, "the folder is open while its names are read");
    world.with(&mut client, |connection, cx| connection.abort(cx));
    client.pending = None;
    assert_eq!(world.disk.open_files(), 0, "nobody waits for it");
}

/// A part of a folder may have vanished since its names were read. An empty chunk would end the body there, and the client
/// would read the rest as the next response.
#[test]
fn a_page_without_rows_does_not_end_the_body() {
    for mut world in [world(), slow_world()] {
        world.disk.put_folder("/thin/", &[2, 0, 0, 1]);
        for _ in 0..2 {
            let mut client = world.connect();
            world.receive(&mut client, (get("/thin/") + &get("/small.txt")).as_bytes());
            world.complete_all(&mut client);
            let all = replies(&client.got, &[]);
            assert_eq!(all.len(), 2);
            assert_eq!(links(&all[0]), ["0-0.txt", "0-1.txt", "3-0.txt"]);
            assert_eq!(all[1].body, text(100));
        }
    }
}

#[test]
fn an_empty_folder_and_one_whose_rows_have_all_vanished() {
    for mut world in [world(), slow_world()] {
        world.disk.put_folder("/empty/", &[0]);
        world.disk.put_folder("/gone/", &[0, 0, 0]);
        for path in ["/empty/", "/gone/"] {
            assert_eq!(links(&reply(&world.ask(get(path)))), [""; 0]);
        }
    }
}

#[test]
fn http_1_0_gets_a_length_or_the_end_of_the_connection() {
    const REQUEST: &[u8] = b"GET /folder/ HTTP/1.0\r\nConnection: keep-alive\r\n\r\n";
    let mut world = slow_world();
    let mut client = world.connect();
    world.receive(&mut client, REQUEST);
    assert_eq!(world.complete_all(&mut client), Waits::Closed);
    let long = reply(&client.got);
    assert_eq!((long.field("Transfer-Encoding"), long.field("Connection")), (None, Some("close")));
    assert_eq!((long.field("Content-Length"), links(&long).len()), (None, 5));
    let mut client = world.connect();
    assert_eq!(world.receive(&mut client, REQUEST), Waits::ForBytes, "it is all there now");
    let short = reply(&client.got);
    assert_eq!(short.field("Connection"), Some("keep-alive"));
    assert_eq!(short.body, long.body);
}

#[test]
fn head_lists_nothing() {
    let mut world = world();
    let mut client = world.connect();
    assert_eq!(world.receive(&mut client, b"HEAD /folder/ HTTP/1.1\r\nHost: a\r\n\r\n"), Waits::ForBytes);
    assert_eq!(replies(&client.got, &[0])[0].status, 200);
    assert_eq!(world.disk.done.get("list"), None);
}

#[test]
fn a_folder_that_cannot_be_read_is_an_error_and_after_the_head_the_end() {
    for (failure, status) in [(Failure::NotFound, 404), (Failure::Broken, 500), (Failure::OverBudget, 503)] {
        let mut world = slow_world();
        let mut client = world.connect();
        world.receive(&mut client, get("/folder/").as_bytes());
        world.complete(&mut client);
        assert_eq!(world.fail(&mut client, failure), Waits::ForBytes);
        let reply = reply(&client.got);
        assert_eq!((reply.status, reply.field("Retry-After").is_some()), (status, status == 503));
        let mut client = world.connect();
        world.receive(&mut client, get("/folder/").as_bytes());
        complete_head(&mut world, &mut client);
        assert_eq!(world.fail(&mut client, failure), Waits::Closed);
        assert!(!client.got.ends_with(b"0\r\n\r\n"), "its end is not claimed to have come");
    }
}

/// Each step has the deadline of a job. All steps together may take longer.
#[test]
fn a_step_that_takes_too_long_is_late() {
    let mut world = slow_world();
    let mut client = world.connect();
    world.receive(&mut client, get("/folder/").as_bytes());
    for _ in 0..3 {
        assert_eq!(world.pass_ms(&mut client, 9_000), Waits::ForJob);
        assert_eq!(world.complete(&mut client), Waits::ForJob);
    }
    world.pass_ms(&mut client, 10_001);
    assert_eq!(reply(&client.got).status, 503);
}

/// Another helper does not return from a call for the listing, so no step makes progress.
#[test]
fn a_listing_that_stands_still_is_late() {
    let mut world = slow_world();
    let mut client = world.connect();
    world.receive(&mut client, get("/folder/").as_bytes());
    world.complete(&mut client);
    for _ in 0..4 {
        world.now.advance(world.now.us + 2_400_000);
        let Some((id, Job::List(List { listing: Some(listing), .. }))) = client.pending.take() else {
            panic!("a step is asked for")
        };
        assert_eq!(
            world.finish(&mut client, id, Done::Listed(Listed { listing, page: None })),
            Waits::ForJob
        );
    }
    world.pass_ms(&mut client, 500);
    assert_eq!(reply(&client.got).status, 503);
}

#[test]
fn a_listing_beyond_the_budget_is_refused_and_memory_comes_back() {
    let mut world = slow_world();
    world.disk.listings = ListingCache::new(1_000, 4_000);
    assert_eq!(reply(&world.ask(get("/folder/"))).status, 503);
    world.disk.put_folder("/short/", &[5]);
    // Pages are more than what is left, so that each reader has its own.
    for _ in 0..3 {
        assert_eq!(links(&reply(&world.ask(get("/short/")))).len(), 5);
    }
    world.disk.put_folder("/empty/", &[0]);
    assert_eq!(reply(&world.ask(get("/empty/"))).status, 200, "what is kept makes room");
}

/// A slow reader holds the names, which are few bytes, and the page that it is sent.
#[test]
fn readers_at_their_own_pace_get_the_same_from_one_listing() {
    let mut world = slow_world();
    world.disk.put_folder("/many/", &[40, 0, 40, 7, 200, 200]);
    let mut clients = [(); 4].map(|()| world.connect());
    for (number, client) in clients.iter_mut().enumerate() {
        client.socket = Socket::with_room(number * 20_000);
        world.receive(client, get("/many/").as_bytes());
    }
    let mut rounds = 0;
    loop {
        let mut waiting = 0;
        for client in &mut clients {
            match world.turn(client) {
                Waits::ForJob => _ = world.complete(client),
                Waits::ForRoom => _ = world.make_room(client, 7_000),
                _ => continue,
            }
            waiting += 1;
        }
        rounds += 1;
        if rounds % 5 == 0 {
            world.disk.listings.make_room();
        }
        if waiting == 0 {
            break;
        }
    }
    let bodies = clients.map(|client| reply(&client.got).body);
    assert_eq!(bodies[0].len(), bodies.iter().map(Vec::len).min().unwrap());
    assert!(bodies.iter().all(|body| *body == bodies[0]));
}

#[test]
fn without_listings_a_folder_is_forbidden() {
    let mut world = world();
    world.rules().list = false;
    assert_eq!(reply(&world.ask(get("/folder/"))).status, 403);
}
