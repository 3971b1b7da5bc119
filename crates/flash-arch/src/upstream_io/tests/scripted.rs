//! Programs that are threads, and behave as the path says.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use flash_core::upstream::{
    Lease, OnOpened, Open, OpenError, Opened, ReleaseMode, Upstream, UpstreamProtocol, Upstreams,
};

use super::{FLOOD_BYTES, PATIENCE};

/// What became of leases.
#[derive(Debug, Default)]
pub(super) struct Fates {
    pub(super) reusable: AtomicUsize,
    pub(super) ended: AtomicUsize,
    pub(super) broken_off: AtomicUsize,
    /// Broken off, with a stream that the program saw the end of.
    pub(super) dropped: AtomicUsize,
}

/// Begins threads that behave as the path says.
#[derive(Default)]
pub(super) struct ScriptedUpstreams {
    pub(super) fates: Arc<Fates>,
    /// Upstreams that open after their connection has ended in a panic.
    late: Mutex<Vec<(OnOpened, Opened)>>,
    /// Kept streams to a FastCGI application.
    kept: Arc<Mutex<Vec<OwnedFd>>>,
    begun: AtomicUsize,
}

impl std::fmt::Debug for ScriptedUpstreams {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ScriptedUpstreams").field("fates", &self.fates).finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct Held {
    fates: Arc<Fates>,
    kept: Arc<Mutex<Vec<OwnedFd>>>,
    finished: bool,
}

impl Lease for Held {
    fn stderr(&mut self, _: &[u8]) {}

    fn finish(mut self: Box<Self>, stream: OwnedFd, how: ReleaseMode) {
        self.finished = true;
        match how {
            ReleaseMode::Reusable => {
                self.fates.reusable.fetch_add(1, Ordering::SeqCst);
                self.kept.lock().unwrap().push(stream);
            }
            ReleaseMode::Ended => drop(self.fates.ended.fetch_add(1, Ordering::SeqCst)),
            ReleaseMode::Aborted => drop(self.fates.broken_off.fetch_add(1, Ordering::SeqCst)),
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if !self.finished {
            self.fates.dropped.fetch_add(1, Ordering::SeqCst);
            self.fates.broken_off.fetch_add(1, Ordering::SeqCst);
        }
    }
}

impl Upstreams for ScriptedUpstreams {
    fn begin(&self, begin: Open, reply: OnOpened) -> Option<Opened> {
        let number = self.begun.fetch_add(1, Ordering::SeqCst);
        let path = String::from_utf8(begin.path.as_bytes().to_vec()).unwrap();
        if path.ends_with("/busy") {
            return Some(Opened::Failed(OpenError::Busy));
        }
        for (reply, opened) in self.late.lock().unwrap().drain(..) {
            reply(opened);
        }
        let (panics, is_late) = (path.ends_with("/panic"), path.ends_with("/late"));
        let protocol = if begin.route == 1 { UpstreamProtocol::FastCgi } else { UpstreamProtocol::Cgi };
        let kept = if protocol == UpstreamProtocol::FastCgi { self.kept.lock().unwrap().pop() } else { None };
        let used = kept.is_some();
        let stream = kept.unwrap_or_else(|| {
            let (here, there) = UnixStream::pair().unwrap();
            here.set_nonblocking(true).unwrap();
            thread::spawn(move || match protocol {
                UpstreamProtocol::FastCgi => drop(serve_records(there)),
                _ => drop(act(&path, there)),
            });
            here.into()
        });
        let (fates, kept) = (Arc::clone(&self.fates), Arc::clone(&self.kept));
        let lease = Box::new(Held { fates, kept, finished: false });
        let begun = Opened::Running(stream, Upstream { used, ..Upstream::new(protocol, lease) });
        if panics {
            self.late.lock().unwrap().push((reply, begun));
            panic!("on purpose");
        }
        // Both ways to hear of it.
        if number.is_multiple_of(2) && !is_late {
            return Some(begun);
        }
        thread::spawn(move || {
            thread::sleep(Duration::from_millis(if is_late { 300 } else { 5 }));
            reply(begun);
        });
        None
    }
}

/// A CGI program.
fn act(path: &str, mut stream: UnixStream) -> std::io::Result<()> {
    if path.ends_with("/flood") {
        stream.write_all(b"Content-Type: a/b\n\n")?;
        let piece: Vec<u8> = (0..1 << 16).map(|at| (at % 251) as u8).collect();
        for _ in 0..FLOOD_BYTES / piece.len() {
            stream.write_all(&piece)?;
        }
        return Ok(());
    }
    if path.ends_with("/panic") {
        return stream.write_all(b"Content-Type: text/plain\n\nfor another client");
    }
    if path.ends_with("/stall") {
        // Longer than any test waits for what it is to be ended by.
        thread::sleep(4 * PATIENCE);
        return Ok(());
    }
    if path.ends_with("/early") {
        // So late that the server waits for it, and then it has heard enough.
        thread::sleep(Duration::from_millis(20));
        stream.read_exact(&mut vec![0; 150_000])?;
        return stream.write_all(b"Content-Type: text/plain\n\nearly");
    }
    if path.ends_with("/sleep") {
        thread::sleep(Duration::from_millis(700));
    }
    let mut body = Vec::new();
    stream.read_to_end(&mut body)?;
    stream.write_all(b"Content-Type: text/plain\nX-Program: yes\n\n")?;
    for piece in body.chunks(10_000) {
        stream.write_all(piece)?;
    }
    stream.write_all(b"the end")
}

/// A FastCGI application that answers one request after the other with its body.
fn serve_records(mut stream: UnixStream) -> std::io::Result<()> {
    loop {
        let mut body = Vec::new();
        loop {
            let mut head = [0; 8];
            stream.read_exact(&mut head)?;
            let length = usize::from(u16::from_be_bytes([head[4], head[5]]));
            let mut content = vec![0; length];
            stream.read_exact(&mut content)?;
            match (head[1], length) {
                (5, 0) => break,
                (5, _) => body.extend(content),
                _ => {}
            }
        }
        let mut answer = b"Content-Type: text/plain\r\n\r\n".to_vec();
        answer.extend(body);
        answer.extend(b"the end");
        for piece in answer.chunks(30_000) {
            stream.write_all(&record(6, piece))?;
        }
        stream.write_all(&record(3, &[0; 8]))?;
    }
}

fn record(kind: u8, content: &[u8]) -> Vec<u8> {
    let length = (content.len() as u16).to_be_bytes();
    [&[1, kind, 0, 1, length[0], length[1], 0, 0], content].concat()
}
