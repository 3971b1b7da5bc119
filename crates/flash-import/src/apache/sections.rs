//! Which directives hold for a path: those of the server, of folders with their `.htaccess`, of files, and of paths, in Apache's order.

use std::collections::{BTreeMap, BTreeSet};

use super::access;
use crate::directive::{Covered, Directive};
use crate::flash::is_below;
use crate::pattern::{self, Shape};

/// The `.htaccess` files by their folders.
pub(super) type Htaccess = BTreeMap<String, OwnFile>;

/// A folder's own file.
pub(super) struct OwnFile {
    pub(super) lines: Vec<Directive>,
    /// What holds in its place where Apache answers 500: the folder is closed.
    pub(super) refusal: Vec<Directive>,
}

/// A server's directives, those of all servers first.
pub(super) struct Sections<'t> {
    pub(super) servers: Vec<&'t [Directive]>,
    pub(super) htaccess: &'t Htaccess,
}

/// What a request is about.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Spot<'s> {
    /// `None` if an HTTP server answers.
    pub(super) folder: Option<&'s str>,
    /// Without a slash at its end.
    pub(super) url: &'s str,
    pub(super) name: Option<FileName<'s>>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum FileName<'s> {
    /// All names with this end.
    End(&'s str),
    Whole(&'s str),
}

/// A folder under a path, which is no part of its files' names.
pub(super) struct Alias<'t> {
    pub(super) url: String,
    pub(super) folder: String,
    pub(super) of: &'t Directive,
    pub(super) has_scripts: bool,
}

/// Without slashes at its end.
pub(super) fn plain_folder(text: &str) -> &str {
    text.trim_end_matches('/')
}

/// The folders, paths or names of a section. Wildcards are no part of that.
pub(super) fn covered(of: &Directive) -> &Covered {
    of.covered.get_or_init(|| read_covered(of))
}

fn read_covered(of: &Directive) -> Covered {
    let is_of_names = of.name.starts_with("files");
    match &of.words[..] {
        [tilde, expression] if tilde == "~" => expression_of(expression, is_of_names),
        [expression] if of.name.ends_with("match") => expression_of(expression, is_of_names),
        [plain] if is_of_names => {
            let shape = name_of(plain);
            Covered { is_all: shape.is_some(), shapes: shape.into_iter().collect() }
        }
        [plain] if plain.contains(['*', '?', '[']) => Covered { shapes: Vec::new(), is_all: false },
        [plain] => Covered { shapes: vec![Shape::Begins(plain_folder(plain).into())], is_all: true },
        _ => Covered { shapes: Vec::new(), is_all: false },
    }
}

fn expression_of(expression: &str, is_of_names: bool) -> Covered {
    // Names begin where a path has its last slash.
    let whole = expression.strip_prefix('^').filter(|_| is_of_names).map(|rest| format!("/{rest}"));
    let (shapes, is_all) = pattern::known_shapes(whole.as_deref().unwrap_or(expression));
    // No path has a query.
    let (shapes, queries): (Vec<_>, Vec<_>) = shapes
        .into_iter()
        .partition(|shape| !matches!(shape, Shape::Ends(end) | Shape::Info(end) if end.contains('?')));
    Covered { is_all: is_all && (queries.is_empty() || !shapes.is_empty()), shapes }
}

/// `*.php`, `.ht*`, or a whole name.
fn name_of(name: &str) -> Option<Shape> {
    match name.strip_prefix('*') {
        Some(end) if !end.is_empty() && !end.contains(['*', '?', '[']) => Some(Shape::Ends(end.into())),
        Some("") => Some(Shape::All),
        None if name.starts_with('.') => Some(Shape::Hidden(name[1..].trim_end_matches('*').into())),
        None if !name.contains(['*', '?', '[']) => Some(Shape::Name(name.into())),
        _ => None,
    }
}

impl OwnFile {
    /// Its lines, as far as it may say something where these words of `AllowOverride` hold.
    fn as_allowed(&self, overrides: &BTreeSet<String>) -> Option<&[Directive]> {
        let may = |word: &str| overrides.contains("all") || overrides.contains(word);
        let is_refused = access::classes(&self.lines).into_iter().any(|class| !may(class));
        match (overrides.is_empty(), is_refused) {
            (true, _) => None,
            (false, true) => Some(&self.refusal),
            (false, false) => Some(&self.lines),
        }
    }
}

impl<'t> Sections<'t> {
    /// All sections of these names, in order.
    pub(super) fn all(
        &self,
        names: &'static [&'static str],
    ) -> impl Iterator<Item = &'t Directive> + use<'t, '_> {
        let all = self.servers.iter().copied().flatten();
        all.filter(move |of| names.contains(&&*of.name) && of.block.is_some())
    }

    /// The folders with a section or an `.htaccess` of their own, each with a line of it.
    pub(super) fn folders(&self) -> BTreeMap<String, &'t Directive> {
        let sections = self.all(&["directory", "directorymatch"]).flat_map(|of| {
            let folders = covered(of).shapes.iter().filter_map(|shape| match shape {
                Shape::Begins(folder) | Shape::Exact(folder) => Some(plain_folder(folder).to_owned()),
                _ => None,
            });
            folders.map(move |folder| (folder, of))
        });
        let files =
            self.htaccess.iter().filter_map(|(folder, own)| Some((folder.clone(), own.lines.first()?)));
        files.chain(sections).collect()
    }

    /// From the outermost to the innermost.
    pub(super) fn levels(&self, spot: Spot<'_>) -> Vec<&'t [Directive]> {
        let mut levels = self.servers.clone();
        for folder in spot.folder.map(above).into_iter().flatten() {
            let sections = self.all(&["directory", "directorymatch"]).filter(|of| is_of_folder(of, folder));
            levels.extend(sections.filter_map(|of| of.block.as_deref()));
            let own = self.htaccess.get(folder);
            levels.extend(own.and_then(|own| own.as_allowed(&overrides(&levels))));
        }
        if let Some(name) = spot.name {
            let files: Vec<&[Directive]> = files(&levels)
                .filter(|of| covered(of).shapes.iter().any(|shape| has_name(shape, name)))
                .filter_map(|of| of.block.as_deref())
                .collect();
            levels.extend(files);
        }
        let paths = self.all(&["location", "locationmatch"]).filter(|of| {
            covered(of).shapes.iter().any(|shape| match shape {
                Shape::All => true,
                Shape::Begins(path) => is_below(spot.url, plain_folder(path)),
                Shape::Exact(path) => spot.url == path,
                shape => spot.name.is_some_and(|name| has_name(shape, name)),
            })
        });
        levels.extend(paths.filter_map(|of| of.block.as_deref()));
        levels
    }

    /// Whether a section of names is about this one.
    pub(super) fn covers_name(&self, of: &Directive, name: FileName<'_>) -> bool {
        covered(of).shapes.iter().any(|shape| has_name(shape, name))
    }

    /// The levels of the servers alone.
    pub(super) fn depth(&self) -> usize {
        self.servers.len()
    }

    /// Whether some path but the root has guards of its own.
    pub(super) fn guards_paths(&self) -> bool {
        let mut paths = self.all(&["location", "locationmatch"]);
        paths.any(|of| {
            of.words.iter().any(|word| word != "/") && access::guards(of.block.as_deref().unwrap_or_default())
        })
    }
}

