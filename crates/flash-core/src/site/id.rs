//! The number of a site: which of the server's sites a path, a job or a cached entry belongs to.

/// A site of the server. The first has number 0. Equal paths of two sites have nothing in common.
///
/// After a reload, a site keeps its number if its folder and all settings that shape its entries are the same. So its cached
/// entries stay valid. Other sites get new numbers, and no number is used twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SiteId(pub u32);
