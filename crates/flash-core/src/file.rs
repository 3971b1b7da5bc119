//! The object behind a pathname: a file's identity, its header block, and a way to its content.
//!
//! A [`File`] never changes. A file that changes on the disk becomes a new `File`. A response under way sends the old one
//! whole, or breaks off.

pub mod background_work;
pub mod compressed;
pub mod compression;
pub mod digest;
pub mod entry;
pub mod header;
pub mod stamp;
pub mod validators;

use std::fmt::Debug;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use bytes::Bytes;
use flash_http::etag::EntityTag;
use flash_http::media::Media;
use flash_http::negotiate::Coding;

use crate::cache::memory_budget::BudgetedBytes;
use crate::file::header::{HeaderBlock, HeaderTemplate, vary};
pub use crate::file::stamp::Stamp;
use crate::file::validators::{ContentDigest, ReprDigest, Tag, Validators};

/// Copies up to this size are sent from the heap, larger ones by `sendfile` from a snapshot; docs/decisions/request-path.md has
/// the measurement.
pub const HEAP_FILE_BYTES_MAX: u64 = 256 << 10;

/// A content up to this size is copied at its first request, if there is room. A larger one has to be requested again.
pub const COPIED_AT_ONCE_BYTES_MAX: u64 = 16 << 10;

#[derive(Clone, Debug)]
pub struct File {
    pub stamp: Stamp,
    pub media: Media,
    /// How the content is coded. `None` is the file itself.
    pub coding: Option<Coding>,
    /// Whether other requests for the same name may get another coding.
    pub varies: bool,
    /// Which of the site's values of Cache-Control it has.
    pub cache_rule: Option<u8>,
    pub validators: Validators,
    /// The strong validator, with its quotes. `None` if the site has none, or the digest in it is not known yet.
    pub etag: Option<EntityTag>,
    /// The digest of its content, for clients who ask for it.
    pub repr_digest: ReprDigest,
    pub head: HeaderBlock,
    pub content: Content,
    /// The open file that the caches keep in place of a content that is not worth its memory. The requests that waited for the
    /// content are answered from it.
    pub kept_as: Option<Arc<dyn OpenFile>>,
}

/// Where a file's content is.
#[derive(Clone, Debug)]
pub enum Content {
    /// The whole content, in a copy that cannot page-fault.
    Memory(Arc<BudgetedBytes>),
    /// An open file, which is sent in windows.
    Open(Arc<dyn OpenFile>),
}

/// An open file of the disk side. The request path only passes it on.
pub trait OpenFile: AsFd + Debug + Send + Sync {
    /// Makes a window ready, or its beginning, if that does not block.
    fn window_now(&self, stamp: &Stamp, window: Range<u64>) -> Window;

    /// Reads the beginning of a window into the page cache, and blocks meanwhile. With `copy`, returns its bytes.
    fn load_window(&self, stamp: &Stamp, window: Range<u64>, copy: bool) -> Window;

    /// Makes the beginning of a window ready for a thread that may block, also while the window is sent. What is to be sent goes on to
    /// `goes_to`.
    fn wait_for_window(&self, stamp: &Stamp, window: Range<u64>, goes_to: u64) -> Window;

    /// Whether pages of the beginning of `rest`, which is to be sent, are neither in the page cache nor on their way, so that
    /// [`OpenFile::read_ahead`] is due. Never blocks.
    fn lacks_ahead(&self, _stamp: &Stamp, _rest: Range<u64>) -> bool {
        false
    }

    /// Has the kernel bring the beginning of `rest` into the page cache. Does not wait for it, but may wait for room in the disk's queue.
    fn read_ahead(&self, _stamp: &Stamp, _rest: Range<u64>) {}

    /// Whether all bytes that were handed out are known to come from one version of the file. Never blocks.
    fn is_one_version_now(&self) -> bool {
        true
    }

    /// Whether the bytes of this range come from one version. May read the disk.
    fn is_one_version(&self, _stamp: &Stamp, _given: &Range<u64>) -> bool {
        true
    }

    /// The range that another process has to read for this window.
    fn range_for(&self, window: &Range<u64>) -> Range<u64> {
        window.clone()
    }

    /// Makes a window of bytes that another process has read, see [`OpenFile::range_for`]. That process has compared the
    /// file with the stamp. `None` if these cannot be the bytes.
    fn read_elsewhere(&self, _stamp: &Stamp, _window: &Range<u64>, bytes: Bytes) -> Option<Window> {
        (!bytes.is_empty()).then_some(Window::Copied(bytes))
    }

