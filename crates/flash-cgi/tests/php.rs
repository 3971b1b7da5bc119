//! A real PHP takes what this crate writes, and this crate reads what PHP answers: as a CGI program, and over FastCGI.
//!
//! The test does the I/O that the crate leaves to others, in the plainest way. Without php-cgi it says so and ends.

#![forbid(unsafe_code)]

use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use flash_cgi::fastcgi::{Decoder, Encoder, End, Event};
use flash_cgi::response::{self, Kind, Parsed};
use flash_cgi::{Ends, Server, Variables, script};
use flash_http::{Scheme, head};

const SCRIPT: &str = r#"<?php
header('X-Test: 1');
setcookie('a', 'b');
error_log('to the log');
if (isset($_GET['to'])) { header('Location: ' . $_GET['to']); exit; }
if (isset($_GET['fill'])) { echo str_repeat('x', (int) $_GET['fill']); exit; }
foreach (['REQUEST_METHOD', 'SCRIPT_NAME', 'PHP_SELF', 'PATH_INFO', 'REQUEST_URI', 'PHP_AUTH_USER', 'HTTP_X_LONG'] as $name) {
    echo $name, '=', $_SERVER[$name] ?? 'absent', "\n";
}
echo isset($_SERVER['HTTPS']) ? 'https' : 'http', ' ', $_SERVER['SCRIPT_FILENAME'] === __FILE__ ? 'here' : 'there', "\n";
echo $_POST['p'] ?? 'no form', ' ', $_COOKIE['c'] ?? 'no cookie', "\n";
"#;

/// The variables of a request for `i.php` in `folder`.
fn variables(request: &str, folder: &Path) -> Variables {
    let root = folder.as_os_str().as_encoded_bytes();
    let input = format!("{}\r\n\r\n", request.replace('\n', "\r\n"));
    let Ok(head::Parsed::Complete { head, .. }) = head::parse(input.as_bytes(), &head::Limits::default())
    else {
        panic!("not a head: {request}");
    };
    let head::Target::Origin { path, .. } = head.target else { panic!("no path: {request}") };
    // The request path decodes; here nothing else is encoded.
    let path = String::from_utf8_lossy(path).replace("%20", " ");
    let ends = Ends::Inet { local: ([127, 0, 0, 1], 80).into(), peer: ([127, 0, 0, 2], 4000).into() };
    let mut variables = Variables::of_request(
        &head,
        head.framing.version.name(),
        Scheme::Http,
        &Server::new(b"Flash/test", root),
        &ends,
    );
    let split = script::suffixed(path.as_bytes(), b".php").next().expect("a script's path");
    variables.add_script(&split, Some(&[root, split.name].concat()));
    variables
}

/// One way to have a request answered: its output, and what was said for the log.
type Run = fn(&Path, &Variables, &[u8]) -> io::Result<(Vec<u8>, Vec<u8>)>;

fn over_cgi(_: &Path, variables: &Variables, body: &[u8]) -> io::Result<(Vec<u8>, Vec<u8>)> {
    let block = String::from_utf8(variables.env_block()).expect("text");
    let pairs = block.split_terminator('\0').map(|pair| pair.split_once('=').expect("a name and a value"));
    let piped = Stdio::piped;
    let mut php = Command::new("php-cgi")
        .env_clear()
        .envs(pairs)
        .stdin(piped())
        .stdout(piped())
        .stderr(piped())
        .spawn()?;
    php.stdin.take().expect("piped").write_all(body)?;
    let output = php.wait_with_output()?;
    Ok((output.stdout, output.stderr))
}

fn over_fastcgi(folder: &Path, variables: &Variables, body: &[u8]) -> io::Result<(Vec<u8>, Vec<u8>)> {
    let mut stream = UnixStream::connect(folder.join("php.sock"))?;
    let mut records = Vec::new();
    Encoder.begin(variables, true, &mut records);
    Encoder.body(body, &mut records);
    Encoder.end_body(&mut records);
    stream.write_all(&records)?;
    let mut decoder = Decoder::new();
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    // An odd size, so that records are cut.
    let mut buffer = [0; 1013];
    loop {
        let count = stream.read(&mut buffer)?;
        assert!(count > 0, "closed before the answer's end");
        let mut input = &buffer[..count];
        while let Some(event) = decoder.next(&mut input).unwrap_or_else(|error| panic!("{error:?}")) {
            match event {
                Event::Stdout(bytes) => stdout.extend_from_slice(bytes),
                Event::Stderr(bytes) => stderr.extend_from_slice(bytes),
                Event::End(end) => {
                    assert_eq!((end, input.len()), (End::Complete { app_status: 0 }, 0));
                    return Ok((stdout, stderr));
                }
            }
        }
    }
}

