//! A connection as a client knows it, and the requests that are under way on it. Who does what with it is
//! told by [`requests`](super::requests) and [`answers`](super::answers).

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use flash_h2::Client;
use flash_traffic::{FileId, Message};

use crate::conformance::ClientTally;
use crate::reply::{Reader, StreamedReply};
use crate::transport::Transport;
use crate::{Body, Link};

pub(super) struct Connection {
    pub(super) shard: usize,
    /// Among all of the run.
    pub(super) number: usize,
    /// Counts the sockets that were here, so that an event of an earlier one is known as such.
    pub(super) generation: u32,
    pub(super) state: ConnectionState,
    /// In the order they were asked, and will be answered.
    pub(super) pending: VecDeque<Pending>,
    /// How many of them this socket was told about.
    pub(super) written: usize,
    /// Requests written on this socket, and answers come.
    pub(super) asked: u32,
    pub(super) answered: u32,
    /// The last request that was written ends the connection.
    pub(super) last: bool,
    pub(super) reader: Reader,
    /// In place of the reader, on a connection of HTTP/2.
    pub(super) http2: Option<Box<Http2>>,
    /// When the socket was opened.
    pub(super) began: Instant,
    /// It is among its shard's idle ones.
    pub(super) is_listed: bool,
    pub(super) unsent: Vec<u8>,
    /// What comes behind that: a body, and how much of it has gone already. No request is written behind it meanwhile.
    pub(super) body: Option<(Body, u64)>,
    /// A deadline is among the timers.
    pub(super) has_deadline: bool,
    /// The client does nothing until then.
    pub(super) rests_until: Option<Instant>,
    pub(super) line: Line,
    /// What its client has got, on this socket and those before.
    pub(super) client: ClientTally,
}

pub(super) struct Http2 {
    pub(super) client: Client,
    /// The server has ended the connection with an error.
    pub(super) is_refused: bool,
}

pub(super) enum ConnectionState {
    Closed,
    Opening(Transport),
    Open(Transport),
}

/// A request that has no answer yet.
#[derive(Clone, Debug)]
pub(super) struct Pending {
    pub(super) file: FileId,
    /// What waits are counted from.
    pub(super) due: Instant,
    pub(super) range: Option<(u64, u64)>,
    pub(super) conditional: bool,
    pub(super) encoding: Option<u8>,
    pub(super) message: Option<Arc<Message>>,
    /// The workload ends its session here.
    pub(super) closes: bool,
    /// It was sent before, on a connection that the server was just closing.
    pub(super) retried: bool,
    /// The body that has come so far is not the file's.
    pub(super) wrong: bool,
    /// Of HTTP/2: its stream, or 0 before it is sent; what of its body has left; and its response.
    pub(super) stream: u32,
    pub(super) body: Option<(Body, u64)>,
    pub(super) reply: StreamedReply,
}

/// How far a slow line is booked, each way.
#[derive(Default)]
pub(super) struct Line {
    /// Bytes that are on their way up, and when they are there.
    pub(super) up: Option<(Instant, usize)>,
    /// Until then the line is busy with what was received already.
    pub(super) down_until: Option<Instant>,
}

/// Why a socket is received from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// Bytes have come.
    Came,
    /// Nothing will come behind them.
    Ends,
    /// A slow line is free again for those that wait.
    Waited,
}

impl Connection {
    pub(super) fn new(shard: usize, number: usize, now: Instant) -> Connection {
        Connection {
            shard,
            number,
            generation: 0,
            state: ConnectionState::Closed,
            pending: VecDeque::new(),
            written: 0,
            asked: 0,
            answered: 0,
            last: false,
            reader: Reader::default(),
            http2: None,
            began: now,
            is_listed: false,
            unsent: Vec::new(),
            body: None,
            has_deadline: false,
            rests_until: None,
            line: Line::default(),
            client: ClientTally::default(),
        }
    }

    /// What epoll calls it.
    pub(super) fn token(&self, place: usize) -> u64 {
        u64::from(self.generation) << 32 | place as u64
    }

    pub(super) fn transport(&self) -> Option<&Transport> {
        match &self.state {
            ConnectionState::Closed => None,
            ConnectionState::Opening(transport) | ConnectionState::Open(transport) => Some(transport),
        }
    }

    pub(super) fn has_unsent(&self) -> bool {
        !self.unsent.is_empty() || self.body.is_some() || self.transport().is_some_and(Transport::waits)
    }

    /// Whether a request can be sent or received, and not only a handshake.
    pub(super) fn is_open(&self) -> bool {
        matches!(&self.state, ConnectionState::Open(transport) if transport.is_open())
    }

    /// Drops the bytes of the request that the server will not take any more.
    pub(super) fn drop_unsent(&mut self) {
        self.unsent.clear();
        self.body = None;
        self.pending.iter_mut().for_each(|pending| pending.body = None);
    }

    /// Lets the next piece of a body follow what has gone. Whether there was one.
    pub(super) fn refill(&mut self) -> bool {
        if let Some(http2) = &mut self.http2 {
            // A frame of each body in turn.
            for pending in self.pending.iter_mut().take(self.written) {
                let Some((body, sent)) = &mut pending.body else { continue };
                let piece = body.next(*sent);
                let is_last = *sent + piece.len() as u64 == body.bytes();
                *sent += http2.client.send_data(pending.stream, piece, is_last, &mut self.unsent) as u64;
                if *sent == body.bytes() {
                    pending.body = None;
                }
            }
            return !self.unsent.is_empty();
        }
        let Some((body, sent)) = &mut self.body else { return false };
        let piece = body.next(*sent);
        self.unsent.extend_from_slice(piece);
        *sent += piece.len() as u64;
        if *sent == body.bytes() {
            self.body = None;
        }
        !self.unsent.is_empty()
    }

    /// The socket is closed; what was asked on it and has no answer is to be asked again.
    pub(super) fn close(&mut self) {
        if let ConnectionState::Open(transport) = &mut self.state {
            transport.close();
        }
        self.state = ConnectionState::Closed;
        self.http2 = None;
        for pending in &mut self.pending {
            (pending.stream, pending.reply) = (0, StreamedReply::default());
        }
        self.generation = self.generation.wrapping_add(1);
        self.written = 0;
        self.asked = 0;
        self.answered = 0;
        self.last = false;
        self.reader.reset();
        self.drop_unsent();
        // What has come over the line still takes its time.
        self.line.up = None;
    }
}

impl Line {
    /// A fiftieth of a second's bytes: the most that is read from a slow line at once.
    pub(super) fn piece_bytes(bytes_per_second: u64) -> usize {
        (bytes_per_second / 50).clamp(1, 1 << 20) as usize
    }

    /// Books received bytes. Returns the time when the last of them has passed the line. Bytes that waited for the line start
    /// when the line was free, however late the clients look. Otherwise busy clients would make the line slower.
    pub(super) fn book_down(&mut self, link: Link, bytes: usize, now: Instant, why: Why) -> Instant {
        let waited = self.down_until.filter(|_| why == Why::Waited);
        let from = waited.unwrap_or_else(|| self.down_until.map_or(now, |until| until.max(now)));
        let until = from + Line::time(bytes, link.down_bytes_per_second);
        self.down_until = Some(until);
        until
    }

    pub(super) fn time(bytes: usize, bytes_per_second: u64) -> Duration {
        Duration::from_secs_f64(bytes as f64 / bytes_per_second as f64)
    }
}
