//! An upstream's response: its head becomes the response's head, and its body follows (RFC 3875 §6, RFC 9112 §6.3).

use std::borrow::Cow;
use std::sync::Arc;

use flash_cgi::response::{self, Kind, Limits, Parsed};
use flash_http::chunked::{Chunked, Part};
use flash_http::negotiate::Accepts;
use flash_http::status::Status;

use super::coded_body::{self, CodedBody};
use super::gateway_error::GatewayError;
use super::http_request;
use super::request::Request;
use super::response_changes::ResponseChanges;
use super::trailers;
use crate::clients::pace::{self, SaidRate};
use crate::clock::Now;
use crate::connection::context::Context;
use crate::exchange::hand_off::{self, HandOff};
use crate::exchange::respond::Responder;
use crate::exchange::sink::{BodyLength, HeadSink, ResponseSink};
use crate::file::header;
use crate::record::request_id;
use crate::server::Server;
use crate::site::Site;

/// What a response is written with.
pub(crate) struct Writer<'a, S> {
    pub(crate) site: &'a Site,
    pub(crate) now: &'a Now,
    pub(crate) limits: &'a Limits,
    pub(crate) sink: &'a mut S,
    /// The response to HEAD ends with its head.
    pub(crate) head_only: bool,
    /// The codings that the client takes.
    pub(crate) accepts: Accepts,
    /// The client and the upstream may go on with WebSocket.
    pub(crate) upgrades: bool,
    /// The client waits for leave to send its body.
    pub(crate) expects: bool,
    pub(crate) takes_trailers: bool,
    /// What becomes of the fields of an HTTP server's response.
    pub(crate) changes: Option<Arc<ResponseChanges>>,
    /// The status and length of the head, once that is written.
    pub(crate) head: Option<(Status, u64)>,
    /// The client's rate, if the program has said something of it.
    pub(crate) rate: Option<SaidRate>,
    /// Whether another response can follow over the upstream's connection, once the head has said that.
    pub(crate) persists: Option<bool>,
}

impl<'a, S> Writer<'a, S> {
    /// For a response to this request.
    pub(crate) fn new<'c: 'a>(
        site: &'a Site,
        request: &Request,
        head_only: bool,
        sink: &'a mut S,
        cx: &Context<'c>,
    ) -> Self {
        let Server { settings, .. } = cx.server;
        let (limits, accepts, changes) = (&settings.program_head, request.accepts, request.changes.clone());
        let Request { upgrades, expects, takes_trailers, .. } = *request;
        let (now, head, rate, persists) = (cx.now, None, None, None);
        Self {
            site,
            now,
            limits,
            sink,
            head_only,
            accepts,
            upgrades,
            expects,
            takes_trailers,
            changes,
            head,
            rate,
            persists,
        }
    }
}

#[derive(Debug)]
pub(crate) enum ResponseState {
    /// The part of the head that has arrived.
    Head {
        form: HeadForm,
        seen: Vec<u8>,
    },
    /// The body follows. `left` is the rest of its length, if the head gave one.
    Body {
        left: Option<u64>,
        /// What compresses it, if that is done.
        coded: Option<Box<CodedBody>>,
        /// It comes in chunks.
        chunks: Option<Chunks>,
    },
    /// Whatever comes is the client's.
    Tunnel,
    /// The client has the whole response. What the upstream still writes is dropped, up to this much.
    Discard {
        left: usize,
    },
    /// The upstream asks for a local redirection (RFC 3875 §6.2.2), or hands a file on.
    Redirect {
        target: Vec<u8>,
        hand_off: Option<Box<HandOff>>,
        left: usize,
    },
    /// The program writes its head itself, and has written nothing yet.
    Raw,
    Complete,
}

/// A body in chunks, and the trailer fields that have come.
#[derive(Debug)]
pub(crate) struct Chunks {
    decoder: Chunked,
    trailers: Vec<u8>,
}

