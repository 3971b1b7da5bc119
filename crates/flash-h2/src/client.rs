//! One connection of a client: requests leave on streams of their own, and what arrives belongs to their responses.
//!
//! Control frames are answered here, and flow control is kept in both directions. By default, the windows that this side offers are as
//! large as those of other load generators, so the server's own pace is measured. Responses, and their bodies, are the user's business.

use crate::budget::Budget;
use crate::error::{ConnectionError, ErrorCode};
use crate::frame::{self, FLAGS_AT, FrameHeader, PAYLOAD_BYTES_MAX, PREFACE, STREAM_MAX, flag, kind};
use crate::hpack::decoder::Decoder;
use crate::hpack::{encoder, integer, static_table};
use crate::reader::{BlockLimits, Frame, Reader};
use crate::settings::{self, PeerSettings, TABLE_BYTES, WINDOW_BYTES};

/// What a client offers its server, and what it bears.
#[derive(Clone, Copy, Debug)]
pub struct ClientLimits {
    /// What the server may send on a stream, until its user has [consumed](Client::consumed) it. `None`: as much as it likes.
    pub window_bytes: Option<u32>,
    /// Of a header block, as it is on the wire.
    pub block_bytes_max: usize,
    /// Frames that bring nothing: so many at once, and so many a second.
    pub idle_frames: (u32, u32),
}

/// A connection to a server.
#[derive(Debug)]
pub struct Client {
    reader: Reader,
    inner: Inner,
}

#[derive(Debug)]
struct Inner {
    limits: ClientLimits,
    decoder: Decoder,
    scratch: Vec<u8>,
    peer: PeerSettings,
    /// In the order of their numbers. A stream leaves when its response ends.
    streams: Vec<Stream>,
    next_stream: u32,
    has_settings: bool,
    /// The server takes no further requests.
    is_draining: bool,
    send_window: i64,
    received: Received,
    idle_frames: Budget,
    table: Table,
    control: Vec<u8>,
}

#[derive(Debug)]
struct Stream {
    id: u32,
    send_window: i64,
    received: Received,
}

/// How much the server may send.
#[derive(Debug)]
struct Received {
    window_bytes: u32,
    left: u32,
    /// Bytes of bodies that the server may not send again yet.
    consumed: u32,
}

/// What the server's dynamic table has of the [`CommonFields`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Table {
    Nothing,
    Fields,
    /// The server wants a smaller one. The next block says that it is empty, and no field is kept from then on.
    ToBeEmptied,
    Refused,
}

/// What the server's bytes have brought.
#[derive(Debug, PartialEq, Eq)]
pub enum ClientEvent<'i> {
    /// The fields that were just shown are a head, or trailers. Interim responses come in the same way.
    Fields {
        stream: u32,
        ends: bool,
    },
    Data {
        stream: u32,
        bytes: &'i [u8],
        ends: bool,
    },
    /// The server has ended the stream before its response was complete.
    Reset {
        stream: u32,
        code: ErrorCode,
    },
    /// The server answers no request on a stream above this one.
    Goaway {
        last_stream: u32,
        code: ErrorCode,
    },
    /// More may be sent than before: of this stream's body, or, if that is 0, of any, and requests.
    Window {
        stream: u32,
    },
}

/// The fields that all requests of a connection have, encoded in advance. They have to be the same for its whole life.
#[derive(Clone, Debug)]
pub struct CommonFields {
    pseudo: Encoded,
    others: Encoded,
    fit: bool,
}

/// Fields as the first request of a connection has them, as later ones have them, and as they are without a dynamic table.
#[derive(Clone, Debug, Default)]
struct Encoded {
    first: Vec<u8>,
    later: Vec<u8>,
    plain: Vec<u8>,
}

/// What the server may send on a stream, and on all streams.
const OFFERED_WINDOW_BYTES: u32 = (1 << 30) - 1;
/// Until the server has said how many streams it allows (RFC 9113 §6.5.2 recommends no fewer).
const STREAMS_MAX_AT_FIRST: u32 = 100;
const BLOCK_BYTES_MAX: usize = 64 << 10;
/// What a frame of use earns.
const FRAMES_EARNED: u32 = 4;
/// What a field takes of a dynamic table besides its text (RFC 7541 §4.1).
const ENTRY_BYTES: usize = 32;

