//! A site: its settings, its error pages and its routes. All connections share it, and none changes it.

use std::sync::Arc;

use crate::header::HeaderTemplate;
use crate::page::Pages;
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
            own_missing_page: false,
        }
    }
}

/// A file of at most this size is sent in one piece with its head, without a second slice.
pub(crate) const INLINE_BYTES_MAX: u64 = 4 << 10;

/// A large file is made ready and sent in windows of at most this size.
pub const WINDOW_BYTES: u64 = 1 << 20;
