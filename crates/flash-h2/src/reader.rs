//! Takes a peer's bytes apart into frames, however they are cut.
//!
//! The payload of DATA frames is passed on in the pieces in which it arrives, without a copy. Every other frame is shown whole,
//! and only one that is cut is copied. A header block in several frames is shown as one. What the frames mean is not known
//! here.

use crate::error::{ConnectionError, ErrorCode};
use crate::frame::{FrameHeader, HEADER_BYTES, PAYLOAD_BYTES_MAX, PREFACE, flag, kind};

/// What is read into one block of fields, before its decoding.
#[derive(Clone, Copy, Debug)]
pub struct BlockLimits {
    pub bytes_max: usize,
    /// CONTINUATION frames of one block.
    pub continuations_max: u32,
}

#[derive(Debug)]
pub struct Reader {
    state: ReaderState,
    /// The beginning of a frame that has not arrived whole.
    partial: Vec<u8>,
    /// The buffer holds a frame that has been shown.
    is_shown: bool,
    /// A header block whose end has not arrived.
    block: Option<Box<Block>>,
    /// The last block that came in several frames.
    whole_block: Vec<u8>,
    limits: BlockLimits,
}

#[derive(Debug)]
enum ReaderState {
    /// This many bytes of the preface have arrived.
    Preface(usize),
    /// Between two frames, or within one that is shown whole.
    Frame,
    /// Within a DATA frame. `padding` is the part of its end that has no meaning, once that is known.
    Data { header: FrameHeader, left: usize, padding: Option<usize>, is_begun: bool },
}

#[derive(Debug)]
struct Block {
    stream: u32,
    ends_stream: bool,
    depends_on: Option<u32>,
    bytes: Vec<u8>,
    continuations: u32,
}

impl Block {
    /// Adds what a CONTINUATION frame brings.
    fn add(&mut self, payload: &[u8], limits: &BlockLimits) -> Result<(), ConnectionError> {
        self.continuations += 1;
        if self.continuations > limits.continuations_max {
            return Err(ConnectionError::calm("too many CONTINUATION frames"));
        }
        if self.bytes.len() + payload.len() > limits.bytes_max {
            return Err(ConnectionError::calm("a header block that is too long"));
        }
        self.bytes.extend_from_slice(payload);
        Ok(())
    }
}

/// The size of a DATA frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataSize {
    /// What counts for flow control (RFC 9113 §6.9.1).
    pub flow_bytes: usize,
    /// The part of it that is no data.
    pub padding: usize,
    /// Whether the stream ends behind it, however many pieces it comes in.
    pub is_last: bool,
}

/// A frame. What is shown of its payload depends on its type.
#[derive(Debug, PartialEq, Eq)]
pub enum Frame<'s, 'i> {
    /// A piece of the data. `size` comes with the first one.
    Data {
        stream: u32,
        bytes: &'i [u8],
        size: Option<DataSize>,
        ends_stream: bool,
    },
    /// A whole header block. `depends_on` is the stream of a deprecated priority.
    Headers {
        stream: u32,
        block: &'s [u8],
        ends_stream: bool,
        depends_on: Option<u32>,
    },
    Priority {
        stream: u32,
        depends_on: u32,
    },
    RstStream {
        stream: u32,
        code: ErrorCode,
    },
    Settings {
        payload: &'s [u8],
    },
    SettingsAck,
    Ping {
        data: [u8; 8],
        is_ack: bool,
    },
    Goaway {
        last_stream: u32,
        code: ErrorCode,
    },
    WindowUpdate {
        stream: u32,
        increment: u32,
    },
    PriorityUpdate {
        stream: u32,
        value: &'s [u8],
    },
    /// A part of a header block.
    Partial,
    /// RFC 9113 §5.5: dropped.
    Unknown,
}

impl Reader {
    pub fn new(limits: BlockLimits) -> Self {
        Self {
            state: ReaderState::Preface(0),
            partial: Vec::new(),
            is_shown: false,
            block: None,
            whole_block: Vec::new(),
            limits,
        }
    }

    /// A reader for frames without the client's preface, as a client gets them.
    pub fn of_frames(limits: BlockLimits) -> Self {
        Self { state: ReaderState::Frame, ..Self::new(limits) }
    }

    /// Whether a frame, a header block or the preface has begun and not ended.
    pub fn is_within(&self) -> bool {
        let has_part = !self.is_shown && !self.partial.is_empty();
        !matches!(self.state, ReaderState::Frame) || has_part || self.block.is_some()
    }

