//! Requests that two servers may take for different ones: what reaches the server behind is one request, or none.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use flash_tests::{Server, reply};
use tempfile::TempDir;

/// Writes down what it is sent, and answers each head with 200.
struct Listener {
    port: u16,
    got: Arc<Mutex<Vec<u8>>>,
}

impl Listener {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("it has one").port();
        let got = Arc::new(Mutex::new(Vec::new()));
        let all = Arc::clone(&got);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let all = Arc::clone(&all);
                std::thread::spawn(move || answer(stream, &all));
            }
        });
        Self { port, got }
    }

    fn take(&self) -> String {
        let got = std::mem::take(&mut *self.got.lock().expect("nobody panics with it"));
        String::from_utf8_lossy(&got).into_owned()
    }
}

fn answer(mut stream: TcpStream, all: &Mutex<Vec<u8>>) {
    let mut buffer = [0; 4096];
    let mut own = Vec::new();
    while let Ok(count @ 1..) = stream.read(&mut buffer) {
        all.lock().expect("nobody panics with it").extend_from_slice(&buffer[..count]);
        own.extend_from_slice(&buffer[..count]);
        if reply::find(&own, b"\r\n\r\n").is_some() {
            own.clear();
            if stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").is_err() {
                return;
            }
        }
    }
}

const HIDDEN: &str = "GET /hidden HTTP/1.1\r\nHost: a\r\n\r\n";

#[test]
fn nothing_is_smuggled_through() {
    let (folder, listener) = (tempfile::tempdir().expect("a folder"), Listener::start());
    let server =
        Server::start("amped", folder.path(), &[&format!("--proxy=http://127.0.0.1:{}", listener.port)]);
    let post = |fields: &str, body: &str| format!("POST /seen HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\n{body}");
    for (request, passes) in [
        // CL.TE, TE.CL and their disguises.
        (post("Content-Length: 6\r\nTransfer-Encoding: chunked", &format!("0\r\n\r\n{HIDDEN}")), false),
        (post("Transfer-Encoding: chunked\r\nContent-Length: 3", "1\r\nA\r\n0\r\n\r\n"), false),
        (post("Transfer-Encoding: xchunked", HIDDEN), false),
        (post("Transfer-Encoding : chunked", "0\r\n\r\n"), false),
        (post("Transfer-Encoding:\tchunked\r\nTransfer-Encoding: identity", "0\r\n\r\n"), false),
        (post("Transfer-Encoding: chunked, identity", "0\r\n\r\n"), false),
        (post("Transfer-Encoding: \x0bchunked", "0\r\n\r\n"), false),
        (post("Content-Length: 5\r\nContent-Length: 6", "hello"), false),
        (post("Content-Length: +5", "hello"), false),
        (post("Content-Length: 0x5", "hello"), false),
        (post("Content-Length: 5, 5", "hello"), false),
        (post("X: a\r\n Content-Length: 5", "hello"), false),
        (post("X: a\0b", ""), false),
        (post("X\0: a", ""), false),
        (post("X: a\rb", ""), false),
        (format!("GET /seen HTTP/1.1\nHost: a\r\nX: a\r\r\n\r\n{HIDDEN}"), false),
        (post("Transfer-Encoding: chunked", &format!("5\r\nhello0\r\n\r\n{HIDDEN}")), false),
        (post("Transfer-Encoding: chunked", &format!("ffffffffffffffff1\r\n{HIDDEN}")), false),
        (post("Transfer-Encoding: chunked", &format!("5\nhello\r\n0\r\n\r\n{HIDDEN}")), false),
        // What is no trick passes, in one form.
        (post("Content-Length: 5", "hello"), true),
        (post("Transfer-Encoding: chunked", "5;a=\"\r\\n\"\r\nhello\r\n0\r\nX: y\r\n\r\n"), false),
        (post("Transfer-Encoding: chunked", "5;a=b\r\nhello\r\n0\r\nX: y\r\n\r\n"), true),
        (post("Transfer-Encoding: Chunked", "5\r\nhello\r\n0\r\n\r\n"), true),
        (post("Content_Length: 100\r\nContent-Length: 5", "hello"), true),
        (post("Connection: Content-Length, Host, X-Forwarded-For\r\nContent-Length: 5", "hello"), true),
    ] {
        let mut client = server.connect();
        client.set_read_timeout(Some(Duration::from_millis(300))).expect("it is a socket");
        let _ = client.write_all(request.as_bytes());
        let mut got = Vec::new();
        let _ = client.read_to_end(&mut got);
        let told = listener.take();
        let count = told.matches(" HTTP/1.1\r\n").count();
        assert_eq!(
            count,
            usize::from(passes),
            "{request:?} leads to {told:?} and {:?}",
            String::from_utf8_lossy(&got)
        );
        assert!(!told.contains("/hidden") && !told.contains("chunked"), "{request:?} leads to {told:?}");
        if passes {
            assert!(
                told.contains("\r\nContent-Length: 5\r\n") && told.ends_with("\r\n\r\nhello"),
                "{told:?}"
            );
            assert!(
                told.contains("\r\nHost: a\r\n") && told.contains("\r\nX-Forwarded-For: 127.0.0.1\r\n"),
                "{told:?}"
            );
        }
    }
    drop::<TempDir>(folder);
}