impl Default for Chunks {
    fn default() -> Self {
        Self { decoder: Chunked::with_trailers(TRAILER_BYTES_MAX), trailers: Vec::new() }
    }
}

/// How a program writes its head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeadForm {
    Cgi,
    /// As a whole response of HTTP/1, which the client's protocol cannot carry as it is.
    Nph,
    /// The same, of a server. So many interim responses came before it.
    Http {
        interim: u8,
    },
}

const SWITCHING_PROTOCOLS: u16 = 101;
/// A server that sends more interim responses (RFC 9110 §15.2) never comes to an end.
const INTERIM_MAX: u8 = 16;

/// Trailers may be as long as those that a server of HTTP/2 may send.
const TRAILER_BYTES_MAX: u32 = 64 << 10;
/// How much Flash reads and drops after the response's end.
pub(super) const DISCARD_BYTES_MAX: usize = 64 << 10;

impl ResponseState {
    pub(crate) fn new() -> Self {
        Self::Head { form: HeadForm::Cgi, seen: Vec::new() }
    }

    pub(crate) fn of_server() -> Self {
        Self::Head { form: HeadForm::Http { interim: 0 }, seen: Vec::new() }
    }

    pub(crate) fn raw() -> Self {
        Self::Raw
    }

    /// Whether a part of the response has been written for the client.
    pub(crate) fn has_begun(&self) -> bool {
        !matches!(self, Self::Head { .. } | Self::Raw | Self::Redirect { .. })
    }

    /// Whether the upstream has handed a file on, so that nothing more is wanted of it.
    pub(super) fn is_handed_on(&self) -> bool {
        matches!(self, Self::Redirect { hand_off: Some(_), .. })
    }

    /// Whether everything that the client gets has been written.
    pub(crate) fn is_written(&self) -> bool {
        matches!(self, Self::Complete | Self::Discard { .. })
    }

    /// Whether the end of the stream is that of the body, so that nothing else tells whether it is whole.
    pub(super) fn ends_with_its_stream(&self) -> bool {
        matches!(self, Self::Body { left: None, chunks: None, .. })
    }

    pub(super) fn is_tunnel(&self) -> bool {
        matches!(self, Self::Tunnel)
    }

    pub(crate) fn is_complete(&self) -> bool {
        matches!(self, Self::Complete)
    }

    /// Whether bytes of the upstream may have to be compressed.
    pub(super) fn may_be_coded(&self) -> bool {
        matches!(self, Self::Head { .. } | Self::Body { coded: Some(_), .. })
    }

    pub(super) fn coded(&self) -> Option<&CodedBody> {
        match self {
            Self::Body { coded, .. } => coded.as_deref(),
            _ => None,
        }
    }

    /// Gives the client all that was written.
    pub(super) fn flush(&mut self, writer: &mut Writer<'_, impl ResponseSink>) -> Result<(), GatewayError> {
        match self {
            Self::Body { coded: Some(coded), .. } => coded.flush(writer.sink),
            _ => Ok(()),
        }
    }

