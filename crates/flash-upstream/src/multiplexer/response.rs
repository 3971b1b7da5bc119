//! A response on its way from a server of HTTP/2: its fields and its body become what a server of HTTP/1.1 writes.
//!
//! The request path reads it as it reads those, and distrusts it as much. What only HTTP/2 has is checked here: names and values that
//! would break lines, pseudo-header fields, and lengths that are not kept.

use std::io::Write;

use flash_h2::request::{is_name, is_of_connection, is_value};

#[derive(Debug, Default)]
pub(super) struct Response {
    /// For the request path.
    pub(super) out: Vec<u8>,
    /// So many of them are there already.
    pub(super) written: usize,
    /// Bytes of the body among them.
    pub(super) body_bytes: usize,
    state: State,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Head,
    /// So many bytes follow.
    Length(u64),
    Chunks,
    Complete,
}

/// The fields of a head, or trailers, as they are decoded.
#[derive(Debug, Default)]
pub(super) struct Fields {
    status: Option<u16>,
    lines: Vec<u8>,
    length: Option<u64>,
    wrong: Option<&'static str>,
}

/// More than this the request path does not take either.
const FIELDS_BYTES_MAX: usize = 64 << 10;

impl Fields {
    /// Takes a field.
    pub(super) fn put(&mut self, name: &[u8], value: &[u8]) {
        if self.wrong.is_none()
            && let Err(why) = self.check(name, value)
        {
            self.wrong = Some(why);
        }
    }

    fn check(&mut self, name: &[u8], value: &[u8]) -> Result<(), &'static str> {
        if name == b":status" {
            let status = str::from_utf8(value).ok().filter(|text| text.len() == 3);
            let status =
                status.and_then(|text| text.parse().ok()).filter(|status| (100..600).contains(status));
            let is_first = self.status.is_none() && self.lines.is_empty();
            self.status = Some(status.filter(|_| is_first).ok_or("a malformed status")?);
            return Ok(());
        }
        if !is_name(name) || !is_value(value) {
            return Err("a malformed field");
        }
        match name {
            _ if is_of_connection(name) => return Err("a field of HTTP/1 connections"),
            b"content-length" => {
                let length = str::from_utf8(value).ok().filter(|_| value.iter().all(u8::is_ascii_digit));
                let length = length.and_then(|text| text.parse().ok()).filter(|_| self.length.is_none());
                self.length = Some(length.ok_or("a malformed length")?);
            }
            _ => {}
        }
        let line = [name, b": ", value, b"\r\n"];
        if self.lines.len() + line.iter().map(|part| part.len()).sum::<usize>() > FIELDS_BYTES_MAX {
            return Err("a head without end");
        }
        line.iter().for_each(|part| self.lines.extend_from_slice(part));
        Ok(())
    }
}

impl Response {
    pub(super) fn is_complete(&self) -> bool {
        self.state == State::Complete
    }

    pub(super) fn unwritten(&self) -> &[u8] {
        &self.out[self.written..]
    }

