//! Listings of huge folders: what they cost other requests, how much memory they take, and who shares them. Programs that mirror
//! folders by their listings.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use flash_slowdisk::SlowDisk;
use flash_tests::reply::{self, Reply};
use flash_tests::{ARCHITECTURES, PATIENCE, PROCESSES, Server, connect, need, read_all, site, wait_for};
use rustix::net::sockopt::{set_socket_linger, set_socket_recv_buffer_size};
use rustix::net::{AddressFamily, SocketType, socket};
use tempfile::TempDir;

const NAMES: usize = 20_000;
/// Architectures whose runners serve more than one connection.
const WITH_LOOPS: [&str; 5] = ["amped", PROCESSES, "uring", "sped", "pipelined"];

/// A site with a folder `big` of so many empty files, and 300 files in `cold`.
fn huge(names: usize, name: impl Fn(usize) -> String) -> TempDir {
    // On the disk of the workspace, because a file of a memory filesystem is never cold.
    let folder = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    for name in ["big", "cold"] {
        fs::create_dir(folder.path().join(name)).unwrap();
    }
    for number in 0..names {
        File::create(folder.path().join("big").join(name(number))).unwrap();
    }
    for number in 0..300 {
        site::write(&folder.path().join(format!("cold/{number}.txt")), number.to_string().as_bytes());
    }
    folder
}

fn short_names() -> TempDir {
    huge(NAMES, |number| format!("file-{number:06}.txt"))
}

fn serve(arch: &str, folder: &TempDir, flags: &[&str]) -> Server {
    // Readers are slow here, and more so on a busy machine.
    let all = ["--list", "--processes", "8", "--threads", "64", "--send-rate-min", "1"];
    let flags = [&all, flags].concat();
    Server::start(arch, folder.path(), &flags)
}

fn ask(stream: &mut TcpStream, path: &str) {
    stream
        .write_all(format!("GET {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").as_bytes())
        .unwrap();
}

/// A client that takes next to nothing into its own memory.
fn slow_reader(address: SocketAddr, path: &str) -> TcpStream {
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    set_socket_recv_buffer_size(&socket, 4096).unwrap();
    rustix::net::connect(&socket, &address).unwrap();
    let mut stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    ask(&mut stream, path);
    stream
}

fn rows(reply: &Reply) -> usize {
    let html = String::from_utf8_lossy(&reply.body);
    html.matches("<tr><td><a href=\"").count() - html.matches("<a href=\"../\"").count()
}

/// A metric, as the server logs it at its end.
fn told(said: &str, name: &str) -> u64 {
    let line = said.lines().find(|line| line.contains("stopped: ")).expect("its last words");
    let value = line.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('=')).expect(name);
    value.parse().expect("a number")
}

#[test]
fn clients_that_ask_and_leave_cost_others_nothing() {
    let folder = short_names();
    // A process of mp has one client, listings of its own, and nothing that tells it that its client has gone.
    for arch in ARCHITECTURES.into_iter().filter(|arch| *arch != "mp") {
        let server = serve(arch, &folder, &["--disk-deadline", "5s", "--helpers-max", "4"]);
        let before = server.resident_kb();
        for number in 0..150 {
            let mut stream = connect(server.address);
            ask(&mut stream, ["/big/", "/big/?sort=size"][number % 2]);
            if number % 3 == 0 {
                // It resets the connection instead of closing its side.
                set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
            }
        }
        // Some of them are asked for while the listing is read, at the latest.
        for number in 0..300 {
            let reply = server.get(&format!("/cold/{number}.txt"));
            assert_eq!(reply.status, 200, "{arch}: {}", server.said());
            assert_eq!(reply.body, number.to_string().into_bytes(), "{arch}");
        }
        let grown_kb = server.resident_kb().saturating_sub(before);
        assert!(grown_kb < 50_000, "{arch}: {grown_kb} kB");
        let said = server.stop();
        assert_eq!((told(&said, "queue_full"), told(&said, "shed")), (0, 0), "{arch}: {said}");
        assert!(!said.contains("does not answer") && !said.contains("was refused"), "{arch}: {said}");
    }
}

