//! Programs as the request path has them begun.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use flash_core::path::SitePath;
use flash_core::record::RecordBuilder;
use flash_core::upstream::{Direct, Open, OpenError, Opened, ReleaseMode, UpstreamProtocol, Upstreams};
use flash_upstream::{Cgi, DirectLimits, ScriptFolder};

use crate::Test;
use crate::bench::{Bench, PATIENCE, is_alive, wait_until};

pub(crate) const TESTS: &[Test] = &[
    ("a_request_gets_a_stream", a_request_gets_a_stream),
    ("a_program_has_the_client_to_itself", a_program_has_the_client_to_itself),
    ("a_program_whose_client_leaves_is_ended", a_program_whose_client_leaves_is_ended),
    ("a_program_that_writes_nothing_is_ended", a_program_that_writes_nothing_is_ended),
];

const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\n";

fn cgi(bench: &Bench, silence_max: Duration) -> Cgi {
    let monitor = Arc::clone(bench.monitor.as_ref().unwrap());
    let folder = ScriptFolder { route: 7, folder: 0, counter: Arc::new(()) };
    let limits = DirectLimits { silence_max, fin_max: PATIENCE, send_max: PATIENCE };
    Cgi::new(monitor, vec![folder], limits, Arc::new(|_, _| ()))
}

fn begin(cgi: &Cgi, path: &str, socket: Option<TcpStream>) -> Opened {
    let (told, tells) = channel();
    let direct = socket.map(|socket| {
        socket.set_nonblocking(true).unwrap();
        Box::new(Direct {
            head: HEAD.to_vec(),
            socket: Some(socket.into()),
            record: RecordBuilder::default(),
        })
    });
    let begin = Open {
        route: 7,
        path: SitePath::parse(path.as_bytes()).unwrap().into_owned(),
        variables: Arc::default(),
        name: path.into(),
        again: false,
        may_be_repeated: true,
        failed: None,
        hash: None,
        sticky: None,
        direct,
        upstreams: None,
    };
    let now = cgi.begin(begin, Box::new(move |begun| drop(told.send(begun))));
    now.unwrap_or_else(|| tells.recv_timeout(PATIENCE).expect("every request is answered"))
}

fn connection() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    (client, listener.accept().unwrap().0)
}

fn a_request_gets_a_stream() {
    let bench = Bench::new(|_| ());
    let cgi = cgi(&bench, PATIENCE);
    bench.script("say", "echo $$; [ $PATH_INFO ] || sleep 100");
    bench.script("nph-say", "echo $$");
    for (path, protocol, how) in [
        ("/cgi/say/nph-x", UpstreamProtocol::Cgi, ReleaseMode::Ended),
        ("/cgi/nph-say", UpstreamProtocol::Nph, ReleaseMode::Ended),
        ("/cgi/say", UpstreamProtocol::Cgi, ReleaseMode::Aborted),
    ] {
        let Opened::Running(stream, upstream) = begin(&cgi, path, None) else { panic!("{path}") };
        assert!(upstream.protocol == protocol && !upstream.used);
        let mut stream = UnixStream::from(stream);
        stream.set_nonblocking(false).unwrap();
        let mut said = [0; 20];
        let count = stream.read(&mut said).unwrap();
        let pid = std::str::from_utf8(&said[..count]).unwrap().trim().parse().unwrap();
        upstream.lease.finish(stream.into(), how);
        wait_until(|| !is_alive(pid), || format!("{path} runs on"));
    }
    assert!(matches!(begin(&cgi, "/cgi/missing", None), Opened::Failed(OpenError::NotFound)));
}

fn a_program_has_the_client_to_itself() {
    let bench = Bench::new(|_| ());
    let cgi = cgi(&bench, PATIENCE);
    // What it leaves behind holds the connection, and nobody waits for that.
    bench.script("say", "sleep 100 & printf 'A: b\\r\\n\\r\\nhello'");
    bench.script("nph-say", "printf 'HTTP/1.1 203 Own\\r\\n\\r\\n'");
    for (path, expected) in
        [("/cgi/say", "HTTP/1.1 200 OK\r\nA: b\r\n\r\nhello"), ("/cgi/nph-say", "HTTP/1.1 203 Own\r\n\r\n")]
    {
        let (mut client, ours) = connection();
        // One that has said all that it had to say gets its answer.
        client.shutdown(Shutdown::Write).unwrap();
        assert!(matches!(begin(&cgi, path, Some(ours)), Opened::Detached));
        let mut got = String::new();
        client.read_to_string(&mut got).unwrap();
        assert_eq!(got, expected);
    }
}

fn a_program_whose_client_leaves_is_ended() {
    let bench = Bench::new(|_| ());
    let cgi = cgi(&bench, PATIENCE);
    bench.script("wait", "echo $$ > pid.new; mv pid.new pid; sleep 100");
    let (mut client, ours) = connection();
    client.write_all(b"more").unwrap();
    assert!(matches!(begin(&cgi, "/cgi/wait", Some(ours)), Opened::Detached));
    let pid = pid(&bench);
    std::thread::sleep(Duration::from_millis(1500));
    assert!(is_alive(pid), "a client that waits is no client that has left");
    drop(client);
    wait_until(|| !is_alive(pid), || "it runs on".into());
}

fn a_program_that_writes_nothing_is_ended() {
    let bench = Bench::new(|_| ());
    let cgi = cgi(&bench, Duration::from_millis(500));
    bench.script("wait", "echo $$ > pid.new; mv pid.new pid; sleep 100");
    let (mut client, ours) = connection();
    assert!(matches!(begin(&cgi, "/cgi/wait", Some(ours)), Opened::Detached));
    let pid = pid(&bench);
    wait_until(|| !is_alive(pid), || "it runs on".into());
    let mut got = Vec::new();
    client.read_to_end(&mut got).unwrap();
    assert_eq!(got, HEAD);
}

fn pid(bench: &Bench) -> u32 {
    let mut pid = None;
    let mut read = || {
        let text = std::fs::read_to_string(bench.path("pid")).ok();
        pid = text.and_then(|text| text.trim().parse().ok());
        pid.is_some()
    };
    wait_until(&mut read, || "it does not begin".into());
    pid.expect("it was waited for")
}
