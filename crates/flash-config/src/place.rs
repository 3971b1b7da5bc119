//! The names of places: keys of a site that begin with `/`, `=/` or `*`.

use std::fmt;

/// A part of a site's names.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PlaceName {
    /// This path alone: canonical and decoded.
    Exact(String),
    /// This path and all below it: canonical, decoded, and without a slash at its end.
    Below(String),
    /// Files whose names end so.
    Ends(String),
}

impl PlaceName {
    /// Whether a key of a site names a place, be it a right one or not.
    pub(crate) fn is_meant(text: &str) -> bool {
        text.starts_with(['/', '=', '*'])
    }

    /// # Errors
    /// What to write instead.
    pub(crate) fn parse(text: &str) -> Result<PlaceName, String> {
        if let Some(end) = text.strip_prefix('*') {
            return match end.is_empty() || end.contains(['*', '/', '\0']) {
                true => Err("write the end of files' names, as in \"*.woff2\"".into()),
                false => Ok(PlaceName::Ends(end.into())),
            };
        }
        let exact = text.strip_prefix('=').map(str::trim_start);
        if exact.is_some_and(|path| !path.starts_with('/')) {
            return Err("write one path, as in \"=/robots.txt\"".into());
        }
        let path = exact.unwrap_or(text);
        let path = path.strip_suffix('/').unwrap_or(path);
        if path.is_empty() {
            return match exact {
                Some(path) => Ok(PlaceName::Exact(path.into())),
                None => Err("this is the site itself: write these keys above its places".into()),
            };
        }
        let is_wrong = |segment: &str| matches!(segment, "" | "." | "..");
        if path[1..].split('/').any(is_wrong) || path.contains('\0') {
            return Err("no request has such a path: write it without empty segments and dots".into());
        }
        if path.contains(['?', '#']) {
            return Err("a place is a path, without a query".into());
        }
        if path.contains('*') {
            return Err(
                "a place covers all below it: write \"/folder\", or \"*.ext\" for the end of a name".into()
            );
        }
        let escapes = |rest: &str| rest.bytes().take(2).filter(u8::is_ascii_hexdigit).count() == 2;
        if path.split('%').skip(1).any(escapes) {
            return Err("no request has such a path: write it decoded".into());
        }
        Ok(exact.map_or_else(|| PlaceName::Below(path.into()), |path| PlaceName::Exact(path.into())))
    }
}

impl fmt::Display for PlaceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlaceName::Exact(path) => write!(f, "={path}"),
            PlaceName::Below(path) => f.write_str(path),
            PlaceName::Ends(end) => write!(f, "*{end}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_one_form() {
        for (text, name) in [
            ("/a", PlaceName::Below("/a".into())),
            ("/a/", PlaceName::Below("/a".into())),
            ("/a b/ü", PlaceName::Below("/a b/ü".into())),
            ("/100%", PlaceName::Below("/100%".into())),
            ("/.well-known", PlaceName::Below("/.well-known".into())),
            ("*.woff2", PlaceName::Ends(".woff2".into())),
            ("*~", PlaceName::Ends("~".into())),
            ("=/", PlaceName::Exact("/".into())),
            ("=/robots.txt", PlaceName::Exact("/robots.txt".into())),
            ("= /health", PlaceName::Exact("/health".into())),
            ("=/a/", PlaceName::Exact("/a/".into())),
        ] {
            assert_eq!(PlaceName::parse(text), Ok(name), "{text}");
        }
    }

    #[test]
    fn what_no_request_leads_to() {
        for text in [
            "/", "//", "/a//b", "/a//", "/./a", "/a/..", "/%41", "/a?b", "/a#b", "/a/*", "*", "**", "*.a/b",
            "*/", "=", "=a", "=*", "= a", "=/a//", "=/../a", "=/a?b",
        ] {
            assert!(PlaceName::parse(text).is_err(), "{text}");
        }
    }
}
