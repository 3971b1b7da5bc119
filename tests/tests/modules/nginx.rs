//! What only nginx has: subrequests, filters that change the body, compressed copies, requests that follow one another.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::thread;
use std::time::Duration;

use flash_slowdisk::SlowDisk;
use flash_tests::peer::{Kind, Peer, ask};
use flash_tests::{connect, open_folder, read_all, reply, site};
use rustix::fs::{Advice, fadvise};

use super::{cold, daemon, kinds, make_site, settled, slow_site};

fn of_nginx() -> impl Iterator<Item = Kind> {
    kinds().filter(|kind| matches!(kind, Kind::Nginx(_)))
}

/// Asks, and returns the connection after the first bytes of the response.
fn begun(peer: &Peer, path: &str, fields: &str) -> (std::net::TcpStream, Vec<u8>) {
    let mut stream = connect(peer.with);
    let request = format!("GET {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n{fields}\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut first = vec![0; 300];
    let count = stream.read(&mut first).unwrap();
    first.truncate(count);
    (stream, first)
}

#[test]
fn a_folder_whose_index_is_found_on_the_disk_ends_its_request_once() {
    for kind in of_nginx() {
        let Some((_image, root)) = slow_site("") else { return };
        let beside = open_folder();
        let daemon = daemon(&root, &beside, &[]);
        let peer = kind.start(root.path(), &daemon.socket, "");
        let mut stream = connect(peer.with);
        stream.write_all(b"GET /sub/ HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
        stream.write_all(b"GET /sub/ HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").unwrap();
        let replies = reply::all(&read_all(&mut stream), |_| false);
        let bodies: Vec<&[u8]> = replies.iter().map(|reply| &reply.body[..]).collect();
        assert_eq!(bodies, [b"index", b"index"], "{kind:?}: {}", peer.said());
    }
}

#[test]
fn a_large_file_within_a_page_comes_whole_to_a_slow_client() {
    if let Some(missing) = flash_slowdisk::missing() {
        eprintln!("NOT TESTED, a slow disk cannot be mounted: {missing}");
        return;
    }
    let (behind, root, beside) = (make_site(), open_folder(), open_folder());
    let whole = site::pattern(24 << 20);
    site::write(&behind.path().join("huge"), &whole);
    site::write(&behind.path().join("page.html"), b"<!--# include virtual=\"/huge\" -->");
    let _disk = SlowDisk::mount(behind.path(), root.path(), "").unwrap();
    for kind in of_nginx() {
        let daemon = daemon(&root, &beside, &[]);
        let peer = kind.start(root.path(), &daemon.socket, "ssi on;");
        let (mut stream, mut bytes) = begun(&peer, "/page.html", "");
        // What the sockets hold is full, and more windows wait.
        thread::sleep(Duration::from_millis(500));
        bytes.extend(read_all(&mut stream));
        let reply = reply::only(&bytes);
        assert!(reply.body == whole, "{kind:?}: {} bytes: {}", reply.body.len(), peer.said());
    }
}

#[test]
fn a_compressed_response_whose_daemon_is_lost_ends_once() {
    for kind in of_nginx() {
        let was_asked = (0..10).any(|_| {
            let Some((image, root)) = slow_site("") else { return true };
            let beside = open_folder();
            let daemon = daemon(&root, &beside, &[]);
            let words = "flash_fallback block; gzip on; gzip_types *; gzip_min_length 1;";
            let peer = kind.start(root.path(), &daemon.socket, words);
            // The first window is in memory, and the next one is not. What the kernel is still reading ahead stays.
            let file = fs::File::open(root.path().join(&cold(1)[1..])).unwrap();
            drop(ask(peer.with, "GET", &cold(1), "Range: bytes=0-10\r\n"));
            thread::sleep(Duration::from_millis(100));
            fadvise(&file, 256 << 10, None, Advice::DontNeed).unwrap();
            image.disk().rule("read delay fixed:300ms").unwrap();
            let (mut stream, mut bytes) = begun(&peer, &cold(1), "Accept-Encoding: gzip\r\n");
            drop(file);
            daemon.kill();
            bytes.extend(read_all(&mut stream));
            let reply = reply::only(&bytes);
            assert_eq!(reply.field("Content-Encoding"), Some("gzip"), "{kind:?}");
            let said = peer.said();
            said.contains("it is gone") || said.contains("it takes no more questions")
        });
        assert!(was_asked, "{kind:?}: the daemon was never asked");
    }
}

#[test]
fn a_compressed_copy_that_is_older_than_its_file_or_no_file_is_not_sent() {
    let (root, beside) = (make_site(), open_folder());
    site::write(&root.path().join("page.html.gz"), b"gzipped");
    site::write(&root.path().join("a.txt.gz"), b"gzipped");
    fs::create_dir(root.path().join("middle.gz")).unwrap();
    // A moment later than its copy.
    fs::write(root.path().join("page.html"), b"changed").unwrap();
    for kind in of_nginx() {
        let daemon = daemon(&root, &beside, &[]);
        let peer = kind.start(root.path(), &daemon.socket, "flash_precompressed on;");
        for _ in 0..2 {
            for (path, coding, bytes) in
                [("/page.html", None, 7), ("/middle", None, 200_000), ("/a.txt", Some("gzip"), 7)]
            {
                let reply = ask(peer.with, "GET", path, "Accept-Encoding: gzip\r\n").unwrap();
                let got = (reply.status, reply.field("Content-Encoding"), reply.body.len());
                assert_eq!(got, (200, coding, bytes), "{kind:?} {path}: {}", peer.said());
            }
        }
    }
}

#[test]
fn a_block_within_a_location_keeps_its_handler() {
    let (root, beside) = (make_site(), open_folder());
    for kind in of_nginx() {
        let daemon = daemon(&root, &beside, &[]);
        let words = "location = /dot { if ($arg_x) { set $y 1; } empty_gif; }";
        let peer = kind.start(root.path(), &daemon.socket, words);
        for path in ["/dot", "/dot?x=1"] {
            let reply = peer.get(path);
            let got = (reply.status, reply.field("Content-Type"));
            assert_eq!(got, (200, Some("image/gif")), "{kind:?} {path}: {}", peer.said());
        }
    }
}

#[test]
fn a_block_for_some_methods_finds_files_as_its_location_does() {
    for kind in of_nginx() {
        let Some((_image, root)) = slow_site("") else { return };
        let beside = open_folder();
        let daemon = daemon(&root, &beside, &[]);
        let words = format!("location = {} {{ limit_except POST {{ allow all; }} }}", cold(3));
        let peer = kind.start(root.path(), &daemon.socket, &words);
        daemon.kill();
        assert_eq!(peer.get(&cold(3)).status, 503, "{kind:?}: the worker opens no file: {}", peer.said());
    }
}

#[test]
fn links_that_nginx_may_not_follow_are_not_followed() {
    let (root, beside) = (make_site(), open_folder());
    symlink("a.txt", root.path().join("inside")).unwrap();
    for kind in of_nginx() {
        let daemon = daemon(&root, &beside, &[]);
        let peer = kind.start(root.path(), &daemon.socket, "disable_symlinks on;");
        assert_eq!((peer.get("/inside").status, peer.get("/a.txt").status), (403, 200), "{kind:?}");
    }
}

#[test]
fn small_files_are_held_open_while_they_are_hot_and_no_change_is_missed() {
    const WORDS: &str = "open_file_cache max=100 inactive=60s; open_file_cache_valid 60s; tcp_nopush on;";
    for kind in of_nginx() {
        let (root, beside) = (make_site(), open_folder());
        let daemon = daemon(&root, &beside, &[]);
        let peer = kind.start(root.path(), &daemon.socket, WORDS);
        let holds = |name: &str| {
            let of = |pid| fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
            let mut open = peer.workers().into_iter().flat_map(of);
            open.any(|fd| fs::read_link(fd.path()).is_ok_and(|path| path.ends_with(name)))
        };
        for (name, bytes) in [("a.txt", 10), ("page.html", 5_000)] {
            for _ in 0..100 {
                assert_eq!(peer.get(&format!("/{name}")).body, site::pattern(bytes), "{kind:?} {name}");
            }
            assert!(holds(name), "{kind:?}: it is opened for each request: {name}");
        }
        fs::write(beside.path().join("next"), b"changed").unwrap();
        fs::rename(beside.path().join("next"), root.path().join("a.txt")).unwrap();
        // The daemon looks again after a second, and nginx after a minute.
        thread::sleep(Duration::from_millis(1_500));
        assert_eq!(peer.get("/a.txt").body, b"changed", "{kind:?}");
    }
}

#[test]
fn folders_of_any_name_are_redirected_to_as_without_the_module() {
    let (root, beside) = (make_site(), open_folder());
    for name in ["a b", "at/index.html", "a\nb"] {
        fs::create_dir_all(root.path().join(name)).unwrap();
    }
    for kind in of_nginx() {
        let daemon = daemon(&root, &beside, &[]);
        let peer = kind.start(root.path(), &daemon.socket, "");
        for path in ["/a%20b", "/a%20b?x=y%20z", "/a%0Ab", "/at/", "/at/index.html"] {
            let [ours, theirs] =
                [peer.with, peer.without].map(|server| settled(ask(server, "GET", path, ""), server));
            assert_eq!((ours.0, ours.1), (theirs.0, theirs.1), "{kind:?} {path}: {}", peer.said());
        }
    }
}

/// A frame of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

#[test]
fn a_stream_that_is_reset_takes_no_other_with_it() {
    const SETTINGS: &[u8] = &[0, 4, 0x7f, 0xff, 0xff, 0xff];
    const CANCEL: &[u8] = &[0, 0, 0, 8];
    let (root, beside) = (make_site(), open_folder());
    let whole = site::pattern(30 << 20);
    site::write(&root.path().join("huge"), &whole);
    let get = |stream, path: &str| {
        let fields = [&[0x82, 0x86, 0x04, path.len() as u8], path.as_bytes(), &[0x01, 1, b'h']].concat();
        frame(1, 5, stream, &fields)
    };
    for kind in of_nginx() {
        let daemon = daemon(&root, &beside, &[]);
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let peer = kind.start(root.path(), &daemon.socket, &format!("listen {port} http2;"));
        assert_eq!(peer.get("/huge").body.len(), 30 << 20);
        let mut stream = connect(port);
        let window = frame(8, 0, 0, &[0x7f, 0, 0, 0]);
        let begin = [frame(4, 0, 0, SETTINGS), window, get(1, "/huge")].concat();
        stream.write_all(&[&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &begin].concat()).unwrap();
        let (mut head, mut sent) = ([0; 9], 0);
        let answer = loop {
            stream.read_exact(&mut head).unwrap_or_else(|why| panic!("{kind:?}: {why}: {}", peer.said()));
            let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
            stream.read_exact(&mut payload).unwrap();
            match (head[3], head[8]) {
                (0, 3) => break payload,
                (0, 1) => {
                    let expected = &whole[sent..sent + payload.len()];
                    assert!(payload == expected, "{kind:?}: other bytes from {sent} on");
                    if sent == 0 {
                        // What the sockets hold is full, and a frame is partly sent. The rest of it has to follow.
                        thread::sleep(Duration::from_millis(500));
                        stream.write_all(&[frame(3, 0, 1, CANCEL), get(3, "/a.txt")].concat()).unwrap();
                        thread::sleep(Duration::from_millis(100));
                    }
                    sent += payload.len();
                }
                _ => {}
            }
        };
        assert_eq!(answer, site::pattern(10), "{kind:?}");
        assert!(sent > 0 && sent < 30 << 20, "{kind:?}: {sent} bytes");
    }
}
