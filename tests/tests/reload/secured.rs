//! Clients over TLS with HTTP/2 through a reload, also in the sandbox that is required.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use flash_tests::{PROCESSES, site, wait_for};

use crate::client::{Authority, Stream, ask, stream};
use crate::setup::{Setup, architectures, each};

const LARGE_BYTES: usize = 1_000_000;
/// What a client of HTTP/2 may be sent before it says more (RFC 9113 §6.9.2).
const WINDOW: usize = 65_535;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// A connection of HTTP/2 whose streams are read one after the other.
struct Client<S = Stream>(S);

/// What has come on one stream.
#[derive(Default)]
struct Answer {
    /// The first byte of its header block, which is its status in the static table of RFC 7541.
    status: u8,
    body: Vec<u8>,
    has_ended: bool,
}

const STATUS_200: u8 = 0x88;

impl Client {
    fn connect(setup: &Setup, authority: &Authority) -> Self {
        let mut config = (*authority.client()).clone();
        config.alpn_protocols = vec![b"h2".to_vec()];
        Self(stream(&setup.server, &Arc::new(config), "localhost")).begin()
    }
}

impl<S: Read + Write> Client<S> {
    fn begin(self) -> Self {
        let mut client = self;
        client.0.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").expect("the server takes the preface");
        client.send(SETTINGS, 0, 0, &[]);
        // So that each stream has its own window, and none waits for another one's.
        client.send(WINDOW_UPDATE, 0, 0, &(2 * LARGE_BYTES as u32).to_be_bytes());
        client
    }

    fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let length = u32::try_from(payload.len()).expect("a short frame").to_be_bytes();
        let head = [&length[1..], &[kind, flags], &stream.to_be_bytes()].concat();
        self.0.write_all(&[&head, payload].concat()).expect("the connection is open");
        self.0.flush().expect("the connection is open");
    }

    fn ask(&mut self, stream: u32, path: &str) {
        let literal = |name: u8, value: &str| [&[name, value.len() as u8], value.as_bytes()].concat();
        // GET, https, the authority and the path.
        let block = [vec![0x82, 0x87], literal(1, "localhost"), literal(4, path)].concat();
        self.send(HEADERS, END_STREAM | END_HEADERS, stream, &block);
    }

    /// Reads frames until the answer on this stream has ended, or has so many bytes.
    fn read(&mut self, stream: u32, answer: &mut Answer, bytes: usize) {
        while !answer.has_ended && answer.body.len() < bytes {
            let mut head = [0; 9];
            self.0.read_exact(&mut head).expect("the connection stays open");
            let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
            self.0.read_exact(&mut payload).expect("the connection stays open");
            let (kind, flags) = (head[3], head[4]);
            let of = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
            match kind {
                SETTINGS if flags == 0 => self.send(SETTINGS, 1, 0, &[]),
                PING if flags == 0 => self.send(PING, 1, 0, &payload),
                // No more requests, but what is under way goes on. Only mp says that.
                GOAWAY if payload[4..8] == [0; 4] => {}
                RST_STREAM | GOAWAY => panic!("the server has ended stream {of}: {payload:?}"),
                HEADERS if of == stream => {
                    // Behind a change of the table's size.
                    let status = payload.iter().find(|byte| **byte >= 0x80);
                    answer.status = *status.expect("a status of the static table");
                }
                DATA if of == stream => answer.body.extend(payload),
                _ => {}
            }
            answer.has_ended = of == stream && matches!(kind, DATA | HEADERS) && flags & END_STREAM != 0;
        }
    }

    fn get(&mut self, stream: u32, path: &str) -> Answer {
        self.ask(stream, path);
        let mut answer = Answer::default();
        self.read(stream, &mut answer, usize::MAX);
        answer
    }

    /// Reads to the end of the connection. Returns whether the server has said that it takes no more requests.
    fn is_told_to_leave(&mut self) -> bool {
        let (mut head, mut is_told) = ([0; 9], false);
        while self.0.read_exact(&mut head).is_ok() {
            let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
            self.0.read_exact(&mut payload).expect("a whole frame");
            is_told |= head[3] == GOAWAY;
            if (head[3], head[4]) == (PING, 0) {
                self.send(PING, 1, 0, &payload);
            }
        }
        is_told
    }

    /// Lets the server send the rest.
    fn open_window(&mut self, stream: u32) {
        self.send(WINDOW_UPDATE, 0, stream, &(LARGE_BYTES as u32).to_be_bytes());
    }
}

