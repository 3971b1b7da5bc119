//! The lines of a site, with the matchers that are named in them.

use crate::directive::Directive;
use crate::scope::Scope;

/// The directives of a site.
pub(super) struct Lines<'t> {
    pub(super) scope: &'t Scope<'t>,
    pub(super) block: &'t [Directive],
}

impl<'t> Lines<'t> {
    /// The matcher of this name, wherever it stands.
    pub(super) fn named(&self, name: &str) -> Option<&'t Directive> {
        fn find<'t>(block: &'t [Directive], name: &str) -> Option<&'t Directive> {
            let inner = |of: &'t Directive| find(of.block.as_deref().unwrap_or_default(), name);
            block.iter().find(|of| of.name == name).or_else(|| block.iter().find_map(inner))
        }
        let found = find(self.block, name)?;
        self.scope.see_all(found);
        Some(found)
    }
}
