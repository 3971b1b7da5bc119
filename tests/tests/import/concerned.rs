//! A request, and whether a note of an import is about it.

use flash_import::note::Paths;
use regex::RegexBuilder;

/// A request with what is known of its path.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) method: String,
    /// As it is sent.
    pub(crate) target: String,
    pub(crate) host: String,
    /// Decoded, and without dots and empty segments.
    pub(crate) path: String,
    pub(crate) is_folder: bool,
    pub(crate) is_missing: bool,
    /// It goes on behind the name of a file.
    pub(crate) is_below_file: bool,
    /// The names of the sites, to tell unknown hosts.
    pub(crate) known_hosts: Vec<String>,
}

impl Asked {
    /// Whether a note about this name of a site may be about the request.
    pub(crate) fn is_host(&self, host: &str) -> bool {
        host == self.host
            || host == "*" && !self.known_hosts.contains(&self.host)
            || host.strip_prefix("*.").is_some_and(|end| self.host.ends_with(&format!(".{end}")))
    }

    /// Whether this is the content of the very file that was asked for, or its source.
    pub(crate) fn is_shown_by(&self, body: &[u8]) -> bool {
        let name = self.path.rsplit('/').next().unwrap_or_default();
        let text = String::from_utf8_lossy(body);
        text.starts_with("<?php")
            || !name.is_empty() && text.starts_with("of ") && text.ends_with(&format!("/{name}\n"))
    }

    pub(crate) fn is_in(&self, paths: &Paths) -> bool {
        let path = &*self.path;
        match paths {
            Paths::None => false,
            Paths::All => true,
            Paths::Exact(exact) => path == exact,
            Paths::Begins(prefix) => path.starts_with(prefix.as_str()),
            Paths::Has(part) => path.contains(part.as_str()),
            Paths::Ends(end) => path.ends_with(end.as_str()),
            Paths::BelowEnds(prefix, end) => {
                path.starts_with(prefix.as_str()) && path.ends_with(end.as_str())
            }
            Paths::Matches(text, is_case_kept) => {
                // What the expression must not match makes a larger part.
                let text = match text.split_once("(?!") {
                    Some((before, _)) => before,
                    None => text,
                };
                let regex = RegexBuilder::new(text).case_insensitive(!is_case_kept).build();
                regex.map_or(true, |regex| regex.is_match(path))
            }
            Paths::Folders => self.is_folder,
            Paths::Queries => self.target.contains('?'),
            Paths::Missing => self.is_missing,
            Paths::BelowFiles => self.is_below_file,
            Paths::Insecure => true,
            Paths::OtherMethods => self.method != "GET" && self.method != "HEAD",
            Paths::Uncanonical => self.target.split('?').next() != Some(path),
            Paths::Capitals => path.bytes().any(|byte| byte.is_ascii_uppercase()),
            Paths::Any(any) => any.iter().any(|paths| self.is_in(paths)),
            Paths::Not(paths) => !self.is_in(paths),
        }
    }

    /// Where a redirection leads, without the ports of this test.
    pub(crate) fn leads_to(&self, location: &str) -> String {
        let whole = match location.starts_with('/') {
            true => format!("http://{}{location}", self.host),
            false => location.to_owned(),
        };
        let Some((scheme, rest)) = whole.split_once("://") else { return whole };
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let host = authority.split(':').next().unwrap_or_default();
        format!("{scheme}://{host}{}", if path.is_empty() { "/" } else { path })
    }
}