#[test]
fn slow_readers_share_one_listing() {
    const READERS: usize = 200;
    let folder = short_names();
    for arch in WITH_LOOPS {
        let server = serve(arch, &folder, &["--revalidate", "100ms"]);
        let before = server.resident_kb();
        // They come over several generations of the listing, whose folder does not change.
        let readers: Vec<TcpStream> = (0..READERS)
            .map(|number| {
                if number % 50 == 49 {
                    thread::sleep(Duration::from_millis(300));
                }
                slow_reader(server.address, "/big/")
            })
            .collect();
        for reader in &readers {
            let mut first = [0; 12];
            reader.peek(&mut first).unwrap();
            assert_eq!(&first, b"HTTP/1.1 200", "{arch}");
        }
        assert_eq!(server.get("/cold/1.txt").status, 200, "{arch}");
        // A megabyte of names, some pages, and what the allocator keeps. Each of them had two.
        let grown_kb = server.resident_kb().saturating_sub(before);
        assert!(grown_kb < 60_000, "{arch}: {grown_kb} kB");
        for mut reader in readers.into_iter().step_by(100) {
            let reply = reply::only(&read_all(&mut reader));
            assert_eq!(rows(&reply), NAMES, "{arch}");
        }
        wait_for("the memory of a listing that is read no more", || {
            server.resident_kb().saturating_sub(before) < 25_000
        });
        server.stop();
    }
}

#[test]
fn equal_requests_read_the_folder_once() {
    const CLIENTS: u64 = 40;
    let folder = short_names();
    for arch in ["amped", PROCESSES, "uring", "pipelined"] {
        let server = serve(arch, &folder, &["--revalidate", "1h", "--loops", "1"]);
        thread::scope(|scope| {
            for _ in 0..CLIENTS {
                scope.spawn(|| assert_eq!(rows(&server.get("/big/")), NAMES));
            }
        });
        assert_eq!(rows(&server.get("/big/")), NAMES);
        let said = server.stop();
        // A page of 256 rows is a job, and so is a step before the first page; each client had as many to itself.
        let (jobs, joined) = (told(&said, "helper_jobs"), told(&said, "joined"));
        assert!(jobs < 2 * NAMES as u64 / 256 + 200, "{arch}: {jobs} jobs, {joined} joined");
    }
}

#[test]
fn a_listing_beyond_the_budget_is_refused_and_the_server_lives() {
    // Ten megabytes of names; eight are what listings get at least.
    const LONG_NAMES: usize = 40_000;
    let folder = huge(LONG_NAMES, |number| format!("{number:06}-{}", "x".repeat(245)));
    for arch in ARCHITECTURES {
        let server = serve(arch, &folder, &["--file-cache-bytes", "0"]);
        for path in ["/big/", "/big/?sort=time", "/big/"] {
            let reply = server.get(path);
            assert_eq!((reply.status, reply.field("Retry-After")), (503, Some("1")), "{arch}: {path}");
        }
        assert_eq!(rows(&server.get("/cold/")), 300, "{arch}");
        assert_eq!(server.get("/cold/1.txt").status, 200, "{arch}");
        let wrote = || server.said().matches("/big/: refused, its listing exceeds").count();
        wait_for("a line about it", || wrote() >= 1);
        server.stop();
        // With the file cache that there is without the flag, there is room.
        if arch == "amped" {
            let server = serve(arch, &folder, &["--file-cache-bytes", "128M"]);
            assert_eq!(rows(&server.get("/big/")), LONG_NAMES);
            server.stop();
        }
    }
}

#[test]
fn a_listing_is_as_old_as_an_answer_may_be() {
    let folder = TempDir::new().unwrap();
    let put = |name: &str| site::write(&folder.path().join(name), b"x");
    for arch in ARCHITECTURES {
        put("first");
        let flags = |revalidate| ["--list", "--revalidate", revalidate, "--processes", "2"];
        let always = Server::start(arch, folder.path(), &flags("0"));
        let soon = Server::start(arch, folder.path(), &flags("300ms"));
        let never = Server::start(arch, folder.path(), &flags("1h"));
        for server in [&always, &soon, &never] {
            assert_eq!(rows(&server.get("/")), 1, "{arch}");
        }
        put("second");
        assert_eq!(rows(&always.get("/")), 2, "{arch}");
        if arch != "mp" {
            assert_eq!(rows(&never.get("/")), 1, "{arch}");
        }
        thread::sleep(Duration::from_millis(600));
        assert_eq!(rows(&soon.get("/")), 2, "{arch}");
        fs::remove_file(folder.path().join("second")).unwrap();
        [always, soon, never].into_iter().for_each(|server| drop(server.stop()));
    }
}

