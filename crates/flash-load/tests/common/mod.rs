//! Small servers with known faults, a thread for each connection, and loads against them.

// Each test program uses its own part of it.
#![allow(dead_code)]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use flash_load::{Address, ClientGroup, ClientOptions, Load, Pace, Report, Server, Until, Urls};
use flash_traffic::{Ask, Catalogue, File, Part, Sequence, Workload};

/// A connection as a server's code sees it.
pub(crate) struct Visitor {
    pub(crate) stream: TcpStream,
    /// Bytes behind the last head that was read.
    buffer: Vec<u8>,
    /// Which connection of the server's life it is, from 0.
    pub(crate) number: usize,
}

impl Visitor {
    /// The next request's head, none when the client has closed.
    pub(crate) fn head(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.buffer.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                let rest = self.buffer.split_off(end + 4);
                let head = std::mem::replace(&mut self.buffer, rest);
                return Some(String::from_utf8(head).expect("requests are text"));
            }
            let mut bytes = [0; 4096];
            match self.stream.read(&mut bytes) {
                Ok(0) | Err(_) => return None,
                Ok(count) => self.buffer.extend_from_slice(&bytes[..count]),
            }
        }
    }

    /// So many bytes behind the head; fewer when the client has closed.
    pub(crate) fn body(&mut self, bytes: usize) -> Vec<u8> {
        let mut body = self.buffer.drain(..bytes.min(self.buffer.len())).collect::<Vec<_>>();
        let have = body.len();
        body.resize(bytes, 0);
        let mut rest = &mut body[have..];
        // A read of nothing would wait.
        while !rest.is_empty() {
            match self.stream.read(rest) {
                Ok(count @ 1..) => rest = &mut rest[count..],
                Ok(0) | Err(_) => break,
            }
        }
        let missing = rest.len();
        body.truncate(bytes - missing);
        body
    }

    /// Whether the client has gone away does not matter to a test's server.
    pub(crate) fn say(&mut self, text: impl AsRef<[u8]>) {
        let _ = self.stream.write_all(text.as_ref());
    }

    pub(crate) fn ok(&mut self, body: impl AsRef<[u8]>) {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.as_ref().len());
        self.say([head.as_bytes(), body.as_ref()].concat());
    }
}

/// Serves each connection with the code until the test ends.
pub(crate) fn serve(code: impl Fn(Visitor) + Send + Sync + 'static) -> SocketAddr {
    serve_at("127.0.0.1:0", code)
}

pub(crate) fn serve_at(address: &str, code: impl Fn(Visitor) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind(address).expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let code = Arc::new(code);
    thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let Ok(stream) = stream else { return };
            let _ = stream.set_nodelay(true);
            let code = code.clone();
            thread::spawn(move || code(Visitor { stream, buffer: Vec::new(), number }));
        }
    });
    address
}

/// Serves each request alike.
pub(crate) fn answer(code: impl Fn(&mut Visitor, &str) + Send + Sync + 'static) -> SocketAddr {
    serve(move |mut visitor| {
        while let Some(head) = visitor.head() {
            code(&mut visitor, &head);
        }
    })
}

pub(crate) fn closed(clients: u32) -> Pace {
    Pace::Closed { clients, think: Duration::ZERO }
}

pub(crate) fn one() -> Arc<dyn Workload> {
    Arc::new(Urls::new(["/".to_owned()], "all"))
}

/// One file of a known size, asked for without end.
pub(crate) fn one_file(target: &str, bytes: u64) -> Arc<dyn Workload> {
    let file = File { target: target.into(), bytes: Some(bytes), class: 0, program: false };
    Arc::new(OneFile(Arc::new(Catalogue { files: vec![file], classes: vec!["all".into()] })))
}

struct OneFile(Arc<Catalogue>);

impl Workload for OneFile {
    fn catalogue(&self) -> &Arc<Catalogue> {
        &self.0
    }

    fn sequence(&self, _part: Part, _seed: u64) -> Box<dyn Sequence> {
        struct Always;
        impl Sequence for Always {
            fn next(&mut self) -> Option<Ask> {
                Some(Ask::of(0))
            }
        }
        Box::new(Always)
    }
}

/// A load of one group on one thread.
pub(crate) fn load(server: SocketAddr, pace: Pace, options: ClientOptions, until: Until) -> Load {
    Load {
        server: Server { address: Address::Tcp(server), authority: server.to_string(), tls: None },
        groups: vec![ClientGroup { workload: one(), pace, options }],
        threads: 1,
        warm_up: Duration::ZERO,
        until,
        timeout: Duration::from_secs(10),
        bits_per_second_min: None,
        seed: 1,
    }
}

pub(crate) fn run(load: &Load) -> Report {
    flash_load::run(load, &AtomicBool::new(false), |_| {}).expect("the load can be run")
}

/// So many requests of one client after the other.
pub(crate) fn ask(server: SocketAddr, requests: u64) -> Report {
    run(&load(server, closed(1), ClientOptions::default(), Until::Requests(requests)))
}

pub(crate) fn errors(report: &Report) -> Vec<(&str, u64)> {
    report.errors.iter().map(|(kind, count)| (kind.as_str(), *count)).collect()
}
