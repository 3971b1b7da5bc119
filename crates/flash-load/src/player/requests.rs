//! Requests go out: what a thread does with a connection from its opening to the last byte that is sent. What comes back is
//! [`answers`](super::answers)'s affair.

use std::time::Instant;

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;

use super::connection::{ConnectionState, Http2, Line, Why};
use super::{Player, interest, take_from};
use crate::tally::Fault;
use crate::timers::Alarm;
use crate::transport::Transport;

impl Player<'_> {
    /// Something has happened to a socket. Returns the time after it was dealt with.
    pub(super) fn event(&mut self, token: u64, flags: EventFlags, now: Instant) -> Instant {
        let place = (token & u64::from(u32::MAX)) as usize;
        let connection = &mut self.connections[place];
        if connection.token(place) != token {
            return now;
        }
        if let ConnectionState::Opening(_) = connection.state {
            if flags.intersects(EventFlags::ERR | EventFlags::HUP) {
                // The client rests then, and goes on later.
                self.gone(place, Fault::Connect, now);
                return now;
            }
            self.opened(place);
            self.flush(place, now);
        } else if flags.contains(EventFlags::OUT) && connection.has_unsent() {
            self.flush(place, now);
        }
        if flags.intersects(EventFlags::IN | EventFlags::RDHUP | EventFlags::ERR | EventFlags::HUP) {
            let ends = flags.intersects(EventFlags::RDHUP | EventFlags::ERR | EventFlags::HUP);
            return self.receive(place, if ends { Why::Ends } else { Why::Came }, now);
        }
        now
    }

    /// The oldest request of a connection may have waited too long.
    pub(super) fn deadline(&mut self, place: usize, now: Instant) {
        self.connections[place].has_deadline = false;
        let Some(oldest) = self.connections[place].pending.front() else { return };
        if oldest.due + self.load.timeout > now {
            return self.watch(place);
        }
        let connection = &self.connections[place];
        if connection.http2.is_some() && connection.is_open() && connection.written > 0 {
            // Only its stream ends.
            self.reset_stream(place, 0, Fault::Timeout, now);
            self.flush(place, now);
        } else {
            self.gone(place, Fault::Timeout, now);
        }
        self.go_on(place, now);
        self.watch(place);
    }

    /// Sees to it that the oldest request of a connection does not wait for ever.
    fn watch(&mut self, place: usize) {
        let connection = &mut self.connections[place];
        if let (false, Some(oldest)) = (connection.has_deadline, connection.pending.front()) {
            connection.has_deadline = true;
            self.timers.set(oldest.due + self.load.timeout, place, Alarm::Deadline);
        }
    }

    pub(super) fn rest_until(&mut self, place: usize, at: Instant) {
        self.connections[place].rests_until = Some(at);
        self.timers.set(at, place, Alarm::Resume);
    }

    /// A pause may be over: of the client, or of its line.
    pub(super) fn resume(&mut self, place: usize, now: Instant) {
        if self.connections[place].rests_until.is_some_and(|until| until <= now) {
            self.connections[place].rests_until = None;
            self.go(place, now);
        }
        if self.shards[self.connections[place].shard].options.link.is_some() {
            self.flush(place, now);
            self.receive(place, Why::Waited, now);
        }
    }

    /// The client asks as much as it may, and connects for that if it must.
    pub(super) fn go(&mut self, place: usize, now: Instant) {
        let connection = &mut self.connections[place];
        if connection.rests_until.is_some() {
            return;
        }
        let shard = &mut self.shards[connection.shard];
        let concurrency = shard.options.concurrency() as usize;
        while connection.pending.len() < concurrency {
            let counted = self.course.is_measured(now);
            if shard.is_closed_loop() && !shard.is_exhausted() && !take_from(&mut self.budget, counted) {
                shard.exhaust();
            }
            let Some((ask, due)) = shard.take(place, now) else { break };
            if shard.is_closed_loop() {
                self.tally.asked += u64::from(counted);
            } else if self.course.is_measured(due) {
                self.tally.late(now.saturating_duration_since(due));
            }
            connection.pending.push_back(shard.draw(ask, due, &mut self.random));
        }
        // Requests of HTTP/1 wait behind each other, those of HTTP/2 do not.
        let room = if shard.is_http2() { concurrency } else { 1 };
        let has_room = !shard.is_closed_loop() && connection.pending.len() < room;
        if has_room && !std::mem::replace(&mut connection.is_listed, true) {
            shard.put_idle(place);
        }
        if connection.pending.is_empty() {
            return;
        }
        if matches!(connection.state, ConnectionState::Closed) && self.open(place, now).is_err() {
            self.gone(place, Fault::Connect, now);
            return;
        }
        self.write(place);
        self.flush(place, now);
        self.watch(place);
    }

    fn open(&mut self, place: usize, now: Instant) -> Result<(), Errno> {
        let connection = &mut self.connections[place];
        let shard = &mut self.shards[connection.shard];
        let session = shard.session(place)?;
        let link = shard.options.link;
        let transport = Transport::open(&self.load.server.address, link, connection.number, session)?;
        connection.began = now;
        connection.http2 = shard
            .is_http2()
            .then(|| Box::new(Http2 { client: flash_h2::Client::default(), is_refused: false }));
        let token = EventData::new_u64(connection.token(place));
        epoll::add(&self.epoll, &transport, token, interest())?;
        connection.state = ConnectionState::Opening(transport);
        self.opening += 1;
        self.tally.connections += 1;
        Ok(())
    }

    pub(super) fn opened(&mut self, place: usize) {
        let connection = &mut self.connections[place];
        connection.state = match std::mem::replace(&mut connection.state, ConnectionState::Closed) {
            ConnectionState::Opening(transport) => {
                self.opening -= 1;
                ConnectionState::Open(transport)
            }
            state => state,
        };
    }

    pub(super) fn close(&mut self, place: usize) {
        if let ConnectionState::Opening(_) = self.connections[place].state {
            self.opening -= 1;
        }
        self.connections[place].close();
    }

    /// Writes the requests that the socket was not told about yet, up to its last, or up to one with a body.
    fn write(&mut self, place: usize) {
        let connection = &mut self.connections[place];
        let shard = &self.shards[connection.shard];
        if let Some(http2) = &mut connection.http2 {
            http2.client.take_control(&mut self.out);
            while !connection.last
                && http2.client.can_open()
                && let Some(pending) = connection.pending.get_mut(connection.written)
            {
                connection.written += 1;
                connection.asked += 1;
                let body = shard.body(pending);
                pending.stream = shard.open(pending, body.as_ref(), &mut http2.client, &mut self.out);
                pending.body = body.filter(|body| body.bytes() > 0).map(|body| (body, 0));
                connection.last = shard.is_last(pending, connection.asked);
            }
        }
        while let (None, false, None, Some(pending)) =
            (&connection.http2, connection.last, &connection.body, connection.pending.get(connection.written))
        {
            connection.written += 1;
            connection.asked += 1;
            let body = shard.body(pending);
            connection.last = shard.is_last(pending, connection.asked);
            shard.write(pending, body.as_ref(), connection.last, &mut self.out);
            connection.body = body.filter(|body| body.bytes() > 0).map(|body| (body, 0));
        }
        // What waits already goes first.
        if !connection.unsent.is_empty() || shard.options.link.is_some() {
            connection.unsent.append(&mut self.out);
        }
    }

    /// Sends what can be sent now. The rest goes when the socket, or the slow line, has room.
    pub(super) fn flush(&mut self, place: usize, now: Instant) {
        self.flush_written(place, now);
        // Nothing has been left, so there is room for more.
        while self.connections[place].unsent.is_empty()
            && self.connections[place].transport().is_some_and(|transport| !transport.waits())
        {
            if !self.connections[place].refill() {
                self.write(place);
                if self.out.is_empty() && self.connections[place].unsent.is_empty() {
                    return;
                }
            }
            self.flush_written(place, now);
        }
    }

    fn flush_written(&mut self, place: usize, now: Instant) {
        let connection = &mut self.connections[place];
        if let Some(link) = self.shards[connection.shard].options.link {
            return self.flush_slowly(place, link.up_bytes_per_second, now);
        }
        let (ConnectionState::Opening(transport) | ConnectionState::Open(transport)) = &mut connection.state
        else {
            return;
        };
        let fresh = connection.unsent.is_empty();
        let bytes = if fresh { &self.out } else { &connection.unsent };
        let result = if bytes.is_empty() && !transport.waits() { Ok(0) } else { transport.send(bytes) };
        match result {
            Ok(sent) if fresh => connection.unsent.extend_from_slice(&self.out[sent..]),
            Ok(sent) => _ = connection.unsent.drain(..sent),
            Err(Errno::AGAIN | Errno::INTR) if fresh => connection.unsent.extend_from_slice(&self.out),
            Err(Errno::AGAIN | Errno::INTR) => {}
            // Why is told when it is received from, in the order in which it happened.
            Err(_) => connection.drop_unsent(),
        }
        self.out.clear();
        if matches!(result, Ok(1..)) {
            self.opened(place);
        }
    }

    /// A slow line takes a piece, and has it at the other end after a while; only then is it sent.
    fn flush_slowly(&mut self, place: usize, bytes_per_second: u64, now: Instant) {
        loop {
            let connection = &mut self.connections[place];
            let ConnectionState::Open(transport) = &mut connection.state else { return };
            match connection.line.up {
                Some((at, bytes)) if at <= now => match transport.send(&connection.unsent[..bytes]) {
                    Ok(sent) => {
                        connection.unsent.drain(..sent);
                        connection.line.up = None;
                    }
                    Err(Errno::AGAIN | Errno::INTR) => return,
                    Err(_) => {
                        connection.drop_unsent();
                        connection.line.up = None;
                    }
                },
                Some(_) => return,
                None if connection.unsent.is_empty() => return,
                None => {
                    let bytes = connection.unsent.len().min(Line::piece_bytes(bytes_per_second));
                    let at = now + Line::time(bytes, bytes_per_second);
                    connection.line.up = Some((at, bytes));
                    self.timers.set(at, place, Alarm::Resume);
                }
            }
        }
    }
}
