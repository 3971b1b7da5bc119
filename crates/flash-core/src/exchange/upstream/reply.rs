//! What a program answers: its head becomes a response's head, and what follows a body that the client can tell the end
//! of (RFC 3875 §6, RFC 9112 §6.3).

use std::io::Write;

use flash_cgi::response::{self, Kind, Limits, Parsed};
use flash_http::head::Version;
use flash_http::status::Status;

use super::fault::Fault;
use crate::clock::Now;
use crate::exchange::respond::Responder;
use crate::header::{Connection, HeadWriter};
use crate::output::Output;
use crate::site::Site;

/// What a response is written with.
pub(crate) struct Writer<'a> {
    pub(crate) site: &'a Site,
    pub(crate) now: &'a Now,
    pub(crate) output: &'a mut Output,
    pub(crate) terms: &'a mut Terms,
    /// The head that was just written: its status and its length.
    pub(crate) head: Option<(Status, u64)>,
}

/// What the request allows its response.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    pub(crate) connection: Connection,
    pub(crate) version: Version,
    /// The answer to HEAD ends with its head.
    pub(crate) head_only: bool,
}

#[derive(Debug)]
pub(crate) enum Reply {
    /// So much of the head has come.
    Head(Vec<u8>),
    Body(Frame),
    /// The response is complete for the client; the program may finish in peace.
    Discard {
        left: usize,
    },
    /// The request is answered as if the client had asked for this (RFC 3875 §6.2.2).
    Redirect {
        target: Vec<u8>,
        left: usize,
    },
    /// Nothing has been said yet by a program that writes its head itself.
    Raw,
    Complete,
}

/// How the client finds the end of the body.
#[derive(Debug)]
pub(crate) enum Frame {
    Length { left: u64 },
    Chunks,
    UntilClose,
}

/// What a program may say that nobody hears.
pub(super) const DISCARD_BYTES_MAX: usize = 64 << 10;

impl Reply {
    pub(crate) fn new() -> Self {
        Self::Head(Vec::new())
    }

    pub(crate) fn raw() -> Self {
        Self::Raw
    }

    /// Whether the client has been told something.
    pub(crate) fn has_begun(&self) -> bool {
        !matches!(self, Self::Head(_) | Self::Raw | Self::Redirect { .. })
    }

    pub(crate) fn is_complete(&self) -> bool {
        matches!(self, Self::Complete)
    }

    pub(crate) fn take(&mut self, bytes: &[u8], writer: &mut Writer<'_>) -> Result<(), Fault> {
        match self {
            Self::Head(seen) if seen.is_empty() => self.read_head(bytes, writer),
            Self::Head(seen) => {
                let before = seen.len();
                seen.extend_from_slice(bytes);
                if !response::may_progress(seen, before, &Limits::default()) {
                    return Ok(());
                }
                let seen = std::mem::take(seen);
                self.read_head(&seen, writer)
            }
            Self::Body(frame) => {
                if frame.write(bytes, writer.output) {
                    *self = Self::Complete;
                }
                Ok(())
            }
            Self::Discard { left } => {
                match left.checked_sub(bytes.len()) {
                    Some(rest) => *left = rest,
                    // Its client has all that it asked for.
                    None => *self = Self::Complete,
                }
                Ok(())
            }
            Self::Redirect { left, .. } => {
                *left = left
                    .checked_sub(bytes.len())
                    .ok_or_else(|| Fault::of_program("goes on and on where no body was asked for"))?;
                Ok(())
            }
            Self::Raw => {
                writer.terms.connection = Connection::Closes;
                writer.head = Some((raw_status(bytes), 0));
                *self = Self::Body(Frame::UntilClose);
                self.take(bytes, writer)
            }
            Self::Complete => Ok(()),
        }
    }

    fn read_head(&mut self, bytes: &[u8], writer: &mut Writer<'_>) -> Result<(), Fault> {
        match response::parse(bytes, &Limits::default()) {
            Ok(Parsed::Incomplete) => {
                *self = Self::Head(bytes.to_vec());
                Ok(())
            }
            Ok(Parsed::Complete { head, bytes: length }) => {
                *self = match head.kind {
                    Kind::LocalRedirect(target) => {
                        Self::Redirect { target: target.to_vec(), left: DISCARD_BYTES_MAX }
                    }
                    Kind::ClientRedirect => {
                        writer.page(&head);
                        Self::Discard { left: DISCARD_BYTES_MAX }
                    }
                    Kind::Document | Kind::ClientRedirectWithDocument => writer.document(&head),
                };
                match &bytes[length..] {
                    [] => Ok(()),
                    rest => self.take(rest, writer),
                }
            }
            Err(bad) => Err(Fault::of_program(bad.reason)),
        }
    }

