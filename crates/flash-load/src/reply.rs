//! Reads a response as its bytes arrive: where its head and its body end (RFC 9112 §6), and the facts that a measurement needs.
//! It makes no system call and keeps no byte of a body. A caller that needs the body passes a [`Body`].

mod bad;
mod chunks;
mod fields;
mod streamed;
mod whole;

pub(crate) use bad::Bad;
use chunks::Chunks;
use fields::Fields;
pub(crate) use streamed::{Ended, StreamedReply};
pub(crate) use whole::{Asked, Body, Reply};

/// More than any server sends; a longer head is not a response.
const HEAD_BYTES_MAX: usize = 64 << 10;
const FIELDS_MAX: usize = 128;

/// Reads one response after the other.
#[derive(Default)]
pub(crate) struct Reader {
    phase: Phase,
    /// A head of which the end has not come yet.
    carry: Vec<u8>,
    reply: Reply,
}

#[derive(Default)]
enum Phase {
    #[default]
    Head,
    Length {
        left: u64,
    },
    Chunked(Chunks),
    /// All that comes until the server closes.
    ToTheEnd,
}

impl Reader {
    /// Takes bytes up to the end of a response: how many, and the response if it ends there.
    pub(crate) fn feed(
        &mut self,
        bytes: &[u8],
        asked: Asked,
        body: &mut impl Body,
    ) -> Result<(usize, Option<Reply>), Bad> {
        let mut at = 0;
        if matches!(self.phase, Phase::Head) {
            match self.head(bytes, asked)? {
                Some(bytes) => at = bytes,
                None => return Ok((bytes.len(), None)),
            }
        }
        let rest = &bytes[at..];
        let (consumed, complete) = match &mut self.phase {
            Phase::Head => (0, true),
            Phase::Length { left } => {
                let here = rest.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= here as u64;
                let complete = *left == 0;
                self.body(&rest[..here], body);
                (here, complete)
            }
            Phase::Chunked(chunks) => {
                let reply = &mut self.reply;
                chunks.feed(rest, |data| {
                    body.take(reply, data);
                    reply.body_bytes += data.len() as u64;
                })?
            }
            Phase::ToTheEnd => {
                self.body(rest, body);
                (rest.len(), false)
            }
        };
        Ok((at + consumed, complete.then(|| self.finish())))
    }

    /// How many bytes of a body are still to come that need not be looked at.
    pub(crate) fn rest_of_body(&self) -> u64 {
        match self.phase {
            Phase::Length { left } => left,
            _ => 0,
        }
    }

    /// So many of [`Reader::rest_of_body`] have come and are gone.
    pub(crate) fn skip(&mut self, bytes: u64) -> Option<Reply> {
        let Phase::Length { left } = &mut self.phase else { return None };
        *left -= bytes;
        let complete = *left == 0;
        self.reply.body_bytes += bytes;
        complete.then(|| self.finish())
    }

    /// The server has closed: the response that ends with that, if one does.
    pub(crate) fn closed(&mut self) -> Option<Reply> {
        matches!(self.phase, Phase::ToTheEnd).then(|| self.finish())
    }

    /// Nothing of the next response has come.
    pub(crate) fn is_idle(&self) -> bool {
        matches!(self.phase, Phase::Head) && self.carry.is_empty()
    }

    /// Forgets what has come, for a new connection.
    pub(crate) fn reset(&mut self) {
        self.phase = Phase::Head;
        self.carry.clear();
        self.reply = Reply::default();
    }

    fn body(&mut self, bytes: &[u8], body: &mut impl Body) {
        body.take(&self.reply, bytes);
        self.reply.body_bytes += bytes.len() as u64;
    }

    fn finish(&mut self) -> Reply {
        self.phase = Phase::Head;
        std::mem::take(&mut self.reply)
    }

    /// Reads heads until one that is an answer: how many of the bytes they took, none if there must come more.
    fn head(&mut self, bytes: &[u8], asked: Asked) -> Result<Option<usize>, Bad> {
        let carried = self.carry.len();
        let mut at = 0;
        loop {
            let (length, phase, reply) = if self.carry.is_empty() {
                match parse(&bytes[at..], asked)? {
                    Some(found) => found,
                    None if bytes.len() - at > HEAD_BYTES_MAX => return Err(Bad),
                    None => {
                        self.carry.extend_from_slice(&bytes[at..]);
                        return Ok(None);
                    }
                }
            } else {
                self.carry.extend_from_slice(bytes);
                match parse(&self.carry, asked)? {
                    Some((length, phase, reply)) => {
                        self.carry.clear();
                        (length - carried, phase, reply)
                    }
                    None if self.carry.len() > HEAD_BYTES_MAX => return Err(Bad),
                    None => return Ok(None),
                }
            };
            at += length;
            // RFC 9110 §15.2: interim responses come before the answer, as many as there may be. 101 is not one of them,
            // and nobody asked for it.
            match reply.status {
                101 => return Err(Bad),
                100..200 if at == bytes.len() => return Ok(None),
                100..200 => {}
                _ => {
                    self.phase = phase;
                    self.reply = reply;
                    return Ok(Some(at));
                }
            }
        }
    }
}

/// Reads a head, if all of it is there: its length, how its body ends, what it says.
fn parse(bytes: &[u8], asked: Asked) -> Result<Option<(usize, Phase, Reply)>, Bad> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut head = httparse::Response::new(&mut fields);
    let length = match head.parse(bytes) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(_) => return Err(Bad),
    };
    let status = head.code.ok_or(Bad)?;
    let mut reply = Reply { status, keeps: head.version == Some(1), ..Reply::default() };
    let mut fields = Fields::default();
    let mut chunked = None;
    for field in head.headers.iter() {
        let value = field.value;
        let is = |name: &str| field.name.eq_ignore_ascii_case(name);
        match field.name.len() {
            10 if is("connection") => {
                for word in value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
                    if word.eq_ignore_ascii_case(b"close") {
                        reply.keeps = false;
                    } else if word.eq_ignore_ascii_case(b"keep-alive") {
                        reply.keeps = true;
                    }
                }
            }
            // The last coding is what ends the body.
            17 if is("transfer-encoding") => {
                let last = value.rsplit(|byte| *byte == b',').next().unwrap_or_default();
                chunked = Some(last.trim_ascii().eq_ignore_ascii_case(b"chunked"));
            }
            _ => fields.take(field.name.as_bytes(), value, asked, &mut reply)?,
        }
    }
    let content_length = fields.finish(&mut reply);
    // RFC 9112 §6.3, in its order.
    let phase = if asked.head_only || matches!(status, 100..200 | 204 | 304) {
        Phase::Head
    } else {
        match (chunked, content_length) {
            (Some(true), _) => Phase::Chunked(Chunks::default()),
            (None, Some(0)) => Phase::Head,
            (None, Some(left)) => Phase::Length { left },
            (Some(false), _) | (None, None) => {
                reply.keeps = false;
                Phase::ToTheEnd
            }
        }
    };
    Ok(Some((length, phase, reply)))
}

#[cfg(test)]
mod tests;
