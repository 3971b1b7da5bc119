//! `map` from paths to where they moved, with the `if` that sends clients there.

use super::answer::{At, status_of};
use crate::directive::Directive;
use crate::flash::{PlaceName, Settings, Value, set};
use crate::hosts::Answers;
use crate::note::{Of, Paths};

/// As many paths get places of their own.
const PLACES_MAX: usize = 500;

/// The map that fills in a variable by paths.
pub(super) fn find<'t>(at: &At<'_, 't>, variable: &str) -> Option<&'t Directive> {
    let mut maps = at.scope.levels.first()?.iter().filter(|of| of.name == "map");
    maps.find(|of| match &of.words[..] {
        [source, to] => {
            to == variable && ["$request_uri", "$uri", "$document_uri"].contains(&source.as_str())
        }
        _ => false,
    })
}

/// Sets what the map says of paths.
pub(super) fn settings(
    at: &At<'_, '_>,
    (of, only): (&Directive, &Directive),
    variable: &str,
    settings: &mut Settings,
    answers: &mut Answers,
) {
    let status = match (&*only.name, status_of(only)) {
        ("return", (Some(status @ (301 | 302 | 303 | 307 | 308)), Some(to))) if to == variable => {
            Some(status)
        }
        ("rewrite", _) if only.words.get(1).is_some_and(|to| to == variable) => {
            Some(if only.words.get(2).is_some_and(|flag| flag == "permanent") { 301 } else { 302 })
        }
        _ => None,
    };
    let (Some(map), Some(status)) = (find(at, variable), status) else {
        return at.left(of, "Flash has no such condition: write sites and places");
    };
    at.scope.see_all(map);
    let entries: Vec<&Directive> = map.block.iter().flatten().filter(|of| !is_nothing(of)).collect();
    let file = entries.first().map(|of| &of.source.file).filter(|file| **file != map.source.file);
    match file.filter(|file| entries.iter().all(|of| of.source.file == **file && is_plain(of))) {
        Some(file) => {
            set(settings, "redirects", Value::Text(file.display().to_string()), Some(of));
            if status != 301 {
                let why = format!("the status is 301: write {status} behind the lines of {}", file.display());
                at.scope.differs(&of.source, why, Paths::All, Of::Status);
            }
            let why = "the query is kept";
            at.scope.differs(&of.source, why, Paths::Queries, Of::Location);
        }
        None if entries.len() > PLACES_MAX => {
            at.left(of, "write the lines of the map into a file, and redirects = \"FILE\"");
        }
        None => {
            for entry in entries {
                if !is_plain(entry) || entry.name.contains('?') {
                    at.scope.left(
                        entry,
                        "Flash redirects single paths: write a place, or a line of redirects",
                        Paths::All,
                    );
                    continue;
                }
                let redirect = at.redirect(entry, (&entry.words[0], status, None, only.name == "rewrite"));
                let part = |to| (PlaceName::Exact(entry.name.clone()), Settings::from([("redirect", to)]));
                answers.parts.extend(redirect.map(part));
            }
        }
    }
}

/// A line about no path.
fn is_nothing(of: &Directive) -> bool {
    match (&*of.name, &of.words[..]) {
        ("default", [value]) => value.is_empty(),
        ("hostnames" | "volatile", []) => true,
        _ => false,
    }
}

/// From a path to a path or URL without variables.
fn is_plain(of: &Directive) -> bool {
    of.name.starts_with('/') && of.words.len() == 1 && !of.words[0].contains('$')
}
