//! Splitting a URL's path at the script that it names: what comes before is the script, what follows is its
//! PATH_INFO (RFC 3875 §3.2).
//!
//! Paths are decoded and canonical: they begin with a slash, and no segment is empty, `.` or `..`. Whether a name is a
//! script's, somebody else finds out; here is only where a path may be split.

/// A path in two: `name` and then `info` are the whole path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Split<'p> {
    /// SCRIPT_NAME. Empty for a program that stands at the root.
    pub name: &'p [u8],
    /// PATH_INFO: empty, or begins with a slash.
    pub info: &'p [u8],
}

/// What a name below a folder of scripts turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    Folder,
    Script,
    Nothing,
}

/// Splits `path` behind `prefix`, if it lies there: `/app` holds `/app` and `/app/x`, but not `/apple`. A slash at the
/// prefix's end means nothing, and `/` holds every path.
pub fn below<'p>(path: &'p [u8], prefix: &[u8]) -> Option<Split<'p>> {
    let prefix = prefix.strip_suffix(b"/").unwrap_or(prefix);
    let info = path.strip_prefix(prefix)?;
    matches!(info, [] | [b'/', ..]).then(|| Split { name: &path[..prefix.len()], info })
}

/// Finds the script among the folders and files below `prefix`: the longest leading part of the path that is one.
///
/// `look` gets names relative to that folder, without slashes at their ends: `a`, then `a/b` if `a` is a folder, and so on.
/// Nothing lies below a script, so the first script is the longest. A path of a thousand segments costs look-ups only for the
/// segments that exist.
///
/// # Errors
/// The first that `look` returns.
pub fn find<'p, E>(
    path: &'p [u8],
    prefix: &[u8],
    mut look: impl FnMut(&'p [u8]) -> Result<Found, E>,
) -> Result<Option<Split<'p>>, E> {
    let Some(Split { name, info: [_, rest @ ..] }) = below(path, prefix) else { return Ok(None) };
    let start = name.len() + 1;
    for end in segment_ends(rest).filter(|&end| end > 0) {
        match look(&rest[..end])? {
            Found::Folder => {}
            Found::Script => {
                let (name, info) = path.split_at(start + end);
                return Ok(Some(Split { name, info }));
            }
            Found::Nothing => return Ok(None),
        }
    }
    Ok(None)
}

/// Every way to split `path` behind a segment that ends in `suffix`, as `.php` does, shortest name first.
///
/// The first is nearly always the one: `/a.php/b.php` is `a.php` with a PATH_INFO, unless `a.php` is a folder.
pub fn suffixed<'p>(path: &'p [u8], suffix: &[u8]) -> impl Iterator<Item = Split<'p>> {
    segment_ends(path).filter_map(move |end| {
        let (name, info) = path.split_at(end);
        name.ends_with(suffix).then_some(Split { name, info })
    })
}

/// Where segments end: before each slash, and at the end unless a slash is there.
fn segment_ends(path: &[u8]) -> impl Iterator<Item = usize> {
    let last = (!path.ends_with(b"/")).then_some(path.len());
    memchr::memchr_iter(b'/', path).chain(last)
}

#[cfg(test)]
mod tests;
