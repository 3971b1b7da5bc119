//! What a request is answered with, and what has to be known before that.
//!
//! A protocol asks when a head is complete, and again each time that something of it has changed, until the answer is
//! there. Nothing is kept here.

use std::sync::Arc;

use bytes::Bytes;
use flash_http::head::{RequestHead, Target};
use flash_http::method::Method;
use flash_http::status::Status;

use super::asked::Asked;
use super::lookup::{self, FileLookup, Found, Lookup};
use super::respond::{Responder, Response};
use super::sink::ResponseSink;
use crate::context::Context;
use crate::entry::{self, Entry};
use crate::job::List;
use crate::listing::Listing;

/// What a request is answered with.
#[derive(Debug)]
pub(crate) enum Answer {
    Entry(Arc<Entry>),
    /// A folder's listing, and its first page.
    Listing(Arc<Listing>, Bytes),
    Error(Status),
    Options,
}

/// What is to be done about a request.
#[derive(Debug)]
pub(crate) enum Next {
    Respond {
        answer: Answer,
        /// The seconds since the last look at the disk, where that is longer than it should be.
        age_s: Option<u64>,
    },
    /// It has to wait for this: it is an exchange from now on.
    Lookup(FileLookup),
    /// A program answers; where the disk was asked for it, that is its file.
    Upstream(Option<Arc<Entry>>),
    /// Its body, which is of no use, is to be read to the end first.
    DropBody,
    /// What it waits for is not there yet.
    Wait,
}

/// `lookup` is what is known of what the request asks for, if that is looked up already. `body_waits` says that the
/// request has a body that was not read.
#[inline]
pub(crate) fn next(
    head: &RequestHead<'_>,
    asked: Asked<'_>,
    lookup: Option<&Lookup>,
    body_waits: bool,
    cx: &mut Context<'_>,
) -> Next {
    let mut age_s = None;
    let answer = match (asked, lookup) {
        (Asked::Refused(status), _) => Answer::Error(status),
        (Asked::File(_) | Asked::Options, _) if body_waits => return Next::DropBody,
        (Asked::Options, _) => Answer::Options,
        (Asked::File(_) | Asked::Program(_), Some(lookup)) => match lookup {
            Lookup::Found(entry) => Answer::Entry(Arc::clone(entry)),
            Lookup::Stale(entry) => {
                age_s = Some(entry.age_ms(cx.now.ms()) / 1000);
                Answer::Entry(Arc::clone(entry))
            }
            Lookup::Listed(listing, page) => Answer::Listing(Arc::clone(listing), page.clone()),
            Lookup::Failed(failure) => Answer::Error(failure.status()),
            Lookup::Wanted(_) | Lookup::ListWanted(_) | Lookup::Asked => return Next::Wait,
        },
        (Asked::File(path) | Asked::Program(path), None) => {
            match lookup::find_file(path, cx.site, cx.local, cx.now) {
                Found::Entry(entry) => Answer::Entry(entry),
                Found::Program => return Next::Upstream(None),
                Found::Refused(status) => Answer::Error(status),
                Found::Unknown(find) => return Next::Lookup(FileLookup::of_file(find)),
            }
        }
    };
    if let Answer::Entry(entry) = &answer
        && let entry::Resource::Script(_) = entry.resource
    {
        return Next::Upstream(Some(Arc::clone(entry)));
    }
    let answer = match (asked, answer) {
        // There was reason to hope for a program.
        (Asked::Program(_), _) if head.method.is_retrieval() && body_waits => return Next::DropBody,
        (Asked::Program(_), Answer::Entry(_)) if head.method == Method::Options => Answer::Options,
        (Asked::Program(_), Answer::Entry(entry)) if !head.method.is_retrieval() => match entry.resource {
            entry::Resource::Refused(status) => Answer::Error(status),
            _ => Answer::Error(Status::METHOD_NOT_ALLOWED),
        },
        (_, answer) => answer,
    };
    if let Answer::Entry(entry) = &answer
        && let Some(list) = list_wanted(head, entry, cx)
    {
        return Next::Lookup(FileLookup::of_listing(list));
    }
    Next::Respond { answer, age_s }
}

/// The listing that answers, if the entry is a folder. An answer to HEAD needs none.
fn list_wanted(head: &RequestHead<'_>, entry: &Entry, cx: &Context<'_>) -> Option<List> {
    match (&entry.resource, head.method, head.target) {
        (entry::Resource::Folder, Method::Get, Target::Origin { path, query }) if cx.site.settings.list => {
            lookup::list(path, query, cx.now)
        }
        _ => None,
    }
}

impl<S: ResponseSink> Responder<'_, S> {
    pub(crate) fn answer(&mut self, head: &RequestHead<'_>, answer: Answer) -> Response {
        match answer {
            Answer::Entry(entry) => self.respond(head, &entry),
            Answer::Listing(listing, page) => self.listing(Some((&listing, page))),
            Answer::Error(status) => self.error(status),
            Answer::Options => self.options(),
        }
    }
}