/// A php-cgi that waits for FastCGI requests on a socket in `folder`.
struct Php(Child);

impl Php {
    fn start(folder: &Path) -> Php {
        let socket = folder.join("php.sock");
        let mut command = Command::new("php-cgi");
        let php = Php(command
            .arg("-b")
            .arg(&socket)
            .env("PHP_FCGI_CHILDREN", "0")
            .spawn()
            .expect("php-cgi starts"));
        let start = Instant::now();
        while UnixStream::connect(&socket).is_err() {
            assert!(start.elapsed() < Duration::from_secs(30), "php-cgi does not listen");
            thread::sleep(Duration::from_millis(10));
        }
        php
    }
}

impl Drop for Php {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing to do.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn php_understands_and_is_understood() {
    if Command::new("php-cgi").arg("-v").stdout(Stdio::null()).stderr(Stdio::null()).status().is_err() {
        eprintln!("MISSING: php-cgi, so that no real PHP is asked (apt-get install php-cgi)");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path().canonicalize().expect("its name");
    fs::write(folder.join("i.php"), SCRIPT).expect("a script");
    let _php = Php::start(&folder);
    for (name, run) in [("CGI", over_cgi as Run), ("FastCGI", over_fastcgi)] {
        let ask = |request: &str, body: &[u8]| {
            let (stdout, stderr) = run(&folder, &variables(request, &folder), body).expect(name);
            let stderr = String::from_utf8_lossy(&stderr);
            assert!(stderr.contains("to the log"), "{name}: {stderr}");
            stdout
        };
        documents(name, &ask);
        redirects(name, &ask);
    }
}

type Ask<'a> = &'a dyn Fn(&str, &[u8]) -> Vec<u8>;

fn documents(name: &str, ask: Ask<'_>) {
    let long = "y".repeat(300);
    let request = format!(
        "POST /i.php/in%20fo?q=1 HTTP/1.1\nHost: h\nContent-Type: application/x-www-form-urlencoded\n\
         Content-Length: 8\nAuthorization: Basic bWU6cHc=\nCookie: c=d\nX-Long: {long}"
    );
    let output = ask(&request, b"p=posted");
    let Ok(Parsed::Complete { head, bytes }) = response::parse(&output, &response::Limits::default()) else {
        panic!("{name}: {}", output.escape_ascii());
    };
    assert_eq!((head.kind, head.status.0), (Kind::Document, 200), "{name}");
    assert!(head.fields().any(|field| field == (b"X-Test", b"1")), "{name}");
    let expected = format!(
        "REQUEST_METHOD=POST\nSCRIPT_NAME=/i.php\nPHP_SELF=/i.php/in fo\nPATH_INFO=/in fo\nREQUEST_URI=/i.php/in%20fo?q=1\n\
         PHP_AUTH_USER=me\nHTTP_X_LONG={long}\nhttp here\nposted d\n"
    );
    assert_eq!(String::from_utf8_lossy(&output[bytes..]), expected, "{name}");

    let output = ask("GET /i.php?fill=300000 HTTP/1.0", b"");
    let Ok(Parsed::Complete { bytes, .. }) = response::parse(&output, &response::Limits::default()) else {
        panic!("{name}: {}", output[..200].escape_ascii());
    };
    assert_eq!(output.len() - bytes, 300_000, "{name}");
}

/// PHP names a status of its own, so that even a path of this server is the client's to follow.
fn redirects(name: &str, ask: Ask<'_>) {
    let output = ask("GET /i.php?to=/other HTTP/1.1\nHost: h", b"");
    let Ok(Parsed::Complete { head, .. }) = response::parse(&output, &response::Limits::default()) else {
        panic!("{name}: {}", output.escape_ascii());
    };
    assert_eq!((head.kind, head.status.0), (Kind::ClientRedirectWithDocument, 302), "{name}");
    assert!(head.fields().any(|field| field == (b"Location", b"/other")), "{name}");
}
