//! Names of files below the document root, as flags give them.

use flash_core::path::SitePath;

/// One name, such as `index.html`.
pub(crate) fn parse(text: &str) -> Result<String, String> {
    match text {
        "" | "." | ".." => Err("it is not the name of a file".into()),
        _ if text.contains(['/', '\0']) => {
            Err("write a name without a slash: it is looked for in each folder".into())
        }
        _ => Ok(text.into()),
    }
}

/// The end of a name, such as `.html`.
pub(super) fn parse_extension(text: &str) -> Result<String, String> {
    match text.strip_prefix('.') {
        Some(end) if !end.is_empty() => parse(text),
        _ => Err("write it with its dot, such as .html".into()),
    }
}

/// One name, or with a slash before it a path below the document root.
pub(super) fn parse_text(text: &str) -> Result<String, String> {
    match text.starts_with('/') {
        true => parse_path(text).map(|_| text.into()),
        false => parse(text).map_err(|error| format!("{error}, or a path below DIR such as /HEADER.html")),
    }
}

/// A path below the document root, such as `app/index.html`; a slash before it makes no difference.
pub(crate) fn parse_path(text: &str) -> Result<SitePath<'static>, String> {
    let path = text.strip_prefix('/').unwrap_or(text);
    SitePath::of_decoded(format!("/{path}").as_bytes())
        .filter(|path| !path.names_folder())
        .ok_or_else(|| "write the path of a file below DIR, such as app/index.html".into())
}

/// A prefix of paths, such as `/docs`; a slash behind it makes no difference.
pub(super) fn parse_prefix(text: &str) -> Result<SitePath<'static>, String> {
    let path = text.strip_suffix('/').unwrap_or(text);
    SitePath::of_decoded(path.as_bytes())
        .filter(|path| !path.names_folder())
        .ok_or_else(|| "write the beginning of paths, such as /docs".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_paths() {
        assert_eq!(parse("index.html"), Ok("index.html".into()));
        for text in ["app/index.html", "/app/index.html"] {
            assert_eq!(parse_path(text).unwrap().as_bytes(), b"/app/index.html");
        }
        for text in ["", ".", "..", "a/b", "/a"] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert_eq!(parse_extension(".html"), Ok(".html".into()));
        for text in ["", ".", "..", "html", "./a"] {
            assert!(parse_extension(text).is_err(), "{text}");
        }
        assert_eq!(parse_text("README"), Ok("README".into()));
        assert_eq!(parse_text("/a/HEADER.html"), Ok("/a/HEADER.html".into()));
        for text in ["", "a/b", "/", "/a/", "//a", "/../a", ".."] {
            assert!(parse_text(text).is_err(), "{text}");
        }
        for text in ["", "/", "../a", "a/../b", "a//b", "a/", "//a"] {
            assert!(parse_path(text).is_err(), "{text}");
        }
    }
}
