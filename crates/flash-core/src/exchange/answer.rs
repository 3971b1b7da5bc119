//! What a request is answered with, and what has to be known before that.
//!
//! A protocol asks when a head is complete. It asks again each time that a result has come, until the answer is there. This
//! module keeps no state.

use std::cell::LazyCell;
use std::sync::Arc;

use bytes::Bytes;
use flash_http::head::{RequestHead, Target};
use flash_http::method::Method;
use flash_http::negotiate::{Accepts, Coding, CodingSet};
use flash_http::status::Status;

use super::asked::Asked;
use super::lookup::{self, FileLookup, Found, Lookup, Purpose};
use super::respond::{Responder, Response};
use super::sink::ResponseSink;
use crate::compression::Compression;
use crate::context::Context;
use crate::entry::{self, Entry};
use crate::job::{Failure, List};
use crate::listing::Listing;
use crate::path::SitePath;
use crate::refusal::Refusal;
use crate::site::Site;

/// What a request is answered with.
#[derive(Debug)]
pub(crate) enum Answer {
    Entry(Arc<Entry>),
    /// A folder's listing, and its first page.
    Listing(Arc<Listing>, Bytes),
    Error(Status),
    /// 404, with the site's own page.
    Missing(Option<Arc<Entry>>),
    Options,
    /// 401: the client has to log in.
    Unauthorized,
    /// The site's redirection.
    Redirect,
    /// 429: the client has to wait so many seconds.
    TooMany(u64),
    /// A redirection to the same target with TLS.
    ToHttps,
}

/// The next step of a request.
#[derive(Debug)]
pub(crate) enum Next {
    Respond {
        answer: Answer,
        /// The entry's age in seconds, if the entry is older than it should be.
        age_s: Option<u64>,
    },
    /// The request waits for this look-up: it becomes an exchange.
    Lookup(FileLookup),
    /// An upstream answers.
    Upstream(Program),
    /// The request's body is of no use. It has to be read to its end first.
    DropBody,
    /// The result that the request waits for is not there yet.
    Wait,
}

/// The program that an upstream runs for a request.
#[derive(Debug)]
pub(crate) struct Program {
    /// The script's entry, if the disk was asked for a script.
    pub(crate) script: Option<Arc<Entry>>,
    /// It is the site's fallback, and not what the request's path leads to.
    pub(crate) is_fallback: bool,
}

