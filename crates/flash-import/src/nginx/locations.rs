//! The locations of a server, in the order in which nginx tries them.

use crate::directive::Directive;
use crate::scope::Scope;

/// A location with the blocks that it lies in.
pub(super) struct Location<'t> {
    pub(super) kind: Kind,
    pub(super) scope: Scope<'t>,
    pub(super) of: &'t Directive,
    /// The prefix that a regular expression stands in.
    pub(super) within: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Exact(String),
    /// A prefix, and whether it wins over regular expressions (`^~`).
    Prefix(String, bool),
    /// A regular expression, and whether case counts.
    Regex(String, bool),
}

impl Kind {
    fn of(words: &[String]) -> Option<Self> {
        Some(match words {
            [path] if path.starts_with('@') => return None,
            [path] => match (
                path.strip_prefix("~*"),
                path.strip_prefix('~'),
                path.strip_prefix("^~"),
                path.strip_prefix('='),
            ) {
                (Some(text), ..) => Self::Regex(text.into(), false),
                (_, Some(text), ..) => Self::Regex(text.into(), true),
                (_, _, Some(path), _) => Self::Prefix(path.into(), true),
                (.., Some(path)) => Self::Exact(path.into()),
                _ => Self::Prefix(path.clone(), false),
            },
            [modifier, path] => match &**modifier {
                "=" => Self::Exact(path.clone()),
                "^~" => Self::Prefix(path.clone(), true),
                "~" => Self::Regex(path.clone(), true),
                "~*" => Self::Regex(path.clone(), false),
                _ => return None,
            },
            _ => return None,
        })
    }

    /// The rank among those that may answer a path: what wins comes first. Regular expressions keep their order.
    fn rank(&self) -> (u8, usize) {
        match self {
            Self::Exact(_) => (0, 0),
            Self::Prefix(path, true) => (1, usize::MAX - path.len()),
            Self::Regex(..) => (2, 0),
            Self::Prefix(path, false) => (3, usize::MAX - path.len()),
        }
    }
}

/// All locations of a server, those in others too, but for those with a name.
pub(super) fn all<'t>(server: &Scope<'t>) -> Vec<Location<'t>> {
    let mut all = Vec::new();
    collect(server, None, &mut all);
    all.sort_by_key(|location| location.kind.rank());
    all
}

fn collect<'t>(scope: &Scope<'t>, within: Option<&str>, all: &mut Vec<Location<'t>>) {
    let block = scope.levels.last().copied().unwrap_or_default();
    for of in block.iter().filter(|of| of.name == "location") {
        let (Some(kind), Some(block)) = (Kind::of(&of.words), of.block.as_deref()) else { continue };
        scope.context.see(of);
        let scope = scope.inner(block);
        let prefix = match &kind {
            Kind::Prefix(path, _) => Some(path.as_str()),
            _ => within,
        };
        collect(&scope, prefix.filter(|path| *path != "/"), all);
        let within = within.filter(|path| *path != "/").map(str::to_owned);
        all.push(Location { kind, scope, of, within });
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::nginx::import;

    #[test]
    fn modifiers_may_stand_beside_their_paths() {
        let kind = |words: &str| Kind::of(&words.split(' ').map(str::to_owned).collect::<Vec<_>>());
        for (words, expected) in [
            ("/a", Some(Kind::Prefix("/a".into(), false))),
            ("^~ /a", Some(Kind::Prefix("/a".into(), true))),
            ("^~/a", Some(Kind::Prefix("/a".into(), true))),
            ("= /a", Some(Kind::Exact("/a".into()))),
            ("=/a", Some(Kind::Exact("/a".into()))),
            ("~ \\.php$", Some(Kind::Regex("\\.php$".into(), true))),
            ("~* \\.js$", Some(Kind::Regex("\\.js$".into(), false))),
            ("@named", None),
            ("! /a", None),
        ] {
            assert_eq!(kind(words), expected, "{words}");
        }
    }
    #[test]
    fn names_that_begin_as_a_refused_prefix_are_said_to_stay_open() {
        let nothing = |_: &Path| Ok(Vec::new());
        for (location, is_open) in [
            ("location /q { deny all; }", true),
            ("location /q { return 404; }", true),
            ("location /q { allow 192.0.2.0/24; deny all; }", true),
            ("location /q { auth_basic x; auth_basic_user_file /etc/users; }", true),
            ("location ~ ^/q { deny all; }", true),
            ("location /q/ { deny all; }", false),
            ("location /q { add_header X-A b; }", false),
            ("allow 192.0.2.0/24; deny all; location /q { allow all; }", false),
        ] {
            let text = format!("http {{ server {{ listen 80; server_name a; root /srv; {location} }} }}");
            let imported = import(Path::new("nginx.conf"), &text, &nothing).expect("its syntax is right");
            let open = imported.notes.iter().find(|note| note.text.contains("begin with /q stay open"));
            assert_eq!(open.is_some_and(|note| note.is_left), is_open, "{location}: {}", imported.file());
        }
    }
}
