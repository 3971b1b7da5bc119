//! The one canonical path type, and the only way from a request target to a name on the disk.
//!
//! A [`SitePath`] begins with a slash. It holds no escape, no NUL, and no empty, `.` or `..` segment. Routing, caching and
//! the disk use no other type, so no later check is needed. Its bytes need not be UTF-8, as names on a disk need not be.

use std::borrow::Cow;

use flash_http::negotiate::Coding;
use flash_http::percent;

/// `/`, `/a/b` or `/a/b/`, decoded once.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SitePath<'a>(Cow<'a, [u8]>);

/// A request target that can name nothing in a site: it has a broken escape, a NUL, or a way up past the root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

impl<'a> SitePath<'a> {
    /// Decodes the path of a request target (RFC 3986 §3.3). Borrows when nothing needs decoding.
    pub fn parse(raw: &'a [u8]) -> Result<Self, Malformed> {
        if raw.first() != Some(&b'/') {
            return Err(Malformed);
        }
        if is_canonical(raw) { Ok(Self(Cow::Borrowed(raw))) } else { canonicalise(raw) }
    }

    /// A path that is decoded already, as a flag's is. `None` if it is not canonical.
    pub fn of_decoded(path: &[u8]) -> Option<SitePath<'static>> {
        let mut raw = Vec::with_capacity(path.len());
        percent::encode_path(path, &mut raw);
        let parsed = SitePath::parse(&raw).ok()?.into_owned();
        (parsed.as_bytes() == path).then_some(parsed)
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The path below the root without slashes at its ends; empty for the root itself.
    pub fn relative(&self) -> &[u8] {
        let path = &self.0[1..];
        path.strip_suffix(b"/").unwrap_or(path)
    }

    /// Whether the name ends in a slash, and so can only be a folder's.
    pub fn names_folder(&self) -> bool {
        self.0.ends_with(b"/")
    }

    /// The last segment; empty for the root.
    pub fn name(&self) -> &[u8] {
        let path = self.relative();
        let start = memchr::memrchr(b'/', path).map_or(0, |slash| slash + 1);
        &path[start..]
    }

    /// The path of the folder that it lies in, in the form of [`SitePath::relative`].
    pub(crate) fn folder(&self) -> &[u8] {
        let path = self.relative();
        &path[..memchr::memrchr(b'/', path).unwrap_or(0)]
    }

    /// Whether a segment begins with a dot. `.well-known` (RFC 8615) is an exception.
    pub fn is_hidden(&self) -> bool {
        memchr::memmem::find_iter(&self.0, b"/.").any(|slash| {
            let segment = &self.0[slash + 1..];
            !(segment == b".well-known" || segment.starts_with(b".well-known/"))
        })
    }

    /// The path of the file that this one is a compressed copy of, if it is one by its name: `/a.css` of `/a.css.gz`. Rules ask, so its
    /// type does not matter, although Flash itself takes copies of texts alone.
    pub(crate) fn copy_of(&self) -> Option<SitePath<'_>> {
        let file = |coding: &Coding| self.0.strip_suffix(coding.suffix().as_bytes());
        Some(SitePath(Cow::Borrowed(Coding::ALL.iter().find_map(file)?)))
    }

    /// The path of the copy of this file in a coding.
    pub(crate) fn copy_in(&self, coding: Coding) -> SitePath<'static> {
        self.extended(coding.suffix().as_bytes())
    }

    /// The path with this end.
    pub fn extended(&self, end: &[u8]) -> SitePath<'static> {
        SitePath(Cow::Owned([&*self.0, end].concat()))
    }

    /// The path of a name in the folder that this path names, or lies in.
    pub fn beside(&self, name: &[u8]) -> SitePath<'static> {
        let end = self.0.len() - if self.names_folder() { 0 } else { self.name().len() };
        SitePath(Cow::Owned([&self.0[..end], name].concat()))
    }

    /// The path up to the end of each of its segments that do not end before `start`.
    pub(crate) fn parts_from(&self, start: usize) -> impl Iterator<Item = SitePath<'_>> {
        let slashes = memchr::memchr_iter(b'/', &self.0[start..]).map(move |at| start + at);
        let ends = slashes.chain((!self.names_folder()).then_some(self.0.len()));
        ends.filter(|end| *end > 0).map(|end| SitePath(Cow::Borrowed(&self.0[..end])))
    }

    /// The path of a name in this folder.
    pub fn child(&self, name: &[u8]) -> SitePath<'static> {
        let folder = self.as_bytes();
        let slash: &[u8] = if folder.ends_with(b"/") { b"" } else { b"/" };
        SitePath(Cow::Owned([folder, slash, name].concat()))
    }

    pub fn into_owned(self) -> SitePath<'static> {
        SitePath(Cow::Owned(self.0.into_owned()))
    }
}

/// Whether nothing is encoded, no segment is empty, and none begins with a dot. (`/.x` is canonical too, but rare enough
/// for the slow way.)
fn is_canonical(raw: &[u8]) -> bool {
    let mut previous = 0;
    let mut plain = true;
    for &byte in raw {
        plain &= byte != b'%' && byte != 0 && !(previous == b'/' && (byte == b'/' || byte == b'.'));
        previous = byte;
    }
    plain
}

