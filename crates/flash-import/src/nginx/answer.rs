//! What answers of directives have in common: redirections, and what is known where they stand.

use std::collections::HashMap;

use super::programs::Upstreams;
use super::read::Directive;
use super::scope::Scope;
use super::target::{Known, target};
use crate::flash::{PlaceName, Setting, Settings, Value};
use crate::note::{Of, Paths};
use crate::pattern::Tail;

/// What is known about a server.
pub(super) struct Server<'t> {
    pub(super) name: String,
    /// `https` if it is served over TLS, and `http` otherwise.
    pub(super) scheme: &'static str,
    /// Over both, with and without TLS.
    pub(super) has_both: bool,
    pub(super) named: HashMap<&'t str, &'t Directive>,
    pub(super) upstreams: &'t Upstreams<'t>,
}

/// Where directives stand.
pub(super) struct At<'a> {
    /// The requests that they hold for.
    pub(super) concerns: Paths,
    /// The group of the location's regular expression.
    pub(super) tail: Option<&'a Tail>,
    /// The prefix of the location, empty for the server.
    pub(super) prefix: &'a str,
}

/// Requests for some hosts are sent elsewhere.
pub(super) struct HostRedirect {
    pub(super) hosts: Vec<String>,
    /// All other hosts are meant.
    pub(super) is_except: bool,
    pub(super) redirect: Setting,
}

#[derive(Default)]
pub(super) struct Answers {
    /// For parts below.
    pub(super) parts: Vec<(PlaceName, Settings)>,
    pub(super) hosts: Vec<HostRedirect>,
    /// Requests without TLS are redirected.
    pub(super) https: Option<Setting>,
    /// All is 404.
    pub(super) is_missing: bool,
}

/// A redirection as Flash has it.
pub(super) fn redirect(
    scope: &Scope<'_>,
    server: &Server<'_>,
    at: &At<'_>,
    of: &Directive,
    (text, status, tail, adds_query): (&str, u16, Option<&Tail>, bool),
) -> Option<Setting> {
    let known = Known { server_name: &server.name, scheme: server.scheme, tail, adds_query };
    match target(text, &known) {
        Ok(to) => {
            if text.starts_with("$scheme") && server.has_both {
                scope.differs(
                    &of.source,
                    "all are sent to https, also those who came without TLS",
                    Paths::Insecure,
                    Of::Location,
                );
            }
            let named = vec![("to", Value::Text(to)), ("status", Value::Number(status.into()))];
            Some(Setting::new(Value::Named(named), Some(&of.source)))
        }
        Err(why) => {
            scope.left(of, format!("{why}: write a redirect by hand"), at.concerns.clone());
            None
        }
    }
}

/// The status and the target of `return`.
pub(super) fn status_of(of: &Directive) -> (Option<u16>, Option<&str>) {
    match &of.words[..] {
        [to] if to.parse::<u16>().is_err() => (Some(302), Some(to)),
        [status] => (status.parse().ok(), None),
        [status, to, ..] => (status.parse().ok(), Some(to)),
        [] => (None, None),
    }
}

/// Prefixes of Flash cover whole names.
pub(super) fn prefix_differs(scope: &Scope<'_>, of: &Directive, prefix: &str) {
    let (why, paths) = match prefix.strip_suffix('/') {
        Some(path) => (format!("the place covers {path} itself, too"), Paths::Exact(path.into())),
        None => (
            format!("the place covers {prefix} and what is below {prefix}/, and not names that begin so"),
            Paths::Begins(prefix.into()),
        ),
    };
    scope.differs(&of.source, why, paths, Of::Everything);
}

pub(super) fn matching(expression: &str) -> Paths {
    Paths::Matches(expression.into(), true)
}
