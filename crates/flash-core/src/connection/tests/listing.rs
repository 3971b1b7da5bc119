//! Listings are streamed: a chunk for each job, and never an empty one before the last (RFC 9112 §7.1).

use super::*;

fn links(reply: &Reply) -> Vec<String> {
    let html = String::from_utf8(reply.body.clone()).expect("listings are UTF-8");
    assert!(html.starts_with("<!doctype html>") && html.ends_with("</html>\n"), "{html}");
    html.split("<a href=\"./")
        .skip(1)
        .map(|link| link[..link.find('"').expect("a quote")].to_owned())
        .collect()
}

#[test]
fn a_listing_leaves_job_by_job() {
    let mut world = world();
    let mut client = world.connect();
    assert_eq!(world.receive(&mut client, get("/folder/").as_bytes()), Waits::ForJob);
    assert!(client.got.ends_with(b"\r\n\r\n"), "its head goes first");
    let head_bytes = client.got.len();
    assert_eq!(world.complete(&mut client), Waits::ForJob);
    let half = client.got.len();
    assert!(half > head_bytes && client.got.ends_with(b"</tr>\n\r\n"), "then a chunk of whole rows");
    assert_eq!(world.complete(&mut client), Waits::ForBytes);
    let reply = reply(&client.got);
    assert_eq!(reply.field("Transfer-Encoding"), Some("chunked"));
    assert_eq!(links(&reply), ["0-0.txt", "0-1.txt", "0-2.txt", "1-0.txt", "1-1.txt"]);
}

/// A part of a folder may have vanished since its names were read. An empty chunk would end the body there, and the
/// rest of it would be taken for the next response.
#[test]
fn a_job_without_rows_does_not_end_the_body() {
    let mut world = world();
    world.disk.put_folder("/thin/", &[2, 0, 0, 1]);
    let got = world.ask(get("/thin/") + &get("/small.txt"));
    let all = replies(&got, &[]);
    assert_eq!(all.len(), 2);
    assert_eq!(links(&all[0]), ["0-0.txt", "0-1.txt", "3-0.txt"]);
    assert_eq!(all[1].body, text(100));
}

#[test]
fn an_empty_folder_and_one_whose_rows_have_all_vanished() {
    let mut world = world();
    world.disk.put_folder("/empty/", &[0]);
    world.disk.put_folder("/gone/", &[0, 0, 0]);
    for path in ["/empty/", "/gone/"] {
        assert_eq!(links(&reply(&world.ask(get(path)))), [""; 0]);
    }
}

#[test]
fn http_1_0_gets_it_without_chunks_until_the_end() {
    let mut world = world();
    let mut client = world.connect();
    world.receive(&mut client, b"GET /folder/ HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    assert_eq!(world.complete_all(&mut client), Waits::Closed);
    let reply = reply(&client.got);
    assert_eq!((reply.field("Transfer-Encoding"), reply.field("Connection")), (None, Some("close")));
    assert_eq!(links(&reply).len(), 5);
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
fn a_folder_that_cannot_be_read_to_its_end_ends_the_connection() {
    let mut world = world();
    let mut client = world.connect();
    world.receive(&mut client, get("/folder/").as_bytes());
    world.complete(&mut client);
    assert_eq!(world.fail(&mut client, Failure::Broken), Waits::Closed);
    assert!(!client.got.ends_with(b"0\r\n\r\n"), "its end is not claimed to have come");
}

#[test]
fn without_listings_a_folder_is_forbidden() {
    let mut world = world();
    world.site.settings.list = false;
    assert_eq!(reply(&world.ask(get("/folder/"))).status, 403);
}
