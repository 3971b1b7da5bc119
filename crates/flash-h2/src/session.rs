//! One connection of a server: a client's bytes become requests, bodies and resets. Control frames are answered here.
//!
//! Each of a client's acts that costs it nothing is counted against a budget. The session writes what it answers into a buffer
//! of its own, which its user sends. Responses, and what a stream has to send, are the user's business.

mod event;
mod left;
mod limits;

use crate::budget::Budget;
use crate::error::{ConnectionError, ErrorCode};
use crate::frame::{self, STREAM_MAX};
use crate::hpack::decoder::Decoder;
use crate::priority::Priority;
use crate::reader::{BlockLimits, DataSize, Frame, Reader};
use crate::request::{self, Bad, HeadBuilder, Scratch};
use crate::settings::{self, PeerSettings, TABLE_BYTES, WINDOW_BYTES};
use crate::streams::{Stream, Streams};

pub use self::event::Event;
use self::left::LeftStreams;
pub use self::limits::Limits;

#[derive(Debug)]
pub struct Session<T> {
    reader: Reader,
    inner: Inner<T>,
}

#[derive(Debug)]
struct Inner<T> {
    decoder: Decoder,
    streams: Streams<T>,
    peer: PeerSettings,
    limits: Limits,
    /// How much more the client may send on all streams, and how much of what it has sent is free again.
    receive_window: u32,
    consumed: u32,
    /// The client's last stream.
    last_stream: u32,
    /// Requests on later streams get no answer: the client knows that from a GOAWAY frame.
    stream_max: u32,
    has_settings: bool,
    /// The next header block has to empty the client's dynamic table, because the client wants a smaller one.
    empties_table: bool,
    /// Frames to send.
    control: Vec<u8>,
    resets: Budget,
    idle_frames: Budget,
    left: LeftStreams,
}

/// How much a client may send on all streams that no program has read.
const CONNECTION_WINDOW_BYTES: u32 = 4 * WINDOW_BYTES;
/// A request has this many frames without use for free, and so has each kibibyte that is sent.
const FRAMES_EARNED: u32 = 4;
/// A DATA frame that is smaller counts as one without use, unless it is a body's last. The empty messages of gRPC, of which a stream may
/// have any number, have so many bytes.
const SMALL_DATA_BYTES: usize = 5;
/// Less of a window is not worth a frame.
const WINDOW_BYTES_LEAST: u32 = 16;
const DRAIN_PING: [u8; 8] = *b"draining";

impl<T> Session<T> {
    /// A session with a client that has sent nothing yet.
    pub fn new(limits: Limits) -> Self {
        let mut control = Vec::new();
        frame::settings(
            &mut control,
            &[
                (settings::MAX_CONCURRENT_STREAMS, limits.streams_max),
                (settings::MAX_HEADER_LIST_SIZE, limits.head.bytes_max as u32),
                (settings::NO_RFC7540_PRIORITIES, 1),
            ],
        );
        frame::window_update(&mut control, 0, CONNECTION_WINDOW_BYTES - WINDOW_BYTES);
        let block = BlockLimits { bytes_max: limits.head.bytes_max, continuations_max: 8 };
        let inner = Inner {
            decoder: Decoder::new(TABLE_BYTES as usize),
            streams: Streams::new(),
            peer: PeerSettings::default(),
            receive_window: CONNECTION_WINDOW_BYTES,
            consumed: 0,
            last_stream: 0,
            stream_max: STREAM_MAX,
            has_settings: false,
            empties_table: false,
            control,
            resets: Budget::new(limits.resets.0, limits.resets.1),
            idle_frames: Budget::new(limits.idle_frames.0, limits.idle_frames.1),
            left: LeftStreams::new(),
            limits,
        };
        Self { reader: Reader::new(block), inner }
    }

