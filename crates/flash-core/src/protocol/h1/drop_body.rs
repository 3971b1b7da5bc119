//! A request's body that is of no use: it is read to its end and dropped, because the next request stands behind it.

use flash_http::head::{Head, Reject};

use super::request_body::RequestBody;
use crate::site::Settings;

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
