//! Answers come in: what is received on a connection, whether it is right, and how a request ends. Each ends in exactly
//! one of [`Player::complete`], [`Player::fault`] and the end of the run.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use flash_traffic::FileId;

use super::connection::{Connection, ConnectionState, Line, Pending, Why};
use super::{Course, Player};
use crate::Pace;
use crate::load::Method;
use crate::received::{Failed, Received, Secured};
use crate::reply::Reply;
use crate::tally::Fault;
use crate::timers::Alarm;
use crate::transport::Transport;

/// How long a client waits before it tries to connect again.
const BACKOFF: Duration = Duration::from_millis(100);
/// If the rest of a body is at least this long and is not verified, it is not copied.
const DISCARD_BYTES_MIN: u64 = 16 << 10;

impl Player<'_> {
    /// Takes the received bytes. `why` says whether the end of the stream may follow them, because no later event would report
    /// that. It also says whether the end may have been there before.
    #[expect(clippy::too_many_lines, reason = "one loop around a read, whose parts share its state")]
    pub(super) fn receive(&mut self, place: usize, why: Why, mut now: Instant) -> Instant {
        let mut settled = false;
        loop {
            let connection = &mut self.connections[place];
            let Connection {
                state: ConnectionState::Opening(transport) | ConnectionState::Open(transport),
                ..
            } = connection
            else {
                break;
            };
            let link = self.shards[connection.shard].options.link;
            let mut room = self.buffer.len();
            if let Some(link) = link {
                if let Some(until) = connection.line.down_until.filter(|until| *until > now) {
                    self.timers.set(until, place, Alarm::Resume);
                    break;
                }
                room = room.min(Line::piece_bytes(link.down_bytes_per_second));
            }
            let rest = connection.reader.rest_of_body();
            let looks = self.shards[connection.shard].options.verify.looks();
            let discards = rest >= DISCARD_BYTES_MIN && !looks && !transport.is_tls();
            let received = if discards {
                room = room.min(usize::try_from(rest).unwrap_or(usize::MAX));
                transport.discard(&mut self.buffer[..room])
            } else {
                transport.receive(&mut self.buffer, room, &mut self.scratch)
            };
            now = Instant::now();
            let Received { bytes, plaintext, is_all, secured } = match received {
                Ok(Received { bytes: 0, .. }) => {
                    settled |= self.ended(place, now);
                    break;
                }
                Ok(received) => received,
                Err(Failed::Again) => break,
                Err(failed) => {
                    let fault = match (failed, &connection.state) {
                        (Failed::Socket, ConnectionState::Opening(_)) => Fault::Connect,
                        _ if !connection.is_open() => Fault::Handshake,
                        (Failed::Tls, _) => Fault::Tls,
                        _ => Fault::Reset,
                    };
                    settled |= self.gone(place, fault, now);
                    break;
                }
            };
            self.tally.received_bytes += bytes as u64;
            let here = match link {
                Some(link) => connection.line.book_down(link, bytes, now, why),
                None => now,
            };
            if is_measured(self.course, self.end, here) {
                connection.client.received_bytes += bytes as u64;
            }
            if let Some(secured) = secured {
                settled |= self.secured(place, secured, now);
            }
            if discards {
                if let Some(reply) = self.connections[place].reader.skip(bytes as u64) {
                    self.complete(place, 0, reply, here);
                    settled = true;
                }
            } else if self.connections[place].http2.is_some() {
                settled |= self.read_frames(place, plaintext, here);
            } else {
                settled |= self.read(place, plaintext, here);
            }
            if is_all && why != Why::Ends && link.is_none() {
                break;
            }
        }
        if settled {
            self.go_on(place, now);
        }
        if self.connections[place].http2.is_some() {
            // Control frames, and what windows have been opened for.
            self.flush(place, now);
        }
        now
    }

    /// The handshake is complete. Whether requests were settled by that: the server may speak another protocol.
    fn secured(&mut self, place: usize, secured: Secured, now: Instant) -> bool {
        let connection = &mut self.connections[place];
        self.tally.handshake(secured.is_resumed, now.saturating_duration_since(connection.began));
        if connection.http2.is_some() && !secured.is_http2 {
            return self.gone(place, Fault::Handshake, now);
        }
        self.flush(place, now);
        false
    }

    /// Reads the bytes in the buffer: whether requests were settled by them.
    fn read(&mut self, place: usize, bytes: usize, here: Instant) -> bool {
        let buffer = std::mem::take(&mut self.buffer);
        let mut at = 0;
        let mut settled = false;
        while at < bytes {
            let connection = &mut self.connections[place];
            let shard = &self.shards[connection.shard];
            let Some(pending) = connection.pending.front_mut().filter(|_| connection.written > 0) else {
                // More than was asked for: nobody's answer, but the server's fault.
                self.unasked(place);
                break;
            };
            let asked = shard.asked(pending);
            let originals = &mut self.originals[connection.shard];
            let mut look = shard.look(pending.file, pending.range, originals, &mut pending.wrong);
            match connection.reader.feed(&buffer[at..bytes], asked, &mut look) {
                Ok((consumed, reply)) => {
                    at += consumed;
                    let Some(reply) = reply else { continue };
                    let keeps = reply.keeps;
                    self.complete(place, 0, reply, here);
                    settled = true;
                    if !keeps || matches!(self.connections[place].state, ConnectionState::Closed) {
                        break;
                    }
                }
                Err(_) => {
                    self.buffer = buffer;
                    return self.gone(place, Fault::BadResponse, here);
                }
            }
        }
        self.buffer = buffer;
        settled
    }

    /// Bytes have come that answer nothing.
    fn unasked(&mut self, place: usize) {
        let shard = self.connections[place].shard;
        let class = self.shards[shard].class(0);
        self.tally.fault(class, Fault::BadResponse);
        self.close(place);
    }

    /// The server has closed: whether requests were settled by that.
    fn ended(&mut self, place: usize, now: Instant) -> bool {
        let connection = &mut self.connections[place];
        if connection.transport().is_some_and(|transport| !transport.is_open()) {
            return self.gone(place, Fault::Handshake, now);
        }
        let ends_rightly = connection.transport().is_some_and(Transport::ends_rightly);
        if ends_rightly && let Some(reply) = connection.reader.closed() {
            self.complete(place, 0, reply, now);
            return true;
        }
        let promised = connection.reader.rest_of_body() > 0;
        self.gone(place, if promised { Fault::WrongLength } else { Fault::Reset }, now)
    }

    /// The connection failed. Usually the oldest request on it fails, and the requests behind it are sent again. But a server
    /// may close an idle connection that was used before. If it closed one without a byte, all requests are sent again, once,
    /// on a new connection (RFC 9112 §9.3.1). A request that is not idempotent is an exception. Returns whether there was a
    /// request.
    pub(super) fn gone(&mut self, place: usize, fault: Fault, now: Instant) -> bool {
        if self.connections[place].http2.is_some() && !matches!(fault, Fault::Connect | Fault::Handshake) {
            return self.gone_http2(place, fault, now);
        }
        let connection = &mut self.connections[place];
        let shard = &self.shards[connection.shard];
        let excused = fault == Fault::Reset
            && connection.answered > 0
            && connection.reader.is_idle()
            && connection.pending.iter().all(|pending| shard.method(pending).is_idempotent());
        self.close(place);
        let connection = &mut self.connections[place];
        let Some(oldest) = connection.pending.front() else { return false };
        if excused && !oldest.retried {
            for pending in &mut connection.pending {
                pending.retried = true;
            }
            self.tally.retries += 1;
        } else {
            let (shard, &Pending { file, due, .. }) = (connection.shard, oldest);
            connection.pending.pop_front();
            self.connections[place].client.failed += u64::from(is_measured(self.course, self.end, now));
            self.fault(shard, file, due, now, fault);
        }
        if matches!(fault, Fault::Connect | Fault::Handshake) {
            self.rest_until(place, now + BACKOFF);
        }
        true
    }

    /// A whole answer to the request `at` this place is there. `now` is when its last byte came, which on a slow line may be in a moment.
    pub(super) fn complete(&mut self, place: usize, at: usize, reply: Reply, now: Instant) {
        let connection = &mut self.connections[place];
        let pending = connection.pending.remove(at).expect("only answers to requests are read");
        connection.written -= 1;
        connection.answered += 1;
        // An answer that came before all of its request had gone is the last one here: the rest would be read as a request.
        let early = connection.written == 0 && connection.has_unsent() && connection.http2.is_none();
        let done = early || connection.last && connection.written == 0;
        let shard = connection.shard;
        let counted = self.counts(shard, pending.due, now);
        if counted {
            *self.tally.statuses.entry(reply.status).or_default() += 1;
        }
        let measured = u64::from(is_measured(self.course, self.end, now));
        match self.judge(shard, &pending, &reply) {
            Some(fault) => {
                self.connections[place].client.failed += measured;
                self.fault(shard, pending.file, pending.due, now, fault);
            }
            None => {
                self.connections[place].client.answers += measured;
                if counted {
                    let class = self.shards[shard].class(pending.file);
                    self.tally.answer(class, reply.body_bytes, now.saturating_duration_since(pending.due));
                    self.tally.ended = now;
                }
                self.shards[shard].under_way -= 1;
                self.gauge.requests.fetch_add(1, Ordering::Relaxed);
                self.gauge.body_bytes.fetch_add(reply.body_bytes, Ordering::Relaxed);
            }
        }
        if !reply.keeps || done {
            self.close(place);
        }
        if let Some(validator) = reply.validator {
            self.shards[shard].keep_validator(pending.file, validator);
        }
    }

    /// The error of a response.
    fn judge(&self, shard: usize, pending: &Pending, reply: &Reply) -> Option<Fault> {
        let shard = &self.shards[shard];
        let whole = shard.file(pending.file).bytes;
        let expected = match (reply.status, pending.range) {
            (206, Some((first, last))) => {
                if reply.range.map(|(first, last, _)| (first, last)) != Some((first, last)) {
                    return Some(Fault::BadResponse);
                }
                Some(last - first + 1)
            }
            (206, None) => return Some(Fault::BadResponse),
            (304, _) if pending.conditional => return None,
            (200..300, _) => whole.filter(|_| !reply.coded),
            (300..600, _) => return Some(Fault::Status((reply.status / 100) as u8)),
            _ => return Some(Fault::BadResponse),
        };
        let has_body = shard.method(pending) != Method::Head && reply.status != 204;
        if has_body && expected.is_some_and(|bytes| bytes != reply.body_bytes) {
            return Some(Fault::WrongLength);
        }
        pending.wrong.then_some(Fault::WrongContent)
    }

    /// A request has failed.
    pub(super) fn fault(&mut self, shard: usize, file: FileId, due: Instant, now: Instant, fault: Fault) {
        self.shards[shard].under_way -= 1;
        self.gauge.errors.fetch_add(1, Ordering::Relaxed);
        if self.counts(shard, due, now) {
            let class = self.shards[shard].class(file);
            self.tally.fault(class, fault);
            if fault == Fault::Timeout {
                self.tally.given_up(class, now - due);
            }
            self.tally.ended = now;
        }
    }

    /// Whether a request that ends now belongs to the measured time. In a closed loop all requests count that end in it;
    /// otherwise slow ones that began before would be lost. In an open loop the requests count that came due in it.
    fn counts(&self, shard: usize, due: Instant, now: Instant) -> bool {
        let moment = if self.shards[shard].is_closed_loop() { now } else { due };
        self.course.is_measured(moment) && self.end.is_none_or(|end| now <= end)
    }

    /// The client has an answer, or knows that there will be none: it thinks, if that is its way, and asks again.
    pub(super) fn go_on(&mut self, place: usize, now: Instant) {
        let Connection { pending, shard, line, rests_until, .. } = &self.connections[place];
        if rests_until.is_some() {
            return;
        }
        let think = match self.shards[*shard].pace {
            Pace::Closed { think, .. } if pending.is_empty() => think,
            _ => Duration::ZERO,
        };
        // An answer that is on a slow line still has to arrive first.
        let from = line.down_until.map_or(now, |until| until.max(now));
        match from + think {
            at if at > now => self.rest_until(place, at),
            _ => self.go(place, now),
        }
    }
}

/// Whether a moment falls into the measured time.
pub(super) fn is_measured(course: &Course, end: Option<Instant>, moment: Instant) -> bool {
    course.is_measured(moment) && end.is_none_or(|end| moment <= end)
}
