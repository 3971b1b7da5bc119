//! Digests for clients who ask for them: in a field, and as files that are not there.

use super::*;
use crate::cache::{CacheLimits, PathCache};
use crate::file::File;
use crate::file::background_work::BackgroundWork;
use crate::file::digest::Digest;
use crate::file::entry::{Entry, Resource};
use crate::file::header::HeaderTemplate;
use crate::file::validators::ReprDigest;
use crate::path::SitePath;
use crate::site::fallback::{Answers, Fallback};
use crate::site::id::SiteId;
use crate::site::places::{PlaceNames, Places};
use crate::site::{Site, SiteSettings};

const WANTED: &str = "Want-Repr-Digest: sha-512=3, sha-256=1\r\n";
const FIELD: &str = "sha-256=:BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=:";

/// A world whose site tells digests. Of each file this much is known.
fn world_that_tells(repr_digest: ReprDigest) -> World {
    let mut world = world();
    world.rules().digests = true;
    world.disk.repr_digest = repr_digest;
    for path in ["/a.css", "/a.css.gz", "/real.txt", "/real.txt.sha256", "/a b.iso"] {
        world.disk.put(path, path.as_bytes());
    }
    world.disk.put_script("/a.php");
    world
}

fn ask(world: &mut World, method: &str, path: &str, fields: &str) -> Reply {
    let head: &[usize] = if method == "HEAD" { &[0] } else { &[] };
    replies(&world.ask(format!("{method} {path} HTTP/1.1\r\nHost: a\r\n{fields}\r\n")), head).remove(0)
}

/// What was asked of the background threads since the last look.
fn taken(world: &mut World) -> Vec<Digest> {
    let work = world.tally.background.drain(..);
    work.filter_map(|work| if let BackgroundWork::Digest(digest) = work { Some(digest) } else { None })
        .collect()
}

fn wanted(site: SiteId, path: SitePath<'static>) -> Digest {
    Digest { site, path, entry: Entry::new(Resource::Missing, 0).into() }
}

#[test]
fn each_response_about_a_representation_has_its_digest_for_those_who_want_it() {
    let world = &mut world_that_tells(ReprDigest::Known([7; 32]));
    for (method, path, fields, status, has_digest) in [
        ("GET", "/small.txt", "", 200, true),
        ("HEAD", "/small.txt", "", 200, true),
        ("GET", "/large.bin", "", 200, true),
        ("GET", "/large.bin", "Range: bytes=5-9\r\n", 206, true),
        ("GET", "/large.bin", "Range: bytes=5-9,20-\r\n", 206, true),
        ("GET", "/a.css", "Accept-Encoding: gzip\r\n", 200, true),
        ("GET", "/large.bin", "Range: bytes=99999999-\r\n", 416, false),
        ("GET", "/small.txt", "If-None-Match: *\r\n", 304, false),
        ("GET", "/none", "", 404, false),
        ("GET", "/folder/", "", 200, false),
    ] {
        let reply = ask(world, method, path, &format!("{fields}{WANTED}"));
        assert_eq!(
            (reply.status, reply.field("Repr-Digest")),
            (status, has_digest.then_some(FIELD)),
            "{path} {fields}"
        );
        assert_eq!(ask(world, method, path, fields).field("Repr-Digest"), None, "{path} {fields}");
    }
    assert_eq!(taken(world), [], "all are known");
    world.rules().digests = false;
    assert_eq!(ask(world, "GET", "/small.txt", WANTED).field("Repr-Digest"), None);
}

#[test]
fn no_response_waits_for_a_digest_and_the_next_one_has_it() {
    let world = &mut world_that_tells(ReprDigest::Unknown);
    assert_eq!(ask(world, "GET", "/large.bin", "").status, 200);
    assert_eq!(taken(world), [], "nobody wants it");
    let path = SitePath::parse(b"/large.bin").unwrap();
    let wanted = wanted(world.site().id, path);
    for _ in 0..2 {
        assert_eq!(ask(world, "GET", "/large.bin", WANTED).field("Repr-Digest"), None);
        let early = ask(world, "GET", "/large.bin.sha256", "");
        assert_eq!((early.status, early.field("Retry-After")), (503, Some("1")));
    }
    assert_eq!(taken(world), std::slice::from_ref(&wanted), "it is asked for once in a while");
    let files = world.server.to_digest(&wanted, &world.now);
    let digested = File::clone(&files[0]).with_digest([7; 32], &HeaderTemplate::default());
    world.server.cache_digested(&wanted, digested.into());
    world.local = Some(LocalCache::new(1 << 20));
    assert_eq!(ask(world, "GET", "/large.bin", WANTED).field("Repr-Digest"), Some(FIELD));
    assert_eq!(ask(world, "GET", "/large.bin.sha256", "").status, 200);
}

#[test]
fn what_no_cache_holds_is_digested_too() {
    let world = &mut world_that_tells(ReprDigest::Unknown);
    let limits =
        CacheLimits { entries_max: 0, bytes_max: 0, descriptors_max: 0, threads: 1, local_caches: 0 };
    world.server.paths = PathCache::new(limits).into();
    assert_eq!(ask(world, "GET", "/large.bin.sha256", "").status, 503);
    let wanted = taken(world);
    assert_eq!(world.server.to_digest(&wanted[0], &world.now).len(), 1);
}