    /// The program has said all.
    pub(crate) fn end(&mut self, writer: &mut Writer<'_>) -> Result<(), Fault> {
        match self {
            Self::Head(seen) if seen.is_empty() => return Err(Fault::of_program("ended without a word")),
            Self::Raw => return Err(Fault::of_program("ended without a word")),
            Self::Head(_) => return Err(Fault::of_program("ended in the middle of its head")),
            Self::Body(Frame::Length { .. }) => {
                return Err(Fault::of_program("ended before the length that it had promised"));
            }
            Self::Body(Frame::Chunks) => writer.output.write(|out| out.extend_from_slice(b"0\r\n\r\n")),
            Self::Body(Frame::UntilClose) | Self::Discard { .. } | Self::Complete => {}
            Self::Redirect { .. } => return Ok(()),
        }
        *self = Self::Complete;
        Ok(())
    }
}

impl Frame {
    /// Returns whether that was the last of it.
    fn write(&mut self, bytes: &[u8], output: &mut Output) -> bool {
        match self {
            Self::Length { left } => {
                // What is beyond would be taken for the next response.
                let bytes = &bytes[..bytes.len().min(usize::try_from(*left).unwrap_or(usize::MAX))];
                *left -= bytes.len() as u64;
                output.write(|out| out.extend_from_slice(bytes));
                *left == 0
            }
            Self::Chunks => {
                output.write(|out| {
                    // RFC 9112 §7.1.
                    let _ = write!(out, "{:x}\r\n", bytes.len());
                    out.extend_from_slice(bytes);
                    out.extend_from_slice(b"\r\n");
                });
                false
            }
            Self::UntilClose => {
                output.write(|out| out.extend_from_slice(bytes));
                false
            }
        }
    }
}

impl Writer<'_> {
    fn document(&mut self, head: &response::Head<'_>) -> Reply {
        let bodiless = head.status.is_bodiless();
        let length = head.content_length.filter(|_| !bodiless);
        let frame = match (length, self.terms.version) {
            (Some(left), _) => Frame::Length { left },
            (None, Version::Http11) => Frame::Chunks,
            (None, Version::Http10) => Frame::UntilClose,
        };
        let reply = match (self.terms.head_only, frame) {
            (false, Frame::Length { left: 0 }) => Reply::Complete,
            (false, frame) if !bodiless => {
                if matches!(frame, Frame::UntilClose) {
                    self.terms.connection = Connection::Closes;
                }
                Reply::Body(frame)
            }
            _ => Reply::Discard { left: DISCARD_BYTES_MAX },
        };
        let own = &self.site.template.fields;
        let reason = if head.reason.is_empty() { head.status.reason().as_bytes() } else { head.reason };
        let (date, connection) = (&self.now.date, self.terms.connection);
        let chunked = matches!(reply, Reply::Body(Frame::Chunks));
        let head_bytes = self.output.write(|out| {
            let before = out.len();
            let writer = HeadWriter::with_reason(out, head.status, reason, date).lines(own);
            let mut writer =
                head.fields().fold(writer, |writer, (name, value)| writer.raw_field(name, value));
            if let Some(length) = length {
                writer = writer.number("Content-Length", length);
            } else if chunked {
                writer = writer.field("Transfer-Encoding", b"chunked");
            }
            writer.end(connection);
            out.len() - before
        });
        self.head = Some((head.status, head_bytes as u64));
        reply
    }

    /// RFC 3875 §6.2.3: the program leaves the document to us.
    fn page(&mut self, head: &response::Head<'_>) {
        let Terms { connection, head_only, .. } = *self.terms;
        let mut responder = Responder {
            site: self.site,
            now: self.now,
            output: self.output,
            connection,
            head_only,
            age_s: None,
        };
        let response = responder.page(head.status, |writer| {
            // The page has a type of its own.
            let fields = head.fields().filter(|(name, _)| !name.eq_ignore_ascii_case(b"content-type"));
            fields.fold(writer, |writer, (name, value)| writer.raw_field(name, value))
        });
        self.head = Some((response.status, response.head_bytes));
    }
}

/// For the log: what an nph- script says that its status is.
fn raw_status(bytes: &[u8]) -> Status {
    let code = bytes.strip_prefix(b"HTTP/1.").and_then(|rest| rest.get(2..5));
    let number = code.and_then(|code| std::str::from_utf8(code).ok()?.parse().ok());
    Status(number.filter(|number| (100..600).contains(number)).unwrap_or(200))
}
