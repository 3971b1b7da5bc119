//! Ready-made header blocks, and the beginning of all other heads, in HTTP/1's form.
//!
//! A file's block holds every field of its 200 response. The date is written over when the block is sent (Flash §5.3). So
//! is the modification time while it lies in the future. The block ends before the empty line, so that a `Connection` field
//! can follow.

use std::borrow::Cow;
use std::io::Write;
use std::ops::Range;
use std::sync::OnceLock;

use flash_h2::hpack::encoder;
use flash_h2::request::is_of_connection;
use flash_http::Fields;
use flash_http::date;
use flash_http::digest;
use flash_http::media::Media;
use flash_http::negotiate::Coding;
use flash_http::status::Status;

use crate::experiments::Experiments;
use crate::file::validators::ContentDigest;
use crate::site::path_rules::PathRule;

const DATE_BYTES: usize = 29;
/// The end of a type's value that names its charset.
const UTF_8: &str = "utf-8";
const CHARSET: &str = "; charset=";
const OK_LINE: &[u8] = b"HTTP/1.1 200 OK\r\nDate: ";
/// Where the date stands in the first validator of a file that has a time.
const LAST_MODIFIED: Range<usize> = 15..15 + DATE_BYTES;

/// What every response contains, by the site's settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeaderTemplate {
    /// Whole field lines with their CRLFs, added to every response.
    pub fields: Vec<u8>,
    /// The names of fields that programs do not get to send, because the site sets or removes them. In lower case.
    pub replaced: Vec<Box<[u8]>>,
    /// The names of those of `fields` that give way to a program's own.
    pub yielding: Vec<Box<[u8]>>,
    /// The type of every file, whatever its name says.
    pub content_type: Option<Box<str>>,
    /// The charset of text, if it is not UTF-8.
    pub charset: Option<Box<str>>,
    /// Values of `Cache-Control` on files, and which files have them: all, without a rule. The first that covers counts.
    pub cache_control: Vec<(Option<PathRule>, Vec<u8>)>,
    pub experiments: Experiments,
}

impl HeaderTemplate {
    /// The limit for a template's fields.
    pub const BYTES_MAX: usize = 32 << 10;

    /// Whether a field that a program has written is sent.
    pub(crate) fn lets_pass(&self, name: &[u8]) -> bool {
        !self.replaced.iter().any(|replaced| replaced.eq_ignore_ascii_case(name))
    }