    /// What the next bytes mean, which are taken off the front of `input`. `None` if more bytes are needed.
    ///
    /// # Errors
    /// If the connection has to end. The user calls [`Session::fail`] with the error.
    pub fn next<'i>(
        &mut self,
        input: &mut &'i [u8],
        scratch: &mut Scratch,
        now_ms: u64,
    ) -> Result<Option<Event<'i, T>>, ConnectionError> {
        while let Some(frame) = self.reader.next(input)? {
            if let Some(event) = self.inner.take(frame, scratch, now_ms)? {
                return Ok(Some(event));
            }
        }
        Ok(None)
    }

    /// Whether the client has sent no request yet.
    pub fn is_new(&self) -> bool {
        self.inner.last_stream == 0
    }

    /// Whether a frame or a header block has begun and not ended.
    pub fn is_within(&self) -> bool {
        self.reader.is_within()
    }

    pub fn streams(&self) -> &Streams<T> {
        &self.inner.streams
    }

    pub fn streams_mut(&mut self) -> &mut Streams<T> {
        &mut self.inner.streams
    }

    /// Keeps the stream of the request that has come last, because its response takes longer.
    pub fn open(&mut self, id: u32, priority: Priority, has_ended: bool, user: T) -> &mut Stream<T> {
        self.inner.streams.insert(id, priority, has_ended, user)
    }

    /// The response of a stream is complete. If the client has not ended its side, it is told to send no more (RFC 9113 §8.1).
    pub fn finish(&mut self, id: u32, has_ended: bool) -> Option<Box<Stream<T>>> {
        if !has_ended {
            self.inner.leave(id, ErrorCode::NO_ERROR);
        }
        self.inner.streams.remove(id)
    }

    /// Ends a stream before its end.
    pub fn reset(&mut self, id: u32, code: ErrorCode) -> Option<Box<Stream<T>>> {
        self.inner.leave(id, code);
        self.inner.streams.remove(id)
    }

    /// The client has broken a rule that only the user knows. Its stream ends, and counts as one more reset.
    ///
    /// # Errors
    /// If it was one too many.
    pub fn client_error(
        &mut self,
        id: u32,
        code: ErrorCode,
        now_ms: u64,
    ) -> Result<Option<Box<Stream<T>>>, ConnectionError> {
        self.inner.spend_reset(now_ms)?;
        Ok(self.reset(id, code))
    }

    /// The user has no more use for this many bytes of a body, so the client may send more.
    pub fn consumed(&mut self, id: u32, bytes: usize) {
        self.inner.consumed(id, bytes);
    }

    /// Whether the client may send no more on any stream, because this side holds all that the connection's window allows.
    pub fn is_withholding(&self) -> bool {
        self.inner.receive_window < WINDOW_BYTES_LEAST
    }

    /// Counts the bytes of a body that were sent on a stream.
    pub fn sent(&mut self, id: u32, bytes: usize) {
        self.inner.streams.sent(id, bytes);
        self.inner.idle_frames.earn(FRAMES_EARNED * (1 + bytes as u32 / 1024));
    }

    /// Frames to send, which come before all that is written later.
    pub fn take_control(&mut self, out: &mut Vec<u8>) {
        out.append(&mut self.inner.control);
    }

    pub fn has_control(&self) -> bool {
        !self.inner.control.is_empty()
    }

    /// Whether the next header block has to begin with [`EMPTY_TABLE`](crate::hpack::encoder::EMPTY_TABLE). Says so once.
    #[inline]
    pub fn empties_table(&mut self) -> bool {
        std::mem::take(&mut self.inner.empties_table)
    }

    /// Says that the connection ends, and why.
    pub fn fail(&mut self, error: ConnectionError) {
        let last = self.inner.last_stream;
        frame::goaway(&mut self.inner.control, last, error.code, error.reason);
        self.inner.stream_max = 0;
    }

    /// Begins to drain (RFC 9113 §6.8): the client learns that the connection will end. Its requests that are on the way are
    /// still answered. After its [`Event::Pong`], or a moment, [`Session::end_requests`] follows.
    pub fn drain(&mut self) {
        frame::goaway(&mut self.inner.control, STREAM_MAX, ErrorCode::NO_ERROR, "");
        frame::ping(&mut self.inner.control, &DRAIN_PING, false);
    }

    /// Says which request was the last.
    pub fn end_requests(&mut self) {
        let last = self.inner.last_stream;
        if self.inner.stream_max == STREAM_MAX {
            self.inner.stream_max = last;
            frame::goaway(&mut self.inner.control, last, ErrorCode::NO_ERROR, "");
        }
    }
}