/// `lookup` is the look-up of the request, if there is one. `body_waits` says that the request's body has not been read.
#[inline]
pub(crate) fn next(
    head: &RequestHead<'_>,
    site: &Site,
    asked: Asked<'_>,
    lookup: Option<&FileLookup>,
    body_waits: bool,
    cx: &mut Context<'_>,
) -> Next {
    let mut age_s = None;
    let accepts = LazyCell::new(|| Accepts::of(head.accept_encoding));
    let codings = || accepts.codings();
    let lookup = lookup.filter(|lookup| !lookup.is_older_than(site.generation.get()));
    let mut purpose = lookup.map_or(Purpose::Target, |lookup| lookup.purpose);
    let mut answer = match (asked, lookup) {
        (Asked::Refused(status), _) => {
            if status == Status::CONTENT_TOO_LARGE {
                cx.server.refusals.note(Refusal::BodyTooLarge, head.target.raw_path(), cx.now.ms());
            }
            Answer::Error(status)
        }
        (Asked::Redirect, _) => Answer::Redirect,
        (Asked::ToHttps, _) => Answer::ToHttps,
        (Asked::NoCertificate, _) => {
            cx.server.refusals.note(Refusal::NoCertificate, head.target.raw_path(), cx.now.ms());
            Answer::Error(Status::FORBIDDEN)
        }
        (Asked::File(_) | Asked::Options, _) if body_waits => return Next::DropBody,
        (Asked::Options, _) => Answer::Options,
        (Asked::File(_) | Asked::Program(_), Some(lookup)) => match &lookup.state {
            Lookup::Found(entry) => Answer::Entry(Arc::clone(entry)),
            Lookup::Stale(entry) => {
                age_s = Some(entry.age_ms(cx.now.ms()) / 1000);
                Answer::Entry(Arc::clone(entry))
            }
            Lookup::Listed(listing, page) => Answer::Listing(Arc::clone(listing), page.clone()),
            // A connection whose job is still under way cannot go on: its request fails.
            Lookup::Failed(failure)
                if matches!(lookup.purpose, Purpose::MissingPage(_)) && *failure != Failure::TimedOut =>
            {
                Answer::Missing(None)
            }
            Lookup::Failed(failure) => Answer::Error(failure.status()),
            Lookup::Wanted(_) | Lookup::ListWanted(_) | Lookup::Asked => return Next::Wait,
        },
        (Asked::File(path) | Asked::Program(path), None) => {
            match lookup::find_file(path, site, codings, cx) {
                Found::Entry(entry) => Answer::Entry(entry),
                Found::Program => return Next::Upstream(Program { script: None, is_fallback: false }),
                Found::Refused(status) => Answer::Error(status),
                Found::Unknown(find) => return Next::Lookup(FileLookup::of_file(find)),
            }
        }
    };
    // The target leads nowhere. The fallback is looked for once, so a fallback that leads nowhere is a 404.
    if purpose == Purpose::Target
        && let (Asked::File(path) | Asked::Program(path), Answer::Entry(entry)) = (asked, &answer)
        && let Some(fallback) = site.fallback_for(head, path, &entry.resource)
    {
        let of = entry.generation();
        answer = match lookup::find_file(fallback.raw_path(), site, codings, cx) {
            Found::Entry(entry) => Answer::Entry(entry),
            Found::Unknown(find) => return Next::Lookup(FileLookup::of_fallback(find, of)),
            Found::Program => return Next::Upstream(Program { script: None, is_fallback: true }),
            Found::Refused(status) => Answer::Error(status),
        };
        purpose = Purpose::Fallback(of);
    }
    let answer = match (purpose, answer) {
        // A deploy has put a folder in its place.
        (Purpose::Fallback(_), Answer::Entry(entry)) if entry.resource.is_folder() => {
            Answer::Error(Status::NOT_FOUND)
        }
        (Purpose::MissingPage(_), Answer::Entry(page)) => {
            return Next::Respond { answer: Answer::Missing(Some(page)), age_s: None };
        }
        (_, answer) => answer,
    };
    if let Answer::Entry(entry) = &answer
        && let entry::Resource::Script(_) = entry.resource
    {
        let (script, is_fallback) = (Some(Arc::clone(entry)), matches!(purpose, Purpose::Fallback(_)));
        return Next::Upstream(Program { script, is_fallback });
    }
    let answer = match (asked, answer) {
        // The path could have led to a program, but does not.
        (Asked::Program(_), _) if head.method.is_retrieval() && body_waits => return Next::DropBody,
        (Asked::Program(_), Answer::Entry(_)) if head.method == Method::Options => Answer::Options,
        (Asked::Program(_), Answer::Entry(entry)) if !head.method.is_retrieval() => match entry.resource {
            entry::Resource::Missing => Answer::Error(Status::NOT_FOUND),
            entry::Resource::Forbidden(_) => Answer::Error(Status::FORBIDDEN),
            _ => Answer::Error(Status::METHOD_NOT_ALLOWED),
        },
        (_, answer) => answer,
    };
    if let Answer::Entry(entry) = &answer
        && let Some(list) = list_wanted(head, site, entry, cx)
    {
        return Next::Lookup(FileLookup::of_listing(list));
    }
    if site.settings.own_missing_page && head.method.is_retrieval() && answer.is_missing() {
        match lookup::find_file(lookup::MISSING_PAGE, site, || CodingSet::EMPTY, cx) {
            Found::Entry(page) => return Next::Respond { answer: Answer::Missing(Some(page)), age_s: None },
            Found::Unknown(find) => return Next::Lookup(FileLookup::of_page(find, site.generation.get())),
            Found::Program | Found::Refused(_) => {}
        }
    }
    if let Answer::Entry(entry) = &answer
        && let Some(coding) = entry.variants().and_then(|variants| variants.wanted(|| *accepts))
    {
        let fallback = || site.settings.fallback.as_ref().map(|fallback| fallback.raw_path());
        let path = match (purpose, asked) {
            (Purpose::Fallback(_), _) => fallback(),
            (_, Asked::File(path) | Asked::Program(path)) => Some(path),
            _ => None,
        };
        ask_for_coding(entry, coding, site, path, cx);
    }
    Next::Respond { answer, age_s }
}

/// Asks for a coding that would have been the answer. The answer is the file as it is, because no client waits for that.
#[cold]
fn ask_for_coding(entry: &Entry, coding: Coding, site: &Site, raw_path: Option<&[u8]>, cx: &mut Context<'_>) {
    let claims = entry.variants().is_some_and(|variants| variants.compressed.claim(cx.now.ms()));
    if claims && let Some(path) = raw_path.and_then(|path| SitePath::parse(path).ok()) {
        cx.tally.compressions.push(Compression { site: site.id, path: path.into_owned(), coding });
    }
}

impl Answer {
    /// Whether it says that nothing is there.
    fn is_missing(&self) -> bool {
        match self {
            Answer::Error(status) => *status == Status::NOT_FOUND,
            Answer::Entry(entry) => matches!(entry.resource, entry::Resource::Missing),
            Answer::Missing(_) | Answer::Listing(..) | Answer::Options => false,
            Answer::Redirect | Answer::TooMany(_) | Answer::ToHttps | Answer::Unauthorized => false,
        }
    }
}

/// The listing that answers, if the entry is a folder. A response to HEAD needs no listing.
fn list_wanted(head: &RequestHead<'_>, site: &Site, entry: &Entry, cx: &Context<'_>) -> Option<List> {
    match (&entry.resource, head.method, head.target) {
        (entry::Resource::Folder, Method::Get, Target::Origin { path, query }) if site.settings.list => {
            lookup::list(site.id, path, query, cx.now)
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
            Answer::Missing(page) => self.missing(page.as_deref()),
            Answer::Options => self.options(),
            Answer::Unauthorized => self.unauthorized(),
            Answer::Redirect => self.redirect(head),
            Answer::TooMany(seconds) => self.too_many(seconds),
            Answer::ToHttps => self.redirect_to_https(head),
        }
    }
}
