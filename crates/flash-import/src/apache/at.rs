//! What is known where directives stand.

use std::collections::BTreeMap;

use crate::directive::Directive;
use crate::note::{Of, Paths};
use crate::scope::Scope;

/// Where directives stand.
pub(super) struct At<'a, 't> {
    pub(super) scope: &'a Scope<'t>,
    /// The path that they hold below, without a slash at its end.
    pub(super) url: &'a str,
    /// The requests that they hold for.
    pub(super) concerns: Paths,
    pub(super) server_name: &'a str,
    pub(super) scheme: &'static str,
    /// Apache's types, by the ends of names.
    pub(super) types: &'a BTreeMap<String, String>,
}

impl At<'_, '_> {
    /// A line that was left out.
    pub(super) fn left(&self, of: &Directive, why: impl Into<String>) {
        self.scope.left(of, why, self.concerns.clone());
    }

    pub(super) fn left_for(&self, of: &Directive, why: impl Into<String>, paths: Paths) {
        self.scope.left(of, why, paths);
    }

    /// A line that was taken, with a difference.
    pub(super) fn differs(&self, of: &Directive, why: impl Into<String>) {
        self.scope.differs(&of.source, why, self.concerns.clone(), Of::Everything);
    }
}