impl CommonFields {
    /// `:scheme` and `:authority`, and fields by their names.
    pub fn new<'a>(
        scheme: &str,
        authority: &str,
        others: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Self {
        let pseudo = [(":scheme", scheme), (":authority", authority)];
        let others: Vec<(&str, &str)> = others.into_iter().collect();
        let all = || pseudo.iter().chain(&others).copied();
        let is_static =
            |field: &(&str, &str)| static_table::TABLE.contains(&(field.0.as_bytes(), field.1.as_bytes()));
        let kept = all().filter(|field| !is_static(field)).count();
        let bytes: usize = all().map(|(name, value)| name.len() + value.len() + ENTRY_BYTES).sum();
        // The field that was kept last has the first number.
        let mut number = static_table::COUNT + kept;
        let mut encoded = |fields: &[(&str, &str)]| {
            let mut encoded = Encoded::default();
            for field in fields {
                let (name, value) = (field.0.as_bytes(), field.1.as_bytes());
                encoder::indexed(&mut encoded.plain, name, value);
                if is_static(field) {
                    encoder::indexed(&mut encoded.first, name, value);
                    encoder::indexed(&mut encoded.later, name, value);
                } else {
                    encoder::kept_field(&mut encoded.first, name, value);
                    integer::write(&mut encoded.later, 0x80, 7, number);
                    number -= 1;
                }
            }
            encoded
        };
        let (pseudo, others) = (encoded(&pseudo), encoded(&others));
        Self { pseudo, others, fit: bytes <= TABLE_BYTES as usize }
    }
}

impl Encoded {
    fn of(&self, table: Table) -> &[u8] {
        match table {
            Table::Nothing => &self.first,
            Table::Fields => &self.later,
            Table::ToBeEmptied | Table::Refused => &self.plain,
        }
    }
}

impl Received {
    fn new(window_bytes: u32) -> Self {
        Self { window_bytes, left: window_bytes, consumed: 0 }
    }

    fn take(&mut self, bytes: u32) -> Result<(), ConnectionError> {
        let left = self.left.checked_sub(bytes);
        let error = ConnectionError::new(ErrorCode::FLOW_CONTROL_ERROR, "more data than the window");
        self.left = left.ok_or(error)?;
        Ok(())
    }

    /// Lets the server send again what half of a window has brought. Returns how much that is.
    fn consume(&mut self, bytes: u32) -> Option<u32> {
        self.consumed += bytes;
        let is_due = self.consumed > self.window_bytes / 2;
        is_due.then(|| {
            self.left += self.consumed;
            std::mem::take(&mut self.consumed)
        })
    }
}

impl Default for Client {
    fn default() -> Self {
        let (window_bytes, block_bytes_max, idle_frames) = (None, BLOCK_BYTES_MAX, (u32::MAX, 0));
        Self::new(ClientLimits { window_bytes, block_bytes_max, idle_frames })
    }
}

impl Client {
    pub fn new(limits: ClientLimits) -> Self {
        let mut control = PREFACE.to_vec();
        let window_bytes = limits.window_bytes.unwrap_or(OFFERED_WINDOW_BYTES);
        let offered = [(settings::ENABLE_PUSH, 0), (settings::INITIAL_WINDOW_SIZE, window_bytes)];
        frame::settings(&mut control, &offered);
        frame::window_update(&mut control, 0, OFFERED_WINDOW_BYTES - WINDOW_BYTES);
        let block = BlockLimits { bytes_max: limits.block_bytes_max, continuations_max: 8 };
        let (most, per_second) = limits.idle_frames;
        let inner = Inner {
            limits,
            decoder: Decoder::new(TABLE_BYTES as usize),
            scratch: Vec::new(),
            peer: PeerSettings { streams_max: STREAMS_MAX_AT_FIRST, ..PeerSettings::default() },
            streams: Vec::new(),
            next_stream: 1,
            has_settings: false,
            is_draining: false,
            send_window: WINDOW_BYTES.into(),
            received: Received::new(OFFERED_WINDOW_BYTES),
            idle_frames: Budget::new(most, per_second),
            table: Table::Nothing,
            control,
        };
        Self { reader: Reader::of_frames(block), inner }
    }