    /// Returns how many of the bytes belong to the response.
    pub(crate) fn take(
        &mut self,
        bytes: &[u8],
        writer: &mut Writer<'_, impl ResponseSink>,
    ) -> Result<usize, GatewayError> {
        match self {
            Self::Head { form, seen } if seen.is_empty() => {
                let form = *form;
                self.read_head(form, bytes, writer)
            }
            Self::Head { form, seen } => {
                let before = seen.len();
                seen.extend_from_slice(bytes);
                if !response::may_progress(seen, before, writer.limits) {
                    return Ok(bytes.len());
                }
                let (form, seen) = (*form, std::mem::take(seen));
                Ok(self.read_head(form, &seen, writer)?.saturating_sub(before))
            }
            Self::Tunnel => {
                writer.sink.write(bytes);
                Ok(bytes.len())
            }
            Self::Body { chunks: Some(_), .. } => self.take_chunks(bytes, writer),
            Self::Body { left, coded, chunks: None } => {
                // The client would take bytes beyond the length for the next response.
                let most = left.map_or(usize::MAX, |left| usize::try_from(left).unwrap_or(usize::MAX));
                let bytes = &bytes[..bytes.len().min(most)];
                if let Some(left) = left {
                    *left -= bytes.len() as u64;
                }
                match coded {
                    Some(coded) => coded.write(bytes, writer.sink)?,
                    None => writer.sink.write(bytes),
                }
                if *left == Some(0) {
                    if let Some(coded) = coded.take() {
                        coded.finish(writer.sink)?;
                    }
                    *self = Self::Complete;
                }
                Ok(bytes.len())
            }
            Self::Discard { left } => {
                match left.checked_sub(bytes.len()) {
                    Some(rest) => *left = rest,
                    // The client has the whole response.
                    None => *self = Self::Complete,
                }
                Ok(bytes.len())
            }
            Self::Redirect { left, .. } => {
                *left = left
                    .checked_sub(bytes.len())
                    .ok_or_else(|| GatewayError::of_program("goes on and on where no body was asked for"))?;
                Ok(bytes.len())
            }
            Self::Raw if !writer.sink.raw() => self.read_head(HeadForm::Nph, bytes, writer),
            Self::Raw => {
                writer.head = Some((raw_status(bytes), 0));
                *self = Self::Body { left: None, coded: None, chunks: None };
                self.take(bytes, writer)
            }
            Self::Complete => Ok(0),
        }
    }

    fn take_chunks(
        &mut self,
        bytes: &[u8],
        writer: &mut Writer<'_, impl ResponseSink>,
    ) -> Result<usize, GatewayError> {
        let Self::Body { coded, chunks: Some(Chunks { decoder, trailers }), .. } = self else { return Ok(0) };
        let mut written = Ok(());
        let progress = decoder.read(bytes, |part| match (part, &mut *coded) {
            _ if written.is_err() => {}
            (Part::Trailers(lines), _) => trailers.extend_from_slice(lines),
            (Part::Data(data), Some(coded)) => written = coded.write(data, writer.sink),
            (Part::Data(data), None) => writer.sink.write(data),
        });
        let progress = progress.map_err(|reject| GatewayError::of_program(reject.reason))?;
        written?;
        if progress.complete {
            match coded.take() {
                // They may be about the bytes before these were compressed.
                Some(coded) => coded.finish(writer.sink)?,
                None if writer.takes_trailers => {
                    let site = writer.site;
                    writer.sink.end_with(&trailers::passed_on(trailers, |name| lets_pass(site, name)));
                }
                None => writer.sink.end(),
            }
            *self = Self::Complete;
        }
        Ok(progress.consumed)
    }

    fn read_head(
        &mut self,
        form: HeadForm,
        bytes: &[u8],
        writer: &mut Writer<'_, impl ResponseSink>,
    ) -> Result<usize, GatewayError> {
        let parsed = match form {
            HeadForm::Cgi => response::parse(bytes, writer.limits),
            HeadForm::Nph => response::parse_nph(bytes, writer.limits),
            HeadForm::Http { .. } => response::parse_http(bytes, writer.limits),
        };
        match parsed {
            Ok(Parsed::Incomplete) => {
                *self = Self::Head { form, seen: bytes.to_vec() };
                Ok(bytes.len())
            }
            Ok(Parsed::Complete { head, bytes: length }) => {
                writer.rate = head.limit_rate.and_then(pace::said_by_program);
                writer.persists = Some(head.of_connection.persists);
                let hand_off =
                    head.hand_off.filter(|_| writer.site.hands_files_on && !head.status.is_bodiless());
                *self = match (hand_off, head.kind) {
                    _ if head.status.0 == SWITCHING_PROTOCOLS => writer.tunnel(&head)?,
                    _ if head.status.0 < 200 => {
                        if head.status == Status::CONTINUE && std::mem::take(&mut writer.expects) {
                            writer.sink.proceed();
                        }
                        Self::after_interim(form)?
                    }
                    (Some(to), _) => writer.hand_off(&head, to)?,
                    (None, Kind::LocalRedirect(target)) => {
                        Self::Redirect { target: target.to_vec(), hand_off: None, left: DISCARD_BYTES_MAX }
                    }
                    (None, Kind::ClientRedirect) => {
                        writer.page(&head);
                        Self::Discard { left: DISCARD_BYTES_MAX }
                    }
                    (None, Kind::Document | Kind::ClientRedirectWithDocument) => writer.document(&head),
                };
                if let (HeadForm::Http { .. }, Self::Discard { .. }) = (form, &*self) {
                    // What follows is no body (RFC 9112 §6.3).
                    *self = Self::Complete;
                }
                match &bytes[length..] {
                    [] => Ok(length),
                    rest => Ok(length + self.take(rest, writer)?),
                }
            }
            Err(bad) => Err(GatewayError::of_program(bad.reason)),
        }
    }

