//! The floor: the least a server on one event loop can do. `epoll_wait`, `recv`, and one `send` of an answer
//! that was ready before the first request came. `cargo xtask bench` divides every server's processor time by
//! this one's.
//!
//! `floor ADDRESS < answer` sends the bytes on its standard input for every request head it receives. It
//! closes after an answer that says `Connection: close`. It does not parse, look anything up, time out or
//! write a log.
//!
//! `floor ADDRESS file < answer` sends the body by `sendfile`, from an unnamed file in the present folder, and `floor ADDRESS
//! memory < answer` from a memory file. So what these calls cost can be seen without a server around them.

#![forbid(unsafe_code)]

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::TcpListener;
use std::ops::Range;
use std::os::fd::OwnedFd;

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::fs::{MemfdFlags, Mode, OFlags, memfd_create, open, sendfile};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketFlags, accept_with, recv, send, sockopt};

const LISTENER: u64 = u64::MAX;
const READY_EVENTS_MAX: usize = 512;
const HEAD_BYTES_MAX: usize = 4096;

/// What every client gets.
struct Answer {
    bytes: Vec<u8>,
    /// What of it comes from the body's file, which begins with the body.
    body: Option<(OwnedFd, Range<usize>)>,
    /// The connection ends after it.
    closes: bool,
}

/// A client: its socket, the answers it still waits for, and how much of the first of them has been sent.
struct Client {
    socket: OwnedFd,
    owed: usize,
    sent: usize,
}

fn main() -> io::Result<()> {
    let usage = || io::Error::other("usage: floor ADDRESS [file|memory] < answer");
    let address = std::env::args().nth(1).ok_or_else(usage)?;
    let file = match std::env::args().nth(2).as_deref() {
        None => None,
        Some("file") => Some(open(".", OFlags::TMPFILE | OFlags::RDWR, Mode::RUSR)?),
        Some("memory") => Some(memfd_create("body", MemfdFlags::CLOEXEC)?),
        Some(_) => return Err(usage()),
    };
    let answer = Answer::read(file)?;

    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    // Again, only to lengthen the queue of the standard library's 128.
    rustix::net::listen(&listener, 4096)?;
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    epoll::add(&epoll, &listener, EventData::new_u64(LISTENER), EventFlags::IN | EventFlags::ET)?;

    let mut clients: Vec<Option<Client>> = Vec::new();
    let mut free: Vec<usize> = Vec::new();
    let mut events: Vec<Event> = Vec::with_capacity(READY_EVENTS_MAX);
    loop {
        events.clear();
        epoll::wait(&epoll, spare_capacity(&mut events), None)?;
        for event in &events {
            if event.data.u64() == LISTENER {
                accept(&listener, !answer.closes, &epoll, &mut clients, &mut free)?;
                continue;
            }
            let place = event.data.u64() as usize;
            let Some(client) = &mut clients[place] else { continue };
            if !serve(client, event.flags, &answer) {
                clients[place] = None;
                free.push(place);
            }
        }
    }
}

impl Answer {
    fn read(file: Option<OwnedFd>) -> io::Result<Self> {
        let mut bytes = Vec::new();
        io::stdin().read_to_end(&mut bytes)?;
        let head = bytes.split(|&byte| byte == b'\n').take_while(|line| line.len() > 1);
        let closes = head.into_iter().any(|line| line.eq_ignore_ascii_case(b"connection: close\r"));
        let start = bytes.windows(4).position(|end| end == b"\r\n\r\n").map_or(bytes.len(), |end| end + 4);
        let range = start..bytes.len();
        if let Some(file) = &file {
            File::from(file.try_clone()?).write_all(&bytes[range.clone()])?;
        }
        Ok(Self { body: file.map(|file| (file, range)), bytes, closes })
    }

    /// Sends some of it, from here on.
    fn send(&self, socket: &OwnedFd, from: usize) -> Result<usize, Errno> {
        match &self.body {
            Some((_, range)) if from < range.start => {
                send(socket, &self.bytes[from..range.start], SendFlags::NOSIGNAL | SendFlags::MORE)
            }
            Some((file, range)) => {
                sendfile(socket, file, Some(&mut ((from - range.start) as u64)), range.end - from)
            }
            None => send(socket, &self.bytes[from..], SendFlags::NOSIGNAL),
        }
    }
}

fn accept(
    listener: &TcpListener,
    stays: bool,
    epoll: &OwnedFd,
    clients: &mut Vec<Option<Client>>,
    free: &mut Vec<usize>,
) -> io::Result<()> {
    while let Ok(socket) = accept_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
        if stays {
            sockopt::set_tcp_nodelay(&socket, true)?;
        }
        let place = free.pop().unwrap_or_else(|| {
            clients.push(None);
            clients.len() - 1
        });
        let interest = EventFlags::IN | EventFlags::OUT | EventFlags::ET;
        epoll::add(epoll, &socket, EventData::new_u64(place as u64), interest)?;
        clients[place] = Some(Client { socket, owed: 0, sent: 0 });
    }
    Ok(())
}

/// One ready event: one `recv`, one `send`. False when the client is gone or done.
fn serve(client: &mut Client, ready: EventFlags, answer: &Answer) -> bool {
    if ready.contains(EventFlags::IN) {
        let mut head = [0; HEAD_BYTES_MAX];
        // A short read has emptied the socket: the next bytes make a new edge, so there is no second call.
        match recv(&client.socket, &mut head, RecvFlags::empty()) {
            Ok((0, _)) => return false,
            Ok((n, _)) => client.owed += usize::from(head[..n].ends_with(b"\r\n\r\n")),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => return false,
        }
    }
    while client.owed > 0 {
        match answer.send(&client.socket, client.sent) {
            Ok(n) => client.sent += n,
            Err(Errno::AGAIN) => return true,
            Err(_) => return false,
        }
        if client.sent == answer.bytes.len() {
            client.owed -= 1;
            client.sent = 0;
            if answer.closes {
                return false;
            }
        }
    }
    true
}
