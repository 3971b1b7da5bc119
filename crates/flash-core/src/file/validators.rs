//! What a version of a file is known by: an entity tag, and the time of its last change.
//!
//! Archives and package managers give all files one time. Such a time tells no version from another, so a digest of the content
//! takes its place. Which times those are, and who reads the content, is not decided here.

use flash_http::digest;
use flash_http::etag::EntityTag;
use flash_http::negotiate::Coding;

use crate::file::stamp::Stamp;

/// What a site's entity tags are made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TagSource {
    /// Time and size; a digest of the content if the time says nothing.
    #[default]
    Time,
    /// Always a digest of the content.
    Digest,
    /// There are none.
    Off,
}

/// The SHA-256 of a content. Equal digests mean equal contents, and so do their first halves.
pub type ContentDigest = digest::Sha256;

/// The digest of a representation, for clients who ask for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReprDigest {
    /// The site tells none, or nobody can make one.
    #[default]
    Off,
    Unknown,
    /// Unknown, and not to be kept: the file was being written, so the copy in memory may be that of no state of it.
    Unsettled,
    Known(ContentDigest),
}

/// What a version of a file is known by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validators {
    pub tag: Tag,
    /// Whether the time of the last change tells versions apart, so that it is sent.
    pub has_time: bool,
}

/// What the file's entity tag is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tag {
    /// Its time and size.
    Time,
    /// Its content. `None` as long as nobody has read all of it. Then the file has no validator at all.
    Digest(Option<ContentDigest>),
    /// It has none.
    Off,
}

impl ReprDigest {
    /// Whether it may be asked for.
    pub(crate) fn is_unknown(&self) -> bool {
        matches!(self, Self::Unknown | Self::Unsettled)
    }

    /// That of a file that was being written when it was copied.
    #[must_use]
    pub fn unsettled(self) -> Self {
        if self == Self::Off { Self::Off } else { Self::Unsettled }
    }

    pub(crate) fn known(&self) -> Option<&ContentDigest> {
        if let Self::Known(digest) = self { Some(digest) } else { None }
    }

    /// The same with a digest, where one is told.
    #[must_use]
    pub(crate) fn known_as(self, digest: ContentDigest) -> Self {
        if self == Self::Off { Self::Off } else { Self::Known(digest) }
    }
}

impl Validators {
    /// Time and size.
    pub const OF_TIME: Self = Self { tag: Tag::Time, has_time: true };

    /// Those of a file of a site. `digest` is used if its tag is made of it.
    pub fn new(source: TagSource, has_time: bool, digest: Option<ContentDigest>) -> Self {
        let tag = match source {
            TagSource::Off => Tag::Off,
            TagSource::Time if has_time => Tag::Time,
            TagSource::Time | TagSource::Digest => Tag::Digest(digest),
        };
        Self { tag, has_time }
    }

    pub fn lacks_digest(&self) -> bool {
        self.tag == Tag::Digest(None)
    }

    /// The same with a digest, if the tag is made of one.
    #[must_use]
    pub fn with_digest(self, digest: Option<ContentDigest>) -> Self {
        match self.tag {
            Tag::Digest(_) => Self { tag: Tag::Digest(digest), ..self },
            Tag::Time | Tag::Off => self,
        }
    }

    /// Whether Last-Modified is sent.
    pub fn sends_time(&self) -> bool {
        self.has_time && !self.lacks_digest()
    }

    pub(crate) fn etag(&self, stamp: &Stamp, coding: Option<Coding>) -> Option<EntityTag> {
        let suffix = coding.map_or("", Coding::name);
        match &self.tag {
            Tag::Time => Some(EntityTag::new(stamp.modified_ns, stamp.size, suffix)),
            Tag::Digest(digest) => digest.map(|digest| {
                let half = digest.first_chunk().expect("a SHA-256 has 32 bytes");
                EntityTag::of_digest(half, suffix)
            }),
            Tag::Off => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use flash_http::media;

    use super::*;
    use crate::cache::memory_budget::BudgetedBytes;
    use crate::file::header::HeaderTemplate;
    use crate::file::{Content, File};

    fn file(source: TagSource, has_time: bool, digest: Option<ContentDigest>) -> File {
        let stamp = Stamp { size: 4, modified_ns: 9_000_000_000, ..Stamp::default() };
        let (template, media) = (HeaderTemplate::default(), media::of(b"a.txt"));
        let content = Content::Memory(BudgetedBytes::from(vec![b'x'; 4]).into());
        let file = File::new(stamp, media, None, false, (&template, None), content);
        file.known_by(Validators::new(source, has_time, digest), &template)
    }

    #[test]
    fn a_file_is_known_by_what_its_site_says() {
        use TagSource::{Digest, Off, Time};
        const DIGEST: Option<ContentDigest> = Some([0xab; 32]);
        let of_digest = format!("\"{}\"", "ab".repeat(16));
        for (source, has_time, digest, tag, sends_time) in [
            (Time, true, None, "\"218711a00-4\"", true),
            (Time, true, DIGEST, "\"218711a00-4\"", true),
            (Time, false, None, "", false),
            (Time, false, DIGEST, &of_digest, false),
            (Digest, true, None, "", false),
            (Digest, true, DIGEST, &of_digest, true),
            (Digest, false, DIGEST, &of_digest, false),
            (Off, true, DIGEST, "", true),
            (Off, false, DIGEST, "", false),
        ] {
            let file = file(source, has_time, digest);
            let date = [b'd'; 29];
            let now_s = 8;
            assert_eq!(file.is_modified_later(now_s), sends_time);
            let head = file.head.validators(&date, file.is_modified_later(now_s)).into_owned();
            let mut expected = String::new();
            if sends_time {
                expected += &format!("Last-Modified: {}\r\n", "d".repeat(29));
            }
            if !tag.is_empty() {
                expected += &format!("ETag: {tag}\r\n");
            }
            assert_eq!(String::from_utf8(head).unwrap(), expected, "{source:?} {has_time} {digest:?}");
            let mut block = Vec::new();
            file.head.write_compressed(&date, file.is_modified_later(now_s), None, &mut block);
            let has_date = block.windows(29).filter(|window| *window == date).count();
            assert_eq!(has_date, 1 + usize::from(sends_time), "in HPACK as well");
        }
    }

    #[test]
    fn what_is_compressed_has_a_tag_of_its_own_bytes() {
        let tag = |file: &File, digest| {
            let content = Content::Memory(BudgetedBytes::from(vec![b'y'; 2]).into());
            let made = file.compressed(Coding::Br, &HeaderTemplate::default(), (content, 2, digest));
            made.etag.map(|tag| String::from_utf8(tag.as_bytes().to_vec()).unwrap())
        };
        let of_time = file(TagSource::Time, true, None);
        assert_eq!(tag(&of_time, [7; 32]).as_deref(), Some("\"218711a00-2br07070707\""));
        let unread = file(TagSource::Time, false, None);
        assert_eq!(tag(&unread, [7; 32]), Some(format!("\"{}br\"", "07".repeat(16))));
        assert_eq!(tag(&file(TagSource::Off, true, None), [7; 32]), None);
    }
}
