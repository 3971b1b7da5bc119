//! A response of HTTP/2: its fields and the pieces of its body, as they arrive on its stream.

use super::bad::Bad;
use super::fields::{Fields, number};
use super::whole::{Asked, Body, Reply};

/// A response that has not ended.
#[derive(Clone, Debug, Default)]
pub(crate) struct StreamedReply {
    reply: Reply,
    fields: Fields,
    promised: Option<u64>,
    has_head: bool,
    is_bad: bool,
}

/// How a response ends.
#[derive(Debug)]
pub(crate) enum Ended {
    Whole(Reply),
    /// Its body is not as long as its Content-Length.
    WrongLength,
}

impl StreamedReply {
    /// Takes a field of the head. Fields of trailers mean nothing.
    pub(crate) fn field(&mut self, name: &[u8], value: &[u8], asked: Asked) {
        if self.has_head {
            return;
        }
        let taken = match name {
            b":status" => {
                let status = number(value).filter(|status| (100..1000).contains(status));
                self.reply.status = status.unwrap_or_default() as u16;
                status.map(|_| ()).ok_or(Bad)
            }
            _ => self.fields.take(name, value, asked, &mut self.reply),
        };
        self.is_bad |= taken.is_err();
    }

    /// The block of fields has ended.
    pub(crate) fn fields_end(&mut self) -> Result<(), Bad> {
        match self.reply.status {
            _ if self.is_bad => Err(Bad),
            // RFC 9113 §8.6: there is no 101.
            0 | 101 => Err(Bad),
            100..200 => {
                *self = StreamedReply::default();
                Ok(())
            }
            _ if self.has_head => Ok(()),
            _ => {
                self.has_head = true;
                self.promised = std::mem::take(&mut self.fields).finish(&mut self.reply);
                Ok(())
            }
        }
    }

    /// Takes a piece of the body.
    pub(crate) fn data(&mut self, bytes: &[u8], body: &mut impl Body) -> Result<(), Bad> {
        if !self.has_head {
            return Err(Bad);
        }
        body.take(&self.reply, bytes);
        self.reply.body_bytes += bytes.len() as u64;
        Ok(())
    }

    /// The stream has ended.
    pub(crate) fn end(&mut self, asked: Asked) -> Result<Ended, Bad> {
        if !self.has_head {
            return Err(Bad);
        }
        let has_body = !asked.head_only && !matches!(self.reply.status, 204 | 304);
        let is_whole = !has_body || self.promised.is_none_or(|bytes| bytes == self.reply.body_bytes);
        Ok(match is_whole {
            true => Ended::Whole(Reply { keeps: true, ..std::mem::take(&mut self.reply) }),
            false => Ended::WrongLength,
        })
    }
}
