//! Answers over HTTP/2: frames come in, each for one of the requests that are under way on a connection. Requests there end on
//! their own, and not in the order in which they were sent.

use std::time::Instant;

use flash_h2::{ClientEvent, ErrorCode};

use super::Player;
use super::answers::is_measured;
use super::connection::{ConnectionState, Pending};
use crate::reply::{Bad, Ended};
use crate::tally::Fault;

impl Player<'_> {
    /// Reads the bytes in the buffer: whether requests were settled by them.
    pub(super) fn read_frames(&mut self, place: usize, bytes: usize, here: Instant) -> bool {
        let buffer = std::mem::take(&mut self.buffer);
        let mut input = &buffer[..bytes];
        let mut settled = false;
        loop {
            let connection = &mut self.connections[place];
            let shard = &self.shards[connection.shard];
            let Some(http2) = &mut connection.http2 else { break };
            let pending = &mut connection.pending;
            let show = |stream: u32, name: &[u8], value: &[u8]| {
                if let Some(pending) = pending.iter_mut().find(|pending| pending.stream == stream) {
                    let asked = shard.asked(pending);
                    pending.reply.field(name, value, asked);
                }
            };
            match http2.client.next(&mut input, 0, show) {
                Ok(Some(event)) => settled |= self.frame(place, event, here),
                Ok(None) => break,
                Err(_) => {
                    settled |= self.gone(place, Fault::BadResponse, here);
                    break;
                }
            }
        }
        self.buffer = buffer;
        settled
    }

    fn frame(&mut self, place: usize, event: ClientEvent<'_>, here: Instant) -> bool {
        match event {
            ClientEvent::Window { .. } => false,
            ClientEvent::Fields { stream, ends } => {
                let Some(at) = self.at(place, stream) else { return false };
                let read = self.connections[place].pending[at].reply.fields_end();
                self.piece(place, at, read, ends, here)
            }
            ClientEvent::Data { stream, bytes, ends } => {
                let Some(at) = self.at(place, stream) else { return false };
                let connection = &mut self.connections[place];
                let Pending { file, range, reply, wrong, .. } = &mut connection.pending[at];
                let originals = &mut self.originals[connection.shard];
                let mut look = self.shards[connection.shard].look(*file, *range, originals, wrong);
                let read = reply.data(bytes, &mut look);
                self.piece(place, at, read, ends, here)
            }
            ClientEvent::Reset { stream, code } => {
                let Some(at) = self.at(place, stream) else { return false };
                self.fail(place, at, Fault::StreamReset(code.0), here);
                true
            }
            ClientEvent::Goaway { last_stream, code } => self.goaway(place, last_stream, code, here),
        }
    }

    /// Where the request of a stream is.
    fn at(&self, place: usize, stream: u32) -> Option<usize> {
        self.connections[place].pending.iter().position(|pending| pending.stream == stream)
    }

    /// A piece of an answer has been read. Whether the request is settled with that.
    fn piece(&mut self, place: usize, at: usize, read: Result<(), Bad>, ends: bool, here: Instant) -> bool {
        let connection = &mut self.connections[place];
        let asked = self.shards[connection.shard].asked(&connection.pending[at]);
        let pending = &mut connection.pending[at];
        match read {
            Err(Bad) => self.reset_stream(place, at, Fault::BadResponse, here),
            Ok(()) if !ends => return false,
            Ok(()) => match pending.reply.end(asked) {
                Err(Bad) => self.fail(place, at, Fault::BadResponse, here),
                Ok(Ended::WrongLength) => self.fail(place, at, Fault::WrongLength, here),
                Ok(Ended::Whole(reply)) => {
                    // RFC 9113 §8.1: what the server answers without, it need not be sent.
                    if let (Some(_), Some(http2)) = (pending.body.take(), &mut connection.http2) {
                        http2.client.reset(pending.stream, ErrorCode::NO_ERROR);
                    }
                    self.complete(place, at, reply, here);
                }
            },
        }
        true
    }

    /// Ends the stream of a request, which has failed.
    pub(super) fn reset_stream(&mut self, place: usize, at: usize, fault: Fault, now: Instant) {
        let connection = &mut self.connections[place];
        if let Some(http2) = &mut connection.http2 {
            http2.client.reset(connection.pending[at].stream, ErrorCode::CANCEL);
        }
        self.fail(place, at, fault, now);
    }

    /// One request of a connection has failed. The others go on.
    fn fail(&mut self, place: usize, at: usize, fault: Fault, now: Instant) {
        let connection = &mut self.connections[place];
        let Some(pending) = connection.pending.remove(at) else { return };
        connection.written -= usize::from(at < connection.written);
        connection.client.failed += u64::from(is_measured(self.course, self.end, now));
        let (shard, is_over) = (connection.shard, connection.last && connection.written == 0);
        self.fault(shard, pending.file, pending.due, now, fault);
        if is_over {
            self.close(place);
        }
    }

    /// The server answers no further requests here. Those that it has not looked at are sent again elsewhere, once, if that is
    /// not for a fault (RFC 9113 §6.8).
    fn goaway(&mut self, place: usize, last_stream: u32, code: ErrorCode, now: Instant) -> bool {
        let connection = &mut self.connections[place];
        connection.last = true;
        let is_error = code != ErrorCode::NO_ERROR;
        if let Some(http2) = &mut connection.http2 {
            http2.is_refused |= is_error;
        }
        let mut at = 0;
        let (mut retried, mut failed) = (false, false);
        while at < self.connections[place].written {
            let connection = &mut self.connections[place];
            let pending = &mut connection.pending[at];
            if pending.stream <= last_stream {
                at += 1;
            } else if is_error || pending.retried {
                self.fail(place, at, Fault::Goaway, now);
                failed = true;
            } else {
                (pending.retried, pending.stream, pending.body) = (true, 0, None);
                retried = true;
                let pending = connection.pending.remove(at).expect("it is there");
                connection.written -= 1;
                connection.pending.insert(connection.written, pending);
            }
        }
        self.tally.retries += u64::from(retried);
        if self.connections[place].written == 0
            && !matches!(self.connections[place].state, ConnectionState::Closed)
        {
            self.close(place);
        }
        retried || failed
    }

    /// The connection has ended: all requests that were under way there have failed, and others are sent on the next one.
    pub(super) fn gone_http2(&mut self, place: usize, fault: Fault, now: Instant) -> bool {
        let connection = &mut self.connections[place];
        let is_refused = connection.http2.as_ref().is_some_and(|http2| http2.is_refused);
        let fault = if is_refused && fault == Fault::Reset { Fault::Goaway } else { fault };
        let under_way = connection.written;
        self.close(place);
        for _ in 0..under_way {
            self.fail(place, 0, fault, now);
        }
        under_way > 0 || !self.connections[place].pending.is_empty()
    }
}
