//! Names that are safe in a request line, and below a folder. Every file of a synthetic or logged site has exactly one target,
//! which [`of_target`] makes from its name. So clients request the paths that [`path_of`] writes.
//!
//! - A target in absolute form becomes its path (RFC 9112 §3.2.2), `http://host` becomes `/`.
//! - Escapes are decoded, and each byte that a target must not contain is escaped. A `%` without two digits is an escaped `%`.
//! - Empty segments and those of a single dot are left out: on a disk `/a//b` and `/a/./b` are `/a/b`.
//! - A name that ends in one of these is that folder's `index.html`.
//! - The rest is [refused](Refused).

use std::borrow::Cow;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode, percent_encode};

/// What a path segment may hold as it is (RFC 3986 §3.3).
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'!')
    .remove(b'$')
    .remove(b'&')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')')
    .remove(b'*')
    .remove(b'+')
    .remove(b',')
    .remove(b';')
    .remove(b'=')
    .remove(b':')
    .remove(b'@');

/// What filesystems take for one name.
const SEGMENT_BYTES_MAX: usize = 255;

/// Far below the system's limit for a path (4,096), so the folder above has room. Encoded, it is below the servers' limit for a
/// request line (8,000).
const PATH_BYTES_MAX: usize = 2_048;

/// The file that stands for a folder.
const INDEX: &str = "index.html";

/// Why a target is no file's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Refused {
    /// It is no path: `*`, a host's name, a name without a slash in front.
    #[error("no path")]
    NoPath,
    /// It asks for something to be found or made: a `?`.
    #[error("a query")]
    Query,
    /// A control character, or an escaped slash.
    #[error("a character that no file's name has")]
    Character,
    /// A segment that begins with a dot, which servers hide; `..` above all.
    #[error("a hidden name, or `..`")]
    Hidden,
    /// A segment of more than 255 bytes, or a path of more than 2,048.
    #[error("too long")]
    TooLong,
    /// Other files lie below it, and below its `index.html` too.
    #[error("a file and a folder")]
    FileAndFolder,
}

/// The target in origin form of the file that a target leads to.
pub fn of_target(raw: &[u8]) -> Result<Box<str>, Refused> {
    let Segments { names, folder } = segments(raw)?;
    let mut target = String::with_capacity(raw.len());
    for name in &names {
        target.push('/');
        target.extend(percent_encode(name, ESCAPED));
    }
    if folder {
        target.push('/');
    }
    Ok(target.into())
}

/// Where the file of a target lies below the folder that is served.
pub fn path_of(target: &str) -> Result<PathBuf, Refused> {
    let Segments { names, folder } = segments(target.as_bytes())?;
    let mut path: PathBuf = names.iter().map(|name| OsStr::from_bytes(name)).collect();
    if folder {
        path.push(INDEX);
    }
    Ok(path)
}

/// A target's path, taken apart and decoded.
struct Segments<'a> {
    names: Vec<Cow<'a, [u8]>>,
    /// Whether it ends in a slash, and so is a folder's; a path without names always does.
    folder: bool,
}

fn segments(raw: &[u8]) -> Result<Segments<'_>, Refused> {
    let path = origin_form(raw).ok_or(Refused::NoPath)?;
    if path.contains(&b'?') {
        return Err(Refused::Query);
    }
    let mut segments = Segments { names: Vec::new(), folder: true };
    let mut path_bytes = 0;
    for raw in path.split(|&byte| byte == b'/') {
        let name: Cow<[u8]> = percent_decode(raw).into();
        segments.folder = matches!(&*name, b"" | b".");
        if segments.folder {
            continue;
        }
        if name.iter().any(|&byte| byte < 0x20 || byte == 0x7f || byte == b'/') {
            return Err(Refused::Character);
        }
        if name.starts_with(b".") && *name != *b".well-known" {
            return Err(Refused::Hidden);
        }
        path_bytes += 1 + name.len();
        if name.len() > SEGMENT_BYTES_MAX || path_bytes > PATH_BYTES_MAX {
            return Err(Refused::TooLong);
        }
        segments.names.push(name);
    }
    Ok(segments)
}

