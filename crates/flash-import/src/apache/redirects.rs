//! `Redirect` and `RedirectMatch`, which send clients elsewhere by their paths.

use super::at::At;
use crate::directive::Directive;
use crate::flash::{PlaceName, Setting, Settings, Value, is_below};
use crate::note::Paths;
use crate::pattern::{self, Shape};
use crate::target::{Known, target};

const NAMES: [&str; 4] = ["redirect", "redirectmatch", "redirectpermanent", "redirecttemp"];

/// The answers of all lines, the first one first, for parts of the site.
pub(super) fn parts(at: &At<'_, '_>, block: &[Directive]) -> Vec<(PlaceName, Settings)> {
    let mut parts: Vec<(PlaceName, Settings)> = Vec::new();
    for of in block.iter().filter(|of| NAMES.contains(&&*of.name)) {
        at.scope.context.see(of);
        for (name, answer) in one(at, of) {
            // What an earlier line covers never comes to this one.
            let is_covered = |earlier: &PlaceName| match (earlier, &name) {
                (PlaceName::Below(prefix), PlaceName::Below(path) | PlaceName::Exact(path)) => {
                    is_below(path, prefix)
                }
                _ => *earlier == name,
            };
            if !parts.iter().any(|(earlier, _)| is_covered(earlier)) {
                parts.push((name, answer));
            }
        }
    }
    parts
}

fn one(at: &At<'_, '_>, of: &Directive) -> Vec<(PlaceName, Settings)> {
    let (status, words) = match (&*of.name, &of.words[..]) {
        ("redirectpermanent", words) => (301, words),
        ("redirecttemp", words) => (302, words),
        (_, [first, rest @ ..]) => match status(first) {
            Some(status) => (status, rest),
            None => (302, &of.words[..]),
        },
        (_, []) => return Vec::new(),
    };
    // In a <Location> the path is left out.
    let (path, to) = match words {
        [path, to] => (path.as_str(), Some(to.as_str())),
        [only] if (300..400).contains(&status) && !of.name.ends_with("match") => {
            (at.url, Some(only.as_str()))
        }
        [path] => (path.as_str(), None),
        _ => (at.url, None),
    };
    match to {
        None => gone(at, of, path, status),
        Some(to) if of.name == "redirectmatch" => matched(at, of, path, (to, status)),
        Some(to) if words.len() == 1 => {
            let name = PlaceName::Below(at.url.into());
            vec![(name, redirect(to.into(), status, of))]
        }
        Some(to) => prefixed(at, of, path, (to, status)).into_iter().collect(),
    }
}

pub(super) fn status(word: &str) -> Option<u16> {
    match &*word.to_ascii_lowercase() {
        "permanent" => Some(301),
        "temp" => Some(302),
        "seeother" => Some(303),
        "gone" => Some(410),
        word => word.parse().ok().filter(|status| (300..600).contains(status)),
    }
}

/// A redirection as Flash has it.
pub(super) fn redirect(to: String, status: u16, of: &Directive) -> Settings {
    let named = vec![("to", Value::Text(to)), ("status", Value::Number(status.into()))];
    Settings::from([("redirect", Setting::new(Value::Named(named), Some(&of.source)))])
}

fn prefixed(
    at: &At<'_, '_>,
    of: &Directive,
    path: &str,
    (to, status): (&str, u16),
) -> Option<(PlaceName, Settings)> {
    let plain = path.trim_end_matches('/');
    // What follows the prefix has the slash that ends it.
    let begin = match path.ends_with('/') {
        true => match to.strip_suffix('/') {
            Some(begin) => begin,
            None => {
                at.scope.left(
                    of,
                    "the rest of the path would gain a slash: write a redirect by hand",
                    Paths::Begins(path.into()),
                );
                return None;
            }
        },
        false => to,
    };
    if path.ends_with('/') && !plain.is_empty() {
        at.scope.prefix_differs(of, path);
    }
    let gap = if plain.is_empty() { "{path}" } else { "{rest}" };
    Some((PlaceName::Below(plain.into()), redirect(format!("{begin}{gap}"), status, of)))
}

fn matched(
    at: &At<'_, '_>,
    of: &Directive,
    expression: &str,
    (to, status): (&str, u16),
) -> Vec<(PlaceName, Settings)> {
    let Some(tails) = pattern::tails(expression) else {
        at.scope.left(
            of,
            "Flash redirects prefixes and single paths: write a place for each",
            matching(expression),
        );
        return Vec::new();
    };
    let mut parts = Vec::new();
    for (tail, is_whole) in tails {
        let known =
            Known { server_name: at.server_name, scheme: at.scheme, tail: Some(&tail), adds_query: true };
        match target(to, &known) {
            Ok(to) => parts.push((name_of(at, of, &tail.prefix, is_whole), redirect(to, status, of))),
            Err(why) => at.scope.left(of, format!("{why}: write a redirect by hand"), matching(expression)),
        }
    }
    parts
}

/// The place of what begins so, or is just that.
pub(super) fn name_of(at: &At<'_, '_>, of: &Directive, prefix: &str, is_whole: bool) -> PlaceName {
    if is_whole {
        return PlaceName::Exact(prefix.into());
    }
    let plain = prefix.trim_end_matches('/');
    if !plain.is_empty() {
        at.scope.prefix_differs(of, prefix);
    }
    PlaceName::Below(plain.into())
}

fn gone(at: &At<'_, '_>, of: &Directive, path: &str, status: u16) -> Vec<(PlaceName, Settings)> {
    let names = match &*of.name {
        "redirectmatch" => names(&pattern::shapes(path).unwrap_or_default()),
        _ => Some(vec![PlaceName::Below(path.trim_end_matches('/').into())]),
    };
    match names.filter(|names| !names.is_empty() && status >= 400) {
        Some(names) => {
            let answer = match status {
                410 => ("gone", Value::Flag(true)),
                _ => ("respond", Value::Named(vec![("status", Value::Number(status.into()))])),
            };
            let answer = Settings::from([(answer.0, Setting::new(answer.1, Some(&of.source)))]);
            names.into_iter().map(|name| (name, answer.clone())).collect()
        }
        None => {
            at.scope.left(of, "write respond in a place: these paths stay open", matching(path));
            Vec::new()
        }
    }
}

/// The places of what an expression covers, if each part has one.
pub(super) fn names(shapes: &[Shape]) -> Option<Vec<PlaceName>> {
    let name = |shape: &Shape| match shape {
        Shape::Exact(path) => Some(PlaceName::Exact(path.clone())),
        Shape::Begins(path) => Some(PlaceName::Below(path.trim_end_matches('/').into())),
        Shape::Ends(end) => Some(PlaceName::Ends(end.clone())),
        _ => None,
    };
    shapes.iter().map(name).collect()
}

pub(super) fn matching(expression: &str) -> Paths {
    Paths::Matches(expression.into(), true)
}
