//! A whole response, what was asked for it, and who looks at its body.

/// A whole response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    /// As it travelled, but without the frames of chunks.
    pub(crate) body_bytes: u64,
    /// The connection may be used again.
    pub(crate) keeps: bool,
    /// The body has a Content-Encoding, so that its length is not the file's.
    pub(crate) coded: bool,
    /// What Content-Range says: the first byte's place, the last one's, and how many the whole has.
    pub(crate) range: Option<(u64, u64, u64)>,
    /// ETag, or else Last-Modified, as the field of a conditional request.
    pub(crate) validator: Option<Box<str>>,
}

/// What was asked, as far as it decides how the answer is read.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Asked {
    pub(crate) head_only: bool,
    /// Whether anybody wants the validator.
    pub(crate) validator: bool,
}

/// Who looks at bodies.
pub(crate) trait Body {
    /// These bytes come next in the body of `reply`, whose head is read.
    fn take(&mut self, reply: &Reply, bytes: &[u8]);
}
