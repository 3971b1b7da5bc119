//! A request on its way to a server of HTTP/2: what the request path writes for a server of HTTP/1.1 becomes fields, and a body.
//!
//! Flash has written these bytes itself, so what is wrong with them is a fault of its own.

use flash_h2::hpack::encoder;
use flash_h2::request::{TRAILERS, is_of_connection};
use flash_http::Fields;
use flash_http::chunked::{Chunked, Part};
use flash_http::head::{self, Body, Head, Limits, Parsed};

#[derive(Debug, Default)]
pub(super) struct Request {
    /// Its head, as far as it has come.
    text: Vec<u8>,
    state: State,
    /// What has come of the body, and is not on its way.
    pub(super) body: Vec<u8>,
    trailers: Vec<u8>,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Head,
    Length(u64),
    Chunks(Chunked),
    Complete,
}

impl Request {
    /// Takes bytes. Returns `None` if they are none of a request.
    pub(super) fn take(&mut self, mut bytes: &[u8]) -> Option<()> {
        if let State::Head = self.state {
            let seen = self.text.len();
            self.text.extend_from_slice(bytes);
            let Parsed::Complete { head, bytes: length } = head::parse(&self.text, &Limits::NONE).ok()?
            else {
                return Some(());
            };
            self.state = match head.body {
                Body::None => State::Complete,
                Body::Length(bytes) => State::Length(bytes),
                // The request path has seen how long they are.
                Body::Chunked => State::Chunks(Chunked::with_trailers(u32::MAX)),
            };
            bytes = &bytes[length - seen..];
            self.text.truncate(length);
        }
        match &mut self.state {
            State::Head => {}
            State::Length(left) => {
                *left = left.checked_sub(bytes.len() as u64)?;
                self.body.extend_from_slice(bytes);
                if *left == 0 {
                    self.state = State::Complete;
                }
            }
            State::Chunks(chunks) => {
                let (body, trailers) = (&mut self.body, &mut self.trailers);
                let progress = chunks.read(bytes, |part| match part {
                    Part::Data(data) => body.extend_from_slice(data),
                    Part::Trailers(lines) => trailers.extend_from_slice(lines),
                });
                let progress = progress.ok().filter(|progress| progress.consumed == bytes.len())?;
                if progress.complete {
                    self.state = State::Complete;
                }
            }
            State::Complete if bytes.is_empty() => {}
            State::Complete => return None,
        }
        Some(())
    }

    /// Whether its head is there.
    pub(super) fn has_head(&self) -> bool {
        !matches!(self.state, State::Head)
    }

    /// Whether all of it is there.
    pub(super) fn is_complete(&self) -> bool {
        matches!(self.state, State::Complete)
    }

    fn head(&self) -> Option<Head<'_>> {
        match head::parse(&self.text, &Limits::NONE) {
            Ok(Parsed::Complete { head, .. }) => Some(head),
            _ => None,
        }
    }

    pub(super) fn is_head(&self) -> bool {
        self.text.starts_with(b"HEAD ")
    }

    /// Whether it may be sent twice (RFC 9110 §9.2.1).
    pub(super) fn is_repeatable(&self) -> bool {
        (self.is_head() || self.text.starts_with(b"GET ")) && self.ends_with_head()
    }

    /// Whether it ends with its head.
    pub(super) fn ends_with_head(&self) -> bool {
        self.is_complete() && self.body.is_empty() && !self.has_trailers()
    }

    pub(super) fn has_trailers(&self) -> bool {
        !self.trailers.is_empty()
    }

    /// Appends its fields (RFC 9113 §8.3.1).
    pub(super) fn fields(&self, scheme: &str, block: &mut Vec<u8>) {
        let Some(head) = self.head() else { return };
        let target = self.text.split(|&byte| byte == b' ').nth(1).unwrap_or_default();
        encoder::indexed(block, b":method", head.method_name);
        encoder::indexed(block, b":scheme", scheme.as_bytes());
        encoder::field(block, b":path", target);
        encoder::field(block, b":authority", head.host.unwrap_or_default());
        for (name, value) in head.fields.filter(|(name, value)| !is_left_out(name, value)) {
            encoder::field(block, name, value);
        }
    }

    /// The block of its trailer fields.
    pub(super) fn trailers(&self) -> Vec<u8> {
        let mut block = Vec::new();
        for (name, value) in Fields::of_checked(&self.trailers) {
            encoder::field(&mut block, name, value);
        }
        block
    }
}

/// Whether HTTP/2 has no such field, or another in its place.
fn is_left_out(name: &[u8], value: &[u8]) -> bool {
    is_of_connection(name)
        || name.eq_ignore_ascii_case(b"host")
        || name.eq_ignore_ascii_case(b"te") && value != TRAILERS
}

#[cfg(test)]
mod tests {
    use flash_h2::hpack::decoder::Decoder;

    use super::*;

    fn shown(block: &[u8]) -> String {
        let mut all = String::new();
        let show =
            |name: &[u8], value: &[u8]| all += &format!("{}={}|", name.escape_ascii(), value.escape_ascii());
        Decoder::new(4096).decode(block, &mut Vec::new(), show).unwrap();
        all
    }

    #[test]
    fn a_request_becomes_fields_and_a_body_wherever_its_pieces_begin() {
        let text = "POST /a?b HTTP/1.1\r\nHost: x:1\r\nX-A: c\r\nConnection: TE\r\nTE: trailers\r\nTransfer-Encoding: chunked\r\n\r\n\
                    3\r\nabc\r\n1\r\nd\r\n0\r\nX-End: 1\r\n\r\n";
        for piece in [1, 7, text.len()] {
            let mut request = Request::default();
            text.as_bytes().chunks(piece).for_each(|piece| request.take(piece).unwrap());
            let mut block = Vec::new();
            request.fields("https", &mut block);
            let expected = ":method=POST|:scheme=https|:path=/a?b|:authority=x:1|x-a=c|te=trailers|";
            assert_eq!((&*shown(&block), &*request.body), (expected, &b"abcd"[..]));
            assert!(request.is_complete() && !request.ends_with_head());
            assert_eq!(shown(&request.trailers()), "x-end=1|");
            assert!(request.take(b"x").is_none(), "nothing follows it");
        }
        let mut request = Request::default();
        let fields = "Keep-Alive: 3\r\nProxy-Connection: close\r\nUpgrade: a\r\nTE: gzip\r\nX-A: b\r\n";
        request.take(format!("GET / HTTP/1.1\r\nHost: x\r\n{fields}\r\n").as_bytes()).unwrap();
        let mut block = Vec::new();
        request.fields("http", &mut block);
        assert_eq!(shown(&block), ":method=GET|:scheme=http|:path=/|:authority=x|x-a=b|");
        let mut request = Request::default();
        request.take(b"HEAD / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        assert!(request.ends_with_head() && request.is_head());
    }
}
