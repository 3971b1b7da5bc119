//! What a request is answered with, and what has to be known before that.
//!
//! A [decision](super::decide) asks for both, and asks whether what answers may answer in between. This module keeps no state.

use std::cell::OnceCell;
use std::sync::Arc;

use bytes::Bytes;
use flash_http::digest::is_wanted as wants_digest;
use flash_http::head::{RequestHead, Target};
use flash_http::method::Method;
use flash_http::negotiate::{Accepts, Coding, CodingSet};
use flash_http::status::Status;

use super::asked::Asked;
use super::login::Login;
use super::lookup::{self, FileLookup, Found, Lookup, Purpose};
use super::respond::{Responder, Response};
use super::sink::ResponseSink;
use crate::clients::link::BadLink;
use crate::connection::context::Context;
use crate::connection::transport::TransportInfo;
use crate::file::background_work::BackgroundWork;
use crate::file::compression::Compression;
use crate::file::digest::{self, Digest};
use crate::file::entry::{self, Entry, Variants};
use crate::file::validators::ReprDigest;
use crate::job::{Failure, List};
use crate::listing::{Listing, Order};
use crate::path::SitePath;
use crate::record::refusal::Refusal;
use crate::site::Site;
use crate::site::fallback::Fallback;
use crate::site::places::Places;

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
    /// 403 or 410: the site or place asks for another link.
    BadLink(BadLink),
    /// The redirection of a site or place, with its location.
    Redirect(Status, Vec<u8>),
    /// 429: the client has to wait so many seconds.
    TooMany(u64),
    /// 503: what is asked for is being made, and may be there in so many seconds.
    NotYet(u64),
    /// A redirection to the same target with TLS.
    ToHttps,
    /// What the site or place answers to every request.
    Fixed,
    /// The key authorization that a certificate authority asks for.
    Challenge(Vec<u8>),
}

/// The next step of a request.
#[derive(Debug)]
pub(crate) enum Next {
    Respond {
        answer: Answer,
        /// The entry's age in seconds, if the entry is older than it should be.
        age_s: Option<u64>,
    },
    /// The request waits for the check of its log-in: it becomes an exchange.
    Login(Login),
    /// The request waits for this look-up: it becomes an exchange.
    Lookup(FileLookup),
    /// An upstream answers.
    Upstream(Program),
    /// The request's body is of no use. It has to be read to its end first.
    DropBody,
    /// The result that the request waits for is not there yet.
    Wait,
}

impl From<Answer> for Next {
    fn from(answer: Answer) -> Self {
        Self::Respond { answer, age_s: None }
    }
}

/// The program that an upstream runs for a request.
#[derive(Debug)]
pub(crate) struct Program {
    /// The script's entry, if the disk was asked for a script.
    pub(crate) script: Option<Arc<Entry>>,
    /// It is the site's fallback, and not what the request's path leads to.
    pub(crate) is_fallback: bool,
}

/// What a look-up has led to. The rules of what answers have not been asked.
#[derive(Debug)]
pub(crate) struct Answering {
    pub(crate) what: What,
    age_s: Option<u64>,
    purpose: Purpose,
    /// What the client accepts, once that was asked for.
    accepts: OnceCell<Accepts>,
}

/// What answers.
#[derive(Debug)]
pub(crate) enum What {
    Program(Program),
    Answer(Answer),
}

impl Answering {
    fn program(script: Option<Arc<Entry>>, purpose: Purpose) -> Self {
        let is_fallback = matches!(purpose, Purpose::Fallback(_));
        let what = What::Program(Program { script, is_fallback });
        Self { what, age_s: None, purpose, accepts: OnceCell::new() }
    }

    /// Nothing is there.
    pub(crate) fn nothing() -> Self {
        let what = What::Answer(Answer::Error(Status::NOT_FOUND));
        Self { what, age_s: None, purpose: Purpose::Target, accepts: OnceCell::new() }
    }

    /// Whether it is the fallback, and not what the request's path leads to.
    pub(crate) fn is_fallback(&self) -> bool {
        matches!(self.purpose, Purpose::Fallback(_))
    }

