//! The lines of a block, and the matchers that are named there or in a block around it.

use crate::directive::Directive;
use crate::scope::Scope;

/// The directives of a block of a site.
#[derive(Clone)]
pub(super) struct Lines<'t> {
    pub(super) scope: &'t Scope<'t>,
    pub(super) block: &'t [Directive],
    /// The blocks around it, from the outermost on.
    around: Vec<&'t [Directive]>,
}

impl<'t> Lines<'t> {
    pub(super) fn of_site(scope: &'t Scope<'t>, of: &'t Directive) -> Self {
        Self { scope, block: of.block.as_deref().unwrap_or_default(), around: Vec::new() }
    }

    /// Those in the block of a line.
    pub(super) fn inner(&self, of: &'t Directive) -> Self {
        let mut around = self.around.clone();
        around.push(self.block);
        Self { scope: self.scope, block: of.block.as_deref().unwrap_or_default(), around }
    }

    /// The matcher of this name, from the innermost block that has one.
    pub(super) fn named(&self, name: &str) -> Option<&'t Directive> {
        let mut blocks = [self.block].into_iter().chain(self.around.iter().rev().copied());
        let found = blocks.find_map(|block| block.iter().find(|of| of.name == name))?;
        self.scope.see_all(found);
        Some(found)
    }
}
