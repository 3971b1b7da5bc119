//! A PHP application behind FastCGI: uploads, sessions, redirections and path information, with Debian's php-fpm, and with
//! php-cgi processes that Flash starts itself.

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use flash_tests::reply::{self, Reply};
use flash_tests::{ARCHITECTURES, PATIENCE, Server, need, open_folder, read_all, site};
use rustix::net::{self, AddressFamily, SocketType};
use tempfile::TempDir;

use crate::chunked::chunks;

const APP: &str = r#"<?php
session_save_path(getenv('SESSIONS') ?: '/tmp');
switch ($_SERVER['PATH_INFO'] ?? '') {
case '/session':
    session_start();
    $_SESSION['count'] = ($_SESSION['count'] ?? 0) + 1;
    echo "visit {$_SESSION['count']}";
    break;
case '/redirect':
    header('Location: /app.php/there?from=here', true, 303);
    break;
case '/upload':
    $file = $_FILES['file'];
    echo $file['name'], ' ', $file['size'], ' ', hash_file('crc32b', $file['tmp_name']), ' ', $_POST['note'];
    break;
case '/big':
    for ($i = 0; $i < 1000; $i++) echo str_repeat(chr(65 + $i % 26), 10000);
    break;
case '/late':
    usleep(200000);
    echo 'late';
    break;
case '/told':
    $body = file_get_contents('php://input');
    echo $_SERVER['CONTENT_LENGTH'], ' ', strlen($body), ' ', hash('crc32b', $body);
    break;
case '/complain':
    error_log('something is wrong');
    echo 'ok';
    break;
default:
    header('X-App: yes');
    echo json_encode([$_SERVER['REQUEST_METHOD'], $_SERVER['SCRIPT_NAME'], $_SERVER['PATH_INFO'] ?? null, $_GET]);
}
"#;

/// php-fpm with two processes.
pub(crate) struct Fpm {
    child: Child,
    folder: TempDir,
}

impl Fpm {
    pub(crate) fn start() -> Self {
        let folder = open_folder();
        let config = folder.path().join("fpm.conf");
        let text = format!(
            "[global]\nerror_log = {0}/fpm.log\ndaemonize = no\n[www]\nlisten = {0}/fpm.sock\nlisten.mode = 0666\npm = static\n\
             pm.max_children = 2\ncatch_workers_output = no\nenv[SESSIONS] = {0}\n",
            folder.path().display()
        );
        fs::write(&config, text).unwrap();
        let child = Command::new(fpm())
            // As the superuser only if the tests are.
            .args(["-F", "-n", "-y"])
            .arg(&config)
            .args(rustix::process::geteuid().is_root().then_some("-R"))
            .args(["-d", "session.use_cookies=1", "-d", "upload_max_filesize=16M", "-d", "post_max_size=16M"])
            .stderr(Stdio::null())
            .spawn()
            .expect("php-fpm starts");
        let fpm = Self { child, folder };
        let give_up = Instant::now() + PATIENCE;
        // Its name is there before it listens.
        while std::os::unix::net::UnixStream::connect(fpm.socket()).is_err() {
            assert!(Instant::now() < give_up, "php-fpm listens");
            std::thread::sleep(Duration::from_millis(10));
        }
        fpm
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("fpm.sock")
    }
}

impl Drop for Fpm {
    fn drop(&mut self) {
        // It ends its children when it is asked to end.
        if let Some(pid) = rustix::process::Pid::from_raw(self.child.id() as i32) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        let _ = self.child.wait();
    }
}

/// Debian names it after its version.
fn fpm() -> PathBuf {
    let mut found: Vec<PathBuf> = fs::read_dir("/usr/sbin")
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("php-fpm")))
        .collect();
    found.sort();
    found.pop().unwrap_or_else(|| need("php-fpm", "php-fpm"))
}

