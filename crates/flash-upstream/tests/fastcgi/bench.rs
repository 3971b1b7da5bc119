//! A FastCGI server that does what a test tells it.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use flash_cgi::Variables;
use flash_core::upstream::{OpenError, Opened};
use flash_upstream::{Address, RouteUpstreams, ServerConfig, Settings, UnixAddress, UpstreamConfig};
use tempfile::TempDir;

use crate::exchange::{Asked, PATIENCE, Request, log_detached, reporter};

pub(crate) struct Bench {
    pub(crate) folder: TempDir,
    pub(crate) socket: PathBuf,
    programs: RouteUpstreams,
    said: Arc<Mutex<Vec<String>>>,
}

pub(crate) fn address_of(socket: &Path) -> Address {
    Address::Unix(UnixAddress::new(socket).unwrap())
}

impl Bench {
    /// A server that will listen, or not, at a Unix socket.
    pub(crate) fn unix(settings: Settings) -> Self {
        let folder = TempDir::new().unwrap();
        let address = address_of(&folder.path().join("socket"));
        Self::in_folder(folder, address, settings)
    }

    pub(crate) fn at(address: Address, settings: Settings) -> Self {
        Self::in_folder(TempDir::new().unwrap(), address, settings)
    }

    fn in_folder(folder: TempDir, address: Address, settings: Settings) -> Self {
        let (reporter, said) = reporter();
        let config =
            ServerConfig { name: address.to_string(), address, lookup: None, tls: None, is_http2: false };
        let programs = RouteUpstreams::start(
            vec![(UpstreamConfig::FastCgi(config), vec![Arc::new(())])],
            None,
            None,
            &settings,
            reporter,
            log_detached(),
        )
        .unwrap();
        let socket = folder.path().join("socket");
        Self { folder, socket, programs, said }
    }

    pub(crate) fn listen(&self) -> UnixListener {
        UnixListener::bind(&self.socket).unwrap()
    }

    /// Listens with room for so many and one more.
    pub(crate) fn listen_narrowly(&self, backlog: i32) -> UnixListener {
        let listener = self.listen();
        rustix::net::listen(&listener, backlog).unwrap();
        listener
    }

    pub(crate) fn ask(&self, again: bool) -> Asked {
        self.ask_with(again, Variables::default())
    }

    pub(crate) fn ask_with(&self, again: bool, variables: Variables) -> Asked {
        Asked::of(&self.programs, variables, again)
    }

    #[track_caller]
    pub(crate) fn begin(&self) -> Request {
        self.ask(false).answer()
    }

    #[track_caller]
    pub(crate) fn begin_at_once(&self) -> Request {
        self.ask(false).answer_at_once()
    }

    #[track_caller]
    pub(crate) fn refused_at_once(&self) -> OpenError {
        match self.ask(false).at_once() {
            Opened::Failed(why) => why,
            begun => panic!("{begun:?}"),
        }
    }

    pub(crate) fn said(&self) -> Vec<String> {
        self.said.lock().unwrap().clone()
    }

    pub(crate) fn end(self) {}
}

/// The server's side of a connection.
pub(crate) struct Peer {
    stream: UnixStream,
}

const END_REQUEST: u8 = 3;
const STDIN: u8 = 5;
const STDOUT: u8 = 6;

impl Peer {
    #[track_caller]
    pub(crate) fn accept(listener: &UnixListener) -> Self {
        Self::accept_or_end(listener).unwrap()
    }

    pub(crate) fn accept_or_end(listener: &UnixListener) -> Option<Self> {
        let stream = listener.accept().ok()?.0;
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Some(Self { stream })
    }

    pub(crate) fn of_tcp(stream: TcpStream) -> Self {
        Self { stream: UnixStream::from(OwnedFd::from(stream)) }
    }

    /// The next record's type; `None` at the end.
    pub(crate) fn read_record(&mut self) -> Option<u8> {
        let mut head = [0; 8];
        self.stream.read_exact(&mut head).ok()?;
        let length = usize::from(u16::from_be_bytes([head[4], head[5]])) + usize::from(head[6]);
        let mut content = vec![0; length];
        self.stream.read_exact(&mut content).ok()?;
        // An empty STDIN is its end, and the request's.
        Some(if head[1] == STDIN && length == 0 { u8::MAX } else { head[1] })
    }

    #[track_caller]
    pub(crate) fn read_request(&mut self) {
        assert!(self.read_request_or_end());
    }

    fn read_request_or_end(&mut self) -> bool {
        loop {
            match self.read_record() {
                None => return false,
                Some(u8::MAX) => return true,
                Some(_) => {}
            }
        }
    }

    #[track_caller]
    pub(crate) fn answer(&mut self, what: &str) {
        assert!(self.answer_or_end(what), "a request was expected");
    }

    pub(crate) fn answer_or_end(&mut self, what: &str) -> bool {
        if !self.read_request_or_end() {
            return false;
        }
        let mut bytes = vec![1, STDOUT, 0, 1, 0, what.len() as u8, 0, 0];
        bytes.extend_from_slice(what.as_bytes());
        bytes.extend_from_slice(&[1, END_REQUEST, 0, 1, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        self.stream.write_all(&bytes).is_ok()
    }

    pub(crate) fn is_closed(&mut self) -> bool {
        self.stream.set_nonblocking(true).unwrap();
        let read = self.stream.read(&mut [0]);
        self.stream.set_nonblocking(false).unwrap();
        match read {
            Ok(count) => count == 0,
            Err(error) => error.kind() != ErrorKind::WouldBlock,
        }
    }

    pub(crate) fn waits_for_end(&mut self) -> bool {
        matches!(self.stream.read(&mut [0]), Ok(0))
    }
}
