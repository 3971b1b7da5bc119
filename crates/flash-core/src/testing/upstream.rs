//! A made-up program at the other end of a stream: what it reads, what it writes, and how it ends.

use std::collections::VecDeque;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};

use crate::exchange::id::ExchangeId;
use crate::upstream::{Lease, Open, ReleaseMode, Upstream, UpstreamProtocol};

/// How programs behave in a world.
#[derive(Clone, Debug)]
pub(crate) struct Manner {
    pub(crate) protocol: UpstreamProtocol,
    /// The stream has carried other requests.
    pub(crate) used: bool,
    /// How much its stream takes at a time. If 0, the program never reads.
    pub(crate) room: usize,
    /// The program writes this once it has read everything, in pieces of this size. Otherwise the test writes for it.
    pub(crate) answer: Option<(Vec<u8>, usize)>,
}

#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) exchange: ExchangeId,
    /// The server's end, until that is dropped.
    pub(crate) stream: Option<OwnedFd>,
    pub(crate) begin: Open,
    pub(crate) manner: Manner,
    /// All that the program has read.
    pub(crate) told: Vec<u8>,
    pub(crate) told_end: bool,
    /// The program closed its side: a write to it fails.
    pub(crate) deaf: bool,
    pub(crate) room_left: usize,
    pub(crate) says: VecDeque<Vec<u8>>,
    pub(crate) ended: bool,
    pub(crate) fate: Fate,
}

/// What the lease has received.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fate(Arc<Mutex<Heard>>);

#[derive(Debug, Default)]
struct Heard {
    has_begun: bool,
    stderr: Vec<u8>,
    end: Option<Result<ReleaseMode, BrokenOff>>,
}

impl Fate {
    fn with<T>(&self, what: impl FnOnce(&mut Heard) -> T) -> T {
        what(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// How the lease ended. `None` while the program runs.
    pub(crate) fn finish(&self) -> Option<Result<ReleaseMode, BrokenOff>> {
        self.with(|heard| heard.end)
    }

    pub(crate) fn has_begun(&self) -> bool {
        self.with(|heard| heard.has_begun)
    }

    pub(crate) fn stderr(&self) -> Vec<u8> {
        self.with(|heard| heard.stderr.clone())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BrokenOff;

#[derive(Debug)]
struct Held(Fate);

impl Lease for Held {
    fn begins(&mut self) {
        self.0.with(|heard| heard.has_begun = true);
    }

    fn stderr(&mut self, bytes: &[u8]) {
        self.0.with(|heard| heard.stderr.extend_from_slice(bytes));
    }

    fn finish(self: Box<Self>, _: OwnedFd, how: ReleaseMode) {
        self.0.with(|heard| heard.end = Some(Ok(how)));
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.with(|heard| _ = heard.end.get_or_insert(Err(BrokenOff)));
    }
}

impl Program {
    pub(crate) fn new(exchange: ExchangeId, begin: Open, manner: Manner) -> (Self, Upstream) {
        let fate = Fate::default();
        // Any descriptor does: nobody reads from it.
        let stream = Some(File::open("/dev/null").expect("there is always one").into());
        let (protocol, used) = (manner.protocol, manner.used && !begin.again);
        let upstream = Upstream { used, ..Upstream::new(protocol, Box::new(Held(fate.clone()))) };
        let program = Self {
            exchange,
            stream,
            begin,
            room_left: manner.room,
            manner,
            told: Vec::new(),
            told_end: false,
            deaf: false,
            says: VecDeque::new(),
            ended: false,
            fate,
        };
        (program, upstream)
    }

    pub(crate) fn say(&mut self, bytes: impl AsRef<[u8]>) {
        self.says.push_back(bytes.as_ref().to_vec());
    }

    /// Takes what its stream has room for.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> usize {
        let count = bytes.len().min(self.room_left);
        self.told.extend_from_slice(&bytes[..count]);
        self.room_left -= count;
        count
    }

    /// Time passes: the program reads, and answers if it has everything. Returns whether it did something.
    pub(crate) fn live(&mut self) -> bool {
        let read = self.room_left < self.manner.room;
        self.room_left = self.manner.room;
        let complete = match self.manner.protocol {
            UpstreamProtocol::FastCgi => body_of(&self.told).is_some(),
            UpstreamProtocol::Http => memchr::memmem::find(&self.told, b"\r\n\r\n").is_some(),
            UpstreamProtocol::Cgi | UpstreamProtocol::Nph => self.told_end,
        };
        if complete && let Some((answer, piece)) = self.manner.answer.take() {
            let bytes = match self.manner.protocol {
                UpstreamProtocol::FastCgi => records(&answer),
                UpstreamProtocol::Cgi | UpstreamProtocol::Nph | UpstreamProtocol::Http => answer,
            };
            self.says.extend(bytes.chunks(piece).map(<[u8]>::to_vec));
            self.ended = self.manner.protocol != UpstreamProtocol::FastCgi;
            return true;
        }
        read
    }
}

/// One record.
pub(crate) fn record(kind: u8, content: &[u8]) -> Vec<u8> {
    let length = (content.len() as u16).to_be_bytes();
    [&[1, kind, 0, 1, length[0], length[1], 0, 0], content].concat()
}

pub(crate) const STDOUT: u8 = 6;
pub(crate) const STDERR: u8 = 7;

pub(crate) fn end_record() -> Vec<u8> {
    record(3, &[0; 8])
}

/// A whole response, as an application sends it.
fn records(answer: &[u8]) -> Vec<u8> {
    let mut bytes: Vec<u8> = answer.chunks(1000).flat_map(|piece| record(STDOUT, piece)).collect();
    bytes.extend(record(STDERR, b"a word\n"));
    bytes.extend(record(STDOUT, b""));
    bytes.extend(end_record());
    bytes
}

/// The body that a FastCGI program has read, if it is complete.
pub(crate) fn body_of(mut told: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let (head, rest) = told.split_at_checked(8)?;
        let length = usize::from(u16::from_be_bytes([head[4], head[5]]));
        let (content, rest) = rest.split_at_checked(length)?;
        told = rest;
        match (head[1], length) {
            (5, 0) => return Some(body),
            (5, _) => body.extend_from_slice(content),
            _ => {}
        }
    }
}
