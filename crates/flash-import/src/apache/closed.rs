//! Paths that are closed, because something guards parts of them that Flash has no place for.

use super::sections::{Alias, Sections, Spot, covered, files, plain_folder, within};
use super::{access, programs};
use crate::directive::Directive;
use crate::flash::is_below;
use crate::note::Paths;
use crate::pattern::Shape;
use crate::scope::Scope;

pub(super) struct Closed<'t> {
    /// Each with what guards it.
    paths: Vec<(String, &'t Directive)>,
}

const SECTIONS: &[&str] = &["directory", "directorymatch", "location", "locationmatch"];
const CONDITIONS: [&str; 4] = ["if", "elseif", "else", "proxymatch"];

impl<'t> Closed<'t> {
    pub(super) fn of(scope: &Scope<'t>, sections: &Sections<'t>, root: &str, aliases: &[Alias<'t>]) -> Self {
        let mut closed = Self { paths: Vec::new() };
        for of in sections.all(SECTIONS).filter(|of| !is_known(of, root)) {
            let text = of.words.last().map_or("", String::as_str);
            let is_plain = of.words.len() == 1 && !of.name.ends_with("match");
            let folder = if is_plain { folder_of_pattern(text) } else { folder(text) };
            match of.name.starts_with("directory") {
                true => {
                    for url in urls(&folder, root, aliases) {
                        closed.close(scope, of, url);
                    }
                }
                false => closed.close(scope, of, folder),
            }
        }
        let all =
            [&sections.servers[..], &sections.htaccess.values().map(|own| &*own.lines).collect::<Vec<_>>()]
                .concat();
        let of_root = sections.levels(Spot { folder: Some(root), url: "", name: None });
        for of in files(&of_root).filter(|of| !covered(of).is_all) {
            closed.close(scope, of, String::new());
        }
        let blocks = sections.all(&["directory", "location", "files"]).filter_map(|of| of.block.as_deref());
        for of in all.iter().copied().chain(blocks).flatten().filter(|of| CONDITIONS.contains(&&*of.name)) {
            closed.close(scope, of, String::new());
        }
        for of in scope.every("proxypassmatch") {
            let [expression, to, ..] = &of.words[..] else { continue };
            let is_taken = programs::fastcgi(to).is_some() && programs::ends_of(expression).is_some();
            if !is_taken && to != "!" {
                let url = folder(expression);
                let why = "Flash passes on prefixes: nobody gets in until you write proxy in a place";
                scope.left(of, why, Paths::Begins(url.clone()));
                closed.paths.push((url, of));
            }
        }
        closed
    }

    fn close(&mut self, scope: &Scope<'t>, of: &'t Directive, url: String) {
        scope.see_all(of);
        let paths = if url.is_empty() { Paths::All } else { Paths::Begins(url.clone()) };
        if access::guards(of.block.as_deref().unwrap_or_default()) {
            let shown = if url.is_empty() { "/" } else { &url };
            let why = format!(
                "Flash has prefixes, ends of names and single paths: nobody gets in below {shown} until you write them"
            );
            scope.left(of, why, paths);
            self.paths.push((url, of));
        } else {
            let why = "Flash has prefixes, ends of names and single paths: write a place for each";
            scope.left(of, why, paths);
        }
    }

    /// All of them.
    pub(super) fn paths(&self) -> impl Iterator<Item = (&str, &'t Directive)> {
        self.paths.iter().map(|(url, of)| (&**url, *of))
    }

    /// What closes a path.
    pub(super) fn covering(&self, url: &str) -> Option<&'t Directive> {
        self.paths.iter().find(|(closed, _)| is_below(url, closed)).map(|(_, of)| *of)
    }
}

/// Whether a section has its place, or is about names that nobody gets.
fn is_known(of: &Directive, root: &str) -> bool {
    let covered = covered(of);
    let is_hidden = |shape: &Shape| matches!(shape, Shape::Hidden(_));
    let has_place = |shape: &Shape| match of.name.starts_with("directory") {
        true => matches!(shape, Shape::Begins(_) | Shape::Exact(_)),
        false => matches!(shape, Shape::Begins(_) | Shape::Exact(_) | Shape::Ends(_) | Shape::All),
    };
    // A pattern with no more names than the root's is one of a folder above it.
    let is_above = matches!(&of.words[..], [pattern] if of.name == "directory" && plain_folder(pattern).matches('/').count() <= root.matches('/').count());
    is_above || covered.is_all && covered.shapes.iter().all(|shape| is_hidden(shape) || has_place(shape))
}

/// The folder up to which an expression says what it covers.
fn folder(text: &str) -> String {
    let text = text.trim_start_matches('^');
    up_to(text, &['*', '?', '[', '(', '.', '\\', '+', '$', '|'])
}

/// The same of a pattern with wildcards.
fn folder_of_pattern(text: &str) -> String {
    up_to(text, &['*', '?', '['])
}

fn up_to(text: &str, special: &[char]) -> String {
    let end = text.find(special).unwrap_or(text.len());
    let plain = &text[..end];
    let plain =
        if end == text.len() { plain } else { plain.rsplit_once('/').map_or("", |(folder, _)| folder) };
    plain_folder(plain).to_owned()
}

/// The paths of a folder, or of what lies in it.
fn urls(folder: &str, root: &str, aliases: &[Alias<'_>]) -> Vec<String> {
    let roots = aliases.iter().map(|alias| (&*alias.folder, &*alias.url)).chain([(root, "")]);
    roots
        .filter_map(|(root, url)| match within(folder, root) {
            Some(rest) => Some(format!("{url}{rest}")),
            None => is_below(root, folder).then(|| url.to_owned()),
        })
        .collect()
}
