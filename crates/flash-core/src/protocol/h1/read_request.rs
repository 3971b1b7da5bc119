//! Read request: what a head asks of the site, and what becomes of a body that came with it.
//!
//! The head itself is read by `flash_http::head`.

use flash_http::head::{Body, Expect, Head, Reject, Target};
use flash_http::method::Method;
use flash_http::status::Status;

use crate::protocol::h1::request_body::RequestBody;
use crate::site::{Settings, Site};

/// What a well-formed head asks of a site.
#[derive(Clone, Copy)]
pub(crate) enum Asked<'b> {
    /// What its raw path leads to.
    File(&'b [u8]),
    /// The same, if that is a program: a file has no use for the method, or for the body.
    Program(&'b [u8]),
    Options,
    /// Answered with this status; the body, if one was announced, is not waited for.
    Refused(Status),
}

pub(crate) fn asked<'b>(head: &Head<'b>, site: &Site) -> Asked<'b> {
    let program = || match head.target {
        Target::Origin { path, .. } => {
            site.routes.as_ref().is_some_and(|routes| routes.may_lead_to_program(path)).then_some(path)
        }
        _ => None,
    };
    match (head.method, head.expect, head.body) {
        (Method::Unknown, ..) => Asked::Refused(Status::NOT_IMPLEMENTED),
        // Both are meant for a proxy (RFC 9110 §9.3.6, §9.3.8), and a program would only be confused.
        (Method::Known("CONNECT" | "TRACE"), ..) => Asked::Refused(Status::METHOD_NOT_ALLOWED),
        (Method::Known(_), ..) if program().is_none() => Asked::Refused(Status::METHOD_NOT_ALLOWED),
        (_, Expect::Other, _) => Asked::Refused(Status::EXPECTATION_FAILED),
        (.., Body::Length(length)) if length > site.settings.body_bytes_max => {
            Asked::Refused(Status::CONTENT_TOO_LARGE)
        }
        (Method::Options, ..) => program().map_or(Asked::Options, Asked::Program),
        (Method::Get | Method::Head, _, Body::None) => match head.target {
            Target::Origin { path, .. } => Asked::File(path),
            // The parser lets these through with OPTIONS and CONNECT only.
            Target::Asterisk | Target::Authority(_) => Asked::Refused(Status::BAD_REQUEST),
        },
        (Method::Get | Method::Head | Method::Known(_), ..) => match (program(), head.target) {
            (Some(path), _) => Asked::Program(path),
            (None, Target::Origin { path, .. }) => Asked::File(path),
            (None, Target::Asterisk | Target::Authority(_)) => Asked::Refused(Status::BAD_REQUEST),
        },
    }
}

/// A request body on its way to nowhere.
#[derive(Debug)]
pub(crate) struct DropBody {
    /// The request's head, to be answered afterwards.
    head: Box<[u8]>,
    body: RequestBody,
}

pub(crate) enum Dropped {
    /// The whole body, which so many of the bytes ended.
    All(usize),
    /// All of the bytes.
    Some,
    Refused(Reject),
}

impl DropBody {
    pub(crate) fn new(head: &Head<'_>, head_bytes: &[u8]) -> Self {
        Self { head: head_bytes.into(), body: RequestBody::of(head) }
    }

    /// Nothing is kept of what is dropped, wherever it lies.
    pub(crate) fn drop_from(&mut self, bytes: &[u8], settings: &Settings) -> Dropped {
        match self.body.read(bytes, settings.body_bytes_max, |_| {}) {
            Ok(used) if self.body.is_complete() => Dropped::All(used),
            Ok(_) => Dropped::Some,
            Err(reject) => Dropped::Refused(reject),
        }
    }

    /// The head, which nobody is going to answer.
    pub(crate) fn take_head(&mut self) -> Box<[u8]> {
        std::mem::take(&mut self.head)
    }

    /// The head of the request whose body this was.
    pub(crate) fn head(&self) -> &[u8] {
        &self.head
    }
}