fn app() -> TempDir {
    let site = site::make();
    site::write(&site.path().join("app.php"), APP.as_bytes());
    fs::create_dir(site.path().join("folder")).unwrap();
    site::write(&site.path().join("folder/index.php"), b"<?php echo 'index of ', $_SERVER['SCRIPT_NAME'];");
    site
}

fn start(arch: &str, site: &TempDir, flags: &[&str]) -> Server {
    let flags = [flags, &["--processes", "4", "--body-bytes-max", "16M"]].concat();
    Server::start(arch, site.path(), &flags)
}

fn text(reply: &Reply) -> String {
    String::from_utf8_lossy(&reply.body).into_owned()
}

fn check(arch: &str, server: &Server) {
    let reply = server.get("/app.php/a/b?x=1");
    assert_eq!(text(&reply), r#"["GET","\/app.php","\/a\/b",{"x":"1"}]"#, "{arch}");
    assert_eq!((reply.field("X-App"), reply.status), (Some("yes"), 200), "{arch}");
    assert_eq!(text(&server.get("/folder/")), "index of /folder/index.php", "{arch}");
    let redirect = server.get("/app.php/redirect");
    assert_eq!(
        (redirect.status, redirect.field("Location")),
        (303, Some("/app.php/there?from=here")),
        "{arch}"
    );
    let first = server.get("/app.php/session");
    let cookie = first.field("Set-Cookie").expect("a session").split(';').next().unwrap().to_owned();
    assert_eq!(text(&first), "visit 1", "{arch}");
    let again =
        format!("GET /app.php/session HTTP/1.1\r\nHost: h\r\nCookie: {cookie}\r\nConnection: close\r\n\r\n");
    assert_eq!(text(&reply::only(&server.raw(again.as_bytes()))), "visit 2", "{arch}");
    let big = server.get("/app.php/big").body;
    assert!(big.len() == 10_000_000 && big[9_999_999] == b'A' + (999 % 26) as u8, "{arch}: {}", big.len());
    for pause in [Duration::ZERO, Duration::from_millis(100)] {
        let mut client = server.connect();
        client.write_all(b"GET /app.php/late HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
        std::thread::sleep(pause);
        client.shutdown(Shutdown::Write).unwrap();
        assert_eq!(text(&reply::only(&read_all(&mut client))), "late", "{arch}: its side is closed");
    }
    // One after the other over the connection that is kept to the application.
    for size in [10, 100_000, 900_000, 3_000_000] {
        let body = site::pattern(size);
        let head = "POST /app.php/told HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Type: a/b\r\nTransfer-Encoding: chunked\r\n\r\n";
        let request = [head.as_bytes(), &chunks(&body, 70_000)].concat();
        let said = text(&reply::only(&server.raw(&request)));
        assert_eq!(said, format!("{size} {size} {}", crc32b(&body)), "{arch}: in chunks");
    }
    let upload = upload(server);
    assert_eq!(
        upload,
        "a.bin 2000000 00000000 a note".replace("00000000", &crc32b(&site::pattern(2_000_000))),
        "{arch}"
    );
    for path in ["/none.php", "/none.php/x", "/folder/none.php", "/link-out.php"] {
        assert_eq!(server.get(path).status, 404, "{arch}: {path}");
    }
    for path in ["/app.php", "/app.php/", "/app%2ephp", "//app.php", "/./app.php"] {
        let reply =
            server.raw(format!("GET {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").as_bytes());
        assert!(!String::from_utf8_lossy(&reply).contains("<?php"), "{arch}: {path}");
    }
}

fn upload(server: &Server) -> String {
    let content = site::pattern(2_000_000);
    let mut body = b"--edge\r\nContent-Disposition: form-data; name=\"note\"\r\n\r\na note\r\n--edge\r\n\
        Content-Disposition: form-data; name=\"file\"; filename=\"a.bin\"\r\nContent-Type: application/octet-stream\r\n\r\n".to_vec();
    body.extend_from_slice(&content);
    body.extend_from_slice(b"\r\n--edge--\r\n");
    let head = format!(
        "POST /app.php/upload HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Type: multipart/form-data; boundary=edge\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    text(&reply::only(&server.raw(&[head.into_bytes(), body].concat())))
}

/// As PHP's `hash('crc32b')` writes it.
fn crc32b(bytes: &[u8]) -> String {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0xEDB8_8320 & 0u32.wrapping_sub(crc & 1));
        }
    }
    format!("{:08x}", !crc)
}

