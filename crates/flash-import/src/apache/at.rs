//! What is known where directives stand.

use std::collections::BTreeMap;

use crate::directive::Directive;
use crate::note::{Of, Paths, Source};
use crate::scope::Scope;

/// Where directives stand.
pub(super) struct At<'a, 't> {
    pub(super) scope: &'a Scope<'t>,
    /// The path that they hold below, without a slash at its end.
    pub(super) url: &'a str,
    /// The requests that they hold for.
    pub(super) concerns: Paths,
    /// Where its server begins.
    pub(super) source: &'a Source,
    /// How many levels are those of servers.
    pub(super) depth: usize,
    pub(super) server_name: &'a str,
    pub(super) scheme: &'static str,
    /// Some listener speaks TLS.
    pub(super) has_tls: bool,
    /// Apache's types, by the ends of names.
    pub(super) types: &'a BTreeMap<String, String>,
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
}
