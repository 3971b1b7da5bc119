//! Send header: conditions, ranges and negotiation choose the response, and its head is written.
//!
//! A body in memory follows at once. The rest of another body is returned as a [`Body`].

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use flash_http::condition::{self, By, Outcome, Validators};
use flash_http::etag::EntityTag;
use flash_http::head::{RequestHead, Target};
use flash_http::method::Method;
use flash_http::negotiate::Accepts;
use flash_http::percent;
use flash_http::range::{self, Multipart, Ranges};
use flash_http::status::Status;

use crate::clients::link::BadLink;
use crate::clock::Now;
use crate::exchange::body::{self, Body, Parts};
use crate::exchange::sink::{BodyLength, FileHead, HeadSink, ResponseSink};
use crate::file::entry::{self, Entry, Variants};
use crate::file::header::{HeaderBlock, HeaderTemplate};
use crate::file::{Content, File};
use crate::listing::{Listing, Order};
use crate::path::SitePath;
use crate::record::refusal::Refusal;
use crate::site::hosts;
use crate::site::redirect;
use crate::site::{INLINE_BYTES_MAX, Site};

/// RFC 9111 §4.2.2: no cache may keep it, whatever the site's fields say.
const NO_STORE: (&[u8], &[u8]) = (b"Cache-Control", b"no-store");

/// What a response is written with.
pub(crate) struct Responder<'a, S> {
    pub(crate) site: &'a Site,
    /// Why the request is refused, for the error log.
    pub(crate) refused: Option<Refusal>,
    pub(crate) now: &'a Now,
    pub(crate) sink: &'a mut S,
    /// The response to HEAD ends with its head.
    pub(crate) head_only: bool,
    /// The response is for one client, whatever the site lets caches keep.
    pub(crate) is_private: bool,
    /// Another Accept would have led to another response.
    pub(crate) reads_accept: bool,
    /// The client wants the digest of what it gets.
    pub(crate) wants_digest: bool,
    /// A program has handed the file on, with this status and these fields.
    pub(crate) handed_on: Option<&'a (Status, HeaderTemplate)>,
    /// The value of `Age`: the entry's age in seconds, if the entry is older than it should be.
    pub(crate) age_s: Option<u64>,
}

/// A response whose head is written.
pub(crate) struct Response {
    pub(crate) status: Status,
    pub(crate) head_bytes: u64,
    /// The part of the body that still has to be read and sent.
    pub(crate) rest: Option<Body>,
}

impl<'a, S: ResponseSink> Responder<'a, S> {
    /// For a response about nothing that is there.
    pub(crate) fn new(site: &'a Site, now: &'a Now, sink: &'a mut S) -> Self {
        let (head_only, is_private, reads_accept, wants_digest) = (false, false, false, false);
        let (handed_on, age_s) = (None, None);
        Self {
            site,
            refused: None,
            now,
            sink,
            head_only,
            is_private,
            reads_accept,
            wants_digest,
            handed_on,
            age_s,
        }
    }

    pub(crate) fn respond(&mut self, head: &RequestHead<'_>, entry: &Entry) -> Response {
        match &entry.resource {
            entry::Resource::File(variants) => self.file(head, variants),
            entry::Resource::FolderWithoutSlash => self.add_slash(head),
            entry::Resource::Folder if self.site.settings.list => {
                let coding = Accepts::of(head.accept_encoding).choose(self.site.settings.compress_listings);
                self.listing(Order::of_query(head.target.query(), coding), None)
            }
            entry::Resource::Folder => self.forbidden(Refusal::FolderWithoutIndex),
            entry::Resource::Script(_) => self.forbidden(Refusal::Program),
            entry::Resource::Forbidden(refusal) => self.forbidden(*refusal),
            entry::Resource::Missing => self.error(Status::NOT_FOUND),
        }
    }