    /// Takes a head, or trailers. `is_head`: the request asks for a head alone.
    ///
    /// # Errors
    /// They are none.
    pub(super) fn fields(&mut self, fields: Fields, ends: bool, is_head: bool) -> Result<(), &'static str> {
        if let Some(wrong) = fields.wrong {
            return Err(wrong);
        }
        match (&self.state, fields.status) {
            (State::Head, Some(101)) => Err("a status that HTTP/2 does not have"),
            (State::Head, Some(status @ 100..200)) if !ends => {
                let _ = write!(self.out, "HTTP/1.1 {status} \r\n\r\n");
                Ok(())
            }
            (State::Head, Some(status)) => self.head(status, &fields, ends, is_head),
            (State::Chunks, None) if ends && fields.length.is_none() => {
                self.end(&fields.lines);
                Ok(())
            }
            // Behind a body of a known length, HTTP/1 has no place for trailers.
            (State::Length(0), None) if ends => {
                self.state = State::Complete;
                Ok(())
            }
            _ => Err("fields where there can be none"),
        }
    }

    fn head(&mut self, status: u16, fields: &Fields, ends: bool, is_head: bool) -> Result<(), &'static str> {
        let is_bodiless = is_head || matches!(status, 204 | 304);
        let _ = write!(self.out, "HTTP/1.1 {status} \r\n");
        self.out.extend_from_slice(&fields.lines);
        self.state = match (fields.length, ends) {
            _ if is_bodiless => State::Length(0),
            (Some(1..), true) => return Err("less than the length that it had promised"),
            (Some(length), _) => State::Length(length),
            (None, true) => {
                self.out.extend_from_slice(b"Content-Length: 0\r\n");
                State::Length(0)
            }
            (None, false) => {
                self.out.extend_from_slice(b"Transfer-Encoding: chunked\r\n");
                State::Chunks
            }
        };
        self.out.extend_from_slice(b"\r\n");
        if ends {
            self.state = State::Complete;
        }
        Ok(())
    }

    /// Takes a piece of the body.
    ///
    /// # Errors
    /// It cannot be one.
    pub(super) fn data(&mut self, bytes: &[u8], ends: bool) -> Result<(), &'static str> {
        self.body_bytes += bytes.len();
        match &mut self.state {
            State::Length(left) => {
                let error = "more than the length that it had promised";
                *left = left.checked_sub(bytes.len() as u64).ok_or(error)?;
                self.out.extend_from_slice(bytes);
                match (ends, *left) {
                    (false, _) => {}
                    (true, 0) => self.state = State::Complete,
                    (true, _) => return Err("less than the length that it had promised"),
                }
            }
            State::Chunks => {
                if !bytes.is_empty() {
                    let _ = write!(self.out, "{:x}\r\n", bytes.len());
                    self.out.extend_from_slice(bytes);
                    self.out.extend_from_slice(b"\r\n");
                }
                if ends {
                    self.end(b"");
                }
            }
            State::Head | State::Complete => return Err("a body without a head"),
        }
        Ok(())
    }

    fn end(&mut self, trailers: &[u8]) {
        [b"0\r\n", trailers, b"\r\n"].iter().for_each(|part| self.out.extend_from_slice(part));
        self.state = State::Complete;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(all: &[(&str, &str)]) -> Fields {
        let mut fields = Fields::default();
        all.iter().for_each(|(name, value)| fields.put(name.as_bytes(), value.as_bytes()));
        fields
    }

    fn text(response: &Response) -> &str {
        str::from_utf8(&response.out).unwrap()
    }

    #[test]
    fn a_response_is_written_as_http1_has_it() {
        let mut response = Response::default();
        response.fields(fields(&[(":status", "103"), ("link", "x")]), false, false).unwrap();
        response.fields(fields(&[(":status", "200"), ("x-a", "b")]), false, false).unwrap();
        response.data(b"abc", false).unwrap();
        response.fields(fields(&[("grpc-status", "0")]), true, false).unwrap();
        assert_eq!(
            text(&response),
            "HTTP/1.1 103 \r\n\r\nHTTP/1.1 200 \r\nx-a: b\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\ngrpc-status: 0\r\n\r\n"
        );
        assert!(response.is_complete() && response.data(b"", true).is_err());
        // Trailers alone.
        let mut response = Response::default();
        response.fields(fields(&[(":status", "200"), ("grpc-status", "5")]), true, false).unwrap();
        assert_eq!(text(&response), "HTTP/1.1 200 \r\ngrpc-status: 5\r\nContent-Length: 0\r\n\r\n");
        let mut response = Response::default();
        response.fields(fields(&[(":status", "200"), ("content-length", "3")]), true, true).unwrap();
        assert!(response.is_complete(), "to HEAD");
    }

    #[test]
    fn what_is_no_response_is_told() {
        for head in [
            &[(":status", "200"), ("a", "b\r\nSet-Cookie: c")][..],
            &[(":status", "200"), ("a b", "c")],
            &[(":status", "200"), ("A", "c")],
            &[(":status", "200"), ("transfer-encoding", "chunked")],
            &[(":status", "200"), (":status", "200")],
            &[("a", "b"), (":status", "200")],
            &[(":status", "200"), (":path", "/")],
            &[(":status", "20")],
            &[(":status", "101")],
            &[(":status", "200"), ("content-length", "3"), ("content-length", "3")],
            &[(":status", "200"), ("content-length", "+3")],
            &[("a", "b")],
        ] {
            assert!(Response::default().fields(fields(head), false, false).is_err(), "{head:?}");
        }
        let mut endless = fields(&[(":status", "200")]);
        (0..100).for_each(|_| endless.put(b"a", &[b'x'; 1_000]));
        assert!(Response::default().fields(endless, false, false).is_err());
        for (pieces, ends) in [(&[3][..], true), (&[4, 2], false)] {
            let mut response = Response::default();
            response.fields(fields(&[(":status", "200"), ("content-length", "5")]), false, false).unwrap();
            let (last, before) = pieces.split_last().unwrap();
            before.iter().for_each(|bytes| response.data(&b"xxxx"[..*bytes], false).unwrap());
            assert!(response.data(&b"xxxx"[..*last], ends).is_err(), "{pieces:?}");
        }
        assert!(Response::default().data(b"x", false).is_err());
    }
}