fn canonicalise(raw: &[u8]) -> Result<SitePath<'static>, Malformed> {
    // An encoded slash is a slash, as with nginx: mirrors of npm's registry ask for `/@scope%2fname`.
    let decoded = percent::decode(raw).filter(|decoded| !decoded.contains(&0)).ok_or(Malformed)?;
    let mut path = Vec::with_capacity(decoded.len());
    let mut segments = decoded[1..].split(|&byte| byte == b'/').peekable();
    while let Some(segment) = segments.next() {
        let is_last = segments.peek().is_none();
        // RFC 3986 §5.2.4, after decoding: `%2e` is a dot (§6.2.2.2).
        match segment {
            b".." => {
                let parent = memchr::memrchr(b'/', &path).ok_or(Malformed)?;
                path.truncate(parent);
            }
            b"." | b"" => {}
            name => {
                path.push(b'/');
                path.extend_from_slice(name);
                continue;
            }
        }
        if is_last {
            path.push(b'/');
        }
    }
    Ok(SitePath(Cow::Owned(path)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parsed(raw: &str) -> Result<Vec<u8>, Malformed> {
        SitePath::parse(raw.as_bytes()).map(|path| path.as_bytes().to_vec())
    }

    #[test]
    fn dot_segments_are_removed_after_decoding() {
        for (raw, canonical) in [
            ("/", "/"),
            ("/a/b", "/a/b"),
            ("/a//b", "/a/b"),
            ("//a", "/a"),
            ("//", "/"),
            ("/a/./b", "/a/b"),
            ("/a/.", "/a/"),
            ("/a/..", "/"),
            ("/a/b/..", "/a/"),
            ("/a/../b", "/b"),
            ("/a/%2e%2E/b", "/b"),
            ("/a%20b", "/a b"),
            ("/%25", "/%"),
            ("/%2525", "/%25"),
            ("/@a%2fb", "/@a/b"),
            ("/a%2F..%2f%2Fb%2f", "/b/"),
            ("/.x", "/.x"),
            ("/...", "/..."),
            ("/a/", "/a/"),
        ] {
            assert_eq!(parsed(raw).as_deref(), Ok(canonical.as_bytes()), "{raw}");
        }
        assert_eq!(parsed("/%ff").as_deref(), Ok(&b"/\xff"[..]));
    }

    #[test]
    fn nothing_leads_past_the_root() {
        for raw in [
            "/..",
            "/../a",
            "/a/../..",
            "/%2e%2e/a",
            "/a/%2e./../../b",
            "/..%2fb",
            "/a/..%2F..%2fb",
            "/\0",
            "/%00",
            "/%",
            "/%g0",
            "a",
            "",
        ] {
            assert_eq!(parsed(raw), Err(Malformed), "{raw}");
        }
    }

    #[test]
    fn decoded_paths_are_taken_as_they_are() {
        for path in ["/a b", "/100%.html", "/%41", "/a/b/"] {
            assert_eq!(SitePath::of_decoded(path.as_bytes()).unwrap().as_bytes(), path.as_bytes());
        }
        for path in ["", "a", "//a", "/a/../b", "/a/.", "/a\0"] {
            assert_eq!(SitePath::of_decoded(path.as_bytes()), None, "{path}");
        }
    }

    #[test]
    fn parts() {
        let path = SitePath::parse(b"/a/b.txt").unwrap();
        assert_eq!(
            (path.relative(), path.name(), path.names_folder()),
            (&b"a/b.txt"[..], &b"b.txt"[..], false)
        );
        let folder = SitePath::parse(b"/a/b/").unwrap();
        assert_eq!((folder.relative(), folder.name(), folder.names_folder()), (&b"a/b"[..], &b"b"[..], true));
        let root = SitePath::parse(b"/").unwrap();
        assert_eq!((root.relative(), root.name(), root.names_folder()), (&b""[..], &b""[..], true));
    }

    #[test]
    fn hidden_names() {
        for (raw, hidden) in [
            ("/.git/x", true),
            ("/a/.b", true),
            ("/a.b", false),
            ("/.well-known/x", false),
            ("/.well-knownx", true),
        ] {
            assert_eq!(SitePath::parse(raw.as_bytes()).unwrap().is_hidden(), hidden, "{raw}");
        }
    }

    proptest! {
        #[test]
        fn any_path_is_canonical_or_refused(raw in "/[a.%2fe/0\\x00-\\x7f]{0,24}") {
            if let Ok(path) = SitePath::parse(raw.as_bytes()) {
                let bytes = path.as_bytes();
                prop_assert!(bytes.starts_with(b"/") && !bytes.contains(&0));
                let inner = path.relative();
                prop_assert!(inner.is_empty() || inner.split(|&b| b == b'/').all(|s| !matches!(s, b"" | b"." | b"..")));
            }
        }
    }
}