    /// Whether it is the file whose digest is asked for, and not the digest.
    pub(crate) fn is_of_digest(&self) -> bool {
        matches!(self.purpose, Purpose::Digest(..))
    }

    /// The entry that was found.
    pub(crate) fn entry(&self) -> Option<&Arc<Entry>> {
        match &self.what {
            What::Program(program) => program.script.as_ref(),
            What::Answer(Answer::Entry(entry)) => Some(entry),
            What::Answer(_) => None,
        }
    }
}

/// Looks for what answers. `lookup` is the look-up of the request, if there is one. `body_waits` says that the request's body has not
/// been read. The error is what has to happen first, or a response that needs no look-up.
#[inline]
// What comes back is the next step, not an error that travels far.
#[allow(clippy::result_large_err)]
pub(crate) fn find(
    (head, transport): (&RequestHead<'_>, &TransportInfo),
    (host, site): (&Arc<Site>, &Arc<Site>),
    asked: Asked<'_>,
    lookup: Option<&FileLookup>,
    body_waits: bool,
    cx: &mut Context<'_>,
) -> Result<Answering, Next> {
    let accepts = OnceCell::new();
    let codings = || accepts.get_or_init(|| Accepts::of(head.accept_encoding)).codings();
    let path = looked_for((head, transport), site, asked, body_waits, cx)?;
    let of_digested = |behind| {
        digested((host, site), path).map_or(0, |(_, place)| place.root_behind(behind).generation.get())
    };
    let lookup = lookup.filter(|lookup| {
        let of_next = |behind| site.root_behind(behind).generation.get();
        !lookup.is_older_than(site.generation.get(), (of_digested, of_next))
    });
    let mut purpose = lookup.map_or(Purpose::Target, |lookup| lookup.purpose);
    let (mut answer, age_s) = match lookup {
        Some(lookup) => result_of(lookup, cx)?,
        None => match lookup::find_file(path, site, codings, cx) {
            Found::Entry(entry) => (Answer::Entry(entry), None),
            Found::Program => return Ok(Answering::program(None, purpose)),
            Found::Refused(status) => (Answer::Error(status), None),
            Found::Unknown(find) => return Err(Next::Lookup(FileLookup::of_file(find))),
        },
    };
    (purpose, answer) = in_next_roots(path, site, (purpose, answer), codings, cx)?;
    if let Answer::Entry(entry) = &answer
        && match purpose {
            Purpose::Target => matches!(entry.resource, entry::Resource::Missing),
            Purpose::Digest(..) => true,
            Purpose::NextRoot(..) | Purpose::Fallback(_) | Purpose::MissingPage(_) => false,
        }
        && let Some(file) = digested((host, site), path)
    {
        (purpose, answer) = file_of_digest(file, (purpose, Arc::clone(entry)), codings, cx)?;
    }
    // The target leads nowhere. The fallback is looked for once, so a fallback that leads nowhere is a 404.
    if purpose == Purpose::Target
        && let Answer::Entry(entry) = &answer
        && let Some(fallback) = site.fallback_for(head, path, &entry.resource)
    {
        let of = entry.generation();
        purpose = Purpose::Fallback(of);
        let Some(raw_path) = fallback.raw_path() else { return Ok(Answering::program(None, purpose)) };
        answer = match lookup::find_file(raw_path, site, codings, cx) {
            Found::Entry(entry) => Answer::Entry(entry),
            Found::Unknown(find) => return Err(Next::Lookup(FileLookup::of_fallback(find, of))),
            Found::Program => return Ok(Answering::program(None, purpose)),
            Found::Refused(status) => Answer::Error(status),
        };
    }
    let answer = match (purpose, answer) {
        // A deploy has put a folder in its place.
        (Purpose::Fallback(_), Answer::Entry(entry)) if entry.resource.is_folder() => {
            Answer::Error(Status::NOT_FOUND)
        }
        (Purpose::MissingPage(_), Answer::Entry(page)) => {
            return Err(Answer::Missing(Some(page)).into());
        }
        (_, answer) => answer,
    };
    match answer {
        Answer::Entry(entry) if matches!(entry.resource, entry::Resource::Script(_)) => {
            Ok(Answering::program(Some(entry), purpose))
        }
        // The path could have led to a program, but does not.
        _ if matches!(asked, Asked::Program(_)) && head.method.is_retrieval() && body_waits => {
            Err(Next::DropBody)
        }
        answer => Ok(Answering { what: What::Answer(answer), age_s, purpose, accepts }),
    }
}

/// What a look-up has found, and the age of what may be old.
#[allow(clippy::result_large_err)]
fn result_of(lookup: &FileLookup, cx: &Context<'_>) -> Result<(Answer, Option<u64>), Next> {
    Ok(match (&lookup.state, lookup.purpose) {
        (Lookup::Found(entry), _) => (Answer::Entry(Arc::clone(entry)), None),
        (Lookup::Stale(entry), _) => {
            (Answer::Entry(Arc::clone(entry)), Some(entry.age_ms(cx.now.ms()) / 1000))
        }
        (Lookup::Listed(listing, page), _) => (Answer::Listing(Arc::clone(listing), page.clone()), None),
        // A connection whose job is still under way cannot go on: its request fails.
        (Lookup::Failed(failure), Purpose::MissingPage(_)) if *failure != Failure::TimedOut => {
            (Answer::Missing(None), None)
        }
        (Lookup::Failed(Failure::RootGone), Purpose::NextRoot(of, _) | Purpose::Digest(of, 1..)) => {
            (nothing_of(of, cx), None)
        }
        (Lookup::Failed(failure), _) => (Answer::Error(failure.status()), None),
        (Lookup::Wanted(_) | Lookup::ListWanted(_) | Lookup::Asked, _) => return Err(Next::Wait),
    })
}

/// Nothing is where a path of this generation of the root leads.
fn nothing_of(generation: u64, cx: &Context<'_>) -> Answer {
    Answer::Entry(Arc::new(Entry::new(entry::Resource::Missing, cx.now.ms()).of_root(generation)))
}

/// Looks in the next roots for a target that the roots before them lack. They have files and folders, and no scripts.
#[allow(clippy::result_large_err)]
fn in_next_roots(
    path: &[u8],
    site: &Arc<Site>,
    (mut purpose, mut answer): (Purpose, Answer),
    codings: impl Fn() -> CodingSet,
    cx: &mut Context<'_>,
) -> Result<(Purpose, Answer), Next> {
    loop {
        let Answer::Entry(entry) = &answer else { return Ok((purpose, answer)) };
        let (of, behind) = match purpose {
            Purpose::Target => (entry.generation(), 0),
            Purpose::NextRoot(of, behind) => (of, behind),
            _ => return Ok((purpose, answer)),
        };
        let is_missing = match entry.resource {
            entry::Resource::Missing => true,
            entry::Resource::Script(_) => behind > 0,
            _ => false,
        };
        if !is_missing {
            return Ok((purpose, answer));
        }
        let Some(next) = &site.root_behind(behind).next_root else {
            // The rest is about the first root again.
            return Ok((Purpose::Target, if behind > 0 { nothing_of(of, cx) } else { answer }));
        };
        purpose = Purpose::NextRoot(of, behind + 1);
        answer = match lookup::find_file(path, next, &codings, cx) {
            Found::Entry(entry) => Answer::Entry(entry),
            Found::Unknown(find) => {
                return Err(Next::Lookup(FileLookup::of_next_root(find, of, behind + 1)));
            }
            Found::Refused(_) | Found::Program => nothing_of(of, cx),
        };
    }
}

/// If a path is the name of a digest: the file's path, and its place, which says whether clients get digests. Only a program may
/// hand on what has to do with an internal place.
fn digested<'p, 's>(
    (host, own): (&'s Arc<Site>, &Arc<Site>),
    path: &'p [u8],
) -> Option<(&'p [u8], &'s Arc<Site>)> {
    let file = digest::file_of(path)?;
    let place = host.at_path(&SitePath::parse(file).ok()?);
    let is_told = place.settings.digests && place.settings.internal == own.settings.internal;
    is_told.then_some((file, place))
}

/// The file whose digest is asked for by a path that leads nowhere, in the first of its roots that has it.
#[allow(clippy::result_large_err)]
fn file_of_digest(
    (path, place): (&[u8], &Arc<Site>),
    (purpose, entry): (Purpose, Arc<Entry>),
    codings: impl Fn() -> CodingSet,
    cx: &mut Context<'_>,
) -> Result<(Purpose, Answer), Next> {
    let (of, mut behind, mut found) = match purpose {
        Purpose::Digest(of, behind) => (of, behind, Some(Arc::clone(&entry))),
        _ => (entry.generation(), 0, None),
    };
    let file = loop {
        let root = place.root_behind(behind);
        let file = match found.take() {
            Some(file) => file,
            None => match lookup::find_file(path, root, &codings, cx) {
                Found::Entry(file) => file,
                Found::Unknown(find) => return Err(Next::Lookup(FileLookup::of_digest(find, of, behind))),
                Found::Refused(status) => return Ok((purpose, Answer::Error(status))),
                Found::Program => return Ok((purpose, Answer::Entry(entry))),
            },
        };
        if !matches!(file.resource, entry::Resource::Missing) || root.next_root.is_none() {
            break file;
        }
        behind += 1;
    };
    let may_have_digest = |variants: &Variants| variants.identity.repr_digest != ReprDigest::Off;
    // An index file has its digest by its own name.
    if file.variants().is_some_and(may_have_digest) && file.found_at().is_none() {
        return Ok((Purpose::Digest(of, behind), Answer::Entry(file)));
    }
    Ok((Purpose::Target, nothing_of(of, cx)))
}

/// The path to look for, unless the request needs no look-up.
#[inline]
#[allow(clippy::result_large_err)]
fn looked_for<'a>(
    (head, transport): (&RequestHead<'_>, &TransportInfo),
    site: &Site,
    asked: Asked<'a>,
    body_waits: bool,
    cx: &Context<'_>,
) -> Result<&'a [u8], Next> {
    let note = |refusal| cx.note_refusal(refusal, (head, transport), site, None);
    Err(match asked {
        Asked::Refused(status) => {
            if status == Status::CONTENT_TOO_LARGE {
                note(Refusal::BodyTooLarge);
            }
            Answer::Error(status).into()
        }
        Asked::Redirect => redirect(head, site).into(),
        Asked::Fixed => Answer::Fixed.into(),
        Asked::ToHttps => Answer::ToHttps.into(),
        Asked::NoCertificate => {
            note(Refusal::NoCertificate);
            Answer::Error(Status::FORBIDDEN).into()
        }
        Asked::File(_) | Asked::Options if body_waits => Next::DropBody,
        Asked::Options => Answer::Options.into(),
        Asked::File(path) | Asked::Program(path) => return Ok(path),
    })
}

/// What an admitted request is answered with. `host` is the site that `site` is or belongs to.
#[inline]
pub(crate) fn finish(
    Answering { what, age_s, purpose, accepts }: Answering,
    head: &RequestHead<'_>,
    (host, site): (&Arc<Site>, &Arc<Site>),
    asked: Asked<'_>,
    cx: &mut Context<'_>,
) -> Next {
    let answer = match what {
        What::Program(program) => return Next::Upstream(program),
        What::Answer(answer) => answer,
    };
    let answer = match (asked, answer) {
        (Asked::Program(_), Answer::Entry(_)) if head.method == Method::Options => Answer::Options,
        (Asked::Program(_), Answer::Entry(entry)) if !head.method.is_retrieval() => match entry.resource {
            entry::Resource::Missing => Answer::Error(Status::NOT_FOUND),
            entry::Resource::Forbidden(_) => Answer::Error(Status::FORBIDDEN),
            _ => Answer::Error(Status::METHOD_NOT_ALLOWED),
        },
        (_, answer) => answer,
    };
    let files = match purpose {
        Purpose::NextRoot(_, behind) => site.root_behind(behind),
        _ => site,
    };
    if let Answer::Entry(entry) = &answer
        && let Some(list) = list_wanted(head, files, entry, cx)
    {
        return Next::Lookup(FileLookup::of_listing(list, purpose));
    }
    if head.method.is_retrieval() && answer.is_missing() && has_missing_page(host, site) {
        match lookup::find_file(lookup::MISSING_PAGE, site, || CodingSet::EMPTY, cx) {
            Found::Entry(page) => return Answer::Missing(Some(page)).into(),
            Found::Unknown(find) => return Next::Lookup(FileLookup::of_page(find, site.generation.get())),
            Found::Program | Found::Refused(_) => {}
        }
    }
    let Answer::Entry(entry) = &answer else { return Next::Respond { answer, age_s } };
    let Some(variants) = entry.variants() else { return Next::Respond { answer, age_s } };
    let accepts = || *accepts.get_or_init(|| Accepts::of(head.accept_encoding));
    let raw_path = || match (purpose, asked) {
        (Purpose::Fallback(_), _) => site.settings.fallback.as_ref().and_then(Fallback::raw_path),
        (Purpose::Digest(..), Asked::File(path) | Asked::Program(path)) => digest::file_of(path),
        (_, Asked::File(path) | Asked::Program(path)) => Some(path),
        _ => None,
    };
    if let Purpose::Digest(_, behind) = purpose {
        return Next::Respond { answer: checksum((entry, behind), (host, site), raw_path(), cx), age_s };
    }
    if head.range.is_none()
        && let Some(coding) = variants.wanted(accepts)
    {
        ask_for_coding(entry, coding, files, raw_path(), cx);
    }
    if variants.lack_digest()
        || (site.settings.digests && variants.lack_repr_digest() && wants_digest(head.fields))
    {
        ask_for_digest(entry, files, raw_path(), cx);
    }
    if host.places.as_ref().is_some_and(Places::name_copies)
        && let Some(coding) = variants.copy_for(accepts())
        && let Some(path) = raw_path().and_then(|path| SitePath::parse(path).ok())
    {
        // A copy answers for its file only if it may be had by its own name. The file itself may.
        let path = entry.found_at().unwrap_or(&path);
        let copy = path.copy_in(coding);
        if host.at_path(&copy).settings.add_to(&host.at_path(path).settings, &copy) {
            return Next::Respond { answer: Answer::Entry(Arc::new(entry.without_copies())), age_s };
        }
    }
    Next::Respond { answer, age_s }
}

/// Whether another Accept would have led to another response: to the fallback, or to nothing.
#[inline]
pub(crate) fn reads_accept(next: &Next, is_fallback: bool, head: &RequestHead<'_>, site: &Site) -> bool {
    let Some(fallback) = &site.settings.fallback else { return false };
    let leads_nowhere = |answer: &Answer| answer.is_missing() || matches!(answer, Answer::Missing(_));
    matches!(next, Next::Respond { answer, .. } if is_fallback || leads_nowhere(answer))
        && SitePath::parse(head.target.raw_path()).is_ok_and(|path| fallback.reads_accept(&path))
}

/// Whether the site's own page for missing names may answer here. One that has rules of its own to be passed answers for its own name
/// alone.
fn has_missing_page(host: &Arc<Site>, site: &Arc<Site>) -> bool {
    let is_open = |places: &Places<Site>| {
        let path = SitePath::parse(lookup::MISSING_PAGE).expect("it is canonical");
        let there = places.find(&path).unwrap_or(host);
        Arc::ptr_eq(there, site) || !there.settings.add_to(&site.settings, &path)
    };
    site.settings.own_missing_page && host.places.as_ref().is_none_or(is_open)
}

/// The redirection of a site or place. A host or path that cannot stand in a URL makes a bad request of it.
fn redirect(head: &RequestHead<'_>, site: &Site) -> Answer {
    let moved = site.settings.moved(head);
    let to = moved.as_ref().or(site.settings.redirect.as_ref());
    let filled = to.and_then(|to| Some((to.status(), to.location(head, None)?)));
    filled.map_or(Answer::Error(Status::BAD_REQUEST), |(status, location)| Answer::Redirect(status, location))
}

/// Asks for a coding that would have been the answer. The answer is the file as it is, because no client waits for that.
#[cold]
fn ask_for_coding(entry: &Entry, coding: Coding, site: &Site, raw_path: Option<&[u8]>, cx: &mut Context<'_>) {
    let claims = entry.variants().is_some_and(|variants| variants.compressed.claim(cx.now.ms()));
    if claims && let Some(path) = raw_path.and_then(|path| SitePath::parse(path).ok()) {
        let wanted = Compression { site: site.id, path: path.into_owned(), coding };
        cx.tally.background.push(BackgroundWork::Compression(wanted));
    }
}

/// The digest of a file in the root so far behind the first, as a text, if it is known. If not, it is asked for.
#[cold]
fn checksum(
    (entry, behind): (&Arc<Entry>, u8),
    (host, site): (&Arc<Site>, &Site),
    raw_path: Option<&[u8]>,
    cx: &mut Context<'_>,
) -> Answer {
    let Some((variants, path)) = entry.variants().zip(raw_path.and_then(|path| SitePath::parse(path).ok()))
    else {
        return Answer::Error(Status::NOT_FOUND);
    };
    let file = &variants.identity;
    if let Some(checksum) = digest::checksum_of(file, &path, &site.template) {
        return Answer::Entry(Arc::new(checksum));
    }
    ask_for_digest(entry, host.at_path(&path).root_behind(behind), raw_path, cx);
    Answer::NotYet(digest::retry_after_s(file))
}

/// Asks for digests of files: of those with entity tags made of them, or of those that the client wants to have. The answer has
/// none, because no client waits until all of a file has been read.
#[cold]
fn ask_for_digest(entry: &Arc<Entry>, site: &Site, raw_path: Option<&[u8]>, cx: &mut Context<'_>) {
    if entry.claim_digest(cx.now.ms())
        && let Some(path) = raw_path.and_then(|path| SitePath::parse(path).ok())
    {
        let wanted = Digest { site: site.id, path: path.into_owned(), entry: entry.kept() };
        cx.tally.background.push(BackgroundWork::Digest(wanted));
    }
}

impl Answer {
    /// Whether it says that nothing is there.
    fn is_missing(&self) -> bool {
        match self {
            Answer::Error(status) => *status == Status::NOT_FOUND,
            Answer::Entry(entry) => matches!(entry.resource, entry::Resource::Missing),
            Answer::Missing(_) | Answer::Listing(..) | Answer::Options => false,
            Answer::Redirect(..) | Answer::ToHttps | Answer::Unauthorized | Answer::BadLink(_) => false,
            Answer::TooMany(_) | Answer::NotYet(_) | Answer::Challenge(_) | Answer::Fixed => false,
        }
    }
}

/// The listing that answers, if the entry is a folder. A response to HEAD needs no listing.
fn list_wanted(head: &RequestHead<'_>, site: &Site, entry: &Entry, cx: &Context<'_>) -> Option<List> {
    match (&entry.resource, head.method, head.target) {
        (entry::Resource::Folder, Method::Get, Target::Origin { path, query }) if site.settings.list => {
            let coding = Accepts::of(head.accept_encoding).choose(site.settings.compress_listings);
            lookup::list(site.id, path, Order::of_query(query, coding), cx.now)
        }
        _ => None,
    }
}

impl<S: ResponseSink> Responder<'_, S> {
    pub(crate) fn answer(&mut self, head: &RequestHead<'_>, answer: Answer) -> Response {
        match answer {
            Answer::Entry(entry) => self.respond(head, &entry),
            Answer::Listing(listing, page) => self.listing(listing.order(), Some((&listing, page))),
            Answer::Error(status) => self.error(status),
            Answer::Missing(page) => self.missing(page.as_deref()),
            Answer::Options => self.options(),
            Answer::Unauthorized => self.unauthorized(),
            Answer::BadLink(bad) => self.bad_link(bad),
            Answer::Redirect(status, location) => self.page(status, [(&b"Location"[..], &location[..])]),
            Answer::TooMany(seconds) => self.later(Status::TOO_MANY_REQUESTS, seconds),
            Answer::NotYet(seconds) => self.later(Status::SERVICE_UNAVAILABLE, seconds),
            Answer::ToHttps => self.redirect_to_https(head),
            Answer::Fixed => self.fixed(),
            Answer::Challenge(text) => self.challenge(&text),
        }
    }
}