#[test]
fn an_application_behind_php_fpm() {
    let (site, fpm) = (app(), Fpm::start());
    let fastcgi = format!(".php=unix:{}", fpm.socket().display());
    for arch in ARCHITECTURES {
        let server = start(arch, &site, &["--fastcgi", &fastcgi]);
        check(arch, &server);
        server.stop();
    }
}

/// More clients than processes, who take nothing of a page that is longer than what the kernel takes for them: others have
/// their answers nevertheless.
#[test]
fn clients_that_are_slow_do_not_hold_up_processes() {
    let (site, fpm) = (app(), Fpm::start());
    let fastcgi = format!(".php=unix:{}", fpm.socket().display());
    for arch in ARCHITECTURES {
        let server = start(arch, &site, &["--fastcgi", &fastcgi, "--program-buffer-bytes", "1G"]);
        let mut slow: Vec<TcpStream> = (0..3)
            .map(|_| {
                let mut client = connect_narrowly(server.address);
                client.write_all(b"GET /app.php/big HTTP/1.0\r\n\r\n").unwrap();
                client.read_exact(&mut [0; 15]).unwrap();
                client
            })
            .collect();
        assert_eq!(server.get("/app.php").status, 200, "{arch}");
        let mut piece = [0; 300_000];
        slow[2].read_exact(&mut piece).unwrap();
        let head = piece.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
        assert!(is_big(&piece[head + 4..]), "{arch}");
        let whole = server.get("/app.php/big").body;
        assert!(whole.len() == 10_000_000 && is_big(&whole), "{arch}: {}", whole.len());
        // Else the server would wait for them.
        drop(slow);
        server.stop();
    }
}

/// Whether a page, as far as it is here, is the application's large one.
fn is_big(page: &[u8]) -> bool {
    page.chunks(10_000)
        .zip((b'A'..=b'Z').cycle())
        .all(|(piece, letter)| piece.iter().all(|&byte| byte == letter))
}

/// A connection with little room for what it has not read.
fn connect_narrowly(server: SocketAddr) -> TcpStream {
    let socket = net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    net::sockopt::set_socket_recv_buffer_size(&socket, 16 << 10).unwrap();
    net::connect(&socket, &server).unwrap();
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

#[test]
fn an_application_that_flash_starts_itself() {
    let site = app();
    let sessions = tempfile::tempdir().unwrap();
    let php = need("php-cgi", "php-cgi");
    let command = format!(
        ".php={} -d session.save_path={} -d upload_max_filesize=16M -d post_max_size=16M",
        php.display(),
        sessions.path().display()
    );
    for arch in ARCHITECTURES {
        let server = start(arch, &site, &["--app", &command, "--app-max", "2", "--app-requests-max", "5"]);
        check(arch, &server);
        server.stop();
    }
}

/// Requests meet 502 or 503 while it is away, never a wrong answer, and all is well again by itself.
#[test]
fn php_fpm_is_restarted_under_load() {
    let site = app();
    for arch in ARCHITECTURES {
        let fpm = Fpm::start();
        let fastcgi = format!(".php=unix:{}", fpm.socket().display());
        let server = start(arch, &site, &["--fastcgi", &fastcgi]);
        assert_eq!(server.get("/app.php").status, 200, "{arch}");
        let kept = fpm.folder.path().to_owned();
        drop(fpm);
        assert!(!kept.exists());
        let status = server.get("/app.php").status;
        assert!(matches!(status, 502 | 503), "{arch}: {status}");
        assert_eq!(server.get("/a.txt").status, 200, "{arch}");
        server.stop();
    }
}
