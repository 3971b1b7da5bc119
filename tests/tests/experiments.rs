//! The switches for experiments: whatever they take away, clients get the same bytes; and they do take it away.

#![forbid(unsafe_code)]

use std::fs;

use flash_tests::{Server, site};
use tempfile::TempDir;

/// A file for the heap, one for a snapshot, one for neither, and an empty one.
const SIZES: [(&str, usize); 4] = [("small", 1000), ("middle", 600_000), ("large", 5_000_001), ("empty", 0)];

fn make_site() -> TempDir {
    let folder = TempDir::new().unwrap();
    for (name, size) in SIZES {
        site::write(&folder.path().join(name), &site::pattern(size));
    }
    folder
}

/// Asks for everything twice, warm the second time. What the server says at its end.
fn serve_all(site: &TempDir, flags: &[&str]) -> String {
    let server = Server::start("amped", site.path(), flags);
    for _ in 0..2 {
        for (name, _) in SIZES {
            let bytes = fs::read(site.path().join(name)).unwrap();
            let reply = server.get(&format!("/{name}"));
            assert!(reply.status == 200 && reply.body == bytes, "{flags:?}: /{name}");
            if bytes.len() > 1000 {
                let range = "Range: bytes=500-599999\r\nConnection: close\r\n\r\n";
                let request = format!("GET /{name} HTTP/1.1\r\nHost: h\r\n{range}");
                let reply = flash_tests::reply::only(&server.raw(request.as_bytes()));
                assert!(reply.status == 206 && reply.body == bytes[500..600_000], "{flags:?}: /{name}");
            }
        }
        assert_eq!(server.get("/missing").status, 404, "{flags:?}");
    }
    server.stop()
}

fn count(said: &str, name: &str) -> u64 {
    let value = said.split(&format!(" {name}=")).nth(1).and_then(|rest| rest.split_whitespace().next());
    value.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no {name}: {said}"))
}

#[test]
fn the_bytes_are_the_same_with_every_switch() {
    let site = make_site();
    let switches = [
        "--file-cache memory",
        "--file-cache descriptor",
        "--file-cache mapped",
        "--file-cache off",
        "--file-cache descriptor --residency assumed",
        "--file-cache mapped --residency assumed",
        "--path-cache 0",
        "--revalidate 0ms",
        "--header-cache off",
        "--header-padding on",
        "--offload always",
        "--offload always --file-cache mapped",
        "--offload not-opening",
        "--path-cache 0 --header-cache off --file-cache off",
        "--system-calls portable",
        "--system-calls portable --file-cache descriptor",
        "--system-calls portable --file-cache off",
        "--system-calls portable --helpers process",
        "--system-calls portable+mincore --file-cache descriptor",
        "--system-calls portable+mincore --file-cache mapped",
        "--system-calls portable+mincore+sendfile --file-cache descriptor --helpers process",
        "--system-calls portable+cachestat --file-cache descriptor",
        "--system-calls portable+memfd+statx",
        "--system-calls portable+openat2",
        "--system-calls portable+openat2+resolve-cached --helpers process",
        "--system-calls portable+preadv2+read-now",
    ];
    for switch in switches {
        let flags: Vec<&str> = switch.split_whitespace().collect();
        serve_all(&site, &flags);
    }
}

#[test]
fn what_goes_to_helpers_is_what_was_asked_for() {
    let site = make_site();
    let usual = serve_all(&site, &["--zero-copy", "on"]);
    let always = serve_all(&site, &["--offload", "always", "--zero-copy", "on"]);
    assert!(count(&always, "helper_jobs") > count(&usual, "helper_jobs") + 8, "{always}\n{usual}");
    // Snapshots are not for a loop; with descriptors, and with the files in the page cache, nothing is left to help with.
    let opening = serve_all(&site, &["--offload", "not-opening", "--file-cache", "descriptor"]);
    assert_eq!(count(&opening, "helper_jobs"), 0, "{opening}");
}

#[test]
fn a_file_that_shrinks_under_its_map_ends_its_connection_and_nothing_else() {
    let site = make_site();
    let flags = ["--file-cache", "mapped", "--residency", "assumed", "--revalidate", "100s"];
    let server = Server::start("amped", site.path(), &flags);
    assert_eq!(server.get("/large").body.len(), 5_000_001);
    let mut client = server.connect();
    std::io::Write::write_all(&mut client, b"GET /large HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    std::thread::sleep(std::time::Duration::from_millis(100));
    fs::File::options().write(true).open(site.path().join("large")).unwrap().set_len(10).unwrap();
    assert!(flash_tests::read_all(&mut client).len() < 5_000_001);
    assert_eq!(server.get("/small").status, 200);
    server.stop();
}