    /// How much memory its content takes, beyond the page cache.
    fn memory_bytes(&self) -> u64;

    /// How much memory it takes beside the content.
    fn table_bytes(&self) -> u64 {
        0
    }

    /// Sends a resident range through a memory map. `None` if the file has no map; then `sendfile` sends it.
    fn send_mapped(
        &self,
        _stamp: &Stamp,
        _socket: BorrowedFd<'_>,
        _range: &Range<u64>,
    ) -> Option<io::Result<usize>> {
        None
    }

    /// The kernel's number of the file's mount; `None` if the content is on no mount.
    fn mount(&self) -> Option<u64> {
        None
    }
}

/// The state of a window of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Window {
    /// The beginning of the window is in the page cache now, so `sendfile` will not block.
    Resident(Range<u64>),
    /// A copy of the window's first bytes.
    Copied(Bytes),
    /// The window cannot be made ready without blocking.
    Absent,
    /// The window was absent and has just been read: ask again.
    Warmed,
    /// The file is no longer the one whose head was sent.
    Changed,
    Failed,
}

impl File {
    /// A file that is known by its time and size.
    pub fn new(
        stamp: Stamp,
        media: Media,
        coding: Option<Coding>,
        varies: bool,
        (template, cache_rule): (&HeaderTemplate, Option<u8>),
        content: Content,
    ) -> Self {
        let (validators, head) = (Validators::OF_TIME, HeaderBlock::default());
        let etag = validators.etag(&stamp, coding);
        let file = Self {
            stamp,
            media,
            coding,
            varies,
            cache_rule,
            validators,
            etag,
            repr_digest: ReprDigest::Off,
            head,
            content,
            kept_as: None,
        };
        file.with_head(template)
    }

    /// The same file, known by something else.
    #[must_use]
    pub fn known_by(self, validators: Validators, template: &HeaderTemplate) -> Self {
        if validators == self.validators {
            return self;
        }
        let etag = validators.etag(&self.stamp, self.coding);
        Self { validators, etag, ..self }.with_head(template)
    }

    /// The same file with the digest of its content, wherever it is of use.
    #[must_use]
    pub fn with_digest(self, digest: ContentDigest, template: &HeaderTemplate) -> Self {
        let (repr_digest, validators) =
            (self.repr_digest.known_as(digest), self.validators.with_digest(Some(digest)));
        Self { repr_digest, ..self }.known_by(validators, template)
    }

    /// Whether a digest of its content would be of use, and is not known.
    pub fn lacks_digest(&self) -> bool {
        self.validators.lacks_digest() || self.repr_digest.is_unknown()
    }

    /// What Flash has made of a file by compressing it. `digest` is of the content: equal tags mean equal bytes, also if another
    /// version of an encoder made them.
    #[must_use]
    pub fn compressed(
        &self,
        coding: Coding,
        template: &HeaderTemplate,
        (content, size, digest): (Content, u64, ContentDigest),
    ) -> Self {
        let stamp = Stamp { size, ..self.stamp };
        let validators = self.validators.with_digest(Some(digest));
        let etag = match validators.tag {
            Tag::Time => {
                let of_content = u32::from_be_bytes([digest[0], digest[1], digest[2], digest[3]]);
                let suffix = format!("{}{of_content:08x}", coding.name());
                Some(EntityTag::new(stamp.modified_ns, size, &suffix))
            }
            Tag::Digest(_) | Tag::Off => validators.etag(&stamp, Some(coding)),
        };
        let head = HeaderBlock::default();
        let file = Self {
            stamp,
            coding: Some(coding),
            varies: true,
            validators,
            etag,
            repr_digest: self.repr_digest.known_as(digest),
            head,
            content,
            kept_as: None,
            ..*self
        };
        file.with_head(template)
    }

    fn with_head(self, template: &HeaderTemplate) -> Self {
        let head = self.head_with(template, vary(self.varies, false), self.cache_rule, None);
        Self { head, ..self }
    }

    fn head_with(
        &self,
        template: &HeaderTemplate,
        vary: &[u8],
        cache_rule: Option<u8>,
        digest: Option<&ContentDigest>,
    ) -> HeaderBlock {
        let modified = self.validators.sends_time().then(|| self.stamp.modified_seconds());
        let etag = self.etag.as_ref().map(EntityTag::as_bytes);
        let (size, media) = (self.stamp.size, &self.media);
        HeaderBlock::of_file(template, size, (modified, etag), (media, self.coding, digest), vary, cache_rule)
    }