    /// The fields of a response beside those that a program has written.
    pub(crate) fn fields_beside<'p>(&self, program: impl Iterator<Item = &'p [u8]>) -> Cow<'_, [u8]> {
        let is_yielding = |name: &[u8]| self.yielding.iter().any(|own| own.eq_ignore_ascii_case(name));
        let written: Vec<&[u8]> = match self.yielding.is_empty() {
            true => Vec::new(),
            false => program.filter(|name| is_yielding(name)).collect(),
        };
        if written.is_empty() {
            return Cow::Borrowed(&self.fields);
        }
        let stays = |name: &[u8]| !written.iter().any(|written| written.eq_ignore_ascii_case(name));
        let mut fields = Vec::with_capacity(self.fields.len());
        for (name, value) in Fields::of_checked(&self.fields).filter(|(name, _)| stays(name)) {
            field(&mut fields, name, value);
        }
        Cow::Owned(fields)
    }

    /// The value of `Content-Type`.
    pub(crate) fn content_type(&self, media: &Media) -> Cow<'_, str> {
        if let Some(content_type) = &self.content_type {
            return Cow::Borrowed(content_type);
        }
        match (&self.charset, media.content_type.strip_suffix(UTF_8)) {
            (Some(charset), Some(text)) if charset.is_empty() => text.trim_end_matches(CHARSET).into(),
            (Some(charset), Some(text)) => format!("{text}{charset}").into(),
            _ => media.content_type.into(),
        }
    }

    /// Whether the site says that a file with this value of `Cache-Control` stays as it is (RFC 9111 §5.2.2.6).
    pub fn forbids_transform(&self, cache_rule: Option<u8>) -> bool {
        let value = cache_rule.and_then(|rule| self.cache_control.get(usize::from(rule)));
        let fields = Fields::of_checked(&self.fields).filter(|(name, _)| is_cache_control(name));
        let mut values = value.map(|(_, value)| &value[..]).into_iter().chain(fields.map(|(_, value)| value));
        values.any(says_no_transform)
    }

    /// The same for what needs a log-in: only the client itself may keep it (RFC 9111 §3.5).
    #[must_use]
    pub fn private(&self) -> Self {
        let mut fields = Vec::with_capacity(self.fields.len());
        for (name, value) in Fields::of_checked(&self.fields) {
            match is_cache_control(name) {
                true => field(&mut fields, name, &private(value)),
                false => field(&mut fields, name, value),
            }
        }
        let mut cache_control: Vec<_> =
            self.cache_control.iter().map(|(rule, value)| (rule.clone(), private(value))).collect();
        if self.rule_for_all().is_none() {
            cache_control.push((None, private(b"")));
        }
        Self { fields, cache_control, ..self.clone() }
    }

    /// The value of `Cache-Control` that each file has which no other rule covers.
    pub(crate) fn rule_for_all(&self) -> Option<u8> {
        self.cache_control.iter().position(|(rule, _)| rule.is_none())?.try_into().ok()
    }

    /// How many bytes the template's fields take.
    pub fn bytes(&self) -> usize {
        self.fields.len()
            + self
                .cache_control
                .iter()
                .map(|(_, value)| "Cache-Control: \r\n".len() + value.len())
                .max()
                .unwrap_or(0)
    }

    /// Which of the values a file of this name has, below the root and without a slash before it.
    pub fn cache_rule(&self, name: &[u8]) -> Option<u8> {
        let covers = |rule: &Option<PathRule>| rule.as_ref().is_none_or(|rule| rule.covers_name(name));
        self.cache_control.iter().position(|(rule, _)| covers(rule)).and_then(|rule| rule.try_into().ok())
    }
}

/// The value of `Vary`: the fields by which other requests for the same name may get something else.
pub(crate) fn vary(by_coding: bool, by_accept: bool) -> &'static [u8] {
    match (by_coding, by_accept) {
        (true, true) => b"Accept-Encoding, Accept",
        (true, false) => b"Accept-Encoding",
        (false, true) => b"Accept",
        (false, false) => b"",
    }
}

#[derive(Clone, Debug, Default)]
pub struct HeaderBlock {
    /// The 200 response's head without its last CRLF; the date's value is blank.
    bytes: Box<[u8]>,
    /// The fields that a 304 repeats (RFC 9110 §15.4.5). Templates are limited, so these numbers never overflow.
    validators: Range<u16>,
    /// The fields that describe the representation, which a 206 repeats as well.
    representation: Range<u16>,
    /// The same head for HTTP/2, from its first request on.
    compressed: OnceLock<CompressedBlock>,
}

/// A file's 200 head as a block of HPACK. It names no dynamic table, so it is the same on each connection.
#[derive(Clone, Debug)]
struct CompressedBlock {
    bytes: Box<[u8]>,
    /// Where the values are that are written over.
    date_at: usize,
    modified_at: usize,
}

