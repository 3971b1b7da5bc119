//! A place of a Caddyfile that is worked out, and what is said of the lines about it.

use super::lines::Lines;
use crate::directive::Directive;
use crate::flash::{PlaceName, Settings, Value, forbid, is_below, set};
use crate::note::{Of, Paths};

/// A place that is worked out.
pub(super) struct Answer<'a, 't> {
    /// Those of the present block.
    pub(super) lines: Lines<'t>,
    pub(super) place: &'a PlaceName,
    pub(super) settings: Settings,
    /// What `handle_path` and `uri strip_prefix` take from the front of the path.
    pub(super) stripped: String,
    pub(super) root: Option<&'t Directive>,
    pub(super) index: Vec<String>,
    pub(super) is_answered: bool,
    /// Fields that are for answers without one, each with its line.
    pub(super) supplied: Vec<(&'t Directive, &'t str)>,
    /// Scripts run, and files may be served, too.
    pub(super) runs_scripts: bool,
    /// In how many blocks for paths the present line stands.
    pub(super) own_blocks: usize,
    /// What may answer some requests alone, or all, and why Flash does not.
    pub(super) in_doubt: Vec<(&'t Directive, &'static str)>,
}

impl<'t> Answer<'_, 't> {
    /// The requests of the place.
    pub(super) fn concerns(&self) -> Paths {
        match self.place {
            PlaceName::Below(path) if path.is_empty() => Paths::All,
            PlaceName::Below(path) => Paths::Begins(path.clone()),
            PlaceName::Exact(path) => Paths::Exact(path.clone()),
            PlaceName::Ends(end) => Paths::Ends(end.clone()),
        }
    }

    pub(super) fn left(&self, of: &Directive, why: &str) {
        self.lines.scope.left(of, why, self.concerns());
    }

    pub(super) fn differs(&self, of: &Directive, why: &str) {
        self.lines.scope.differs(&of.source, why, self.concerns(), Of::Everything);
    }

    /// Nobody gets in until somebody has looked at it.
    pub(super) fn close(&mut self, of: &Directive, why: &str) {
        self.lines.scope.see_all(of);
        self.left(of, &format!("{why}: nobody gets in here"));
        forbid(&mut self.settings, of);
        self.is_answered = true;
    }

    /// The place as matchers see it, behind what is stripped.
    pub(super) fn local(&self) -> PlaceName {
        let rest = |path: &str| path.strip_prefix(&self.stripped).unwrap_or(path).to_owned();
        match self.place {
            PlaceName::Below(path) => PlaceName::Below(rest(path)),
            PlaceName::Exact(path) => PlaceName::Exact(rest(path)),
            PlaceName::Ends(end) => PlaceName::Ends(end.clone()),
        }
    }

    /// Scripts are run, and what is no script is left to later lines.
    pub(super) fn has_programs(&mut self, of: &Directive) {
        self.runs_scripts = true;
        let why = "the front controller answers for folders without it, and for paths below a file, too";
        let paths = Paths::Any(vec![Paths::Folders, Paths::BelowFiles]);
        self.lines.scope.differs(&of.source, why, paths, Of::Everything);
    }

    pub(super) fn place_is_below(&self, prefix: &str) -> bool {
        matches!(self.local(), PlaceName::Below(path) | PlaceName::Exact(path) if is_below(&path, prefix.trim_end_matches('/')))
    }

    pub(super) fn respond(&mut self, status: usize, body: &str, of: &Directive) {
        let mut named = vec![("status", Value::Number(status)), ("body", Value::Text(body.into()))];
        named.push(("type", Value::Text("text/plain; charset=utf-8".into())));
        set(&mut self.settings, "respond", Value::Named(named), Some(of));
        self.is_answered = true;
    }
}