impl<T> Inner<T> {
    fn take<'i>(
        &mut self,
        frame: Frame<'_, 'i>,
        scratch: &mut Scratch,
        now_ms: u64,
    ) -> Result<Option<Event<'i, T>>, ConnectionError> {
        // RFC 9113 §3.4.
        if !std::mem::replace(&mut self.has_settings, true) && !matches!(frame, Frame::Settings { .. }) {
            return Err(ConnectionError::protocol("the first frame is not SETTINGS"));
        }
        match frame {
            Frame::Headers { stream, block, ends_stream, depends_on } => {
                self.headers(stream, block, ends_stream, depends_on, scratch, now_ms)
            }
            Frame::Data { stream, bytes, size, ends_stream } => {
                let is_idle =
                    |size: DataSize| size.flow_bytes - size.padding < SMALL_DATA_BYTES && !size.is_last;
                if size.is_some_and(is_idle) {
                    self.idle(now_ms, "too many small DATA frames")?;
                }
                self.data(stream, bytes, size, ends_stream, now_ms)
            }
            Frame::WindowUpdate { stream, increment } => {
                self.idle(now_ms, "too many WINDOW_UPDATE frames")?;
                self.window_update(stream, increment, now_ms)
            }
            Frame::RstStream { stream, .. } => {
                self.not_idle(stream)?;
                let Some(stream) = self.streams.remove(stream) else {
                    self.idle(now_ms, "too many RST_STREAM frames")?;
                    return Ok(None);
                };
                self.spend_reset(now_ms)?;
                Ok(Some(Event::Reset(stream)))
            }
            Frame::Settings { payload } => {
                self.idle(now_ms, "too many SETTINGS frames")?;
                self.settings(payload)
            }
            Frame::Ping { data, is_ack } => {
                self.idle(now_ms, "too many PING frames")?;
                if is_ack {
                    return Ok((data == DRAIN_PING).then_some(Event::Pong));
                }
                frame::ping(&mut self.control, &data, true);
                Ok(None)
            }
            Frame::Priority { stream, depends_on } => {
                self.idle(now_ms, "too many PRIORITY frames")?;
                match depends_on == stream {
                    true => Err(ConnectionError::protocol("a stream that depends on itself")),
                    false => Ok(None),
                }
            }
            Frame::PriorityUpdate { stream, value } => {
                self.idle(now_ms, "too many PRIORITY_UPDATE frames")?;
                if stream == 0 {
                    return Err(ConnectionError::protocol("a PRIORITY_UPDATE frame for stream 0"));
                }
                if let Some(stream) = self.streams.get_mut(stream) {
                    stream.priority = Priority::of(value);
                }
                Ok(None)
            }
            Frame::SettingsAck | Frame::Goaway { .. } | Frame::Unknown => {
                self.idle(now_ms, "too many frames without use")?;
                Ok(None)
            }
            // Their number is limited for each block.
            Frame::Partial => Ok(None),
        }
    }

    fn settings<'i>(&mut self, payload: &[u8]) -> Result<Option<Event<'i, T>>, ConnectionError> {
        self.peer.take(payload)?;
        self.empties_table |= self.peer.table_bytes < TABLE_BYTES;
        let reason = "INITIAL_WINDOW_SIZE makes a window too large";
        let windows = self.streams.set_initial_window(self.peer.initial_window);
        windows.map_err(|code| ConnectionError::new(code, reason))?;
        frame::settings_ack(&mut self.control);
        Ok(Some(Event::Window))
    }

    fn headers<'i>(
        &mut self,
        id: u32,
        block: &[u8],
        ends_stream: bool,
        depends_on: Option<u32>,
        scratch: &mut Scratch,
        now_ms: u64,
    ) -> Result<Option<Event<'i, T>>, ConnectionError> {
        if id <= self.last_stream {
            return self.trailers(id, block, ends_stream, scratch, now_ms);
        }
        if id.is_multiple_of(2) {
            return Err(ConnectionError::protocol("a request on a stream with an even number"));
        }
        self.last_stream = id;
        let built = HeadBuilder::new(scratch, self.limits.head).decode(&mut self.decoder, block)?;
        if id > self.stream_max {
            // The client repeats it elsewhere (RFC 9113 §6.8).
            self.idle(now_ms, "too many requests after the last one")?;
            return Ok(None);
        }
        self.idle_frames.earn(FRAMES_EARNED);
        if self.streams.len() >= self.limits.streams_max as usize {
            return self.stream_error(id, ErrorCode::REFUSED_STREAM, now_ms);
        }
        if depends_on == Some(id) {
            return self.stream_error(id, ErrorCode::PROTOCOL_ERROR, now_ms);
        }
        match built {
            Ok(priority) => Ok(Some(Event::Request { stream: id, priority, ends_stream })),
            Err(Bad::TooLarge) => {
                self.spend_reset(now_ms)?;
                Ok(Some(Event::TooLarge { stream: id, ends_stream }))
            }
            Err(Bad::Malformed(_)) => self.stream_error(id, ErrorCode::PROTOCOL_ERROR, now_ms),
        }
    }

    /// A header block on a stream that has had one.
    fn trailers<'i>(
        &mut self,
        id: u32,
        block: &[u8],
        ends_stream: bool,
        scratch: &mut Scratch,
        now_ms: u64,
    ) -> Result<Option<Event<'i, T>>, ConnectionError> {
        // Later blocks depend on its table, whatever becomes of the stream.
        let decoded = request::trailers(&mut self.decoder, block, scratch, self.limits.head)?;
        let has_left = self.left.contain(id);
        match self.streams.get_mut(id) {
            Some(stream) if stream.has_ended => self.stream_error(id, ErrorCode::STREAM_CLOSED, now_ms),
            Some(stream) if ends_stream && decoded.is_ok() => {
                stream.has_ended = true;
                Ok(Some(Event::End { stream: id }))
            }
            Some(_) => self.stream_error(id, ErrorCode::PROTOCOL_ERROR, now_ms),
            None if has_left => {
                self.idle(now_ms, "too many header blocks on streams that are over")?;
                Ok(None)
            }
            None if id == self.last_stream => {
                Err(ConnectionError::new(ErrorCode::STREAM_CLOSED, "a header block on a stream that is over"))
            }
            None => Err(ConnectionError::protocol("a request on a stream that is over")),
        }
    }

    fn data<'i>(
        &mut self,
        id: u32,
        bytes: &'i [u8],
        size: Option<DataSize>,
        ends_stream: bool,
        now_ms: u64,
    ) -> Result<Option<Event<'i, T>>, ConnectionError> {
        if let Some(DataSize { flow_bytes, padding, .. }) = size {
            self.not_idle(id)?;
            let Some(left) = self.receive_window.checked_sub(flow_bytes as u32) else {
                return Err(ConnectionError::new(ErrorCode::FLOW_CONTROL_ERROR, "more data than the window"));
            };
            self.receive_window = left;
            let has_left = self.left.contain(id);
            let error = match self.streams.get_mut(id) {
                None if has_left => None,
                None => Some(ErrorCode::STREAM_CLOSED),
                Some(stream) if stream.has_ended => Some(ErrorCode::STREAM_CLOSED),
                Some(stream) => match stream.receive_window.checked_sub(flow_bytes as u32) {
                    Some(left) => {
                        stream.receive_window = left;
                        None
                    }
                    None => Some(ErrorCode::FLOW_CONTROL_ERROR),
                },
            };
            self.consumed(id, padding);
            if let Some(code) = error {
                self.consumed(0, bytes.len());
                return self.stream_error(id, code, now_ms);
            }
        }
        let Some(stream) = self.streams.get_mut(id) else {
            self.consumed(0, bytes.len());
            return Ok(None);
        };
        stream.has_ended |= ends_stream;
        Ok(Some(Event::Data { stream: id, bytes, ends_stream }))
    }

    fn window_update<'i>(
        &mut self,
        id: u32,
        increment: u32,
        now_ms: u64,
    ) -> Result<Option<Event<'i, T>>, ConnectionError> {
        if id == 0 {
            if increment == 0 {
                return Err(ConnectionError::protocol("a WINDOW_UPDATE frame of 0"));
            }
            let grown = self.streams.grow(increment);
            grown.map_err(|code| ConnectionError::new(code, "a window that is too large"))?;
            return Ok(Some(Event::Window));
        }
        self.not_idle(id)?;
        match (increment, self.streams.grow_stream(id, increment)) {
            (0, _) => self.stream_error(id, ErrorCode::PROTOCOL_ERROR, now_ms),
            _ if self.streams.get(id).is_none() => Ok(None),
            (_, Err(code)) => self.stream_error(id, code, now_ms),
            (_, Ok(())) => Ok(Some(Event::Window)),
        }
    }

    /// RFC 9113 §5.1: in a stream that no request has opened, nothing else may come.
    fn not_idle(&self, id: u32) -> Result<(), ConnectionError> {
        match id > self.last_stream || id.is_multiple_of(2) {
            true => Err(ConnectionError::protocol("a frame on a stream without a request")),
            false => Ok(()),
        }
    }

    /// A part of both windows is free again. Stream 0 is the connection alone.
    fn consumed(&mut self, id: u32, bytes: usize) {
        let half = |window: u32| window / 2;
        self.consumed += bytes as u32;
        // Streams that wait may hold most of the window. Then half of the rest is enough, as long as that is worth a frame.
        let enough = self.receive_window.clamp(WINDOW_BYTES_LEAST, half(CONNECTION_WINDOW_BYTES));
        if self.consumed >= enough {
            let increment = std::mem::take(&mut self.consumed);
            self.receive_window += increment;
            frame::window_update(&mut self.control, 0, increment);
        }
        let Some(stream) = self.streams.get_mut(id).filter(|stream| !stream.has_ended) else { return };
        stream.consumed += bytes as u32;
        if stream.consumed >= half(WINDOW_BYTES) {
            let increment = std::mem::take(&mut stream.consumed);
            stream.receive_window += increment;
            frame::window_update(&mut self.control, id, increment);
        }
    }

    /// The client has broken a rule, and its stream ends (RFC 9113 §5.4.2).
    fn stream_error<'i>(
        &mut self,
        id: u32,
        code: ErrorCode,
        now_ms: u64,
    ) -> Result<Option<Event<'i, T>>, ConnectionError> {
        self.spend_reset(now_ms)?;
        self.leave(id, code);
        Ok(self.streams.remove(id).map(Event::Reset))
    }

    /// Ends this side of a stream with RST_STREAM.
    fn leave(&mut self, id: u32, code: ErrorCode) {
        frame::rst_stream(&mut self.control, id, code);
        self.left.add(id);
    }

    fn spend_reset(&mut self, now_ms: u64) -> Result<(), ConnectionError> {
        match self.resets.spend(now_ms) {
            true => Ok(()),
            false => Err(ConnectionError::calm("too many resets")),
        }
    }

    fn idle(&mut self, now_ms: u64, reason: &'static str) -> Result<(), ConnectionError> {
        match self.idle_frames.spend(now_ms) {
            true => Ok(()),
            false => Err(ConnectionError::calm(reason)),
        }
    }
}

#[cfg(test)]
mod tests;