/// `<Files>` and `<FilesMatch>` of these levels.
pub(super) fn files<'t>(levels: &[&'t [Directive]]) -> impl Iterator<Item = &'t Directive> {
    levels
        .iter()
        .copied()
        .flatten()
        .filter(|of| of.name.starts_with("files") && of.block.is_some())
        .collect::<Vec<_>>()
        .into_iter()
}

fn has_name(shape: &Shape, name: FileName<'_>) -> bool {
    match (shape, name) {
        (Shape::All, _) => true,
        (Shape::Ends(end) | Shape::Info(end), FileName::End(name) | FileName::Whole(name)) => {
            name.ends_with(end.as_str())
        }
        (Shape::Name(own), FileName::Whole(name)) => own == name,
        _ => false,
    }
}

/// Whether a section is about just this folder, and not about one above it.
fn is_of_folder(of: &Directive, folder: &str) -> bool {
    match &of.words[..] {
        [pattern] if of.name == "directory" => covers(plain_folder(pattern), folder),
        _ => covered(of).shapes.iter().any(|shape| match shape {
            Shape::Begins(own) | Shape::Exact(own) => plain_folder(own) == folder,
            _ => false,
        }),
    }
}

/// The folder and those above it, the root first.
pub(super) fn above(folder: &str) -> Vec<&str> {
    let ends = folder.match_indices('/').map(|(at, _)| &folder[..at]);
    ends.chain([folder]).collect()
}

/// Whether the pattern of a section, perhaps with wildcards, is that of a folder.
fn covers(pattern: &str, folder: &str) -> bool {
    let is_one =
        |(part, name): (&str, &str)| glob::Pattern::new(part).map_or(part == name, |part| part.matches(name));
    pattern.split('/').count() == folder.split('/').count()
        && pattern.split('/').zip(folder.split('/')).all(is_one)
}

/// The path of a file below a folder, with its slash.
pub(super) fn within<'p>(path: &'p str, folder: &str) -> Option<&'p str> {
    is_below(path, folder).then(|| &path[folder.len()..])
}

/// What `.htaccess` files may say here, in small letters.
fn overrides(levels: &[&[Directive]]) -> BTreeSet<String> {
    let last = levels.iter().copied().flatten().rfind(|of| of.name == "allowoverride");
    let words = last.iter().flat_map(|of| of.words.iter().map(|word| word.to_ascii_lowercase()));
    words.filter(|word| word != "none").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_cover_whole_names() {
        for (pattern, folder, expected) in [
            ("", "", true),
            ("/srv/a", "/srv/a", true),
            ("/srv/*/public", "/srv/a/public", true),
            ("/srv/a", "/srv/ab", false),
            ("/srv", "/srv/a", false),
        ] {
            assert_eq!(covers(pattern, folder), expected, "{pattern} {folder}");
        }
        assert_eq!(above("/srv/a"), ["", "/srv", "/srv/a"]);
    }
}
