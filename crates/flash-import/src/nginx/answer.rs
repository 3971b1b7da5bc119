//! What answers of directives have in common: redirections, and what is known where they stand.

use std::collections::HashMap;

use super::programs::Upstreams;
use crate::directive::Directive;
use crate::flash::{Setting, Value};
use crate::note::{Of, Paths};
use crate::pattern::Tail;
use crate::scope::Scope;
use crate::target::{Known, target};

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
pub(super) struct At<'a, 't> {
    pub(super) scope: &'a Scope<'t>,
    pub(super) server: &'a Server<'t>,
    /// The requests that they hold for.
    pub(super) concerns: Paths,
    /// The group of the location's regular expression.
    pub(super) tail: Option<&'a Tail>,
    /// The prefix of the location, empty for the server.
    pub(super) prefix: &'a str,
}

impl At<'_, '_> {
    /// A line that was left out.
    pub(super) fn left(&self, of: &Directive, why: impl Into<String>) {
        self.scope.left(of, why, self.concerns.clone());
    }

    /// A line that was taken, with a difference.
    pub(super) fn differs(&self, of: &Directive, why: impl Into<String>) {
        self.scope.differs(&of.source, why, self.concerns.clone(), Of::Everything);
    }

    /// A redirection as Flash has it.
    pub(super) fn redirect(
        &self,
        of: &Directive,
        (text, status, tail, adds_query): (&str, u16, Option<&Tail>, bool),
    ) -> Option<Setting> {
        let Server { name, scheme, has_both, .. } = self.server;
        match target(text, &Known { server_name: name, scheme, tail, adds_query }) {
            Ok(to) => {
                if text.starts_with("$scheme") && *has_both {
                    let why = "all are sent to https, also those who came without TLS";
                    self.scope.differs(&of.source, why, Paths::Insecure, Of::Location);
                }
                let named = vec![("to", Value::Text(to)), ("status", Value::Number(status.into()))];
                Some(Setting::new(Value::Named(named), Some(&of.source)))
            }
            Err(why) => {
                self.left(of, format!("{why}: write a redirect by hand"));
                None
            }
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

pub(super) fn matching(expression: &str) -> Paths {
    Paths::Matches(expression.into(), true)
}
