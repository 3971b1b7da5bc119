//! Which directives hold somewhere: those of the innermost block that has any of a name.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashSet};

use crate::directive::Directive;
use crate::flash::Settings;
use crate::note::{Concerns, Note, Of, Paths, Source};

/// What an import has found so far.
#[derive(Default)]
pub(crate) struct Context {
    notes: RefCell<Vec<Note>>,
    seen: RefCell<HashSet<*const Directive>>,
    upstreams: RefCell<BTreeMap<String, Settings>>,
}

/// The blocks that a server's locations are in: `http` and `server`.
pub(crate) const LEVELS_OF_SERVER: usize = 2;

/// The blocks around a place, from the outermost to the innermost.
#[derive(Clone)]
pub(crate) struct Scope<'t> {
    pub(crate) levels: Vec<&'t [Directive]>,
    pub(crate) context: &'t Context,
    /// The names of the site.
    pub(crate) hosts: Vec<String>,
}

impl Context {
    /// With what is different in every site: pages for errors, paths that are not in their canonical form, and this.
    pub(crate) fn new(pages: &str, (paths, of_paths): (&str, Of)) -> Self {
        let methods = "files have no other methods than GET and HEAD: 405 comes before 404";
        let dots = "names that begin with a dot are 404: dotfiles = true serves them";
        let context = Self::default();
        for (text, paths, of) in [
            (pages, Paths::None, Of::Everything),
            (methods, Paths::OtherMethods, Of::Everything),
            (paths, Paths::Uncanonical, of_paths),
            (dots, Paths::Has("/.".into()), Of::Everything),
        ] {
            let concerns = Concerns { hosts: Vec::new(), paths, of };
            context.note(Note { source: None, is_left: false, text: text.into(), concerns });
        }
        context
    }

    /// The name of an upstream with these settings: this one, as Flash may have it, or with a number behind it.
    pub(crate) fn upstream(&self, name: &str, settings: Settings) -> String {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        let name: String = name.chars().map(|c| if is_plain(c) { c } else { '-' }).collect();
        let mut all = self.upstreams.borrow_mut();
        let values = |of: &Settings| of.iter().map(|(key, of)| (*key, of.value.clone())).collect::<Vec<_>>();
        let others = (2..).map(|number| format!("{name}-{number}"));
        let fits = |name: &String| all.get(name).is_none_or(|other| values(other) == values(&settings));
        let name = [name.clone()].into_iter().chain(others).find(fits).unwrap_or_default();
        all.insert(name.clone(), settings);
        name
    }

    /// All upstreams that places name.
    pub(crate) fn upstreams(&self) -> BTreeMap<String, Settings> {
        self.upstreams.take()
    }

    /// A directive with a meaning that was looked for.
    pub(crate) fn see(&self, directive: &Directive) {
        self.seen.borrow_mut().insert(directive);
    }

    pub(crate) fn has_seen(&self, directive: &Directive) -> bool {
        self.seen.borrow().contains(&std::ptr::from_ref(directive))
    }

    pub(crate) fn note(&self, note: Note) {
        let mut notes = self.notes.borrow_mut();
        // A server with several sites has its lines read for each.
        let same = notes.iter_mut().find(|known| {
            (&known.source, &known.text, &known.concerns.paths)
                == (&note.source, &note.text, &note.concerns.paths)
        });
        match same {
            Some(known) if known.concerns.hosts.is_empty() || note.concerns.hosts.is_empty() => {
                known.concerns.hosts.clear();
            }
            Some(known) => known.concerns.hosts.extend(note.concerns.hosts),
            None => notes.push(note),
        }
    }

    pub(crate) fn into_notes(self) -> Vec<Note> {
        self.notes.into_inner()
    }
}

impl<'t> Scope<'t> {
    /// The same with another block in it.
    pub(crate) fn inner(&self, block: &'t [Directive]) -> Self {
        let mut inner = self.clone();
        inner.levels.push(block);
        inner
    }

