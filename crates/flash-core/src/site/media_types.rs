//! The media types that a site sets, beside those that follow from names.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use flash_http::media::{self, Media};
use flash_http::negotiate::Coding;

use crate::site::path_rules::PathRule;

/// Which files have another type or coding than their names tell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MediaTypes {
    /// The most special rule first.
    types: Vec<(PathRule, &'static str)>,
    /// The type of all other files.
    default: Option<&'static str>,
    /// The coding that all files are in.
    coding: Option<Coding>,
}

/// Texts that stand in files' media, each once. A reload has the same ones again, so they are kept for ever.
static KEPT: Mutex<Option<HashSet<&'static str>>> = Mutex::new(None);

impl MediaTypes {
    /// `default` and `coding` are of all files. The rules come in any order. Of those that cover a file the most special one counts: the
    /// longest path, then a name, then the longest suffix.
    pub fn new(
        rules: impl IntoIterator<Item = (PathRule, String)>,
        default: Option<&str>,
        coding: Option<Coding>,
    ) -> Self {
        let mut types: Vec<_> = rules.into_iter().map(|(rule, of)| (rule, keep(&of))).collect();
        types.sort_by_key(|(rule, _)| match rule {
            PathRule::Below(path) => (0, usize::MAX - path.len()),
            PathRule::Name(_) => (1, 0),
            PathRule::Suffix(suffix) => (2, usize::MAX - suffix.len()),
        });
        Self { types, default: default.map(keep), coding }
    }

    /// The media type of the file of this name below the root. A rule about names is about the file's own, and not about its folders'.
    pub fn of(&self, name: &[u8]) -> Media {
        let own = &name[memchr::memrchr(b'/', name).map_or(0, |slash| slash + 1)..];
        let covers =
            |rule: &PathRule| rule.covers_name(if matches!(rule, PathRule::Below(_)) { name } else { own });
        let set = self.types.iter().find(|(rule, _)| covers(rule)).map(|(_, of)| *of).or(self.default);
        let media = media::of(own);
        let media = set.map_or(media, |content_type| media.typed(content_type));
        self.coding.map_or(media, |coding| media.coded(coding))
    }
}

fn keep(text: &str) -> &'static str {
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    let kept = kept.get_or_insert_default();
    if let Some(known) = kept.get(text) {
        return known;
    }
    let text: &'static str = Box::leak(text.into());
    kept.insert(text);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_special_rule_counts_in_whatever_order_they_come() {
        let rules = [
            ("*.js", "text/javascript"),
            ("*.br.js", "application/x-br"),
            ("README", "text/plain"),
            ("/data", "application/x-data"),
            ("/data/raw", "application/x-raw"),
            ("*.png", "text/html"),
        ];
        let rule = |(rule, of): &(&str, &str)| (PathRule::parse(rule).unwrap(), (*of).to_owned());
        let forwards = MediaTypes::new(rules.iter().map(rule), None, None);
        assert_eq!(forwards, MediaTypes::new(rules.iter().rev().map(rule), None, None));
        for (name, expected) in [
            ("a.js", "text/javascript"),
            ("d/a.br.js", "application/x-br"),
            ("d/README", "text/plain"),
            ("README/a", "application/octet-stream"),
            ("x.js/a.css", "text/css; charset=utf-8"),
            ("data/README", "application/x-data"),
            ("data/raw/a.js", "application/x-raw"),
            ("data2/a.js", "text/javascript"),
        ] {
            assert_eq!(forwards.of(name.as_bytes()).content_type, expected, "{name}");
        }
        let all = MediaTypes::new(rules.iter().map(rule), Some("text/css"), Some(Coding::Gzip));
        let media = all.of(b"a.png");
        assert_eq!(
            (media.content_type, media.coding, media.compressible),
            ("text/html", Some(Coding::Gzip), false)
        );
        assert_eq!(all.of(b"a").content_type, "text/css");
    }
}
