//! A file that a program hands on: the program has said who may have which file, and Flash sends it.
//!
//! The program's status and fields are the response's, but for those that describe its content: these are the file's. Only what
//! lies in an [internal](crate::site::SiteSettings::internal) place may be handed on.

use std::borrow::Cow;

use flash_cgi::response;
use flash_http::Fields;
use flash_http::percent;
use flash_http::status::Status;

use crate::clients::pace::SaidRate;
use crate::connection::context::{Context, UpstreamError};
use crate::exchange::answer::Answer;
use crate::file::header::{self, HeaderTemplate};
use crate::path::SitePath;
use crate::site::Site;

/// Fields of the program take at most this much: the rest of a head has to fit beside them.
const FIELDS_BYTES_MAX: usize = 16 << 10;

/// What a program has said of a response before it handed the file on.
#[derive(Debug)]
pub(crate) struct HandOff {
    pub(crate) status: Status,
    /// Lines that the client gets.
    fields: Vec<u8>,
    /// The client's rate, if the program has said something of it.
    pub(crate) rate: Option<SaidRate>,
    /// The first line of the client's own request, for the log.
    pub(crate) request_line: Box<[u8]>,
    /// The client had to log in to reach the program.
    pub(crate) has_user: bool,
    /// The client had to log in, or to bring a signed link.
    pub(crate) is_private: bool,
}

impl HandOff {
    /// `None` if the program has said too much.
    pub(crate) fn new<'f>(
        status: Status,
        rate: Option<SaidRate>,
        said: impl Iterator<Item = (&'f [u8], Cow<'f, [u8]>)>,
    ) -> Option<Self> {
        let mut fields = Vec::new();
        for (name, value) in said.filter(|(name, _)| !is_of_content(name)) {
            header::field(&mut fields, name, &value);
        }
        let (request_line, has_user, is_private) = (Box::default(), false, false);
        (fields.len() <= FIELDS_BYTES_MAX).then_some(Self {
            status,
            fields,
            rate,
            request_line,
            has_user,
            is_private,
        })
    }

    /// What is answered, if this is what the site has at the path.
    pub(crate) fn answer(&self, found: Answer, cx: &mut Context<'_>) -> Answer {
        match found {
            Answer::Entry(entry) if entry.variants().is_some() => return Answer::Entry(entry),
            Answer::Entry(_) | Answer::Listing(..) | Answer::Missing(_) => {}
            Answer::Error(Status::NOT_FOUND) => {}
            // The disk does not answer, or the program's path was refused.
            found => return found,
        }
        self.complain("hands on what is no file", cx);
        Answer::Error(Status::NOT_FOUND)
    }

    /// The program has done something wrong.
    pub(crate) fn complain(&self, reason: &'static str, cx: &mut Context<'_>) {
        let request = String::from_utf8_lossy(&self.request_line).into();
        cx.tally.upstream_errors.push(UpstreamError { request, reason });
    }

    /// What every response of this kind contains: the program's fields, and those of the site that they do not replace.
    pub(crate) fn template(&self, site: &HeaderTemplate) -> HeaderTemplate {
        let mut template = site.clone();
        template.fields =
            site.fields_beside(Fields::of_checked(&self.fields).map(|(name, _)| name)).into_owned();
        for (name, value) in Fields::of_checked(&self.fields) {
            let is = |other: &[u8]| name.eq_ignore_ascii_case(other);
            if is(b"content-type") {
                template.content_type = Some(String::from_utf8_lossy(value).into());
                continue;
            }
            if is(b"cache-control") || is(b"expires") || is(b"pragma") {
                template.cache_control.clear();
            }
            header::field(&mut template.fields, name, value);
        }
        template
    }
}

/// The target that a site has for a file that one of its programs hands on. `None` if it can have none.
pub(crate) fn target(to: response::HandOff<'_>, site: &Site) -> Option<Vec<u8>> {
    let path = match to {
        response::HandOff::Path(path) => {
            let path = path.split(|&byte| byte == b'?').next().unwrap_or_default();
            SitePath::parse(path).ok()?.into_owned()
        }
        response::HandOff::File(path) => {
            let roots = site.settings.files.iter().filter(|root| root.path_of(path).is_some());
            roots.max_by_key(|root| root.folder.len())?.path_of(path)?
        }
    };
    let mut target = Vec::new();
    percent::encode_path(path.as_bytes(), &mut target);
    Some(target)
}

/// Whether a field describes the content, which is the file's.
fn is_of_content(name: &[u8]) -> bool {
    const OF_CONTENT: [&[u8]; 7] = [
        b"accept-ranges",
        b"content-encoding",
        b"content-range",
        b"etag",
        b"last-modified",
        b"content-md5",
        b"repr-digest",
    ];
    OF_CONTENT.iter().any(|other| name.eq_ignore_ascii_case(other))
}