    /// What comes after an interim response. The client gets none but the one that it waits for: it may not know others, and what they
    /// say is said again.
    fn after_interim(form: HeadForm) -> Result<Self, GatewayError> {
        match form {
            HeadForm::Http { interim } if interim < INTERIM_MAX => {
                Ok(Self::Head { form: HeadForm::Http { interim: interim + 1 }, seen: Vec::new() })
            }
            _ => Err(GatewayError::of_program("sends interim responses without end")),
        }
    }

    /// The upstream has written everything.
    pub(crate) fn end(&mut self, writer: &mut Writer<'_, impl ResponseSink>) -> Result<(), GatewayError> {
        match self {
            Self::Head { seen, .. } if seen.is_empty() => {
                return Err(GatewayError::of_program("ended without a word"));
            }
            Self::Raw => return Err(GatewayError::of_program("ended without a word")),
            Self::Head { .. } => return Err(GatewayError::of_program("ended in the middle of its head")),
            Self::Body { chunks: Some(_), .. } => {
                return Err(GatewayError::of_program("ended before its last chunk"));
            }
            Self::Body { left: Some(_), .. } => {
                return Err(GatewayError::of_program("ended before the length that it had promised"));
            }
            Self::Body { left: None, coded, chunks: None } => match coded.take() {
                Some(coded) => coded.finish(writer.sink)?,
                None => writer.sink.end(),
            },
            Self::Tunnel => writer.sink.end(),
            Self::Discard { .. } | Self::Complete => {}
            Self::Redirect { .. } => return Ok(()),
        }
        *self = Self::Complete;
        Ok(())
    }
}