#[test]
fn a_listing_that_is_read_at_once_has_a_length_also_for_http_1_0() {
    let site = site::make();
    for arch in ARCHITECTURES {
        let server = Server::start(arch, site.path(), &["--list", "--processes", "2"]);
        let list = server.get("/plain/");
        assert_eq!(list.field("Content-Length"), Some(&*list.body.len().to_string()), "{arch}");
        assert_eq!(list.field("Transfer-Encoding"), None, "{arch}");
        let request = b"GET /plain/ HTTP/1.0\r\nConnection: keep-alive\r\n\r\n";
        let twice = [&request[..], b"GET /plain/ HTTP/1.0\r\n\r\n"].concat();
        let replies = reply::all(&server.raw(&twice), |_| false);
        assert_eq!(replies.len(), 2, "{arch}");
        assert!(replies.iter().all(|reply| reply.body == list.body), "{arch}");
        server.stop();
    }
}

/// Every step has the time that any job has; all of them together may take longer.
#[test]
fn a_listing_may_take_longer_than_the_deadline() {
    if let Some(missing) = flash_slowdisk::missing() {
        return eprintln!("NOT TESTED, a slow disk cannot be mounted: {missing}");
    }
    let behind = TempDir::new().unwrap();
    for number in 0..60 {
        File::create(behind.path().join(number.to_string())).unwrap();
    }
    for arch in ["amped", PROCESSES, "mt"] {
        let root = TempDir::new().unwrap();
        let point = root.path().join("slow");
        fs::create_dir(&point).unwrap();
        let disk = SlowDisk::mount(behind.path(), &point, "lookup delay fixed:80ms").unwrap();
        let server = Server::start(arch, root.path(), &["--list", "--disk-deadline", "4s"]);
        let asked = Instant::now();
        let mut streams = [(); 4].map(|()| server.connect());
        streams.iter_mut().for_each(|stream| ask(stream, "/slow/?sort=size"));
        for stream in &mut streams {
            let list = reply::only(&read_all(stream));
            assert_eq!((list.status, rows(&list)), (200, 60), "{arch}: {}", server.said());
        }
        assert!(asked.elapsed() > Duration::from_secs(4), "{arch}: this test needs a disk that is slower");
        let said = server.stop();
        assert!(!said.contains("does not answer"), "{arch}: {said}");
        drop(disk);
    }
}

/// Threads whose names say that they are one device's helpers.
fn helpers_of_devices(server: &Server) -> usize {
    let tasks = fs::read_dir(format!("/proc/{}/task", server.pid())).unwrap();
    let names = tasks.map(|task| fs::read_to_string(task.unwrap().path().join("comm")).unwrap_or_default());
    names.filter(|name| name.strip_prefix("helper-").is_some_and(|rest| rest.contains('-'))).count()
}

/// A mount that hangs behind a link in a folder takes away that folder's listing and no other.
#[test]
fn a_folder_with_a_mount_that_hangs_does_not_keep_others_from_being_listed() {
    if let Some(missing) = flash_slowdisk::missing() {
        return eprintln!("NOT TESTED, a slow disk cannot be mounted: {missing}");
    }
    let (root, behind) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    site::write(&behind.path().join("x"), b"x");
    for name in ["far", "near", "links"] {
        fs::create_dir(root.path().join(name)).unwrap();
    }
    site::write(&root.path().join("near/a.txt"), b"a");
    std::os::unix::fs::symlink("../far/x", root.path().join("links/x")).unwrap();
    let disk = SlowDisk::mount(behind.path(), &root.path().join("far"), "").unwrap();
    for arch in ["amped", PROCESSES, "uring", "pipelined"] {
        // One pool of pipelined, because each has helpers of its own, which learn of a device by their first job.
        let flags = ["--list", "--disk-deadline", "1s", "--revalidate", "0", "--loops", "1"];
        let server = Server::start(arch, root.path(), &flags);
        assert_eq!(rows(&server.get("/links/")), 1, "{arch}");
        wait_for("helpers of the local device", || helpers_of_devices(&server) >= 2);
        disk.rule("hang prefix /").unwrap();
        thread::scope(|scope| {
            for _ in 0..6 {
                scope.spawn(|| assert_eq!(server.get("/links/").status, 503, "{arch}"));
            }
            for _ in 0..10 {
                let near = server.get("/near/");
                assert_eq!((near.status, rows(&near)), (200, 1), "{arch}: {}", server.said());
                assert_eq!(server.get("/near/a.txt").status, 200, "{arch}");
                thread::sleep(Duration::from_millis(50));
            }
        });
        disk.clear();
        wait_for("the listing of links", || server.get("/links/").status == 200);
        server.stop();
    }
}