    /// What the next bytes mean, which are taken off the front of `input`. `field` is shown each field of a stream. `None` if
    /// more bytes are needed.
    ///
    /// # Errors
    /// If the server has broken a rule that ends the connection.
    pub fn next<'i>(
        &mut self,
        input: &mut &'i [u8],
        now_ms: u64,
        mut field: impl FnMut(u32, &[u8], &[u8]),
    ) -> Result<Option<ClientEvent<'i>>, ConnectionError> {
        while let Some(frame) = self.reader.next(input)? {
            if let Some(event) = self.inner.take(frame, now_ms, &mut field)? {
                return Ok(Some(event));
            }
        }
        Ok(None)
    }

    /// Whether one more request may leave.
    pub fn can_open(&self) -> bool {
        !self.inner.is_draining
            && self.inner.streams.len() < self.inner.peer.streams_max as usize
            && self.inner.next_stream <= STREAM_MAX
    }

    /// Whether the server takes no further requests.
    pub fn is_draining(&self) -> bool {
        self.inner.is_draining
    }

    /// Whether the server has said what it allows.
    pub fn has_settings(&self) -> bool {
        self.inner.has_settings
    }

    /// Nothing of a stream is of use any more.
    pub fn forget(&mut self, stream: u32) {
        self.inner.forget(stream);
    }

    /// Whether nothing of a response is under way: no frame, and no stream.
    pub fn is_idle(&self) -> bool {
        !self.reader.is_within() && self.inner.streams.is_empty()
    }

    /// Writes a request's head, and returns the number of its stream. `own` appends the fields that other requests do not have. A
    /// body follows, unless `ends`. Called only after [`Client::can_open`].
    pub fn open(
        &mut self,
        (method, path): (&str, &str),
        common: &CommonFields,
        own: impl FnOnce(&mut Vec<u8>),
        ends: bool,
        out: &mut Vec<u8>,
    ) -> u32 {
        if !common.fit && self.inner.table == Table::Nothing {
            self.inner.table = Table::Refused;
        }
        let (id, start) = self.begin_request(ends, out);
        if self.inner.table == Table::ToBeEmptied {
            out.push(encoder::EMPTY_TABLE);
        }
        encoder::indexed(out, b":method", method.as_bytes());
        encoder::indexed(out, b":path", path.as_bytes());
        out.extend_from_slice(common.pseudo.of(self.inner.table));
        out.extend_from_slice(common.others.of(self.inner.table));
        own(out);
        frame::end_headers(out, start);
        self.inner.table = match self.inner.table {
            Table::Nothing => Table::Fields,
            Table::ToBeEmptied => Table::Refused,
            table => table,
        };
        id
    }

    /// The same, of a request that shares nothing with others: `fields` appends all of them. A connection has requests of one kind.
    pub fn open_alone(&mut self, fields: impl FnOnce(&mut Vec<u8>), ends: bool, out: &mut Vec<u8>) -> u32 {
        let (id, start) = self.begin_request(ends, out);
        if std::mem::replace(&mut self.inner.table, Table::Refused) != Table::Refused {
            out.push(encoder::EMPTY_TABLE);
        }
        fields(out);
        frame::end_headers(out, start);
        id
    }

    /// Returns the number of a new stream, and where the block of its fields begins.
    fn begin_request(&mut self, ends: bool, out: &mut Vec<u8>) -> (u32, usize) {
        let id = self.inner.begin_stream();
        self.take_control(out);
        let start = frame::begin_headers(out, id);
        if ends {
            out[start + FLAGS_AT] |= flag::END_STREAM;
        }
        (id, start)
    }

    /// Ends a request with trailer fields. Called once all of its body is sent.
    pub fn send_trailers(&mut self, stream: u32, block: &[u8], out: &mut Vec<u8>) {
        if self.inner.stream(stream).is_some() {
            frame::trailers(out, stream, block);
        }
    }

    /// The user has no more use for this many bytes of a response, so the server may send more.
    pub fn consumed(&mut self, stream: u32, bytes: usize) {
        self.inner.consume(stream, bytes as u32);
    }

    /// Writes as much of a body as the windows and one frame allow, and returns how much that is. `is_last` says whether `bytes` is
    /// all that is left of it.
    pub fn send_data(&mut self, stream: u32, bytes: &[u8], is_last: bool, out: &mut Vec<u8>) -> usize {
        let connection = self.inner.send_window;
        let Some(own) = self.inner.stream(stream) else { return 0 };
        let window = own.send_window.min(connection).clamp(0, PAYLOAD_BYTES_MAX as i64) as usize;
        let count = bytes.len().min(window);
        let ends = is_last && count == bytes.len();
        if count == 0 && !ends {
            return 0;
        }
        own.send_window -= count as i64;
        self.inner.send_window -= count as i64;
        // The server opens its windows for that.
        self.inner.idle_frames.earn(FRAMES_EARNED * (1 + count as u32 / 1024));
        let flags = if ends { flag::END_STREAM } else { 0 };
        let header = FrameHeader { length: count as u32, kind: kind::DATA, flags, stream };
        out.extend_from_slice(&header.to_bytes());
        out.extend_from_slice(&bytes[..count]);
        count
    }

    /// Ends a stream before its response is complete.
    pub fn reset(&mut self, stream: u32, code: ErrorCode) {
        self.inner.forget(stream);
        frame::rst_stream(&mut self.inner.control, stream, code);
    }

    /// Frames to send, which come before all that is written later.
    pub fn take_control(&mut self, out: &mut Vec<u8>) {
        out.append(&mut self.inner.control);
    }
}

