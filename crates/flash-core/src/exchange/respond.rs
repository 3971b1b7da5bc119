//! Send header: conditions, ranges and negotiation decide which response it is, and its head is written.
//!
//! Bodies that are in memory follow at once; what has to be read from a disk is returned as a [`Body`].

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use flash_http::condition::{self, Outcome, Validators};
use flash_http::head::{Head, Target, Version};
use flash_http::method::Method;
use flash_http::negotiate::Accepts;
use flash_http::percent;
use flash_http::range::{self, Multipart, Ranges};
use flash_http::status::Status;

use crate::clock::Now;
use crate::entry::{self, Entry, Variants};
use crate::exchange::body::{self, Body, Parts};
use crate::file::{Content, File};
use crate::header::{Connection, HeadWriter};
use crate::listing::Listing;
use crate::output::Output;
use crate::path::SitePath;
use crate::site::{INLINE_BYTES_MAX, Site};

/// What a response is written with.
pub(crate) struct Responder<'a> {
    pub(crate) site: &'a Site,
    pub(crate) now: &'a Now,
    pub(crate) output: &'a mut Output,
    pub(crate) connection: Connection,
    /// The answer to HEAD ends with its head.
    pub(crate) head_only: bool,
    /// The value of `Age`: seconds since the last look at the disk, where that is longer than it should be.
    pub(crate) age_s: Option<u64>,
}

/// A response whose head is in the output.
pub(crate) struct Response {
    pub(crate) status: Status,
    pub(crate) head_bytes: u64,
    pub(crate) connection: Connection,
    /// What is still to be read and sent of its body.
    pub(crate) rest: Option<Body>,
}