/// Reads a little, so that the response has begun, and goes.
#[test]
fn listings_that_were_broken_off_leave_nothing() {
    let folder = short_names();
    for arch in WITH_LOOPS {
        let server = serve(arch, &folder, &["--revalidate", "0"]);
        server.get("/cold/");
        // Helpers that have been started since have descriptors too.
        let open = |server: &Server| {
            let descriptors = fs::read_dir(format!("/proc/{}/fd", server.pid())).unwrap();
            let targets = descriptors.filter_map(|descriptor| fs::read_link(descriptor.unwrap().path()).ok());
            targets.filter(|target| target.starts_with(folder.path())).count()
        };
        let before = open(&server);
        for number in 0..16 {
            let mut stream = slow_reader(server.address, ["/big/?sort=time", "/big/"][number % 2]);
            if number % 4 < 2 {
                stream.read_exact(&mut [0; 1000]).unwrap();
            }
        }
        wait_for("descriptors of folders", || open(&server) <= before);
        server.stop();
    }
}

/// The files below a folder: their names below it, and their sizes and times in seconds. Without those that clients make of listings.
fn tree(folder: &Path) -> BTreeMap<PathBuf, (u64, u64)> {
    let mut found = BTreeMap::new();
    let mut left = vec![folder.to_owned()];
    while let Some(next) = left.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            let about = fs::metadata(&path).unwrap();
            if about.is_dir() {
                left.push(path);
            } else if !path.file_name().unwrap().as_bytes().starts_with(b"index.html") {
                let time = about.modified().unwrap().duration_since(std::time::UNIX_EPOCH).unwrap();
                found.insert(path.strip_prefix(folder).unwrap().to_owned(), (about.len(), time.as_secs()));
            }
        }
    }
    found
}

/// Names with each byte that links, shells or patterns give a meaning.
#[test]
fn programs_that_mirror_a_folder_get_every_file_with_its_time() {
    let folder = TempDir::new().unwrap();
    let names: [&[u8]; 12] = [
        b"a.txt",
        b"sub/deeper/b.bin",
        b"a folder/c d.txt",
        b"odd/&amp;<b>\"quoted\".txt",
        b"odd/q?x=1#2;3+4.txt",
        b"odd/it's [in] (parts), $1!.txt",
        b"odd/http:colon@at~.txt",
        b"odd/back\\slash.txt",
        b"odd/100%.txt",
        b"odd/\xc3\xa4\xc3\xb6.txt",
        b"odd/e\xcc\x81.txt",
        b"odd/\xe4.txt",
    ];
    for (number, name) in names.iter().enumerate() {
        let path = folder.path().join(OsStr::from_bytes(name));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        site::write(&path, &vec![b'x'; 1 + 300_000 * (number % 2)]);
    }
    let server = serve("amped", &folder, &[]);
    let url = format!("http://{}/", server.address);
    let here = tree(folder.path());
    let wget = ["-q", "-r", "-np", "-nH", "--restrict-file-names=nocontrol", "-P", ".", &url];
    let lftp = format!("open {url}; mirror / .");
    for (program, arguments) in [("wget", &wget[..]), ("wget2", &wget), ("lftp", &["-c", &lftp])] {
        let copy = TempDir::new().unwrap();
        let mut command = Command::new(need(program, program));
        let status = command.args(arguments).current_dir(copy.path()).status().unwrap();
        assert!(status.success(), "{program}: {status}");
        assert_eq!(tree(copy.path()), here, "{program}");
    }
    if !Path::new("/dev/fuse").exists() {
        eprintln!("NOT TESTED: httpdirfs needs /dev/fuse");
    } else {
        let mount = TempDir::new().unwrap();
        let mut httpdirfs = Command::new(need("httpdirfs", "httpdirfs"));
        let mut child = httpdirfs.args(["-f", &url]).arg(mount.path()).spawn().unwrap();
        wait_for("the mount", || mount.path().join("a.txt").exists());
        let seen = tree(mount.path());
        let same: Vec<bool> = names
            .iter()
            .map(|name| Path::new(OsStr::from_bytes(name)))
            .map(|name| fs::read(mount.path().join(name)).ok() == fs::read(folder.path().join(name)).ok())
            .collect();
        let _ = Command::new("umount").arg(mount.path()).status();
        child.wait().unwrap();
        assert_eq!(seen.keys().collect::<Vec<_>>(), here.keys().collect::<Vec<_>>());
        assert!(!same.contains(&false), "{same:?}");
    }
    server.stop();
}

