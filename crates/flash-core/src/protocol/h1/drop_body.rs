//! A request's body that is of no use. Flash reads it to its end and drops it, because the next request stands behind it.

use flash_http::head::{Head, Reject};

use super::request_body::RequestBody;
use crate::exchange::admission::Passed;

/// A request's body that is being dropped.
#[derive(Debug)]
pub(crate) struct DropBody {
    /// The request's head, to be answered afterwards.
    head: Box<[u8]>,
    body: RequestBody,
    /// The limit of the request's site.
    body_bytes_max: u64,
    /// What the request has passed.
    passed: Passed,
}

pub(crate) enum Dropped {
    /// The body ended after this many of the bytes.
    All(usize),
    /// All of the bytes belong to the body, and more follow.
    Some,
    Refused(Reject),
}

impl DropBody {
    pub(crate) fn new(head: &Head<'_>, head_bytes: &[u8], body_bytes_max: u64, passed: Passed) -> Self {
        Self { head: head_bytes.into(), body: RequestBody::of(head), body_bytes_max, passed }
    }

    /// Drops the bytes of the body.
    pub(crate) fn drop_from(&mut self, bytes: &[u8]) -> Dropped {
        match self.body.read(bytes, self.body_bytes_max, |_| {}) {
            Ok(used) if self.body.is_complete() => Dropped::All(used),
            Ok(_) => Dropped::Some,
            Err(reject) => Dropped::Refused(reject),
        }
    }

    /// Takes the head, for the log of a refusal.
    pub(crate) fn take_head(&mut self) -> Box<[u8]> {
        std::mem::take(&mut self.head)
    }

    /// The head of the request whose body this was, and what the request has passed.
    pub(crate) fn into_parts(self) -> (Box<[u8]>, Passed) {
        (self.head, self.passed)
    }
}