    /// Those of the innermost block that has any.
    pub(crate) fn all(&self, name: &str) -> Vec<&'t Directive> {
        self.all_of(&[name])
    }

    /// The same of directives that nginx keeps in one list, in its order.
    pub(crate) fn all_of(&self, names: &[&str]) -> Vec<&'t Directive> {
        let mut found = Vec::new();
        for level in &self.levels {
            let here: Vec<_> = level.iter().filter(|of| names.contains(&&*of.name)).collect();
            here.iter().for_each(|of| self.context.see(of));
            if !here.is_empty() {
                found = here;
            }
        }
        found
    }

    /// Those of all blocks, from the outermost on, where each adds to those before.
    pub(crate) fn every(&self, name: &str) -> Vec<&'t Directive> {
        let all = self.levels.iter().copied().flatten().filter(|of| of.name == name);
        all.inspect(|of| self.context.see(of)).collect()
    }

    pub(crate) fn last(&self, name: &str) -> Option<&'t Directive> {
        self.all(name).pop()
    }

    /// The first word of a directive.
    pub(crate) fn word(&self, name: &str) -> Option<&'t str> {
        self.last(name)?.words.first().map(String::as_str)
    }

    pub(crate) fn is_on(&self, name: &str) -> bool {
        self.word(name).is_some_and(|word| word.eq_ignore_ascii_case("on"))
    }

    /// Those of the innermost block alone, such as `return`, which nothing inherits.
    pub(crate) fn own(&self, name: &'t str) -> impl Iterator<Item = &'t Directive> + use<'t, '_> {
        let own = self.levels.last().copied().unwrap_or_default();
        own.iter().filter(move |of| of.name == name).inspect(|of| self.context.see(of))
    }

    /// A line with all in its block.
    pub(crate) fn see_all(&self, of: &Directive) {
        self.context.see(of);
        of.block.iter().flatten().for_each(|of| self.see_all(of));
    }

    /// A line that was left out.
    pub(crate) fn left(&self, directive: &Directive, why: impl Into<String>, paths: Paths) {
        self.note(Some(&directive.source), true, why, paths, Of::Everything);
    }

    /// A line that was taken, with a difference.
    pub(crate) fn differs(&self, source: &Source, why: impl Into<String>, paths: Paths, of: Of) {
        self.note(Some(source), false, why, paths, of);
    }

    /// A difference that no line is about.
    pub(crate) fn everywhere(&self, why: impl Into<String>, paths: Paths, of: Of) {
        self.note(None, false, why, paths, of);
    }

    /// Prefixes of Flash cover whole names.
    pub(crate) fn prefix_differs(&self, of: &Directive, prefix: &str) {
        let (why, paths) = match prefix.strip_suffix('/') {
            Some(path) => (format!("the place covers {path} itself, too"), Paths::Exact(path.into())),
            None => (
                format!("the place covers {prefix} and what is below {prefix}/, and not names that begin so"),
                Paths::Begins(prefix.into()),
            ),
        };
        self.differs(&of.source, why, paths, Of::Everything);
    }

    /// The same of a place that may keep clients out: what else begins so stays open.
    pub(crate) fn prefix_is_name(&self, of: &Directive, prefix: &str, keeps_out: bool) {
        if !keeps_out || prefix.ends_with('/') {
            return self.prefix_differs(of, prefix);
        }
        let why = format!("write deny for each: names that begin with {prefix} stay open, but for itself");
        self.left(of, why, Paths::Begins(prefix.into()));
    }

    fn note(&self, source: Option<&Source>, is_left: bool, why: impl Into<String>, paths: Paths, of: Of) {
        let concerns = Concerns { hosts: self.hosts.clone(), paths, of };
        self.context.note(Note { source: source.cloned(), is_left, text: why.into(), concerns });
    }
}