/// The path of a target in origin form or absolute form.
pub(crate) fn origin_form(raw: &[u8]) -> Option<&[u8]> {
    if raw.starts_with(b"/") {
        return Some(raw);
    }
    match after_host(raw)? {
        b"" => Some(b"/"),
        // A query right after the host: there is no path to cut out.
        after => after.starts_with(b"/").then_some(after),
    }
}

/// What follows the host in a URL; None where there is no host.
pub(crate) fn after_host(raw: &[u8]) -> Option<&[u8]> {
    let after_scheme = [b"http://".as_slice(), b"https://"].into_iter().find_map(|scheme| {
        let (start, after) = raw.split_at_checked(scheme.len())?;
        start.eq_ignore_ascii_case(scheme).then_some(after)
    })?;
    let host = after_scheme.iter().take_while(|byte| !matches!(byte, b'/' | b'?')).count();
    (host > 0).then(|| &after_scheme[host..])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn both(raw: &str) -> Result<(String, String), Refused> {
        let target = of_target(raw.as_bytes())?;
        Ok((target.to_string(), path_of(&target)?.to_str().unwrap_or("?").into()))
    }

    #[test]
    fn names_that_files_can_have() {
        for (raw, target, path) in [
            ("/", "/", "index.html"),
            ("//", "/", "index.html"),
            ("/a/b.html", "/a/b.html", "a/b.html"),
            ("/a//b.html", "/a/b.html", "a/b.html"),
            ("/a/", "/a/", "a/index.html"),
            ("/a/./%2e/b", "/a/b", "a/b"),
            ("/a/.", "/a/", "a/index.html"),
            ("/a%20b", "/a%20b", "a b"),
            ("/a b", "/a%20b", "a b"),
            ("/%7Ejoe/x#top", "/~joe/x%23top", "~joe/x#top"),
            ("/100%", "/100%25", "100%"),
            ("/a%3Fb", "/a%3Fb", "a?b"),
            ("/.well-known/x", "/.well-known/x", ".well-known/x"),
            ("http://host", "/", "index.html"),
            ("HTTP://host:80/x/", "/x/", "x/index.html"),
            ("/cgi/index.html", "/cgi/index.html", "cgi/index.html"),
        ] {
            assert_eq!(both(raw), Ok((target.into(), path.into())), "{raw}");
        }
    }

    #[test]
    fn names_that_no_file_shall_have() {
        let long = format!("/{}", "x".repeat(256));
        let deep = "/x".repeat(1_025);
        for (raw, why) in [
            ("", Refused::NoPath),
            ("*", Refused::NoPath),
            ("host:443", Refused::NoPath),
            ("http://host?x", Refused::NoPath),
            ("http:///x", Refused::NoPath),
            ("x/y", Refused::NoPath),
            ("/x?y", Refused::Query),
            ("/x%00", Refused::Character),
            ("/x\u{7f}", Refused::Character),
            ("/x%0ay", Refused::Character),
            ("/a%2fb", Refused::Character),
            ("/../etc/passwd", Refused::Hidden),
            ("/a/%2e%2e/b", Refused::Hidden),
            ("/.git/config", Refused::Hidden),
            (&long, Refused::TooLong),
            (&deep, Refused::TooLong),
        ] {
            assert_eq!(both(raw), Err(why), "{raw}");
        }
    }

    proptest! {
        /// Whatever is asked for stays below the folder, goes into a request line, and is its own name from then on.
        #[test]
        fn names_are_safe_and_final(raw in "(/|//|http://h/)([ -~%./]|/|\\.|%2e|%41|\\PC){0,40}") {
            if let Ok(target) = of_target(raw.as_bytes()) {
                prop_assert!(target.bytes().all(|byte| byte.is_ascii_graphic()) && target.starts_with('/'));
                prop_assert_eq!(of_target(target.as_bytes()), Ok(target.clone()));
                let path = path_of(&target).unwrap();
                prop_assert!(path.is_relative() && !path.as_os_str().is_empty());
                let normal = path.components().all(|part| matches!(part, std::path::Component::Normal(_)));
                prop_assert!(normal, "{:?}", path);
            }
        }
    }
}