    fn forbidden(&mut self, refusal: Refusal) -> Response {
        self.refused = Some(refusal);
        self.error(Status::FORBIDDEN)
    }

    fn file(&mut self, head: &RequestHead<'_>, variants: &Variants) -> Response {
        let accepts = || Accepts::of(head.accept_encoding);
        if let Some((status, _)) = self.handed_on
            && *status != Status::OK
        {
            return self.whole_as(*status, variants.choose(accepts));
        }
        if is_plain(head) {
            return self.whole(variants.choose(accepts));
        }
        // RFC 9110 §14.2: Range is defined for GET only.
        let range = head.range.filter(|_| head.method == Method::Get);
        let file = match range {
            Some(_) => variants.of_part(accepts, |file| {
                file.etag.as_ref().is_some_and(|tag| condition::names(head, tag.as_bytes()))
            }),
            None => variants.choose(accepts),
        };
        let now = self.now.unix_seconds();
        let modified = file.validators.sends_time().then(|| file.stamp.modified_seconds().min(now));
        let validators = Validators { etag: file.etag.as_ref().map(EntityTag::as_bytes), modified };
        match condition::evaluate(head, &validators) {
            Outcome::NotModified => return self.not_modified(file),
            Outcome::PreconditionFailed => return self.error(Status::PRECONDITION_FAILED),
            Outcome::Proceed => {}
        }
        // All representations have the same date, so it tells nothing where the client could have had another one.
        let is_alone = || !file.varies || accepts().codings().is_empty();
        let holds = |value| match condition::if_range_holds(value, &validators, now) {
            Some(By::Tag) => true,
            Some(By::Date) => is_alone(),
            None => false,
        };
        let Some(range) = range.filter(|_| head.if_range.is_none_or(holds)) else {
            return self.whole(file);
        };
        match range::select(range, file.size()) {
            Ranges::Whole => self.whole(file),
            Ranges::One(range) => self.partial(file, range),
            Ranges::Many(ranges) => self.multipart(file, &ranges),
            Ranges::Unsatisfiable => self.unsatisfiable(file),
        }
    }

    fn whole(&mut self, file: &Arc<File>) -> Response {
        // A small body goes into the same bytes as its head: copying it costs less than a second slice.
        let inline = match &file.content {
            Content::Memory(bytes) if !self.head_only && file.size() <= INLINE_BYTES_MAX => Some(bytes),
            _ => None,
        };
        let block = self.head_of(file);
        let is_modified_later = file.is_modified_later(self.now.unix_seconds());
        let head = FileHead { block: &block, is_modified_later, age_s: self.age_s };
        let head_bytes = self.sink.file_head(head, self.now, inline.map_or(&[][..], |bytes| bytes));
        let rest = match inline {
            None if !self.head_only => body::start(file, Parts::whole(file.size()), self.sink),
            _ => None,
        };
        Response { status: Status::OK, head_bytes, rest }
    }

    /// The whole file with another status than 200.
    fn whole_as(&mut self, status: Status, file: &Arc<File>) -> Response {
        let block = self.head_of(file);
        let validators = self.validators(file, &block);
        let content_type = self.template().content_type(&file.media);
        let head_bytes = self
            .head(status)
            .lines(&validators)
            .lines(block.representation())
            .field(b"Content-Type", content_type.as_bytes())
            .length(BodyLength::Known(file.size()))
            .end();
        let is_sent = !self.head_only;
        let rest = is_sent.then(|| body::start(file, Parts::whole(file.size()), self.sink)).flatten();
        Response { status, head_bytes, rest }
    }

