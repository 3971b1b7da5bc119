//! The lines of a block, and the matchers that are named there or in a block around it.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use super::directives::OF_SITES;
use super::matcher::Matcher;
use crate::directive::Directive;
use crate::scope::Scope;

/// A directive with its matcher, and the words behind that.
pub(super) type Matched<'t> = (&'t Directive, Matcher, &'t [String]);

/// Those of each block, by where it begins.
type Known<'t> = HashMap<*const Directive, Rc<[Matched<'t>]>>;

/// The directives of a block of a site.
#[derive(Clone)]
pub(super) struct Lines<'t> {
    pub(super) scope: &'t Scope<'t>,
    pub(super) block: &'t [Directive],
    /// The blocks around it, from the outermost on.
    around: Vec<&'t [Directive]>,
    /// What [`Self::matched`] has found in each block of the site.
    matched: Rc<RefCell<Known<'t>>>,
}

impl<'t> Lines<'t> {
    pub(super) fn of_site(scope: &'t Scope<'t>, of: &'t Directive) -> Self {
        let block = of.block.as_deref().unwrap_or_default();
        Self { scope, block, around: Vec::new(), matched: Rc::default() }
    }

    /// Those in the block of a line.
    pub(super) fn inner(&self, of: &'t Directive) -> Self {
        let mut around = self.around.clone();
        around.push(self.block);
        let block = of.block.as_deref().unwrap_or_default();
        Self { scope: self.scope, block, around, matched: Rc::clone(&self.matched) }
    }

    /// Those that are about requests, read once and put in order by `sort`, however many places ask.
    pub(super) fn matched(&self, sort: impl FnOnce(&mut [Matched<'t>])) -> Rc<[Matched<'t>]> {
        if let Some(known) = self.matched.borrow().get(&self.block.as_ptr()) {
            return Rc::clone(known);
        }
        let is_line = |of: &&Directive| !of.name.starts_with('@') && !OF_SITES.contains(&&*of.name);
        let matched = |of: &'t Directive| {
            let (matcher, words) = self.matcher(of);
            (of, matcher, words)
        };
        let mut all: Vec<Matched<'t>> = self.block.iter().filter(is_line).map(matched).collect();
        sort(&mut all);
        let all: Rc<[Matched<'t>]> = all.into();
        self.matched.borrow_mut().insert(self.block.as_ptr(), Rc::clone(&all));
        all
    }

    /// The matcher of a line, and the words behind it.
    pub(super) fn matcher(&self, of: &'t Directive) -> (Matcher, &'t [String]) {
        Matcher::of(of, |name| self.named(name))
    }

    /// The matcher of this name, from the innermost block that has one.
    fn named(&self, name: &str) -> Option<&'t Directive> {
        let mut blocks = [self.block].into_iter().chain(self.around.iter().rev().copied());
        let found = blocks.find_map(|block| block.iter().find(|of| of.name == name))?;
        self.scope.see_all(found);
        Some(found)
    }
}
