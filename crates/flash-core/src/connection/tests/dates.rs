//! Modification times beside the date of the response: RFC 9110 §8.8.2.

use super::*;

/// Seconds from the modification time of the tests' files to the clock of their world.
const AGE: u32 = 215_112_849;

fn ask(world: &mut World, path: &str, fields: &str) -> Reply {
    reply(&world.ask(format!("GET {path} HTTP/1.1\r\nHost: a\r\n{fields}\r\n")))
}

/// Files of both kinds of content, modified this many seconds after now, or before.
fn world_of_files(seconds: i64) -> World {
    let mut world = world();
    let later = u32::try_from(i64::from(AGE) + seconds).expect("a time of this century");
    world.disk.put_later("/small.txt", text(100), later);
    world.disk.put_later("/large.bin", Arc::clone(&TEXT), later);
    world
}

#[test]
fn rfc9110_8_8_2_1_nothing_was_modified_after_its_response() {
    for path in ["/small.txt", "/large.bin"] {
        for (seconds, is_now) in [(-1, false), (0, true), (1, true), (100_000, true)] {
            let mut world = world_of_files(seconds);
            let whole = ask(&mut world, path, "");
            let etag = format!("If-None-Match: {}\r\n", whole.field("ETag").unwrap());
            let all = [
                (200, whole),
                (206, ask(&mut world, path, "Range: bytes=1-2\r\n")),
                (206, ask(&mut world, path, "Range: bytes=1-2,5-6\r\n")),
                (304, ask(&mut world, path, &etag)),
            ];
            for (status, reply) in all {
                let (modified, date) = (reply.field("Last-Modified").unwrap(), reply.field("Date").unwrap());
                assert_eq!(
                    (reply.status, modified == date),
                    (status, is_now),
                    "{path}, {seconds}: {modified}"
                );
            }
        }
    }
}

#[test]
fn a_time_in_the_future_is_no_validator_and_becomes_one_when_it_has_come() {
    let mut world = world_of_files(2);
    let modified = ask(&mut world, "/small.txt", "").field("Last-Modified").unwrap().to_owned();
    let since = format!("If-Modified-Since: {modified}\r\n");
    world.now.advance(world.now.us + 1_000_000);
    assert_eq!(ask(&mut world, "/small.txt", &since).status, 200);
    world.now.advance(world.now.us + 9_000_000);
    let modified = ask(&mut world, "/small.txt", "").field("Last-Modified").unwrap().to_owned();
    let range = format!("Range: bytes=1-2\r\nIf-Range: {modified}\r\n");
    assert_eq!(ask(&mut world, "/small.txt", &range).status, 206);
}

#[test]
fn rfc9110_13_1_5_within_its_second_a_date_does_not_hold_for_a_range() {
    let mut world = world_of_files(0);
    let reply = ask(&mut world, "/large.bin", "");
    let (modified, etag) = (reply.field("Last-Modified").unwrap(), reply.field("ETag").unwrap());
    let by_date = format!("Range: bytes=1-2\r\nIf-Range: {modified}\r\n");
    let by_tag = format!("Range: bytes=1-2\r\nIf-Range: {etag}\r\n");
    assert_eq!(ask(&mut world, "/large.bin", &by_date).status, 200);
    assert_eq!(ask(&mut world, "/large.bin", &by_tag).status, 206);
    world.now.advance(world.now.us + 1_000_000);
    assert_eq!(ask(&mut world, "/large.bin", &by_date).status, 206);
}
