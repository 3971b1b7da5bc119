//! Read request: what a head asks of the site, and what becomes of a body that came with it.
//!
//! The head itself is read by `flash_http::head`.

use flash_http::chunked::Chunked;
use flash_http::head::{Body, Expect, Head, Target, Version};
use flash_http::method::Method;
use flash_http::status::Status;

use crate::header;
use crate::site::Settings;

/// What a well-formed head asks of a site of files.
pub(crate) enum Asked<'b> {
    /// What its raw path leads to.
    File(&'b [u8]),
    Options,
    /// Answered with this status; the body, if one was announced, is not waited for.
    Refused(Status),
}

pub(crate) fn asked<'b>(head: &Head<'b>, settings: &Settings) -> Asked<'b> {
    match (head.method, head.expect, head.body) {
        (Method::Unknown, ..) => Asked::Refused(Status::NOT_IMPLEMENTED),
        (Method::Known(_), ..) => Asked::Refused(Status::METHOD_NOT_ALLOWED),
        (_, Expect::Other, _) => Asked::Refused(Status::EXPECTATION_FAILED),
        (.., Body::Length(length)) if length > settings.body_bytes_max => {
            Asked::Refused(Status::CONTENT_TOO_LARGE)
        }
        (Method::Options, ..) => Asked::Options,
        (Method::Get | Method::Head, ..) => match head.target {
            Target::Origin { path, .. } => Asked::File(path),
            // The parser lets these through with OPTIONS and CONNECT only.
            Target::Asterisk | Target::Authority(_) => Asked::Refused(Status::BAD_REQUEST),
        },
    }
}

/// RFC 9112 §9.3: what becomes of the connection after this request.
pub(crate) fn connection_after(head: &Head<'_>, draining: bool) -> header::Connection {
    match (head.keep_alive && !draining, head.version) {
        (false, _) => header::Connection::Closes,
        (true, Version::Http11) => header::Connection::StaysOpen,
        (true, Version::Http10) => header::Connection::KeepAlive,
    }
}

/// A request body on its way to nowhere.
#[derive(Debug)]
pub(crate) struct DropBody {
    /// The request's head, to be answered afterwards.
    head: Box<[u8]>,
    left: Left,
}

#[derive(Debug)]
enum Left {
    Length(u64),
    Chunks { decoder: Chunked, bytes: u64 },
}

pub(crate) enum Dropped {
    /// The whole body; the input now begins with its request's head.
    All,
    Some(u64),
    Refused(Status),
}

impl DropBody {
    pub(crate) fn new(head: &Head<'_>, head_bytes: &[u8]) -> Self {
        let left = match head.body {
            Body::None => Left::Length(0),
            Body::Length(length) => Left::Length(length),
            Body::Chunked => Left::Chunks { decoder: Chunked::default(), bytes: 0 },
        };
        Self { head: head_bytes.into(), left }
    }

    pub(crate) fn drop_from(&mut self, input: &mut Vec<u8>, settings: &Settings) -> Dropped {
        let (used, complete) = match &mut self.left {
            Left::Length(left) => {
                let used = (*left).min(input.len() as u64);
                *left -= used;
                (used as usize, *left == 0)
            }
            Left::Chunks { decoder, bytes } => match decoder.decode(input) {
                Err(reject) => return Dropped::Refused(reject.status),
                Ok(progress) => {
                    *bytes += progress.data as u64;
                    if *bytes > settings.body_bytes_max {
                        return Dropped::Refused(Status::CONTENT_TOO_LARGE);
                    }
                    (progress.consumed, progress.complete)
                }
            },
        };
        if complete {
            input.splice(..used, self.head.iter().copied());
            Dropped::All
        } else {
            input.drain(..used);
            Dropped::Some(used as u64)
        }
    }
}
