//! Early data (RFC 8470), with every architecture that takes it: what is answered before the handshake's end, and what is not.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use flash_tests::{ARCHITECTURES, PATIENCE, Server, connect, each, scripts, site};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};
use tempfile::TempDir;

use crate::CLOSE;
use crate::client::{Authority, Secured, ask};

/// A program that notes that it runs, and says what it knows of early data.
fn scripts() -> TempDir {
    let folder = scripts::make();
    let notes = folder.path().join("notes");
    let said = "printf 'Content-Type: text/plain\\n\\nEARLY=%s.' \"$HTTP_EARLY_DATA\"";
    let script = format!("#!/bin/sh\necho $QUERY_STRING >> {}\n{said}", notes.display());
    scripts::script(folder.path(), "say", &script);
    scripts::script(folder.path(), "late", "#!/bin/sh\nprintf 'Status: 425 Too Early\\n\\n'");
    folder
}

/// How often the program has run for this query.
fn runs(scripts: &Path, query: &str) -> usize {
    let notes = fs::read_to_string(scripts.join("notes")).unwrap_or_default();
    notes.lines().filter(|line| *line == query).count()
}

fn start(arch: &str, site: &Path, scripts: &Path) -> (Secured, Arc<ClientConfig>) {
    let cgi = format!("/cgi={}", scripts.display());
    let secured = Secured::start(arch, site, &["--early-data", "on", "--cgi", &cgi]);
    let mut config = ClientConfig::clone(&secured.authority.client());
    config.enable_early_data = true;
    (secured, Arc::new(config))
}

/// A client that has been there before.
struct Returning {
    client: ClientConnection,
    socket: TcpStream,
    /// What it has sent at first.
    flight: Vec<u8>,
}

impl Returning {
    /// Sends its first flight, with a request as early data.
    fn new(server: &Server, config: &Arc<ClientConfig>, request: &str) -> Self {
        let name = ServerName::try_from("localhost").expect("a name");
        let mut client = ClientConnection::new(Arc::clone(config), name).expect("a client");
        let mut early = client.early_data().expect("it may send early data");
        early.write_all(request.as_bytes()).expect("there is room");
        let mut flight = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut flight).expect("a vector takes all");
        }
        let mut socket = connect(server.address);
        socket.write_all(&flight).expect("the server takes it");
        Self { client, socket, flight }
    }

    /// Reads until the answer ends with these bytes. Sends nothing, so the handshake is not complete meanwhile.
    fn read_until(&mut self, end: &str) -> String {
        let mut answer = Vec::new();
        while !answer.ends_with(end.as_bytes()) {
            let count = self.client.read_tls(&mut self.socket).expect("the server answers");
            assert!(count > 0, "it ended after {:?}", String::from_utf8_lossy(&answer));
            self.client.process_new_packets().expect("it speaks TLS");
            let mut piece = [0; 10_000];
            while let Ok(count @ 1..) = self.client.reader().read(&mut piece) {
                answer.extend_from_slice(&piece[..count]);
            }
        }
        String::from_utf8(answer).expect("a text")
    }

    /// Completes the handshake.
    fn finish(&mut self) {
        while self.client.wants_write() {
            self.client.write_tls(&mut self.socket).expect("the server takes it");
        }
    }
}

/// Each architecture but mp.
fn each_with_early_data(test: impl Fn(&str) + Sync) {
    each(|arch| {
        if arch != "mp" {
            test(arch);
        }
    });
}

#[test]
fn a_get_is_answered_before_the_handshakes_end() {
    let (folder, scripts) = (site::make(), scripts());
    each_with_early_data(|arch| {
        let (secured, config) = start(arch, folder.path(), scripts.path());
        let kept = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        // Each request is late or early, and its connection is used again.
        ask(&secured.server, &config, "localhost", &format!("GET /a.txt HTTP/1.1\r\n{CLOSE}"))
            .expect("a response");
        let mut client = Returning::new(&secured.server, &config, &kept("/a.txt"));
        let answer = client.read_until("0123456789");
        assert!(
            answer.starts_with("HTTP/1.1 200 ") && client.client.is_early_data_accepted(),
            "{arch}: {answer}"
        );
        client.finish();
        client.client.writer().write_all(kept("/cgi/say").as_bytes()).expect("there is room");
        client.finish();
        // The handshake is complete, so this is no repetition.
        assert!(client.read_until("0\r\n\r\n").contains("EARLY=."), "{arch}");
        let mut client = Returning::new(&secured.server, &config, &kept("/cgi/say"));
        assert!(client.read_until("0\r\n\r\n").contains("EARLY=1."), "{arch}");
        client.finish();
        // Whatever the client says of itself.
        client.client.writer().write_all(kept("/a.txt").as_bytes()).expect("there is room");
        client.finish();
        client.read_until("0123456789");
        let forged = "GET /cgi/say HTTP/1.1\r\nHost: localhost\r\nEarly-Data: 0\r\n\r\n";
        let mut client = Returning::new(&secured.server, &config, forged);
        assert!(client.read_until("0\r\n\r\n").contains("EARLY=1."), "{arch}");
        client.finish();
        client.client.writer().write_all(kept("/a.txt").as_bytes()).expect("there is room");
        client.finish();
        client.read_until("0123456789");
        // A program that does not take it.
        let mut client = Returning::new(&secured.server, &config, &kept("/cgi/late"));
        assert!(client.read_until("\r\n\r\n").starts_with("HTTP/1.1 425 Too Early\r\n"), "{arch}");
        drop(client);
        secured.server.stop();
    });
}

