//! From decoded fields to a request's head as HTTP/1 writes it (RFC 9113 §8.3), which [`flash_http::head`] parses.
//!
//! All checks of names, values, hosts and limits are thus the same for both protocols. What is checked here is what only
//! HTTP/2 has: pseudo-header fields, fields that belong to HTTP/1 connections, and what a decoded block may cost.

use std::ops::Range;

use flash_http::scan;

use crate::priority::Priority;

/// Buffers for one head at a time. A thread has one set for all of its connections.
#[derive(Debug, Default)]
pub struct Scratch {
    /// The head, once it is complete.
    pub text: Vec<u8>,
    /// What HPACK decodes on the way.
    pub(crate) huffman: Vec<u8>,
    /// Values of pseudo-header fields.
    pseudo: Vec<u8>,
    /// The crumbs of cookies, put together.
    cookies: Vec<u8>,
}

/// What a head may cost once it is decoded.
#[derive(Clone, Copy, Debug)]
pub struct HeadLimits {
    /// Bytes of names and values.
    pub bytes_max: usize,
    /// Fields, and each crumb of a cookie is one.
    pub fields_max: usize,
}

/// The only value of `TE` (RFC 9113 §8.2.2).
pub const TRAILERS: &[u8] = b"trailers";

/// What is wrong with a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bad {
    /// RFC 9113 §8.1.1: a stream error of the type PROTOCOL_ERROR.
    Malformed(&'static str),
    /// Beyond the limits: 431.
    TooLarge,
}

/// Takes the fields of one head, in order.
pub(crate) struct HeadBuilder<'s> {
    scratch: &'s mut Scratch,
    huffman: Vec<u8>,
    limits: HeadLimits,
    method: Option<Range<usize>>,
    scheme: bool,
    authority: Option<Range<usize>>,
    path: Option<Range<usize>>,
    /// The request line is in the text, so pseudo-header fields are too late.
    has_line: bool,
    bytes: usize,
    fields: usize,
    bad: Option<Bad>,
    priority: Priority,
}

impl<'s> HeadBuilder<'s> {
    pub(crate) fn new(scratch: &'s mut Scratch, limits: HeadLimits) -> Self {
        let Scratch { text, pseudo, cookies, huffman } = scratch;
        [text, pseudo, cookies].into_iter().for_each(Vec::clear);
        let huffman = std::mem::take(huffman);
        Self {
            scratch,
            huffman,
            limits,
            method: None,
            scheme: false,
            authority: None,
            path: None,
            has_line: false,
            bytes: 0,
            fields: 0,
            bad: None,
            priority: Priority::default(),
        }
    }

    /// Decodes a block into the head.
    pub(crate) fn decode(
        mut self,
        decoder: &mut crate::hpack::decoder::Decoder,
        block: &[u8],
    ) -> Result<Result<Priority, Bad>, crate::hpack::decoder::Error> {
        let mut huffman = std::mem::take(&mut self.huffman);
        let result = decoder.decode(block, &mut huffman, |name, value| self.field(name, value));
        self.scratch.huffman = huffman;
        result?;
        self.end();
        Ok(match self.bad {
            Some(bad) => Err(bad),
            None => Ok(self.priority),
        })
    }

    fn field(&mut self, name: &[u8], value: &[u8]) {
        self.bytes += name.len() + value.len();
        self.fields += 1;
        if self.bytes > self.limits.bytes_max || self.fields > self.limits.fields_max {
            self.bad = Some(Bad::TooLarge);
        }
        // A head that is too large is decoded to its end without being kept.
        if self.bad.is_some() {
            return;
        }
        let kept = match name.first() {
            Some(b':') => self.pseudo(name, value),
            _ => self.regular(name, value),
        };
        if let Err(reason) = kept {
            self.bad = Some(Bad::Malformed(reason));
        }
    }