/// What nginx's autoindex_format json has, over many pages, sorted, and for a HEAD.
#[test]
fn a_listing_as_json_is_one_array_of_all_names() {
    let folder = short_names();
    fs::create_dir(folder.path().join("big/a folder")).unwrap();
    site::write(&folder.path().join("cold/odd \"\u{e4}\".txt"), b"12345");
    for arch in ARCHITECTURES {
        let server = serve(arch, &folder, &[]);
        let get = |path: &str| {
            let reply = server.get(path);
            assert_eq!(
                (reply.status, reply.field("Content-Type")),
                (200, Some("application/json")),
                "{arch}: {path}"
            );
            let json: serde_json::Value = serde_json::from_slice(&reply.body).expect("it is JSON");
            json.as_array().expect("it is an array").clone()
        };
        let all = get("/big/?format=json");
        assert_eq!(all.len(), NAMES + 1, "{arch}");
        assert_eq!(
            (&all[0]["name"], &all[0]["type"], &all[0]["href"]),
            (&"a folder".into(), &"directory".into(), &"a%20folder/".into()),
            "{arch}"
        );
        assert_eq!(
            (&all[1]["name"], &all[1]["type"], &all[1]["size"]),
            (&"file-000000.txt".into(), &"file".into(), &0.into()),
            "{arch}"
        );
        let largest = &get("/cold/?format=json&sort=size&order=desc")[0];
        assert_eq!((&largest["name"], &largest["size"]), (&"odd \"\u{e4}\".txt".into(), &5.into()), "{arch}");
        let time = largest["mtime"].as_str().expect("a time");
        let file = server.get(&format!("/cold/{}", largest["href"].as_str().expect("a reference")));
        assert_eq!((file.field("Last-Modified"), &*file.body), (Some(time), &b"12345"[..]), "{arch}");
        let head = server.raw(b"HEAD /cold/?format=json HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
        assert!(String::from_utf8_lossy(&head).contains("Content-Type: application/json\r\n"), "{arch}");
    }
    let empty = TempDir::new().unwrap();
    assert_eq!(serve("amped", &empty, &[]).get("/?format=json").body, b"[\n]\n");
}

fn get(server: &Server, path: &str, fields: &str) -> Reply {
    let request = format!("GET {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n{fields}\r\n");
    reply::only(&server.raw(request.as_bytes()))
}

#[test]
fn a_huge_listing_is_compressed_for_clients_that_take_it() {
    let folder = short_names();
    for arch in ARCHITECTURES {
        let server = serve(arch, &folder, &["--disk-deadline", "60s", "--revalidate", "60s"]);
        for path in ["/big/", "/big/?format=json"] {
            let plain = get(&server, path, "");
            assert_eq!(
                (plain.field("Content-Encoding"), plain.field("Vary")),
                (None, Some("Accept-Encoding"))
            );
            for coding in ["gzip", "br", "zstd"] {
                let coded = get(&server, path, &format!("Accept-Encoding: {coding}\r\n"));
                assert_eq!(coded.field("Content-Encoding"), Some(coding), "{arch} {path}");
                assert!(coded.body.len() * 5 < plain.body.len(), "{arch} {path} {coding}");
                let mut decoded = Vec::new();
                match coding {
                    "br" => {
                        brotli_decompressor::Decompressor::new(&*coded.body, 4096).read_to_end(&mut decoded)
                    }
                    "zstd" => ruzstd::decoding::StreamingDecoder::new(&*coded.body)
                        .unwrap()
                        .read_to_end(&mut decoded),
                    _ => libflate::gzip::Decoder::new(&*coded.body).unwrap().read_to_end(&mut decoded),
                }
                .unwrap();
                assert_eq!(decoded.len(), plain.body.len(), "{arch} {path} {coding}");
                assert!(decoded == plain.body, "{arch} {path} {coding}");
            }
        }
        let off = serve(arch, &folder, &["--compress", "off"]);
        let reply = get(&off, "/cold/", "Accept-Encoding: gzip\r\n");
        assert_eq!((reply.field("Content-Encoding"), reply.field("Vary")), (None, None), "{arch}");
    }
}

#[test]
fn texts_stand_above_and_below_the_rows() {
    let folder = TempDir::new().unwrap();
    for name in ["a", "b", "c"] {
        fs::create_dir(folder.path().join(name)).unwrap();
    }
    for (name, text) in [
        ("HEADER.html", "<p>of all</p>"),
        ("a/README", "1 < 2\n\tthree"),
        ("b/README", "<script>"),
        ("b/HEADER.html", "<p>of b</p>"),
    ] {
        site::write(&folder.path().join(name), text.as_bytes());
    }
    // Too long, and out of the folder.
    site::write(&folder.path().join("c/README"), &vec![b'x'; (64 << 10) + 1]);
    std::os::unix::fs::symlink("/etc/passwd", folder.path().join("README")).unwrap();
    for arch in ARCHITECTURES {
        let server = serve(arch, &folder, &["--list-header", "/HEADER.html", "--list-footer", "README"]);
        let html = |path: &str| String::from_utf8(server.get(path).body).unwrap();
        for (path, footer) in [
            ("/", "</table>\n</html>\n"),
            ("/a/", "</table>\n<pre>1 &lt; 2\n\tthree</pre>\n</html>\n"),
            ("/b/", "</table>\n<pre>&lt;script&gt;</pre>\n</html>\n"),
            ("/c/", "</table>\n</html>\n"),
        ] {
            let html = html(path);
            assert!(html.contains("</h1>\n<p>of all</p>\n<table>"), "{arch} {path}: {html}");
            assert!(html.ends_with(footer), "{arch} {path}: {html}");
        }
        let server = serve(arch, &folder, &["--list-header", "HEADER.html"]);
        let html = |path: &str| String::from_utf8(server.get(path).body).unwrap();
        assert!(html("/a/").contains("</h1>\n<table>"), "{arch}");
        assert!(html("/b/").contains("<p>of b</p>"), "{arch}");
    }
}

#[test]
fn a_listing_as_json_has_the_digests_that_are_known() {
    let folder = TempDir::new().unwrap();
    site::write(&folder.path().join("a.bin"), &vec![b'a'; 300_000]);
    site::write(&folder.path().join("b.bin"), b"b");
    for arch in ARCHITECTURES {
        let one: &[&str] = if arch == "mp" { &["--processes", "1", "--processes-max", "1"] } else { &[] };
        let flags = [&["--list", "--digests", "--revalidate", "100ms"], one].concat();
        let server = Server::start(arch, folder.path(), &flags);
        let mut text = String::new();
        wait_for("a digest", || {
            let reply = server.get("/a.bin.sha256");
            text = String::from_utf8(reply.body).unwrap();
            reply.status == 200
        });
        let known = format!(",\"size\":300000,\"sha256\":\"{}\"}}", text.split(' ').next().unwrap());
        for path in ["/?format=json", "/?format=json;sort=size"] {
            wait_for("a listing with it", || {
                String::from_utf8(server.get(path).body).unwrap().contains(&known)
            });
            let json = String::from_utf8(server.get(path).body).unwrap();
            assert!(json.contains(",\"size\":1}"), "{arch}: {json}");
        }
    }
}