    /// The same version of a file, with the content that another one of it has.
    pub(crate) fn with_content_of(&self, other: &Self) -> Self {
        Self { content: other.content.clone(), kept_as: other.kept_as.clone(), ..self.clone() }
    }

    /// A file whose content is for the requests that wait. The caches keep `open`.
    #[must_use]
    pub fn for_once(self, open: Arc<dyn OpenFile>) -> Self {
        Self { kept_as: Some(open), ..self }
    }

    /// The file without a content that is not worth its memory.
    pub(crate) fn as_kept(&self) -> Self {
        let content = match &self.kept_as {
            Some(open) => Content::Open(Arc::clone(open)),
            None => self.content.clone(),
        };
        Self { content, kept_as: None, ..self.clone() }
    }

    /// The open file, if it holds one.
    pub fn open_file(&self) -> Option<&Arc<dyn OpenFile>> {
        match &self.content {
            Content::Open(open) => Some(open),
            Content::Memory(_) => self.kept_as.as_ref(),
        }
    }

    /// Makes the header block again, without its cache. `by_accept` says that other clients may get something else by their
    /// Accept.
    pub(crate) fn head_anew(
        &self,
        template: &HeaderTemplate,
        by_accept: bool,
        digest: Option<&ContentDigest>,
    ) -> HeaderBlock {
        let cache_rule = self.cache_rule.or_else(|| template.rule_for_all());
        self.head_with(template, vary(self.varies, by_accept), cache_rule, digest)
    }

    /// See [`OpenFile`]; a copy in memory has no windows.
    pub fn window_now(&self, window: Range<u64>) -> Window {
        match &self.content {
            Content::Open(file) => file.window_now(&self.stamp, window),
            Content::Memory(_) => Window::Failed,
        }
    }

    pub fn load_window(&self, window: Range<u64>, copy: bool) -> Window {
        match &self.content {
            Content::Open(file) => file.load_window(&self.stamp, window, copy),
            Content::Memory(_) => Window::Failed,
        }
    }

    pub fn wait_for_window(&self, window: Range<u64>, goes_to: u64) -> Window {
        match &self.content {
            Content::Open(file) => file.wait_for_window(&self.stamp, window, goes_to),
            Content::Memory(_) => Window::Failed,
        }
    }

    pub fn lacks_ahead(&self, rest: Range<u64>) -> bool {
        matches!(&self.content, Content::Open(file) if file.lacks_ahead(&self.stamp, rest))
    }

    pub fn read_ahead(&self, rest: Range<u64>) {
        if let Content::Open(file) = &self.content {
            file.read_ahead(&self.stamp, rest);
        }
    }

    /// See [`OpenFile::is_one_version_now`].
    pub fn is_one_version_now(&self) -> bool {
        match &self.content {
            Content::Open(file) => file.is_one_version_now(),
            Content::Memory(_) => true,
        }
    }

    pub fn is_one_version(&self, given: &Range<u64>) -> bool {
        match &self.content {
            Content::Open(file) => file.is_one_version(&self.stamp, given),
            Content::Memory(_) => true,
        }
    }

    pub fn range_for(&self, window: &Range<u64>) -> Range<u64> {
        match &self.content {
            Content::Open(file) => file.range_for(window),
            Content::Memory(_) => window.clone(),
        }
    }

    pub fn read_elsewhere(&self, window: &Range<u64>, bytes: Bytes) -> Option<Window> {
        match &self.content {
            Content::Open(file) => file.read_elsewhere(&self.stamp, window, bytes),
            Content::Memory(_) => None,
        }
    }

    pub fn size(&self) -> u64 {
        self.stamp.size
    }

    /// Whether Last-Modified would lie in the future.
    pub(crate) fn is_modified_later(&self, now_s: i64) -> bool {
        self.validators.sends_time() && self.stamp.modified_seconds() > now_s
    }

    /// The file's weight in the caches.
    pub fn weight_bytes(&self) -> u64 {
        self.content_bytes() + self.table_bytes() + (size_of::<File>() + self.head.len()) as u64
    }

    /// The memory that it takes beside its content while it is open.
    pub(crate) fn table_bytes(&self) -> u64 {
        self.open_file().map_or(0, |open| open.table_bytes())
    }

    /// Whether its content is sent from the disk's file.
    pub(crate) fn is_on_disk(&self) -> bool {
        matches!(&self.content, Content::Open(open) if open.memory_bytes() == 0)
    }

    /// The content in memory.
    pub fn content_bytes(&self) -> u64 {
        match &self.content {
            Content::Memory(bytes) => bytes.len() as u64,
            Content::Open(file) => file.memory_bytes(),
        }
    }
}
