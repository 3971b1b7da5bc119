//! An HTTP server that does what a test tells it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

use flash_tests::reply;

pub(crate) struct Backend {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    manner: Manner,
    is_sick: bool,
    /// Requests that are no checks.
    asked: usize,
    checks: usize,
    now: usize,
    most: usize,
    has_ended: bool,
}

/// What becomes of a request.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Manner {
    #[default]
    Answers,
    /// It waits until the manner is another.
    Holds,
    /// The connection closes.
    Closes,
}

impl Backend {
    pub(crate) fn start() -> Self {
        Self::at(&TcpListener::bind("127.0.0.1:0").expect("a port"))
    }

    /// Is there again, after its end.
    pub(crate) fn again(address: SocketAddr) -> Self {
        Self::at(&TcpListener::bind(address).expect("the same port"))
    }

    fn at(listener: &TcpListener) -> Self {
        let (address, shared) = (listener.local_addr().expect("it has one"), Arc::new(Shared::default()));
        let (listener, known) = (listener.try_clone().expect("a descriptor"), Arc::clone(&shared));
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if known.state.lock().expect("it is whole").has_ended {
                    break;
                }
                let shared = Arc::clone(&known);
                thread::spawn(move || shared.serve(stream));
            }
        });
        Self { address, shared }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    fn with<T>(&self, then: impl FnOnce(&mut State) -> T) -> T {
        let result = then(&mut self.shared.state.lock().expect("it is whole"));
        self.shared.changed.notify_all();
        result
    }

    pub(crate) fn set(&self, manner: Manner) {
        self.with(|state| state.manner = manner);
    }

    /// From now on its check says so.
    pub(crate) fn set_sick(&self, is_sick: bool) {
        self.with(|state| state.is_sick = is_sick);
    }

    /// How many requests have come.
    pub(crate) fn asked(&self) -> usize {
        self.with(|state| state.asked)
    }

    pub(crate) fn checks(&self) -> usize {
        self.with(|state| state.checks)
    }

    /// The most that it had at a time.
    pub(crate) fn most(&self) -> usize {
        self.with(|state| state.most)
    }

    /// Refuses connections from now on.
    pub(crate) fn stop(self) -> SocketAddr {
        self.address
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        self.with(|state| (state.has_ended, state.manner) = (true, Manner::Closes));
        // The thread that accepts closes the listener.
        let _ = TcpStream::connect(self.address);
        flash_tests::wait_for("the port is free", || TcpStream::connect(self.address).is_err());
    }
}

impl Shared {
    fn serve(&self, mut stream: TcpStream) {
        let mut got = Vec::new();
        let mut buffer = [0; 4096];
        loop {
            while reply::find(&got, b"\r\n\r\n").is_none() {
                match stream.read(&mut buffer) {
                    Ok(0) | Err(_) => return,
                    Ok(count) => got.extend_from_slice(&buffer[..count]),
                }
            }
            let is_check = got.starts_with(b"GET /healthz ");
            got.clear();
            let status = self.answer(is_check);
            let Some(status) = status else { return };
            let port = stream.local_addr().expect("it has one").port().to_string();
            let head = format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\n\r\n{port}", port.len());
            if stream.write_all(head.as_bytes()).is_err() {
                return;
            }
        }
    }

    /// The status, unless the connection closes.
    fn answer(&self, is_check: bool) -> Option<u16> {
        let mut state = self.state.lock().expect("it is whole");
        if state.has_ended {
            return None;
        }
        if is_check {
            state.checks += 1;
            return Some(if state.is_sick { 503 } else { 200 });
        }
        state.asked += 1;
        state.now += 1;
        state.most = state.most.max(state.now);
        while state.manner == Manner::Holds {
            state = self.changed.wait(state).expect("it is whole");
        }
        state.now -= 1;
        (state.manner == Manner::Answers).then_some(200)
    }
}