impl<S: ResponseSink> Writer<'_, S> {
    fn document(&mut self, head: &response::Head<'_>) -> ResponseState {
        let bodiless = head.status.is_bodiless();
        let left = head.content_length.filter(|_| !bodiless);
        let varies = coded_body::varies(head, left, self.site);
        let coding = self.accepts.choose_fastest(self.site.settings.compress_programs).filter(|_| varies);
        let memory = self.site.routes.as_ref().map(|routes| &routes.answers);
        let coded = match (coding, memory) {
            (Some(coding), Some(memory)) if !self.head_only => CodedBody::new(coding, memory),
            _ => None,
        };
        // A response to HEAD says what a response to GET would.
        let coding = coding.filter(|_| self.head_only || coded.is_some());
        let length = match left {
            Some(bytes) if coding.is_none() => BodyLength::Known(bytes),
            _ if bodiless || self.head_only => BodyLength::None,
            _ => BodyLength::Unknown,
        };
        let chunks = head.of_connection.is_chunked.then(Chunks::default);
        let reply = match left {
            Some(0) if !self.head_only => ResponseState::Complete,
            _ if bodiless || self.head_only => ResponseState::Discard { left: DISCARD_BYTES_MAX },
            _ => ResponseState::Body { left, coded, chunks },
        };
        let template = &self.site.template;
        let reason = if head.reason.is_empty() { head.status.reason().as_bytes() } else { head.reason };
        let own = template.fields_beside(head.fields().map(|(name, _)| name));
        let writer = self.sink.head(head.status, reason, self.now, None).lines(&own);
        let fields = passing(head, self.site, self.changes.as_deref());
        let mut buffer = Vec::new();
        let mut writer = fields.fold(writer, |writer, (name, value)| {
            let value = match coding {
                Some(_) => coded_body::coded_field(name, &value, &mut buffer),
                None => Some(&*value),
            };
            value.into_iter().fold(writer, |writer, value| writer.field(name, value))
        });
        if let Some(coding) = coding {
            writer = writer.field(b"Content-Encoding", coding.name().as_bytes());
        }
        if varies {
            writer = writer.field(b"Vary", b"Accept-Encoding");
        }
        self.head = Some((head.status, writer.length(length).end()));
        reply
    }

    /// The upstream goes on with WebSocket. What follows is the client's as it comes.
    fn tunnel(&mut self, head: &response::Head<'_>) -> Result<ResponseState, GatewayError> {
        let is_asked = self.upgrades && head.of_connection.upgrade.is_some_and(http_request::is_websocket);
        if !is_asked || !self.sink.raw() {
            return Err(GatewayError::of_program("goes on with a protocol that nobody asked for"));
        }
        let mut out = Vec::new();
        out.extend_from_slice(
            b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n",
        );
        for (name, value) in passing(head, self.site, self.changes.as_deref()) {
            header::field(&mut out, name, &value);
        }
        out.extend_from_slice(b"\r\n");
        self.sink.write(&out);
        self.head = Some((head.status, out.len() as u64));
        Ok(ResponseState::Tunnel)
    }

    /// A file answers in the program's place.
    fn hand_off(
        &self,
        head: &response::Head<'_>,
        to: response::HandOff<'_>,
    ) -> Result<ResponseState, GatewayError> {
        let Some(target) = hand_off::target(to, self.site) else {
            return Err(GatewayError::of_program("hands on what is in none of the folders of files"));
        };
        let fields = passing(head, self.site, self.changes.as_deref());
        let Some(hand_off) = HandOff::new(head.status, self.rate, fields) else {
            return Err(GatewayError::of_program("hands a file on with too many fields"));
        };
        Ok(ResponseState::Redirect { target, hand_off: Some(hand_off.into()), left: DISCARD_BYTES_MAX })
    }

    /// RFC 3875 §6.2.3: Flash writes the document.
    fn page(&mut self, head: &response::Head<'_>) {
        let (site, now, head_only) = (self.site, self.now, self.head_only);
        let mut responder = Responder { head_only, ..Responder::new(site, now, self.sink) };
        // The page has a type of its own.
        let is_sent = |name: &[u8]| !name.eq_ignore_ascii_case(b"content-type") && lets_pass(site, name);
        let fields = head.fields().filter(|(name, _)| is_sent(name));
        let response = responder.page(head.status, fields);
        self.head = Some((response.status, response.head_bytes));
    }
}

/// The fields of a program's head that the client gets.
fn passing<'h>(
    head: &'h response::Head<'_>,
    site: &'h Site,
    changes: Option<&'h ResponseChanges>,
) -> impl Iterator<Item = (&'h [u8], Cow<'h, [u8]>)> {
    ResponseChanges::of(changes, head.fields().filter(move |(name, _)| lets_pass(site, name)))
}

/// Whether a field that a program has written is sent. The request's id is there already, if the client gets it.
fn lets_pass(site: &Site, name: &[u8]) -> bool {
    let is_id = site.settings.request_id && name.eq_ignore_ascii_case(request_id::FIELD);
    site.template.lets_pass(name) && !is_id
}

/// The status that an nph- script writes, for the log.
fn raw_status(bytes: &[u8]) -> Status {
    let code = bytes.strip_prefix(b"HTTP/1.").and_then(|rest| rest.get(2..5));
    let number = code.and_then(|code| std::str::from_utf8(code).ok()?.parse().ok());
    Status(number.filter(|number| (100..600).contains(number)).unwrap_or(200))
}
