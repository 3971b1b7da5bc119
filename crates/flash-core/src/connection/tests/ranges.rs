//! Parts of files that have several representations: all parts of one download come from the same.

use super::*;

/// A style sheet, and its copies in two codings.
fn world_of_copies() -> World {
    let mut world = world();
    for path in ["/a.css", "/a.css.gz", "/a.css.br"] {
        world.disk.put(path, format!("the bytes of {path}").into_bytes());
    }
    world
}

fn ask(world: &mut World, fields: &str) -> Reply {
    reply(&world.ask(format!("GET /a.css HTTP/1.1\r\nHost: a\r\n{fields}\r\n")))
}

fn tag(world: &mut World, codings: &str) -> String {
    ask(world, &format!("Accept-Encoding: {codings}\r\n")).field("ETag").unwrap().to_owned()
}

/// The status and the body, which tells whose bytes they are.
fn part(world: &mut World, fields: &str) -> (u16, String) {
    let reply = ask(world, &format!("Range: bytes=13-\r\n{fields}"));
    assert_eq!(reply.field("Vary"), Some("Accept-Encoding"), "{fields}");
    (reply.status, String::from_utf8(reply.body).unwrap())
}

fn partial(of: &str) -> (u16, String) {
    (206, of.to_owned())
}

#[test]
fn a_part_is_of_the_file_itself_whatever_codings_the_client_takes() {
    let world = &mut world_of_copies();
    for codings in ["", "gzip", "br, gzip", "identity;q=0, gzip"] {
        assert_eq!(part(world, &format!("Accept-Encoding: {codings}\r\n")), partial("/a.css"), "{codings}");
    }
    let many = ask(world, "Accept-Encoding: gzip\r\nRange: bytes=0-1,13-14\r\n");
    assert_eq!(many.parts().iter().map(|(_, body)| &body[..]).collect::<Vec<_>>(), [b"th", b"/a"]);
    assert_eq!(many.field("Content-Encoding"), None);
}

#[test]
fn a_client_that_names_its_representation_gets_parts_of_that() {
    let world = &mut world_of_copies();
    let (own, gzip, br) = (tag(world, ""), tag(world, "gzip"), tag(world, "br"));
    for condition in ["If-Range", "If-Match"] {
        let mut of = |tag: &str, codings: &str| {
            part(world, &format!("{condition}: {tag}\r\nAccept-Encoding: {codings}\r\n"))
        };
        assert_eq!(of(&gzip, "gzip"), partial("/a.css.gz"), "{condition}");
        assert_eq!(of(&br, "gzip, br"), partial("/a.css.br"), "{condition}");
        assert_eq!(of(&own, "gzip, br"), partial("/a.css"), "{condition}");
    }
    // A copy that the client does not take is none that it has.
    let whole = (200, "the bytes of /a.css".to_owned());
    assert_eq!(part(world, &format!("If-Range: {gzip}\r\n")), whole);
    assert_eq!(part(world, "If-Range: \"other\"\r\nAccept-Encoding: gzip\r\n"), whole);
    assert_eq!(part(world, "If-Match: *\r\nAccept-Encoding: gzip\r\n"), partial("/a.css"));
    let other = ask(world, "Range: bytes=1-\r\nIf-Match: \"other\"\r\nAccept-Encoding: gzip\r\n");
    assert_eq!(other.status, 412);
}

#[test]
fn a_date_names_no_representation() {
    let world = &mut world_of_copies();
    let modified = ask(world, "").field("Last-Modified").unwrap().to_owned();
    let date = format!("If-Range: {modified}\r\n");
    assert_eq!(part(world, &date), partial("/a.css"));
    let whole = (200, "the bytes of /a.css".to_owned());
    assert_eq!(part(world, &format!("{date}Accept-Encoding: gzip\r\n")), whole);
    let alone = format!(
        "GET /large.bin HTTP/1.1\r\nHost: a\r\nRange: bytes=1-2\r\n{date}Accept-Encoding: gzip\r\n\r\n"
    );
    assert_eq!(reply(&world.ask(alone)).status, 206);
}
