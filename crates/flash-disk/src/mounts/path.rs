//! Which path lies below which, as bytes. No filesystem is asked.

/// What remains of `path` below `folder`, both without a slash at the end; `None` if it is not below it. The root folder
/// may be written as a slash or as nothing.
pub(crate) fn below<'a>(path: &'a [u8], folder: &[u8]) -> Option<&'a [u8]> {
    if folder.is_empty() || folder == b"/" {
        return Some(path.strip_prefix(b"/").unwrap_or(path));
    }
    match path.strip_prefix(folder)? {
        [] => Some(&[]),
        [b'/', rest @ ..] => Some(rest),
        _ => None,
    }
}
