//! Paths below other paths, as bytes. Makes no system call.

/// The part of `path` below `folder`, or `None` if it is not below it. Both have no slash at the end. The root folder
/// is a slash or empty.
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
