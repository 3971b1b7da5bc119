//! What a cold name costs: the operations that reach a filesystem without any caching, as those of a network mount do.

#![forbid(unsafe_code)]

use std::fs;
use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use flash_slowdisk::{Kind, SlowDisk};
use flash_tests::{ARCHITECTURES, PATIENCE, Server, need, reply, site};

/// Names at several depths: files, folders with an index, and a name that is missing. The last has copies.
const PATHS: [(&str, u16); 6] = [
    ("/top.bin", 200),
    ("/a/b/plain.bin", 200),
    ("/a/b/page.html", 200),
    ("/a/b/", 200),
    ("/a/b/missing.bin", 404),
    ("/a/copied.html", 200),
];

fn write_site(folder: &Path) {
    fs::create_dir_all(folder.join("a/b")).unwrap();
    for name in
        ["top.bin", "a/b/plain.bin", "a/b/page.html", "a/b/index.html", "a/copied.html", "a/copied.html.gz"]
    {
        site::write(&folder.join(name), name.as_bytes());
    }
}

/// nginx with one worker. It looks for a copy only if the client takes it.
struct Nginx {
    child: Child,
    address: SocketAddr,
}

impl Nginx {
    fn start(folder: &Path, own: &Path) -> Self {
        let nginx = need("nginx", "nginx");
        // The port is free again when nginx binds it.
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let (root, own) = (folder.display(), own.display());
        let configuration = format!(
            "daemon off; master_process off; pid {own}/pid; error_log stderr;\n\
             events {{ worker_connections 64; }}\n\
             http {{\n\
               access_log off; log_not_found off; gzip_static on;\n\
               client_body_temp_path {own}/body; proxy_temp_path {own}/proxy; fastcgi_temp_path {own}/fastcgi;\n\
               uwsgi_temp_path {own}/uwsgi; scgi_temp_path {own}/scgi;\n\
               server {{ listen {address}; root {root}; }}\n\
             }}\n"
        );
        let path = format!("{own}/nginx.conf");
        fs::write(&path, configuration).unwrap();
        let child =
            Command::new(nginx).args(["-c", &path]).stdin(Stdio::null()).spawn().expect("nginx starts");
        let given_up = Instant::now() + PATIENCE;
        while TcpStream::connect(address).is_err() {
            assert!(Instant::now() < given_up, "nginx does not listen");
            thread::sleep(Duration::from_millis(10));
        }
        Self { child, address }
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn operations(disk: &SlowDisk) -> [u64; 7] {
    let counters = disk.counters();
    Kind::ALL.map(|kind| counters.answered(kind))
}

/// The operations of a request for each path.
fn cost(disk: &SlowDisk, address: SocketAddr, fields: &str) -> Vec<[u64; 7]> {
    let mut costs = Vec::new();
    for (path, status) in PATHS {
        let before = operations(disk);
        let mut stream = flash_tests::connect(address);
        let request = format!("GET {path} HTTP/1.1\r\nHost: h\r\n{fields}Connection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        assert_eq!(reply::only(&flash_tests::read_all(&mut stream)).status, status, "{path}");
        // A file is closed after its response is sent, which is no operation that is counted.
        let after = operations(disk);
        costs.push(std::array::from_fn(|kind| after[kind] - before[kind]));
    }
    costs
}

/// nginx looks for one copy, and Flash for three. Each look is for a name, and may ask for its folder's attributes.
const TWO_COPIES_MORE: u64 = 4;
/// Of a file with a copy, nginx opens the copy alone. Flash keeps the file itself for other clients: a name, the attributes of
/// its folder and its own twice, to open and to read.
const THE_FILE_ITSELF: u64 = 6;

#[test]
fn a_cold_name_costs_no_more_operations_than_with_nginx() {
    if let Some(missing) = flash_slowdisk::missing() {
        return eprintln!("NOT TESTED, a slow disk cannot be mounted: {missing}");
    }
    let (folder, mountpoint, own) =
        (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    write_site(folder.path());
    // The kernel keeps no name and no attribute, and files bypass the page cache.
    let disk = SlowDisk::mount(folder.path(), mountpoint.path(), "ttl 0s\ndirect-io on").unwrap();
    let nginx = Nginx::start(disk.mountpoint(), own.path());
    for fields in ["", "Accept-Encoding: gzip\r\n", "Accept-Encoding: gzip, br, zstd\r\n"] {
        let of_nginx = cost(&disk, nginx.address, fields);
        for arch in ARCHITECTURES {
            // A name is not looked at again during the test.
            let flags = ["--revalidate", "100s", "--processes", "1", "--processes-max", "1"];
            let server = Server::start(arch, disk.mountpoint(), &flags);
            // Whether the site has a page for missing names is known from the second of them on.
            (0..2).for_each(|_| assert_eq!(server.get("/nothing").status, 404));
            let of_flash = cost(&disk, server.address, fields);
            for (((path, _), nginx), flash) in PATHS.iter().zip(&of_nginx).zip(&of_flash) {
                let [most, used] = [nginx, flash].map(|kinds| kinds.iter().sum::<u64>());
                let more_copies =
                    if fields.contains("br") && !path.ends_with("bin") { TWO_COPIES_MORE } else { 0 };
                let is_copied = fields.contains("gzip") && path.contains("copied");
                let more = more_copies + if is_copied { THE_FILE_ITSELF } else { 0 };
                assert!(used <= most + more, "{arch}, {fields:?} {path}: {flash:?}, nginx {nginx:?}");
            }
            server.stop();
        }
    }
}