    /// What a file's response contains besides what the file is.
    fn template(&self) -> &'a HeaderTemplate {
        self.handed_on.map_or(&*self.site.template, |(_, template)| template)
    }

    /// The ready-made head of the file, or another one where that does not suit.
    fn head_of<'f>(&self, file: &'f File) -> Cow<'f, HeaderBlock> {
        let template = self.template();
        let is_ready = self.handed_on.is_none() && !template.experiments.header_uncached;
        let digest = file.repr_digest.known().filter(|_| self.wants_digest);
        if is_ready && digest.is_none() && !(self.is_private || self.reads_accept) {
            return Cow::Borrowed(&file.head);
        }
        let private = self.is_private.then(|| template.private());
        Cow::Owned(file.head_anew(private.as_ref().unwrap_or(template), self.reads_accept, digest))
    }

    fn not_modified(&mut self, file: &File) -> Response {
        let block = self.head_of(file);
        let validators = self.validators(file, &block);
        let head_bytes = self.head(Status::NOT_MODIFIED).lines(&validators).end();
        Response { status: Status::NOT_MODIFIED, head_bytes, rest: None }
    }

    fn validators<'h>(&self, file: &File, block: &'h HeaderBlock) -> Cow<'h, [u8]> {
        block.validators(&self.now.date, file.is_modified_later(self.now.unix_seconds()))
    }

    fn partial(&mut self, file: &Arc<File>, range: std::ops::Range<u64>) -> Response {
        let mut content_range = Vec::new();
        range::write_content_range(&range, file.size(), &mut content_range);
        let block = self.head_of(file);
        let validators = self.validators(file, &block);
        let content_type = self.template().content_type(&file.media);
        let head_bytes = self
            .head(Status::PARTIAL_CONTENT)
            .lines(&validators)
            .lines(block.representation())
            .field(b"Content-Type", content_type.as_bytes())
            .field(b"Content-Range", &content_range)
            .length(BodyLength::Known(range.end - range.start))
            .end();
        let rest = body::start(file, Parts::one(range), self.sink);
        Response { status: Status::PARTIAL_CONTENT, head_bytes, rest }
    }

    fn multipart(&mut self, file: &Arc<File>, ranges: &[std::ops::Range<u64>]) -> Response {
        // Any boundary that is not in the content will do, and nobody can know the content: sixteen digits of the
        // file's own identity are as good as random ones, and the same each time.
        let boundary =
            format!("flash-{:016x}", file.stamp.modified_ns as u64 ^ file.stamp.inode.rotate_left(32));
        let of_part = self.template().content_type(&file.media);
        let multipart = Multipart { content_type: &of_part, size: file.size(), boundary: &boundary };
        let mut content_type = Vec::new();
        multipart.write_content_type(&mut content_type);
        let parts = Parts::multipart(&multipart, ranges);
        let block = self.head_of(file);
        let validators = self.validators(file, &block);
        let head_bytes = self
            .head(Status::PARTIAL_CONTENT)
            .lines(&validators)
            .lines(block.representation())
            .field(b"Content-Type", &content_type)
            .length(BodyLength::Known(multipart.content_length(ranges)))
            .end();
        let rest = body::start(file, parts, self.sink);
        Response { status: Status::PARTIAL_CONTENT, head_bytes, rest }
    }

    fn unsatisfiable(&mut self, file: &File) -> Response {
        let mut content_range = Vec::new();
        range::write_unsatisfied(file.size(), &mut content_range);
        self.page(Status::RANGE_NOT_SATISFIABLE, [(&b"Content-Range"[..], &content_range[..])])
    }

    /// RFC 9110 §15.4.2. `Location` is a path, because BusyBox wget takes no reference that is relative to the request's.
    fn add_slash(&mut self, head: &RequestHead<'_>) -> Response {
        let Target::Origin { path, query } = head.target else { return self.error(Status::BAD_REQUEST) };
        let Ok(path) = SitePath::parse(path) else { return self.error(Status::BAD_REQUEST) };
        // It is canonical, so it begins with one slash, and names no host.
        let mut location = Vec::new();
        percent::encode_path(path.as_bytes(), &mut location);
        location.push(b'/');
        if let Some(query) = query {
            location.push(b'?');
            location.extend_from_slice(query);
        }
        self.page(Status::MOVED_PERMANENTLY, [(&b"Location"[..], &location[..])])
    }

    /// To the same target with TLS, by the same method (RFC 9110 §15.4.9).
    pub(crate) fn redirect_to_https(&mut self, head: &RequestHead<'_>) -> Response {
        let (Some(host), Target::Origin { path, query }) =
            (head.host.and_then(redirect::bare_host), head.target)
        else {
            return self.error(Status::BAD_REQUEST);
        };
        let mut location = [b"https://", hosts::bare(host)].concat();
        if let Some(port) = self.site.https_port.filter(|port| *port != 443) {
            location.extend_from_slice(format!(":{port}").as_bytes());
        }
        location.extend_from_slice(path);
        if let Some(query) = query {
            location.push(b'?');
            location.extend_from_slice(query);
        }
        // Without the site's fields: its policies hold for TLS (RFC 6797 §7.2).
        let head_bytes = self
            .head(Status::PERMANENT_REDIRECT)
            .field(b"Location", &location)
            .length(BodyLength::Known(0))
            .end();
        Response { status: Status::PERMANENT_REDIRECT, head_bytes, rest: None }
    }

    /// Writes a listing with its first page. HEAD gets no page, and reads no folder.
    pub(crate) fn listing(&mut self, form: Order, listing: Option<(&Arc<Listing>, Bytes)>) -> Response {
        let pages = listing.as_ref().and_then(|(listing, _)| listing.whole_now());
        // Otherwise the length is not known before the last page.
        let length = pages.as_ref().map_or(BodyLength::Unknown, |pages| {
            BodyLength::Known(pages.iter().map(|page| page.len() as u64).sum())
        });
        let site = self.site;
        let mut head = self.head(Status::OK).lines(&site.template.fields);
        if !site.settings.compress_listings.is_empty() {
            head = head.field(b"Vary", b"Accept-Encoding");
        }
        if let Some(coding) = form.coding {
            head = head.field(b"Content-Encoding", coding.name().as_bytes());
        }
        let head_bytes = head.field(b"Content-Type", form.format.content_type()).length(length).end();
        let rest = match (pages, listing) {
            (Some(pages), _) => {
                pages.into_iter().for_each(|page| self.sink.push_copied(page, None));
                None
            }
            (None, Some((listing, page))) => body::start_listing(listing, page, self.sink),
            (None, None) => None,
        };
        Response { status: Status::OK, head_bytes, rest }
    }

    pub(crate) fn options(&mut self) -> Response {
        let site = self.site;
        let head_bytes = self
            .head(Status::NO_CONTENT)
            .field(b"Allow", site.settings.allow())
            .lines(&site.template.fields)
            .end();
        Response { status: Status::NO_CONTENT, head_bytes, rest: None }
    }

    /// Nothing is there, and the site has a page that says so: `404.html`, if that is a file now.
    pub(crate) fn missing(&mut self, page: Option<&Entry>) -> Response {
        let Some(entry::Resource::File(Variants { identity: file, .. })) = page.map(|page| &page.resource)
        else {
            return self.error(Status::NOT_FOUND);
        };
        let site = self.site;
        let vary: &[u8] = if self.reads_accept { b"Vary: Accept\r\n" } else { b"" };
        let head_bytes = self
            .head(Status::NOT_FOUND)
            .lines(&site.template.fields)
            .lines(vary)
            .field(b"Content-Type", site.template.content_type(&file.media).as_bytes())
            .length(BodyLength::Known(file.size()))
            .end();
        let rest = match self.head_only {
            true => None,
            false => body::start(file, Parts::whole(file.size()), self.sink),
        };
        Response { status: Status::NOT_FOUND, head_bytes, rest }
    }

    pub(crate) fn error(&mut self, status: Status) -> Response {
        let site = self.site;
        let field = match status {
            Status::METHOD_NOT_ALLOWED => Some((&b"Allow"[..], site.settings.allow())),
            Status::SERVICE_UNAVAILABLE | Status::TOO_MANY_REQUESTS => Some((&b"Retry-After"[..], &b"1"[..])),
            Status::NOT_FOUND if self.reads_accept => Some((&b"Vary"[..], &b"Accept"[..])),
            _ => None,
        };
        self.page(status, field)
    }

    /// The client has to log in (RFC 9110 §11.6.1).
    pub(crate) fn unauthorized(&mut self) -> Response {
        let site = self.site;
        let users = site.settings.access.as_ref().and_then(|access| access.users.as_ref());
        let challenge = users.map(|users| (&b"WWW-Authenticate"[..], users.challenge()));
        self.page(Status::UNAUTHORIZED, challenge.into_iter().chain([NO_STORE]))
    }

    /// The client needs another link.
    pub(crate) fn bad_link(&mut self, bad: BadLink) -> Response {
        let status = match bad {
            BadLink::Wrong => Status::FORBIDDEN,
            BadLink::Expired => Status::GONE,
        };
        self.page(status, [NO_STORE])
    }

    /// The client may ask again in so many seconds.
    pub(crate) fn later(&mut self, status: Status, seconds: u64) -> Response {
        let seconds = seconds.to_string();
        self.page(status, [(&b"Retry-After"[..], seconds.as_bytes())])
    }

    /// RFC 8555 §8.3.
    pub(crate) fn challenge(&mut self, text: &[u8]) -> Response {
        self.text(Status::OK, [NO_STORE], &[], (b"application/octet-stream", text))
    }

    /// What the site or place answers to every request.
    pub(crate) fn fixed(&mut self) -> Response {
        let site = self.site;
        let Some(fixed) = &site.settings.respond else { return self.error(Status::NOT_FOUND) };
        let retry_after = fixed.retry_after.as_ref().map(|time| (&b"Retry-After"[..], time.as_bytes()));
        if fixed.has_page() {
            return self.page(fixed.status, retry_after);
        }
        let body = (fixed.content_type.as_bytes(), &fixed.body[..]);
        self.text(fixed.status, retry_after, &site.template.fields, body)
    }

    /// A response whose body is a page about its status.
    pub(crate) fn page<'f>(
        &mut self,
        status: Status,
        fields: impl IntoIterator<Item = (&'f [u8], &'f [u8])>,
    ) -> Response {
        let site = self.site;
        let page = site.pages.get(status);
        self.text(status, fields, &site.template.fields, (b"text/html; charset=utf-8", &page))
    }

    /// A response with a body in memory, after its type. The lines of fields are the site's own.
    fn text<'f>(
        &mut self,
        status: Status,
        fields: impl IntoIterator<Item = (&'f [u8], &'f [u8])>,
        lines: &[u8],
        (content_type, body): (&[u8], &[u8]),
    ) -> Response {
        let mut head =
            fields.into_iter().fold(self.head(status), |head, (name, value)| head.field(name, value));
        head = head.lines(lines);
        if !body.is_empty() {
            head = head.field(b"Content-Type", content_type);
        }
        // RFC 9110 §8.6.
        let length = match status {
            Status::NO_CONTENT => BodyLength::None,
            _ => BodyLength::Known(body.len() as u64),
        };
        let head_bytes = head.length(length).end();
        if !self.head_only {
            self.sink.write(body);
        }
        Response { status, head_bytes, rest: None }
    }

    fn head(&mut self, status: Status) -> S::Head<'_> {
        self.sink.head(status, status.reason().as_bytes(), self.now, self.age_s)
    }
}

/// Whether the request has no condition and no range, so that the response is the whole file.
fn is_plain(head: &RequestHead<'_>) -> bool {
    !(head.if_match.is_present() || head.if_none_match.is_present())
        && head.if_modified_since.is_none()
        && head.if_unmodified_since.is_none()
        && head.range.is_none()
}