#[test]
fn a_post_gets_425_and_does_not_run_before_the_handshakes_end() {
    let (folder, scripts) = (site::make(), scripts());
    each_with_early_data(|arch| {
        let (secured, config) = start(arch, folder.path(), scripts.path());
        let query = format!("post-{}", secured.server.address.port());
        let request = format!("POST /cgi/say?{query} HTTP/1.1\r\nContent-Length: 4\r\n{CLOSE}body");
        ask(&secured.server, &config, "localhost", &format!("GET /a.txt HTTP/1.1\r\n{CLOSE}"))
            .expect("a response");
        let mut client = Returning::new(&secured.server, &config, &request);
        let answer = client.read_until("</html>\n");
        assert!(answer.starts_with("HTTP/1.1 425 Too Early\r\n"), "{arch}: {answer}");
        assert_eq!(runs(scripts.path(), &query), 0, "{arch}");
        client.finish();
        drop(client);
        // As RFC 8470 §5.2 has it.
        let (_, answer) = ask(&secured.server, &config, "localhost", &request).expect("a response");
        let answer = String::from_utf8_lossy(&answer).into_owned();
        assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains("EARLY=."), "{arch}: {answer}");
        assert_eq!(runs(scripts.path(), &query), 1, "{arch}");
        secured.server.stop();
    });
}

#[test]
fn a_recorded_flight_is_not_taken_again() {
    let (folder, scripts) = (site::make(), scripts());
    each_with_early_data(|arch| {
        let (secured, config) = start(arch, folder.path(), scripts.path());
        let query = format!("once-{}", secured.server.address.port());
        ask(&secured.server, &config, "localhost", &format!("GET /a.txt HTTP/1.1\r\n{CLOSE}"))
            .expect("a response");
        let mut client =
            Returning::new(&secured.server, &config, &format!("GET /cgi/say?{query} HTTP/1.1\r\n{CLOSE}"));
        assert!(client.read_until("0\r\n\r\n").contains("EARLY=1."), "{arch}");
        for _ in 0..3 {
            let mut again = connect(secured.server.address);
            again.write_all(&client.flight).expect("the server takes it");
            // It begins a whole handshake, and drops the early data.
            assert!(again.read(&mut [0; 100]).expect("an answer") > 0, "{arch}");
        }
        // A program would have run by then.
        let give_up = Instant::now() + Duration::from_millis(500);
        while Instant::now() < give_up.min(Instant::now() + PATIENCE) {
            assert_eq!(runs(scripts.path(), &query), 1, "{arch}");
            thread::sleep(Duration::from_millis(50));
        }
        secured.server.stop();
    });
}

#[test]
fn without_the_flag_there_is_no_early_data_and_mp_refuses_the_flag() {
    let folder = site::make();
    for arch in ARCHITECTURES {
        let secured = Secured::start(arch, folder.path(), &[]);
        let mut config = ClientConfig::clone(&secured.authority.client());
        config.enable_early_data = true;
        let config = Arc::new(config);
        ask(&secured.server, &config, "localhost", &format!("GET /a.txt HTTP/1.1\r\n{CLOSE}"))
            .expect("a response");
        let name = ServerName::try_from("localhost").expect("a name");
        let mut client = ClientConnection::new(Arc::clone(&config), name).expect("a client");
        assert!(client.early_data().is_none(), "{arch}");
        secured.server.stop();
    }
    let (certificate, key) = Authority::new().issue("localhost", &["localhost"]);
    let mut command = std::process::Command::new(flash_tests::program());
    command.args(["serve", "--arch", "mp", "--early-data", "on", "--listen", "127.0.0.1:0"]);
    command.args(["--tls-certificate", &certificate, "--tls-key", &key]).arg(folder.path());
    let output = command.output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        output.status.code() == Some(2) && said.contains("--early-data on does not work with --arch mp"),
        "{said}"
    );
}