impl HeaderBlock {
    pub(crate) fn of_file(
        template: &HeaderTemplate,
        size: u64,
        (modified, etag): (Option<i64>, Option<&[u8]>),
        (media, coding, digest): (&Media, Option<Coding>, Option<&ContentDigest>),
        vary: &[u8],
        cache_rule: Option<u8>,
    ) -> Self {
        let mut bytes = Vec::with_capacity(384);
        bytes.extend_from_slice(OK_LINE);
        bytes.extend_from_slice(&[b' '; DATE_BYTES]);
        bytes.extend_from_slice(b"\r\nServer: Flash\r\n");
        let validators_start = bytes.len() as u16;
        if let Some(modified) = modified {
            field(&mut bytes, b"Last-Modified", &date::format(modified));
        }
        if let Some(etag) = etag {
            field(&mut bytes, b"ETag", etag);
        }
        if !vary.is_empty() {
            field(&mut bytes, b"Vary", vary);
        }
        let value = cache_rule.and_then(|rule| template.cache_control.get(usize::from(rule)));
        if let Some((_, value)) = value {
            field(&mut bytes, b"Cache-Control", value);
        }
        bytes.extend_from_slice(&template.fields);
        let validators = validators_start..bytes.len() as u16;
        field(&mut bytes, b"Accept-Ranges", b"bytes");
        if let Some(coding) = coding.or(media.coding) {
            field(&mut bytes, b"Content-Encoding", coding.name().as_bytes());
        }
        if let Some(digest) = digest {
            // Of the whole representation as it is coded, also beside a part of it (RFC 9530 §3).
            field(&mut bytes, b"Repr-Digest", digest::repr_digest(digest).as_bytes());
        }
        let type_start = bytes.len() as u16;
        field(&mut bytes, b"Content-Type", template.content_type(media).as_bytes());
        let representation = validators.end..type_start;
        if template.experiments.header_padding {
            // The blank is written before the length so that the whole head, with its empty line, is aligned.
            let rest = "Content-Length: \r\n\r\n".len() + size.to_string().len();
            let short = (32 - (bytes.len() + rest) % 32) % 32;
            let at = bytes.len() - 2;
            bytes.splice(at..at, std::iter::repeat_n(b' ', short));
        }
        let _ = write!(bytes, "Content-Length: {size}\r\n");
        Self { bytes: bytes.into_boxed_slice(), validators, representation, compressed: OnceLock::new() }
    }

    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    pub fn is_empty(&self) -> bool {
        false
    }

    /// Appends the 200 head without its end: the block with the current date. A modification time in the future is replaced by
    /// the current time (RFC 9110 §8.8.2.1). A file without a time is never modified later.
    pub(crate) fn write_ok(
        &self,
        date: &[u8; DATE_BYTES],
        is_modified_later: bool,
        age_s: Option<u64>,
        out: &mut Vec<u8>,
    ) {
        let start = out.len() + OK_LINE.len();
        out.extend_from_slice(&self.bytes);
        out[start..start + DATE_BYTES].copy_from_slice(date);
        if is_modified_later {
            let validators = start - OK_LINE.len() + usize::from(self.validators.start);
            out[validators..][LAST_MODIFIED].copy_from_slice(date);
        }
        if let Some(age_s) = age_s {
            let _ = write!(out, "Age: {age_s}\r\n");
        }
    }

    /// Appends the 200 head as a block of HPACK, as [`HeaderBlock::write_ok`] does for HTTP/1.
    pub(crate) fn write_compressed(
        &self,
        date: &[u8; DATE_BYTES],
        is_modified_later: bool,
        age_s: Option<u64>,
        out: &mut Vec<u8>,
    ) {
        let block = self.compressed.get_or_init(|| CompressedBlock::of(&self.bytes));
        let start = out.len();
        out.extend_from_slice(&block.bytes);
        out[start + block.date_at..][..DATE_BYTES].copy_from_slice(date);
        if is_modified_later {
            out[start + block.modified_at..][..DATE_BYTES].copy_from_slice(date);
        }
        if let Some(age_s) = age_s {
            encoder::field(out, b"age", age_s.to_string().as_bytes());
        }
    }

    fn slice(&self, range: &Range<u16>) -> &[u8] {
        &self.bytes[usize::from(range.start)..usize::from(range.end)]
    }

    /// `Last-Modified`, `ETag` and the other fields that a 304 repeats. A modification time in the future is replaced, as
    /// in [`HeaderBlock::write_ok`].
    pub(crate) fn validators(&self, date: &[u8; DATE_BYTES], is_modified_later: bool) -> Cow<'_, [u8]> {
        let mut validators = Cow::Borrowed(self.slice(&self.validators));
        if is_modified_later {
            validators.to_mut()[LAST_MODIFIED].copy_from_slice(date);
        }
        validators
    }

    /// `Accept-Ranges`, `Content-Encoding` and `Repr-Digest`.
    pub(crate) fn representation(&self) -> &[u8] {
        self.slice(&self.representation)
    }
}