impl Inner {
    fn take<'i>(
        &mut self,
        frame: Frame<'_, 'i>,
        now_ms: u64,
        mut field: impl FnMut(u32, &[u8], &[u8]),
    ) -> Result<Option<ClientEvent<'i>>, ConnectionError> {
        let is_use = match &frame {
            Frame::Headers { .. } | Frame::Partial => true,
            Frame::Data { bytes, size, .. } => {
                size.is_none_or(|size| size.is_last || !bytes.is_empty() || size.flow_bytes > size.padding)
            }
            Frame::RstStream { stream, .. } => self.stream(*stream).is_some(),
            _ => false,
        };
        match is_use {
            true => self.idle_frames.earn(FRAMES_EARNED),
            false if self.idle_frames.spend(now_ms) => {}
            false => {
                let reason = "too many frames without use";
                return Err(ConnectionError::new(ErrorCode::ENHANCE_YOUR_CALM, reason));
            }
        }
        if !self.has_settings && !matches!(frame, Frame::Settings { .. }) {
            return Err(ConnectionError::protocol("the first frame is not SETTINGS"));
        }
        Ok(match frame {
            Frame::Headers { stream, block, ends_stream, .. } => {
                let is_open = self.streams.binary_search_by_key(&stream, |stream| stream.id).is_ok();
                let show = |name: &[u8], value: &[u8]| {
                    if is_open {
                        field(stream, name, value);
                    }
                };
                let decoded = self.decoder.decode(block, &mut self.scratch, show);
                decoded?;
                self.not_idle(stream)?;
                if ends_stream {
                    self.forget(stream);
                }
                is_open.then_some(ClientEvent::Fields { stream, ends: ends_stream })
            }
            Frame::Data { stream, bytes, size, ends_stream } => {
                if let Some(size) = size {
                    self.not_idle(stream)?;
                    self.receive(stream, size.flow_bytes as u32, size.padding as u32)?;
                }
                let is_open = match ends_stream {
                    true => self.forget(stream),
                    false => self.stream(stream).is_some(),
                };
                is_open.then_some(ClientEvent::Data { stream, bytes, ends: ends_stream })
            }
            Frame::RstStream { stream, code } => {
                self.not_idle(stream)?;
                self.forget(stream).then_some(ClientEvent::Reset { stream, code })
            }
            Frame::Goaway { last_stream, code } => {
                self.is_draining = true;
                Some(ClientEvent::Goaway { last_stream, code })
            }
            Frame::Settings { payload } => {
                self.settings(payload)?;
                Some(ClientEvent::Window { stream: 0 })
            }
            Frame::WindowUpdate { stream, increment } => {
                self.widen(stream, increment)?;
                Some(ClientEvent::Window { stream })
            }
            Frame::Ping { data, is_ack } => {
                if !is_ack {
                    frame::ping(&mut self.control, &data, true);
                }
                None
            }
            _ => None,
        })
    }

    fn stream(&mut self, id: u32) -> Option<&mut Stream> {
        let place = self.streams.binary_search_by_key(&id, |stream| stream.id).ok()?;
        Some(&mut self.streams[place])
    }

    /// Returns whether the stream was open.
    fn forget(&mut self, id: u32) -> bool {
        let place = self.streams.binary_search_by_key(&id, |stream| stream.id);
        place.map(|place| self.streams.remove(place)).is_ok()
    }

    /// RFC 9113 §5.1: on a stream that no request has opened, nothing can arrive.
    fn not_idle(&self, id: u32) -> Result<(), ConnectionError> {
        match id.is_multiple_of(2) || id >= self.next_stream {
            true => Err(ConnectionError::protocol("a frame on a stream without a request")),
            false => Ok(()),
        }
    }

    fn begin_stream(&mut self) -> u32 {
        let id = self.next_stream;
        self.next_stream += 2;
        let send_window = self.peer.initial_window.into();
        let received = Received::new(self.limits.window_bytes.unwrap_or(OFFERED_WINDOW_BYTES));
        self.streams.push(Stream { id, send_window, received });
        id
    }

    /// Bytes of a body have arrived. The connection's window is not what holds streams back.
    fn receive(&mut self, id: u32, bytes: u32, padding: u32) -> Result<(), ConnectionError> {
        self.received.take(bytes)?;
        if let Some(increment) = self.received.consume(bytes) {
            frame::window_update(&mut self.control, 0, increment);
        }
        let Some(stream) = self.stream(id) else { return Ok(()) };
        stream.received.take(bytes)?;
        self.consume(id, if self.limits.window_bytes.is_some() { padding } else { bytes });
        Ok(())
    }

    fn consume(&mut self, id: u32, bytes: u32) {
        let Some(stream) = self.stream(id) else { return };
        if let Some(increment) = stream.received.consume(bytes) {
            frame::window_update(&mut self.control, id, increment);
        }
    }

    fn settings(&mut self, payload: &[u8]) -> Result<(), ConnectionError> {
        if !std::mem::replace(&mut self.has_settings, true) {
            self.peer.streams_max = u32::MAX;
        }
        let before = i64::from(self.peer.initial_window);
        self.peer.take(payload)?;
        let change = i64::from(self.peer.initial_window) - before;
        for stream in &mut self.streams {
            stream.send_window += change;
        }
        if self.peer.table_bytes < TABLE_BYTES {
            self.table = match self.table {
                Table::Nothing => Table::Refused,
                Table::Fields => Table::ToBeEmptied,
                table => table,
            };
        }
        frame::settings_ack(&mut self.control);
        Ok(())
    }

    fn widen(&mut self, id: u32, increment: u32) -> Result<(), ConnectionError> {
        let most = i64::from(STREAM_MAX);
        let window = match id {
            0 => &mut self.send_window,
            _ => match self.stream(id) {
                Some(stream) => &mut stream.send_window,
                None => return Ok(()),
            },
        };
        *window += i64::from(increment);
        match increment > 0 && *window <= most {
            true => Ok(()),
            false => Err(ConnectionError::new(ErrorCode::FLOW_CONTROL_ERROR, "a window that cannot be")),
        }
    }
}

#[cfg(test)]
mod tests;