    /// The next frame, taken off the front of `input`. `None` if more bytes are needed.
    ///
    /// # Errors
    /// If the bytes break a rule of RFC 9113 that does not depend on a stream's state.
    pub fn next<'s, 'i: 's>(
        &'s mut self,
        input: &mut &'i [u8],
    ) -> Result<Option<Frame<'s, 'i>>, ConnectionError> {
        if let ReaderState::Preface(arrived) = &mut self.state {
            let expected = &PREFACE[*arrived..];
            let count = expected.len().min(input.len());
            if input[..count] != expected[..count] {
                return Err(ConnectionError::protocol("no preface of HTTP/2"));
            }
            *input = &input[count..];
            *arrived += count;
            if *arrived < PREFACE.len() {
                return Ok(None);
            }
            self.state = ReaderState::Frame;
        }
        if let ReaderState::Data { .. } = self.state {
            return self.data(input);
        }
        if std::mem::take(&mut self.is_shown) {
            // An idle connection keeps no large buffer.
            self.partial = Vec::new();
            self.whole_block = Vec::new();
        }
        let Some(header) = self.header(input)? else { return Ok(None) };
        if header.kind == kind::DATA {
            match self.partial.is_empty() {
                true => *input = &input[HEADER_BYTES..],
                false => self.partial.clear(),
            }
            let (left, padding) = (header.length as usize, (!header.has(flag::PADDED)).then_some(0));
            self.state = ReaderState::Data { header, left, padding, is_begun: false };
            return self.data(input);
        }
        let length = HEADER_BYTES + header.length as usize;
        let whole = match self.partial.is_empty() {
            true => input.split_at_checked(length),
            false => None,
        };
        if let Some((frame, rest)) = whole {
            *input = rest;
            return self.show(header, Some(&frame[HEADER_BYTES..]));
        }
        if !self.take(length, input) {
            return Ok(None);
        }
        self.is_shown = true;
        self.show(header, None)
    }

    /// The header of the next frame, which stays where it is.
    fn header(&mut self, input: &mut &[u8]) -> Result<Option<FrameHeader>, ConnectionError> {
        let bytes = match (self.partial.is_empty(), input.first_chunk()) {
            (true, Some(bytes)) => *bytes,
            _ if self.partial.len() < HEADER_BYTES && !self.take(HEADER_BYTES, input) => return Ok(None),
            _ => *self.partial.first_chunk().expect("it is that long"),
        };
        let header = FrameHeader::of(&bytes);
        if header.length as usize > PAYLOAD_BYTES_MAX {
            return Err(ConnectionError::size("a frame that is too large"));
        }
        // RFC 9113 §6.10.
        match &self.block {
            Some(block) if header.kind != kind::CONTINUATION || header.stream != block.stream => {
                Err(ConnectionError::protocol("a frame in the middle of a header block"))
            }
            None if header.kind == kind::CONTINUATION => {
                Err(ConnectionError::protocol("a CONTINUATION frame without its HEADERS frame"))
            }
            _ => Ok(Some(header)),
        }
    }

    /// Moves bytes into the buffer until it has this many. Returns whether it has.
    fn take(&mut self, count: usize, input: &mut &[u8]) -> bool {
        let missing = count.saturating_sub(self.partial.len()).min(input.len());
        let (taken, rest) = input.split_at(missing);
        self.partial.extend_from_slice(taken);
        *input = rest;
        self.partial.len() >= count
    }

    /// The next piece of a DATA frame (RFC 9113 §6.1).
    fn data<'i>(&mut self, input: &mut &'i [u8]) -> Result<Option<Frame<'i, 'i>>, ConnectionError> {
        let ReaderState::Data { header, left, padding, is_begun } = &mut self.state else { return Ok(None) };
        let header = *header;
        if header.stream == 0 {
            return Err(ConnectionError::protocol("a DATA frame on stream 0"));
        }
        if padding.is_none() {
            if *left == 0 {
                return Err(ConnectionError::size("a padded frame without its padding's length"));
            }
            let Some((&length, rest)) = input.split_first() else { return Ok(None) };
            *input = rest;
            *left -= 1;
            if usize::from(length) > *left {
                return Err(ConnectionError::protocol("a padding that is longer than its frame"));
            }
            *padding = Some(length.into());
        }
        let padding = padding.unwrap_or_default();
        let data = left.saturating_sub(padding);
        if *left > 0 && input.is_empty() {
            return Ok(None);
        }
        let count = data.min(input.len());
        let (bytes, rest) = input.split_at(count);
        *left -= count;
        // Padding is dropped as it arrives.
        let dropped = if *left <= padding { (*left).min(rest.len()) } else { 0 };
        *left -= dropped;
        *input = &rest[dropped..];
        let is_last = *left == 0;
        let size = (!std::mem::replace(is_begun, true)).then(|| DataSize {
            flow_bytes: header.length as usize,
            padding: padding + usize::from(header.has(flag::PADDED)),
            is_last: header.has(flag::END_STREAM),
        });
        if is_last {
            self.state = ReaderState::Frame;
        }
        let ends_stream = is_last && header.has(flag::END_STREAM);
        Ok(Some(Frame::Data { stream: header.stream, bytes, size, ends_stream }))
    }

    /// Shows a whole frame other than DATA. Its payload is in the buffer if it is not given.
    #[expect(clippy::too_many_lines, reason = "a table of the frame types")]
    fn show<'s, 'i: 's>(
        &'s mut self,
        header: FrameHeader,
        given: Option<&'i [u8]>,
    ) -> Result<Option<Frame<'s, 'i>>, ConnectionError> {
        let Self { partial, block, limits, whole_block, .. } = self;
        let payload = match given {
            Some(payload) => payload,
            None => &partial[HEADER_BYTES..],
        };
        let stream = header.stream;
        let on_stream = |is_expected: bool| match (stream != 0) == is_expected {
            true => Ok(()),
            false => Err(ConnectionError::protocol("a frame on a stream that it cannot be on")),
        };
        let exactly = || Err(ConnectionError::size("a frame of a wrong size"));
        let frame = match header.kind {
            kind::HEADERS => {
                on_stream(true)?;
                let (fragment, depends_on) = fragment(header, payload)?;
                let ends_stream = header.has(flag::END_STREAM);
                if header.has(flag::END_HEADERS) {
                    Frame::Headers { stream, block: fragment, ends_stream, depends_on }
                } else {
                    let bytes = fragment.to_vec();
                    *block =
                        Some(Box::new(Block { stream, ends_stream, depends_on, bytes, continuations: 0 }));
                    Frame::Partial
                }
            }
            kind::CONTINUATION => {
                if let Some(begun) = block {
                    begun.add(payload, limits)?;
                }
                match block.take_if(|_| header.has(flag::END_HEADERS)) {
                    Some(whole) => {
                        let Block { ends_stream, depends_on, bytes, .. } = *whole;
                        *whole_block = bytes;
                        Frame::Headers { stream, block: whole_block, ends_stream, depends_on }
                    }
                    None => Frame::Partial,
                }
            }
            kind::PRIORITY => {
                on_stream(true)?;
                let Ok(payload) = <[u8; 5]>::try_from(payload) else { return exactly() };
                Frame::Priority { stream, depends_on: stream_of(&payload) }
            }
            kind::RST_STREAM => {
                on_stream(true)?;
                let Ok(payload) = <[u8; 4]>::try_from(payload) else { return exactly() };
                Frame::RstStream { stream, code: ErrorCode(u32::from_be_bytes(payload)) }
            }
            kind::SETTINGS => {
                on_stream(false)?;
                match (header.has(flag::ACK), payload.len()) {
                    (false, _) => Frame::Settings { payload },
                    (true, 0) => Frame::SettingsAck,
                    (true, _) => return exactly(),
                }
            }
            kind::PUSH_PROMISE => return Err(ConnectionError::protocol("a peer has promised to push")),
            kind::PING => {
                on_stream(false)?;
                let Ok(data) = payload.try_into() else { return exactly() };
                Frame::Ping { data, is_ack: header.has(flag::ACK) }
            }
            kind::GOAWAY => {
                on_stream(false)?;
                let Some((last, [c0, c1, c2, c3, ..])) = payload.split_first_chunk::<4>() else {
                    return exactly();
                };
                let code = ErrorCode(u32::from_be_bytes([*c0, *c1, *c2, *c3]));
                Frame::Goaway { last_stream: stream_of(last), code }
            }
            kind::WINDOW_UPDATE => {
                let Ok(payload) = <[u8; 4]>::try_from(payload) else { return exactly() };
                Frame::WindowUpdate { stream, increment: stream_of(&payload) }
            }
            kind::PRIORITY_UPDATE => {
                on_stream(false)?;
                if payload.len() < 4 {
                    return exactly();
                }
                Frame::PriorityUpdate { stream: stream_of(payload), value: &payload[4..] }
            }
            _ => Frame::Unknown,
        };
        Ok(Some(frame))
    }
}

/// The part of a HEADERS frame that belongs to the block, and the stream that it depends on (RFC 9113 §6.2).
fn fragment(header: FrameHeader, mut payload: &[u8]) -> Result<(&[u8], Option<u32>), ConnectionError> {
    let short = || ConnectionError::size("a HEADERS frame that is too short");
    let mut padding = 0;
    if header.has(flag::PADDED) {
        let (&length, rest) = payload.split_first().ok_or_else(short)?;
        (padding, payload) = (usize::from(length), rest);
    }
    let mut depends_on = None;
    if header.has(flag::PRIORITY) {
        let (priority, rest) = payload.split_at_checked(5).ok_or_else(short)?;
        depends_on = Some(stream_of(priority));
        payload = rest;
    }
    let length = payload.len().checked_sub(padding);
    let length = length.ok_or(ConnectionError::protocol("a padding that is longer than its frame"))?;
    Ok((&payload[..length], depends_on))
}

/// The 31 bits that `bytes` begins with.
fn stream_of(bytes: &[u8]) -> u32 {
    bytes.first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes) & crate::frame::STREAM_MAX)
}

#[cfg(test)]
mod tests;
