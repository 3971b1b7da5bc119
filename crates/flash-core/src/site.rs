//! A site: its settings, its error pages and its routes. All connections share it, and none changes it.

use std::sync::Arc;

use flash_http::head::RequestHead;

use crate::entry::Resource;
use crate::fallback::Fallback;
use crate::header::HeaderTemplate;
use crate::page::Pages;
use crate::path::SitePath;
use crate::path_rules::PathRules;
use crate::root::Generation;
use crate::routes::Routes;
use crate::site_id::SiteId;

#[derive(Debug, Default)]
pub struct Site {
    pub id: SiteId,
    pub settings: SiteSettings,
    pub template: Arc<HeaderTemplate>,
    pub pages: Arc<Pages>,
    /// The generation of the root that is served, shared with the disk side.
    pub generation: Arc<Generation>,
    /// The routes to upstreams, if there are any.
    pub routes: Option<Routes>,
}

#[derive(Clone, Debug)]
pub struct SiteSettings {
    /// The limit for request bodies. A body that is of no use to a file is read and dropped.
    pub body_bytes_max: u64,
    pub dotfiles: bool,
    /// Paths that lead nowhere, whatever lies there.
    pub deny: PathRules,
    pub list: bool,
    /// What answers for paths without a file.
    pub fallback: Option<Fallback>,
    /// The site's own `/404.html` is the page for names that lead nowhere, as long as there is one.
    pub own_missing_page: bool,
}

impl Default for SiteSettings {
    fn default() -> Self {
        Self {
            body_bytes_max: 1 << 20,
            dotfiles: false,
            deny: PathRules::default(),
            list: false,
            fallback: None,
            own_missing_page: false,
        }
    }
}

/// A file of at most this size is sent in one piece with its head, without a second slice.
pub(crate) const INLINE_BYTES_MAX: u64 = 4 << 10;

/// A large file is made ready and sent in windows of at most this size.
pub const WINDOW_BYTES: u64 = 1 << 20;

impl Site {
    /// The fallback, if it answers this request, whose path leads to `found`.
    pub(crate) fn fallback_for(
        &self,
        head: &RequestHead<'_>,
        raw_path: &[u8],
        found: &Resource,
    ) -> Option<&Fallback> {
        let fallback = self.settings.fallback.as_ref()?;
        let path = SitePath::parse(raw_path).ok()?;
        (fallback.answers(head, &path, found, self.settings.list) && fallback.covers(&path))
            .then_some(fallback)
    }

    /// Whether an upstream may answer this path, be it as the fallback.
    pub(crate) fn may_lead_to_program(&self, raw_path: &[u8]) -> bool {
        let Some(routes) = &self.routes else { return false };
        let Ok(path) = SitePath::parse(raw_path) else { return false };
        let fallback = self.settings.fallback.as_ref();
        routes.may_lead_to_program(&path)
            || fallback
                .is_some_and(|fallback| routes.may_lead_to_program(fallback.path()) && fallback.covers(&path))
    }
}
