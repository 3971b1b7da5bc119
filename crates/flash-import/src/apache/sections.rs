//! Which directives hold for a folder and a URL: those of the server, of its sections, and of `.htaccess` files.

use std::collections::HashMap;
use std::path::Path;

use crate::directive::Directive;
use crate::flash::is_below;

/// The `.htaccess` files by their folders.
pub(super) type Htaccess = HashMap<String, Vec<Directive>>;

/// A server's directives, those of all servers first.
pub(super) struct Sections<'t> {
    pub(super) servers: Vec<&'t [Directive]>,
    pub(super) htaccess: &'t Htaccess,
}

/// What a section's name says that it covers.
pub(super) enum Covered<'t> {
    /// A folder or path, perhaps with wildcards.
    Plain(&'t str),
    Regex(&'t str),
}

/// `<Directory ~ "…">` and `<DirectoryMatch "…">` have regular expressions.
pub(super) fn covered(of: &Directive) -> Option<Covered<'_>> {
    match &of.words[..] {
        [tilde, expression] if tilde == "~" => Some(Covered::Regex(expression)),
        [expression] if of.name.ends_with("match") => Some(Covered::Regex(expression)),
        [plain] => Some(Covered::Plain(plain)),
        _ => None,
    }
}

/// Without slashes at its end.
pub(super) fn plain_folder(text: &str) -> &str {
    text.trim_end_matches('/')
}

impl<'t> Sections<'t> {
    /// All sections of a name, in order, with what they cover.
    pub(super) fn all(
        &self,
        names: &'static [&'static str],
    ) -> impl Iterator<Item = &'t Directive> + use<'t, '_> {
        let all = self.servers.iter().copied().flatten();
        all.filter(move |of| names.contains(&&*of.name) && of.block.is_some())
    }

    /// The folders with a section or an `.htaccess` of their own.
    pub(super) fn folders(&self) -> Vec<(&'t str, Option<&'t Directive>)> {
        let mut folders: Vec<(&str, Option<&Directive>)> = self
            .all(&["directory"])
            .filter_map(|of| match covered(of)? {
                Covered::Plain(folder) if !folder.contains(['*', '?', '[']) => {
                    Some((plain_folder(folder), Some(of)))
                }
                _ => None,
            })
            .collect();
        folders.extend(self.htaccess.keys().map(|folder| (folder.as_str(), None)));
        folders.sort_by_key(|(folder, of)| (*folder, of.is_none()));
        folders.dedup_by_key(|(folder, _)| *folder);
        folders
    }

    /// From the outermost to the innermost: servers, folders from the root on, each with its `.htaccess`, and paths.
    pub(super) fn levels(&self, folder: Option<&str>, url: &str) -> Vec<&'t [Directive]> {
        let mut levels = self.servers.clone();
        if let Some(folder) = folder {
            let mut sections: Vec<(usize, &Directive)> = self
                .all(&["directory"])
                .filter_map(|of| match covered(of)? {
                    Covered::Plain(pattern) => Some((covers(plain_folder(pattern), folder)?, of)),
                    Covered::Regex(_) => None,
                })
                .collect();
            sections.sort_by_key(|(depth, _)| *depth);
            for (depth, above) in above(folder).into_iter().enumerate() {
                let here = sections.iter().filter(|(of, _)| *of == depth);
                levels.extend(here.filter_map(|(_, of)| of.block.as_deref()));
                levels.extend(self.htaccess.get(above).map(Vec::as_slice));
            }
        }
        let paths = self.all(&["location"]).filter(
            |of| matches!(covered(of), Some(Covered::Plain(path)) if is_below(url, plain_folder(path))),
        );
        levels.extend(paths.filter_map(|of| of.block.as_deref()));
        levels
    }
}

/// The folder and those above it, the root first.
fn above(folder: &str) -> Vec<&str> {
    let ends = folder.match_indices('/').map(|(at, _)| &folder[..at]);
    ends.chain([folder]).collect()
}

/// How many names the pattern of a section has, if it covers a folder.
fn covers(pattern: &str, folder: &str) -> Option<usize> {
    let mut names = folder.split('/');
    let mut depth = 0;
    for part in pattern.split('/') {
        let name = names.next()?;
        if !glob::Pattern::new(part).map_or(part == name, |part| part.matches(name)) {
            return None;
        }
        depth += 1;
    }
    Some(depth - 1)
}

/// The path of a file below a folder, with its slash.
pub(super) fn within<'p>(path: &'p str, folder: &str) -> Option<&'p str> {
    is_below(path, folder).then(|| &path[folder.len()..])
}

/// Whether `.htaccess` files count in a folder.
pub(super) fn may_override(levels: &[&[Directive]]) -> bool {
    let last = levels.iter().copied().flatten().rfind(|of| of.name == "allowoverride");
    last.is_some_and(|of| !of.words.iter().any(|word| word.eq_ignore_ascii_case("none")))
}

/// The name of a path's last part.
pub(super) fn file_name(path: &str) -> Option<&str> {
    Path::new(path).file_name()?.to_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_cover_whole_names() {
        for (pattern, folder, depth) in [
            ("", "/srv/a", Some(0)),
            ("/srv", "/srv/a", Some(1)),
            ("/srv/a", "/srv/a", Some(2)),
            ("/srv/*/public", "/srv/a/public/b", Some(3)),
            ("/srv/a", "/srv/ab", None),
            ("/srv/a/b", "/srv/a", None),
        ] {
            assert_eq!(covers(pattern, folder), depth, "{pattern} {folder}");
        }
        assert_eq!(above("/srv/a"), ["", "/srv", "/srv/a"]);
    }
}