/// A request under way ends as it began, and the next one of the same connection gets the new configuration.
#[test]
fn connections_of_http2_stay_open_and_their_next_requests_get_the_new_configuration() {
    each(architectures(), |arch| {
        let is_confined = arch == PROCESSES;
        let authority = Authority::new();
        let (certificate, key) = authority.issue("localhost", &["localhost"]);
        let tls = format!(
            "listen = 'https://127.0.0.1:0'\ntls = {{ certificate = '{certificate}', key = '{key}' }}\n"
        );
        let tls = if is_confined { format!("{tls}sandbox = 'required'\n") } else { tls };
        let setup = Setup::start(arch, &tls);
        let [old, new] = [site::pattern(LARGE_BYTES), vec![7; LARGE_BYTES]];
        site::write(&setup.path("old/large"), &old);
        site::write(&setup.path("new/large"), &new);
        let mut idle = Client::connect(&setup, &authority);
        assert_eq!(idle.get(1, "/a.txt").body, b"old", "{arch}");
        let mut busy = Client::connect(&setup, &authority);
        let mut download = Answer::default();
        busy.ask(1, "/large");
        busy.read(1, &mut download, WINDOW);
        assert_eq!((download.status, download.body.len()), (STATUS_200, WINDOW), "{arch}");
        setup.change(&format!("{tls}root = 'new'\nlist = true\n"));
        let mut later = Client::connect(&setup, &authority);
        // A connection with TLS cannot leave its process of mp, and ends there.
        let kept = [&mut idle, &mut busy].into_iter().filter(|_| arch != "mp");
        for client in kept.chain([&mut later]) {
            let small = client.get(3, "/a.txt");
            assert_eq!((small.status, &small.body[..]), (STATUS_200, &b"new"[..]), "{arch}");
            assert_eq!(client.get(5, "/empty/").status, STATUS_200, "{arch}: folders are listed now");
        }
        busy.open_window(1);
        busy.read(1, &mut download, usize::MAX);
        assert!(download.body == old, "{arch}: other bytes, {} of them", download.body.len());
        drop((idle, busy, later));
        wait_for("the first configuration to be freed", || setup.in_use() == [2]);
        setup.server.stop();
    });
}

/// What helper processes have found is answered with the present fields.
#[test]
fn the_fields_of_responses_change_also_with_helper_processes() {
    each(architectures(), |arch| {
        let authority = Authority::new();
        let (certificate, key) = authority.issue("localhost", &["localhost"]);
        let sandbox = if arch == PROCESSES { "sandbox = 'required'\n" } else { "" };
        let tls = format!(
            "listen = 'https://127.0.0.1:0'\nhttps = 'required'\n{sandbox}\
             tls = {{ certificate = '{certificate}', key = '{key}' }}\n"
        );
        let setup = Setup::start(arch, &tls);
        let config = authority.client();
        let ask = || {
            let request = "GET /a.txt HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
            let (_, bytes) = ask(&setup.server, &config, "localhost", request).expect("an answer");
            String::from_utf8(bytes).expect("it is text")
        };
        let before = ask();
        assert!(before.contains("charset=utf-8") && !before.contains("Strict-Transport-Security"), "{arch}");
        for (hsts, seconds) in [("1h", 3600), ("2h", 7200)] {
            setup
                .change(&format!("{tls}hsts = '{hsts}'\ncharset = 'off'\nheader = {{ X-Own = '{hsts}' }}\n"));
            let after = ask();
            for field in
                [format!("Strict-Transport-Security: max-age={seconds}\r\n"), format!("X-Own: {hsts}\r\n")]
            {
                assert!(after.contains(&field), "{arch}: {after}");
            }
            assert!(!after.contains("charset") && after.ends_with("old"), "{arch}: {after}");
        }
        setup.server.stop();
    });
}

/// A connection of mp that cannot leave its process ends with the reload, and gives no answer of the earlier configuration.
#[test]
fn kept_connections_of_mp_end_with_a_reload_if_they_cannot_leave_their_process() {
    let authority = Authority::new();
    let (certificate, key) = authority.issue("localhost", &["localhost"]);
    for wait in [Duration::ZERO, Duration::from_millis(200)] {
        let setup = Setup::start(
            "mp",
            &format!(
                "listen = ['https://127.0.0.1:0', '127.0.0.1:0']\nprocesses-max = 8\n\
                 tls = {{ certificate = '{certificate}', key = '{key}' }}\n"
            ),
        );
        let mut http2 = Client::connect(&setup, &authority);
        let said = setup.server.said();
        let plain =
            said.split("http://127.0.0.1:").nth(1).and_then(|rest| rest.split([' ', '/', ',']).next());
        let address = format!("127.0.0.1:{}", plain.expect("it says where it listens"));
        let mut bare = Client(TcpStream::connect(address).expect("a connection")).begin();
        assert_eq!(
            (http2.get(1, "/a.txt").body, bare.get(1, "/a.txt").body),
            (b"old".to_vec(), b"old".to_vec())
        );
        let mut http1 = stream(&setup.server, &authority.client(), "localhost");
        http1.write_all(b"GET /a.txt HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("a request");
        let mut answer = [0; 4096];
        let mut count = 0;
        while !answer[..count].ends_with(b"old") {
            count += http1.read(&mut answer[count..]).expect("an answer");
        }
        // A worker waits for its client in one way at first, and in another one later.
        thread::sleep(wait);
        let text = fs::read_to_string(setup.path("flash.toml")).expect("the file is there");
        fs::write(setup.path("flash.toml"), text.replace("'old'", "'new'")).expect("the file is written");
        assert_eq!(setup.ask("POST", "/reload").0, 200);
        assert_eq!(http1.read(&mut answer).expect("a close_notify"), 0, "it is closed in order");
        assert!(http2.is_told_to_leave() && bare.is_told_to_leave());
        assert_eq!(Client::connect(&setup, &authority).get(1, "/a.txt").body, b"new");
        setup.server.stop();
    }
}