    fn pseudo(&mut self, name: &[u8], value: &[u8]) -> Result<(), &'static str> {
        if self.has_line {
            return Err("a pseudo-header field behind others");
        }
        let start = self.scratch.pseudo.len();
        self.scratch.pseudo.extend_from_slice(value);
        let range = start..self.scratch.pseudo.len();
        let is_visible = !value.is_empty() && scan::visible_run(value) == value.len();
        let (is_well, is_again) = match name {
            b":method" => {
                (is_visible && scan::token_run(value) == value.len(), self.method.replace(range).is_some())
            }
            b":scheme" => (is_visible, std::mem::replace(&mut self.scheme, true)),
            b":authority" => (is_visible || value.is_empty(), self.authority.replace(range).is_some()),
            b":path" => (is_visible, self.path.replace(range).is_some()),
            _ => return Err("an unknown pseudo-header field"),
        };
        match () {
            () if is_again => Err("a pseudo-header field twice"),
            () if !is_well => Err("a malformed pseudo-header field"),
            () => Ok(()),
        }
    }

    fn regular(&mut self, name: &[u8], value: &[u8]) -> Result<(), &'static str> {
        self.line()?;
        if !is_name(name) {
            return Err("a malformed field name");
        }
        if !is_value(value) {
            return Err("a malformed field value");
        }
        match name {
            _ if is_of_connection(name) => return Err("a field of HTTP/1 connections"),
            b"te" if value != TRAILERS => return Err("a field of HTTP/1 connections"),
            b"host" => {
                let authority = self.authority.clone().map(|range| &self.scratch.pseudo[range]);
                match authority {
                    // RFC 9113 §8.3.1.
                    Some(authority) if authority.eq_ignore_ascii_case(value) => return Ok(()),
                    Some(_) => return Err("Host differs from :authority"),
                    None => {}
                }
            }
            // RFC 9113 §8.2.3.
            b"cookie" => {
                let cookies = &mut self.scratch.cookies;
                if !cookies.is_empty() {
                    cookies.extend_from_slice(b"; ");
                }
                cookies.extend_from_slice(value);
                return Ok(());
            }
            b"priority" => self.priority = Priority::of(value),
            _ => {}
        }
        push_line(&mut self.scratch.text, name, value);
        Ok(())
    }

    /// Writes the request line, once the pseudo-header fields are complete.
    fn line(&mut self) -> Result<(), &'static str> {
        if std::mem::replace(&mut self.has_line, true) {
            return Ok(());
        }
        let Scratch { text, pseudo, .. } = &mut *self.scratch;
        let bytes = |range: &Range<usize>| &pseudo[range.clone()];
        let method = self.method.as_ref().map(bytes).ok_or("no :method")?;
        let authority = self.authority.as_ref().map(bytes);
        let target = match (method, self.path.as_ref().map(bytes), self.scheme) {
            // RFC 9113 §8.5.
            (b"CONNECT", None, false) => authority.ok_or("CONNECT without :authority")?,
            (b"CONNECT", ..) => return Err("CONNECT with :path or :scheme"),
            (_, None, _) => return Err("no :path"),
            (_, _, false) => return Err("no :scheme"),
            (_, Some(path @ [b'/', ..]), true) => path,
            (b"OPTIONS", Some(b"*"), true) => b"*",
            (_, Some(_), true) => return Err("a malformed :path"),
        };
        [method, b" ", target, b" HTTP/2.0\r\n"].iter().for_each(|part| text.extend_from_slice(part));
        if let Some(authority) = authority {
            push_line(text, b"host", authority);
        }
        Ok(())
    }

    fn end(&mut self) {
        if self.bad.is_some() {
            return;
        }
        if let Err(reason) = self.line() {
            self.bad = Some(Bad::Malformed(reason));
            return;
        }
        let Scratch { text, cookies, .. } = &mut *self.scratch;
        if !cookies.is_empty() {
            push_line(text, b"cookie", cookies);
        }
        text.extend_from_slice(b"\r\n");
    }
}

/// RFC 9113 §8.2.1.
pub fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && scan::token_run(name) == name.len() && !name.iter().any(u8::is_ascii_uppercase)
}

