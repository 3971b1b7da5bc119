//! What a path leads to.

use flash_core::file::entry::Resource;
use flash_core::path::SitePath;

pub(crate) struct Target {
    pub(crate) resource: Resource,
    /// Where that is, if not at the path itself.
    pub(crate) found_at: Option<SitePath<'static>>,
}

impl From<Resource> for Target {
    fn from(resource: Resource) -> Self {
        Self { resource, found_at: None }
    }
}