#[test]
fn a_digest_is_a_file_where_there_is_none() {
    let world = &mut world_that_tells(ReprDigest::Known([7; 32]));
    let text = format!("{}  a b.iso\n", "07".repeat(32));
    let reply = ask(world, "GET", "/a%20b.iso.sha256", "");
    assert_eq!((reply.status, reply.body), (200, text.as_bytes().to_vec()));
    assert_eq!(reply.head.matches("text/plain").count(), 1);
    let tag = ask(world, "HEAD", "/a%20b.iso.sha256", "").field("ETag").expect("it has a tag").to_owned();
    assert_eq!(ask(world, "GET", "/a%20b.iso.sha256", &format!("If-None-Match: {tag}\r\n")).status, 304);
    let part = ask(world, "GET", "/a%20b.iso.sha256", "Range: bytes=64-\r\n");
    assert_eq!((part.status, part.body), (206, b"  a b.iso\n".to_vec()));
    assert_eq!(ask(world, "GET", "/real.txt.sha256", "").body, b"/real.txt.sha256");
    for path in [
        "/none.sha256",
        "/.sha256",
        "/folder.sha256",
        "/folder/.sha256",
        "/a.php.sha256",
        "/closed.sha256",
        "/small.txt.sha256/",
        "/small.txt.SHA256",
        "/small.txt.sha256.sha256",
    ] {
        for _ in 0..2 {
            assert_eq!(ask(world, "GET", path, "").status, 404, "{path}");
        }
    }
    world.rules().digests = false;
    assert_eq!(ask(world, "GET", "/a%20b.iso.sha256", "").status, 404);
}

/// The digest's own name belongs to the site.
#[test]
fn the_place_of_the_file_says_whether_it_has_a_digest() {
    let site = |digests| SiteSettings { digests, ..SiteSettings::default() };
    let internal = SiteSettings { internal: true, ..site(true) };
    for (of_site, of_place, status) in [
        (site(true), site(true), 200),
        (site(false), site(true), 200),
        (site(true), site(false), 404),
        (site(true), internal, 404),
    ] {
        for place in ["/page.html", "*.html"] {
            let mut world = ways_around::world_of_rules(of_site.clone(), place, of_place.clone());
            for _ in 0..2 {
                assert_eq!(ask(&mut world, "GET", "/page.html.sha256", "").status, status, "{of_place:?}");
            }
        }
    }
}

/// It may have another folder than the digest's name.
#[test]
fn a_file_is_looked_for_in_the_folder_of_its_place() {
    let world = &mut world_that_tells(ReprDigest::Unknown);
    let names = PlaceNames::new([], [], [b".iso"[..].into()]);
    let place = Site { id: SiteId(1), settings: Arc::clone(&world.site().settings), ..Site::default() };
    world.site().generation.set(1);
    world.disk.generations.insert(SiteId(0), 1);
    world.site().places = Some(Places::new(Arc::new(names), vec![Arc::new(place)]));
    assert_eq!(ask(world, "GET", "/a%20b.iso.sha256", "").status, 503);
    let path = SitePath::parse(b"/a b.iso").unwrap();
    assert_eq!(taken(world), [wanted(SiteId(1), path)]);
}

/// Where the file itself is found.
#[test]
fn a_file_of_a_next_root_has_its_digest() {
    for (digest, status) in [(ReprDigest::Known([7; 32]), 200), (ReprDigest::Unknown, 503)] {
        let world = &mut world_that_tells(digest);
        let settings = Arc::clone(&world.site().settings);
        world.site().next_root = Some(Arc::new(Site { id: SiteId(1), settings, ..Site::default() }));
        world.site().generation.set(1);
        world.disk.generations.insert(SiteId(0), 1);
        world.disk.empty = Some(SiteId(0));
        for jobs in [Jobs::AtOnce, Jobs::AtOnceOrLater] {
            world.jobs = jobs;
            assert_eq!(ask(world, "GET", "/a%20b.iso.sha256", "").status, status);
            assert_eq!(ask(world, "GET", "/none.iso.sha256", "").status, 404);
            let path = SitePath::parse(b"/a b.iso").unwrap();
            let expected = (status == 503).then(|| wanted(SiteId(1), path));
            assert_eq!(taken(world), Vec::from_iter(expected));
        }
    }
}

#[test]
fn what_is_no_digest_goes_to_the_fallback() {
    let world = &mut world_that_tells(ReprDigest::Known([7; 32]));
    let fallback = SitePath::parse(b"/small.txt").unwrap().into_owned();
    world.rules().fallback = Some(Fallback::new(fallback, Answers::All));
    for jobs in [Jobs::AtOnce, Jobs::AtOnceOrLater] {
        world.jobs = jobs;
        assert_eq!(ask(world, "GET", "/none.sha256", "").body, text(100));
        assert_eq!(ask(world, "GET", "/a%20b.iso.sha256", "").body.len(), 64 + 2 + 8);
    }
    world.disk.repr_digest = ReprDigest::Off;
    assert_eq!(ask(world, "GET", "/real.txt.sha256.sha256", "").body, text(100), "nobody can make it");
}

#[test]
fn a_digest_that_nobody_can_make_is_not_there() {
    let world = &mut world_that_tells(ReprDigest::Off);
    assert_eq!(ask(world, "GET", "/small.txt.sha256", "").status, 404);
    assert_eq!(ask(world, "GET", "/small.txt", WANTED).field("Repr-Digest"), None);
    assert_eq!(taken(world), []);
}
