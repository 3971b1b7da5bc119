//! Requests as the request path makes them, and a FastCGI server that does what a test tells it.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use flash_app::{Address, Ears, Limits, Programs, Service, Settings, UnixAddress};
use flash_cgi::Variables;
use flash_cgi::fastcgi::{Decoder, Encoder, Event};
use flash_core::path::SitePath;
use flash_core::program::{self, Backend, Begin, Begun, Finish, Lease, Refusal};
use tempfile::TempDir;

/// Long enough for a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) struct Bench {
    pub(crate) folder: TempDir,
    pub(crate) socket: PathBuf,
    programs: Programs,
    said: Arc<Mutex<Vec<String>>>,
}

pub(crate) struct Asked {
    now: Option<Begun>,
    later: Receiver<Begun>,
}

/// An exchange that has begun.
pub(crate) struct Request {
    pub(crate) used: bool,
    pub(crate) lease: Box<dyn Lease>,
    stream: UnixStream,
}

pub(crate) fn settings() -> Settings {
    Settings {
        kept_max: 32,
        connect: PATIENCE,
        queue_max: 100,
        queue_wait: PATIENCE,
        silence_max: PATIENCE,
        keeper: Limits { asked_max: 100, linger: PATIENCE },
    }
}

pub(crate) fn address_of(socket: &Path) -> Address {
    Address::Unix(UnixAddress::new(socket).unwrap())
}

#[track_caller]
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let give_up = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < give_up, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
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
        let said = Arc::new(Mutex::new(Vec::new()));
        let (one, other) = (Arc::clone(&said), Arc::clone(&said));
        let ears = Ears {
            complaint: Box::new(move |name, line| {
                one.lock().unwrap().push(format!("{name}: {}", String::from_utf8_lossy(line)));
            }),
            say: Box::new(move |what| other.lock().unwrap().push(what.to_string())),
            handed_over: Arc::new(|_, _| panic!("nothing is handed over here")),
        };
        let programs = Programs::start(vec![Service::FastCgi(address)], None, &settings, ears).unwrap();
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
        let (reply, later) = channel();
        let begin = Begin {
            route: 0,
            path: SitePath::parse(b"/x").unwrap().into_owned(),
            variables: Arc::new(variables),
            name: "GET /x".into(),
            again,
            direct: None,
        };
        // A test may have lost interest.
        let reply = Box::new(move |begun| drop(reply.send(begun)));
        let now = program::Programs::begin(&self.programs, begin, reply);
        Asked { now, later }
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
    pub(crate) fn refused_at_once(&self) -> Refusal {
        match self.ask(false).at_once() {
            Begun::Failed(why) => why,
            begun => panic!("{begun:?}"),
        }
    }

    pub(crate) fn said(&self) -> Vec<String> {
        self.said.lock().unwrap().clone()
    }

    pub(crate) fn end(self) {}
}

impl Asked {
    #[track_caller]
    pub(crate) fn at_once(self) -> Begun {
        self.now.expect("this needs nobody's help")
    }

    #[track_caller]
    pub(crate) fn answer_at_once(self) -> Request {
        Request::of(self.at_once())
    }

    #[track_caller]
    pub(crate) fn answer(self) -> Request {
        Request::of(self.begun())
    }

    /// What there is instead of a request, if there is none.
    #[track_caller]
    pub(crate) fn answered(self) -> Result<Request, Begun> {
        match self.begun() {
            begun @ Begun::Running(_) => Ok(Request::of(begun)),
            begun => Err(begun),
        }
    }

    #[track_caller]
    pub(crate) fn refusal(self) -> Refusal {
        match self.begun() {
            Begun::Failed(why) => why,
            begun => panic!("{begun:?}"),
        }
    }

    #[track_caller]
    fn begun(self) -> Begun {
        self.now.unwrap_or_else(|| self.later.recv_timeout(PATIENCE).expect("every request is answered"))
    }

    pub(crate) fn is_answered(&self, within: Duration) -> bool {
        self.now.is_some() || self.later.recv_timeout(within).is_ok()
    }
}

impl Request {
    #[track_caller]
    fn of(begun: Begun) -> Self {
        let Begun::Running(Backend { stream, lease, used, .. }) = begun else { panic!("{begun:?}") };
        // TCP or not, it is read and written alike.
        let stream = UnixStream::from(stream);
        stream.set_nonblocking(false).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { used, lease, stream }
    }

    pub(crate) fn send(&mut self) {
        self.send_with(&Variables::default());
    }

    pub(crate) fn send_with(&mut self, variables: &Variables) {
        let mut bytes = Vec::new();
        Encoder.begin(variables, true, &mut bytes);
        Encoder.end_body(&mut bytes);
        self.stream.write_all(&bytes).unwrap();
    }

    /// What the server says in answer.
    #[track_caller]
    pub(crate) fn receive(&mut self) -> String {
        let (mut decoder, mut said, mut buffer) = (Decoder::new(), Vec::new(), [0; 4096]);
        loop {
            let count = self.stream.read(&mut buffer).unwrap();
            assert!(count > 0, "it ended before its answer did: {}", String::from_utf8_lossy(&said));
            let mut rest = &buffer[..count];
            while let Some(event) = decoder.next(&mut rest).unwrap() {
                match event {
                    Event::Stdout(bytes) => said.extend_from_slice(bytes),
                    Event::Stderr(bytes) => self.lease.stderr(bytes),
                    Event::End(_) => return String::from_utf8(said).unwrap(),
                }
            }
        }
    }

    #[track_caller]
    pub(crate) fn exchange(&mut self) -> String {
        self.send();
        self.receive()
    }

    #[track_caller]
    pub(crate) fn wait_for_end(&mut self) {
        assert_eq!(self.stream.read(&mut [0]).unwrap(), 0);
    }

    pub(crate) fn finish(self, how: Finish) {
        self.stream.set_nonblocking(true).unwrap();
        self.lease.finish(OwnedFd::from(self.stream), how);
    }
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