impl Responder<'_> {
    pub(crate) fn respond(&mut self, head: &Head<'_>, entry: &Entry) -> Response {
        match &entry.target {
            entry::Target::File(variants) => self.file(head, variants),
            entry::Target::FolderWithoutSlash => self.redirect(head),
            entry::Target::Folder if self.site.settings.list => self.listing(head, None),
            entry::Target::Folder | entry::Target::Script(_) => self.error(Status::FORBIDDEN),
            entry::Target::Refused(status) => self.error(*status),
        }
    }

    fn file(&mut self, head: &Head<'_>, variants: &Variants) -> Response {
        let file = variants.choose(|| Accepts::of(head.accept_encoding));
        if is_plain(head) {
            return self.whole(file);
        }
        let (now, modified) = (self.now.unix_seconds(), file.stamp.modified_seconds());
        let validators = Validators { etag: file.etag.as_bytes(), modified: modified.min(now) };
        match condition::evaluate(head, Some(&validators)) {
            Outcome::NotModified => return self.not_modified(file),
            Outcome::PreconditionFailed => return self.error(Status::PRECONDITION_FAILED),
            Outcome::Proceed => {}
        }
        let range = match (head.range, head.if_range) {
            // RFC 9110 §14.2: Range is defined for GET only.
            (Some(range), None) if head.method == Method::Get => range,
            (Some(range), Some(value))
                if head.method == Method::Get && condition::if_range_holds(value, &validators, now) =>
            {
                range
            }
            _ => return self.whole(file),
        };
        match range::select(range, file.size()) {
            Ranges::Whole => self.whole(file),
            Ranges::One(range) => self.partial(file, range),
            Ranges::Many(ranges) => self.multipart(file, &ranges),
            Ranges::Unsatisfiable | Ranges::Refused => self.unsatisfiable(file),
        }
    }

    fn whole(&mut self, file: &Arc<File>) -> Response {
        let (date, connection, age_s) = (&self.now.date, self.connection, self.age_s);
        let is_modified_later = self.is_modified_later(file);
        // A small body goes into the same bytes as its head: copying it costs less than a second slice.
        let inline = match &file.content {
            Content::Memory(bytes) if !self.head_only && file.size() <= INLINE_BYTES_MAX => Some(bytes),
            _ => None,
        };
        let template = &self.site.template;
        let anew = template.uncached.then(|| file.head_anew(template));
        let head_bytes = self.output.write(|out| {
            let before = out.len();
            let head = anew.as_ref().unwrap_or(&file.head);
            head.write_ok(date, is_modified_later, age_s, connection, out);
            let head_bytes = out.len() - before;
            out.extend_from_slice(inline.map_or(&[][..], |bytes| bytes));
            head_bytes
        });
        let rest = match inline {
            None if !self.head_only => body::start(file, Parts::whole(file.size()), self.output),
            _ => None,
        };
        self.done(Status::OK, head_bytes, rest)
    }

    fn not_modified(&mut self, file: &File) -> Response {
        let validators = self.validators(file);
        self.head(Status::NOT_MODIFIED, |head| head.lines(&validators))
    }

    fn is_modified_later(&self, file: &File) -> bool {
        file.stamp.modified_seconds() > self.now.unix_seconds()
    }

    fn validators<'f>(&self, file: &'f File) -> Cow<'f, [u8]> {
        file.head.validators(&self.now.date, self.is_modified_later(file))
    }

    fn partial(&mut self, file: &Arc<File>, range: std::ops::Range<u64>) -> Response {
        let mut content_range = Vec::new();
        range::write_content_range(&range, file.size(), &mut content_range);
        let validators = self.validators(file);
        let response = self.head(Status::PARTIAL_CONTENT, |head| {
            head.lines(&validators)
                .lines(file.head.representation())
                .field("Content-Type", file.media.content_type.as_bytes())
                .field("Content-Range", &content_range)
                .number("Content-Length", range.end - range.start)
        });
        let rest = body::start(file, Parts::one(range.clone()), self.output);
        Response { rest, ..response }
    }

    fn multipart(&mut self, file: &Arc<File>, ranges: &[std::ops::Range<u64>]) -> Response {
        // Any boundary that is not in the content will do, and nobody can know the content: sixteen digits of the
        // file's own identity are as good as random ones, and the same each time.
        let boundary =
            format!("flash-{:016x}", file.stamp.modified_ns as u64 ^ file.stamp.inode.rotate_left(32));
        let multipart =
            Multipart { content_type: file.media.content_type, size: file.size(), boundary: &boundary };
        let mut content_type = Vec::new();
        multipart.write_content_type(&mut content_type);
        let parts = Parts::multipart(&multipart, ranges);
        let validators = self.validators(file);
        let response = self.head(Status::PARTIAL_CONTENT, |head| {
            head.lines(&validators)
                .lines(file.head.representation())
                .field("Content-Type", &content_type)
                .number("Content-Length", multipart.content_length(ranges))
        });
        let rest = body::start(file, parts, self.output);
        Response { rest, ..response }
    }

    fn unsatisfiable(&mut self, file: &File) -> Response {
        let mut content_range = Vec::new();
        range::write_unsatisfied(file.size(), &mut content_range);
        self.page(Status::RANGE_NOT_SATISFIABLE, |head| head.field("Content-Range", &content_range))
    }

    /// RFC 9110 §15.4.2, with a Location relative to the request, so that a proxy's prefix does no harm.
    fn redirect(&mut self, head: &Head<'_>) -> Response {
        let Target::Origin { path, query } = head.target else { return self.error(Status::BAD_REQUEST) };
        let Ok(path) = SitePath::parse(path) else { return self.error(Status::BAD_REQUEST) };
        let mut location = b"./".to_vec();
        // A target such as `/a/.` is canonically `/a/`, so a path without its slash does end in its own name.
        percent::encode_path(path.name(), &mut location);
        location.push(b'/');
        if let Some(query) = query {
            location.push(b'?');
            location.extend_from_slice(query);
        }
        self.page(Status::MOVED_PERMANENTLY, |head| head.field("Location", &location))
    }

    /// A listing with its first page; none for HEAD, whose answer reads no folder.
    pub(crate) fn listing(&mut self, head: &Head<'_>, listing: Option<(&Arc<Listing>, Bytes)>) -> Response {
        let fields = self.site.template.fields.as_slice();
        let content_type = b"text/html; charset=utf-8";
        if let Some(pages) = listing.as_ref().and_then(|(listing, _)| listing.whole_now()) {
            let length = pages.iter().map(|page| page.len() as u64).sum();
            let response = self.head(Status::OK, |head| {
                head.lines(fields).field("Content-Type", content_type).number("Content-Length", length)
            });
            pages.into_iter().for_each(|page| self.output.push_copied(page, None));
            return response;
        }
        // The length is not known before the last page: chunked, or for HTTP/1.0 until the connection closes.
        let chunked = head.version == Version::Http11;
        if !chunked {
            self.connection = Connection::Closes;
        }
        let response = self.head(Status::OK, |head| {
            let head = head.lines(fields).field("Content-Type", content_type);
            if chunked { head.field("Transfer-Encoding", b"chunked") } else { head }
        });
        let rest =
            listing.and_then(|(listing, page)| body::start_listing(listing, page, chunked, self.output));
        Response { rest, ..response }
    }

    pub(crate) fn options(&mut self) -> Response {
        self.head(Status::NO_CONTENT, |head| head.field("Allow", ALLOW))
    }

    pub(crate) fn error(&mut self, status: Status) -> Response {
        self.page(status, |head| match status {
            Status::METHOD_NOT_ALLOWED => head.field("Allow", ALLOW),
            Status::SERVICE_UNAVAILABLE => head.field("Retry-After", b"1"),
            _ => head,
        })
    }

    /// A response whose body is a page about its status.
    pub(crate) fn page(
        &mut self,
        status: Status,
        fields: impl FnOnce(HeadWriter<'_>) -> HeadWriter<'_>,
    ) -> Response {
        let site = self.site;
        let (page, template) = (site.pages.get(status), site.template.fields.as_slice());
        let response = self.head(status, |head| {
            fields(head)
                .lines(template)
                .field("Content-Type", b"text/html; charset=utf-8")
                .number("Content-Length", page.len() as u64)
        });
        if !self.head_only {
            self.output.write(|out| out.extend_from_slice(&page));
        }
        response
    }

    fn head(&mut self, status: Status, fields: impl FnOnce(HeadWriter<'_>) -> HeadWriter<'_>) -> Response {
        let (date, connection, age_s) = (&self.now.date, self.connection, self.age_s);
        let head_bytes = self.output.write(|out| {
            let before = out.len();
            let head = fields(HeadWriter::new(out, status, date));
            age_s.into_iter().fold(head, |head, age_s| head.number("Age", age_s)).end(connection);
            out.len() - before
        });
        self.done(status, head_bytes, None)
    }

    fn done(&self, status: Status, head_bytes: usize, rest: Option<Body>) -> Response {
        Response { status, head_bytes: head_bytes as u64, connection: self.connection, rest }
    }
}

/// No condition, no range: the answer is the file.
fn is_plain(head: &Head<'_>) -> bool {
    !(head.if_match.is_present() || head.if_none_match.is_present())
        && head.if_modified_since.is_none()
        && head.if_unmodified_since.is_none()
        && head.range.is_none()
}

const ALLOW: &[u8] = b"GET, HEAD, OPTIONS";