/// Whether a field belongs to a connection of HTTP/1, so that HTTP/2 has no such field (RFC 9113 §8.2.2). It has `TE` in requests, if that
/// says [`TRAILERS`].
pub fn is_of_connection(name: &[u8]) -> bool {
    const NAMES: [&[u8]; 5] =
        [b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade"];
    NAMES.iter().any(|other| name.eq_ignore_ascii_case(other))
}

pub fn is_value(value: &[u8]) -> bool {
    scan::value_run(value) == value.len() && scan::trim(value).len() == value.len()
}

pub(crate) fn push_line(text: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    [name, b": ", value, b"\r\n"].iter().for_each(|part| text.extend_from_slice(part));
}

/// Decodes trailer fields, which nothing here has a use for. `Err` if they are malformed (RFC 9113 §8.1) or too large.
pub(crate) fn trailers(
    decoder: &mut crate::hpack::decoder::Decoder,
    block: &[u8],
    scratch: &mut Scratch,
    limits: HeadLimits,
) -> Result<Result<(), Bad>, crate::hpack::decoder::Error> {
    let mut result = Ok(());
    let Scratch { text, huffman, .. } = scratch;
    text.clear();
    let (mut bytes, mut fields) = (0, 0);
    decoder.decode(block, huffman, |name, value| {
        bytes += name.len() + value.len();
        fields += 1;
        if bytes > limits.bytes_max || fields > limits.fields_max {
            result = Err(Bad::TooLarge);
        }
        // As with heads, the rest is decoded without being looked at.
        if result.is_ok() {
            match is_name(name) && is_value(value) {
                true => push_line(text, name, value),
                false => result = Err(Bad::Malformed("a malformed trailer field")),
            }
        }
    })?;
    Ok(result)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hpack::decoder::Decoder;

    const LIMITS: HeadLimits = HeadLimits { bytes_max: 1_000, fields_max: 20 };

    fn head(fields: &[(&str, &str)]) -> Result<String, Bad> {
        let mut scratch = Scratch::default();
        let mut raw = Vec::new();
        for (name, value) in fields {
            raw.extend_from_slice(&[0, name.len() as u8]);
            raw.extend_from_slice(name.as_bytes());
            raw.push(value.len() as u8);
            raw.extend_from_slice(value.as_bytes());
        }
        let mut decoder = Decoder::new(4096);
        HeadBuilder::new(&mut scratch, LIMITS).decode(&mut decoder, &raw).expect("it is HPACK")?;
        Ok(String::from_utf8(scratch.text).unwrap())
    }

    const GET: [(&str, &str); 4] =
        [(":method", "GET"), (":scheme", "http"), (":path", "/a?b"), (":authority", "h")];

    fn with(more: &[(&'static str, &'static str)]) -> Result<String, Bad> {
        head(&[&GET[..], more].concat())
    }

    #[test]
    fn fields_become_a_head_as_http_1_writes_it() {
        assert_eq!(with(&[]).unwrap(), "GET /a?b HTTP/2.0\r\nhost: h\r\n\r\n");
        assert_eq!(
            with(&[("cookie", "a=1"), ("accept", "*/*"), ("cookie", "b=2"), ("te", "trailers")]).unwrap(),
            "GET /a?b HTTP/2.0\r\nhost: h\r\naccept: */*\r\nte: trailers\r\ncookie: a=1; b=2\r\n\r\n"
        );
        assert_eq!(with(&[("host", "H")]), with(&[]), "Host may say what :authority says");
        let options = [(":scheme", "http"), (":path", "*"), (":method", "OPTIONS"), ("host", "x")];
        assert_eq!(head(&options).unwrap(), "OPTIONS * HTTP/2.0\r\nhost: x\r\n\r\n");
        let connect = [(":method", "CONNECT"), (":authority", "h:1")];
        assert_eq!(head(&connect).unwrap(), "CONNECT h:1 HTTP/2.0\r\nhost: h:1\r\n\r\n");
    }

    #[test]
    fn rfc9113_8_malformed_heads_are_refused() {
        for (more, reason) in [
            (("Accept", "x"), "a malformed field name"),
            (("a b", "x"), "a malformed field name"),
            (("", "x"), "a malformed field name"),
            (("a", "x\r\nb: y"), "a malformed field value"),
            (("a", "x\0"), "a malformed field value"),
            (("a", " x"), "a malformed field value"),
            (("connection", "close"), "a field of HTTP/1 connections"),
            (("transfer-encoding", "chunked"), "a field of HTTP/1 connections"),
            (("keep-alive", "timeout=5"), "a field of HTTP/1 connections"),
            (("proxy-connection", "close"), "a field of HTTP/1 connections"),
            (("upgrade", "h2c"), "a field of HTTP/1 connections"),
            (("te", "gzip"), "a field of HTTP/1 connections"),
            (("host", "other"), "Host differs from :authority"),
            ((":method", "GET"), "a pseudo-header field twice"),
            ((":protocol", "websocket"), "an unknown pseudo-header field"),
            ((":status", "200"), "an unknown pseudo-header field"),
        ] {
            assert_eq!(with(&[more]), Err(Bad::Malformed(reason)), "{more:?}");
        }
        let late = [GET[0], GET[1], ("a", "b"), GET[2], GET[3]];
        assert_eq!(head(&late), Err(Bad::Malformed("no :path")));
        for (place, value) in
            [(2, "a"), (2, ""), (2, "/a b"), (2, "/\r\n"), (0, "G T"), (0, ""), (1, ""), (3, "a b")]
        {
            let mut fields = GET;
            fields[place].1 = value;
            assert!(matches!(head(&fields), Err(Bad::Malformed(_))), "{fields:?}");
        }
        for missing in 0..3 {
            let fields: Vec<_> =
                GET.iter().enumerate().filter(|(at, _)| *at != missing).map(|(_, f)| *f).collect();
            assert!(matches!(head(&fields), Err(Bad::Malformed(_))), "{fields:?}");
        }
    }

    #[test]
    fn crumbs_and_fields_have_a_limit() {
        assert_eq!(with(&[("cookie", "a"); 17]), Err(Bad::TooLarge));
        assert!(with(&[("cookie", "a"); 16]).is_ok());
        assert_eq!(
            with(&[("a", "0123456789012345678901234567890123456789012345678901234567890123456789"); 15]),
            Err(Bad::TooLarge)
        );
    }

    #[test]
    fn a_bomb_of_indexed_fields_is_decoded_and_not_kept() {
        // One field of 4,000 bytes in the table, named 16,000 times by a byte each.
        let mut block = vec![0x40, 1, b'a', 0x7f, 0xa1, 0x1e];
        block.extend_from_slice(&[b'x'; 4_000]);
        block.extend_from_slice(&[0xbe; 16_000]);
        let mut scratch = Scratch::default();
        let built = HeadBuilder::new(&mut scratch, LIMITS).decode(&mut Decoder::new(4096), &block);
        assert_eq!(built, Ok(Err(Bad::TooLarge)));
        assert!(scratch.text.len() + scratch.pseudo.len() + scratch.cookies.len() <= 2 * LIMITS.bytes_max);
    }
}
