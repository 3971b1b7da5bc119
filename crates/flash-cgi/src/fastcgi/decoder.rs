//! What the application answers: its two streams, and how it ended.

use super::record::{HEAD_BYTES, REQUEST_ID, VERSION, kind};

/// §5.5: what an END_REQUEST holds.
const END_BYTES: usize = 8;

/// Something that the application said. Streams come in pieces, as they arrive, and in no more than one record each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'b> {
    /// Of the response: a CGI head, and what follows it. Never empty.
    Stdout(&'b [u8]),
    /// For the log. Never empty.
    Stderr(&'b [u8]),
    /// The answer is complete, with the last byte of its last record. The connection may be used again.
    End(End),
}

/// How an application ended a request (§5.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// With what a CGI program would exit with.
    Complete { app_status: u32 },
    /// It has a request already, and cannot take two.
    CannotMultiplex,
    /// It has no room; another time it may.
    Overloaded,
    /// It is no responder.
    UnknownRole,
}

/// What no application may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Error {
    pub reason: &'static str,
}

/// Reads one request's answer.
#[derive(Clone, Copy, Debug)]
pub struct Decoder {
    state: DecoderState,
}

/// What comes next.
#[derive(Clone, Copy, Debug)]
enum DecoderState {
    Head { bytes: [u8; HEAD_BYTES], have: usize },
    Stream { of: Stream, left: usize, padding: usize },
    Skip { left: usize },
    End { bytes: [u8; END_BYTES], have: usize, padding: usize },
    EndPadding { end: End, left: usize },
    Ended,
}

#[derive(Clone, Copy, Debug)]
enum Stream {
    Stdout,
    Stderr,
}

const NEXT_HEAD: DecoderState = DecoderState::Head { bytes: [0; HEAD_BYTES], have: 0 };

impl Default for Decoder {
    fn default() -> Decoder {
        Decoder::new()
    }
}

impl Decoder {
    pub const fn new() -> Decoder {
        Decoder { state: NEXT_HEAD }
    }

    /// Reads to the next event, and takes the bytes that it read from the front of `input`. `None` means that it took all of
    /// them. After [`Event::End`] it takes nothing more, and any bytes left are an error of the peer.
    ///
    /// # Errors
    /// For what the specification forbids, again and again. The connection is of no more use then.
    #[allow(clippy::should_implement_trait)] // An iterator cannot be given more to read.
    pub fn next<'b>(&mut self, input: &mut &'b [u8]) -> Result<Option<Event<'b>>, Error> {
        loop {
            match &mut self.state {
                DecoderState::Head { bytes, have } => {
                    if !fill(bytes, have, input) {
                        return Ok(None);
                    }
                    self.state = open(bytes)?;
                }
                DecoderState::Stream { of, left, padding } => {
                    let piece = take(input, *left);
                    *left -= piece.len();
                    let of = *of;
                    if *left == 0 {
                        self.state = DecoderState::Skip { left: *padding };
                    }
                    if piece.is_empty() {
                        return Ok(None);
                    }
                    return Ok(Some(match of {
                        Stream::Stdout => Event::Stdout(piece),
                        Stream::Stderr => Event::Stderr(piece),
                    }));
                }
                DecoderState::Skip { left } => {
                    *left -= take(input, *left).len();
                    if *left > 0 {
                        return Ok(None);
                    }
                    self.state = NEXT_HEAD;
                }
                DecoderState::End { bytes, have, padding } => {
                    if !fill(bytes, have, input) {
                        return Ok(None);
                    }
                    self.state = DecoderState::EndPadding { end: end(bytes)?, left: *padding };
                }
                DecoderState::EndPadding { end, left } => {
                    *left -= take(input, *left).len();
                    if *left > 0 {
                        return Ok(None);
                    }
                    let end = *end;
                    self.state = DecoderState::Ended;
                    return Ok(Some(Event::End(end)));
                }
                DecoderState::Ended => return Ok(None),
            }
        }
    }
}

/// What follows a record's head (§3.3).
fn open(head: &[u8; HEAD_BYTES]) -> Result<DecoderState, Error> {
    let [version, kind, id_high, id_low, length_high, length_low, padding, _] = *head;
    if version != VERSION {
        return bad("a record of another version than 1");
    }
    let id = u16::from_be_bytes([id_high, id_low]);
    let length = usize::from(u16::from_be_bytes([length_high, length_low]));
    let padding = usize::from(padding);
    match (kind, id) {
        // §3.3: an empty record ends its stream. END_REQUEST ends both, and not every application ends them before.
        (kind::STDOUT | kind::STDERR, REQUEST_ID) if length == 0 => Ok(DecoderState::Skip { left: padding }),
        (kind::STDOUT, REQUEST_ID) => Ok(DecoderState::Stream { of: Stream::Stdout, left: length, padding }),
        (kind::STDERR, REQUEST_ID) => Ok(DecoderState::Stream { of: Stream::Stderr, left: length, padding }),
        (kind::END_REQUEST, REQUEST_ID) if length == END_BYTES => {
            Ok(DecoderState::End { bytes: [0; END_BYTES], have: 0, padding })
        }
        (kind::END_REQUEST, REQUEST_ID) => bad("an END_REQUEST that is not of 8 bytes"),
        (kind::STDOUT | kind::STDERR | kind::END_REQUEST, _) => bad("a record of another request"),
        // Answers to questions that nobody has asked (§4), and types of later versions (§4.2) mean nothing to us.
        (kind::GET_VALUES_RESULT.., 0 | REQUEST_ID) => Ok(DecoderState::Skip { left: length + padding }),
        _ => bad("a record that no application sends"),
    }
}

fn end(body: &[u8; END_BYTES]) -> Result<End, Error> {
    let [a, b, c, d, protocol_status, _, _, _] = *body;
    match protocol_status {
        0 => Ok(End::Complete { app_status: u32::from_be_bytes([a, b, c, d]) }),
        1 => Ok(End::CannotMultiplex),
        2 => Ok(End::Overloaded),
        3 => Ok(End::UnknownRole),
        _ => bad("an END_REQUEST with an unknown status"),
    }
}

/// Moves bytes from the front of `input` until `bytes` has all of its own; tells whether it has.
#[inline]
fn fill<const N: usize>(bytes: &mut [u8; N], have: &mut usize, input: &mut &[u8]) -> bool {
    let piece = take(input, N - *have);
    bytes[*have..*have + piece.len()].copy_from_slice(piece);
    *have += piece.len();
    *have == N
}

/// At most so many bytes from the front of `input`.
#[inline]
fn take<'b>(input: &mut &'b [u8], bytes_max: usize) -> &'b [u8] {
    let (piece, rest) = input.split_at(bytes_max.min(input.len()));
    *input = rest;
    piece
}

fn bad<T>(reason: &'static str) -> Result<T, Error> {
    Err(Error { reason })
}