impl CompressedBlock {
    /// `head` is the whole head as HTTP/1 writes it.
    fn of(head: &[u8]) -> Self {
        let line_end = head.iter().position(|&byte| byte == b'\n').map_or(head.len(), |end| end + 1);
        let mut bytes = Vec::with_capacity(head.len());
        let (mut date_at, mut modified_at) = (0, 0);
        encoder::status(&mut bytes, Status::OK.0);
        for (name, value) in Fields::of_checked(&head[line_end..]) {
            match name {
                b"Date" => date_at = encoder::plain_field(&mut bytes, name, &[b' '; DATE_BYTES]),
                b"Last-Modified" => modified_at = encoder::plain_field(&mut bytes, name, value),
                _ => compressed_field(&mut bytes, name, value),
            }
        }
        Self { bytes: bytes.into_boxed_slice(), date_at, modified_at }
    }
}

/// Appends a field to a block of HPACK, unless it belongs to a connection of HTTP/1.
pub(crate) fn compressed_field(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    if !is_of_connection(name) {
        encoder::field(out, name, value);
    }
}

/// Begins any other head as a block of HPACK.
pub(crate) fn begin_compressed(out: &mut Vec<u8>, status: Status, date: &[u8; DATE_BYTES]) {
    encoder::status(out, status.0);
    encoder::plain_field(out, b"date", date);
    encoder::field(out, b"server", b"Flash");
}

/// Begins any other head: the status line, and the fields of every response.
pub(crate) fn begin(out: &mut Vec<u8>, status: Status, reason: &[u8], date: &[u8; DATE_BYTES]) {
    let _ = write!(out, "HTTP/1.1 {} ", status.0);
    out.extend_from_slice(reason);
    out.extend_from_slice(b"\r\nDate: ");
    out.extend_from_slice(date);
    out.extend_from_slice(b"\r\nServer: Flash\r\n");
}

pub(crate) fn is_cache_control(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"cache-control")
}

/// Whether a value of `Cache-Control` has the directive `no-transform`.
pub(crate) fn says_no_transform(value: &[u8]) -> bool {
    let mut directives = value.split(|&byte| byte == b',');
    directives.any(|directive| directive.trim_ascii().eq_ignore_ascii_case(b"no-transform"))
}

/// A value of `Cache-Control` without what would let shared caches keep a response.
fn private(value: &[u8]) -> Vec<u8> {
    const OF_SHARED: [&[u8]; 5] = [b"", b"public", b"private", b"s-maxage", b"proxy-revalidate"];
    let directives = value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii);
    let is_left = |directive: &&[u8]| {
        let name = directive.split(|&byte| byte == b'=').next().unwrap_or_default().trim_ascii_end();
        !OF_SHARED.iter().any(|other| name.eq_ignore_ascii_case(other))
    };
    [&b"private"[..]].into_iter().chain(directives.filter(is_left)).collect::<Vec<_>>().join(&b", "[..])
}

pub(crate) fn field(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_caches_may_not_keep_what_needs_a_log_in() {
        for (value, expected) in [
            ("", "private"),
            ("public", "private"),
            ("max-age=60, PUBLIC ,s-maxage=5", "private, max-age=60"),
            ("no-store", "private, no-store"),
            ("private, must-revalidate", "private, must-revalidate"),
        ] {
            assert_eq!(private(value.as_bytes()), expected.as_bytes(), "{value}");
        }
        let open = HeaderTemplate {
            fields: b"X-A: b\r\nCache-Control: public\r\n".to_vec(),
            cache_control: vec![(Some(PathRule::parse("*.css").unwrap()), b"max-age=9".to_vec())],
            ..HeaderTemplate::default()
        };
        let private = open.private();
        assert_eq!(private.fields, b"X-A: b\r\nCache-Control: private\r\n");
        assert_eq!(private.cache_control[0].1, b"private, max-age=9");
        assert_eq!((open.rule_for_all(), private.rule_for_all()), (None, Some(1)));
        assert_eq!(private.private(), private);
    }
}
