//! Digests of files that were not read into memory: which are wanted, and where the results go.
//!
//! The request path asks for what an entity tag is made of, and answers without one meanwhile. What reads the files, and in which
//! thread, is not known here.

use std::sync::Arc;

use crate::clock::Now;
use crate::file::File;
use crate::path::SitePath;
use crate::server::Server;
use crate::site::id::SiteId;

/// The file that this path leads to needs a digest of its content, or a copy beside it does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Digest {
    pub site: SiteId,
    pub path: SitePath<'static>,
}

/// A file that is being written has another version soon, such as a log.
const RESTED_NS: i64 = 2_000_000_000;

impl Server {
    /// The files that are to be read. Files that are being written are left out. May wait for a lock.
    pub fn to_digest(&self, wanted: &Digest, now: &Now) -> Vec<Arc<File>> {
        let Some(entry) = self.paths.peek(wanted.site, &wanted.path) else { return Vec::new() };
        let is_rested =
            |file: &&Arc<File>| !(0..RESTED_NS).contains(&(now.unix_ns() - file.stamp.modified_ns));
        let lacks = entry.found_files().filter(|file| file.validators.lacks_digest());
        lacks.filter(is_rested).map(Arc::clone).collect()
    }

    /// Puts these files, which have digests, in the place of the same versions without. May wait for a lock.
    pub fn cache_digested(&self, wanted: &Digest, digested: &[Arc<File>]) {
        self.paths.replace(wanted.site, &wanted.path, |entry| entry.with_digests_of(digested).map(Arc::new));
    }
}

#[cfg(test)]
mod tests {
    use flash_http::media;
    use flash_http::negotiate::CodingSet;

    use super::*;
    use crate::cache::memory_budget::BudgetedBytes;
    use crate::file::compressed::Compressed;
    use crate::file::entry::{Entry, Resource, Variants};
    use crate::file::header::HeaderTemplate;
    use crate::file::validators::{TagSource, Validators};
    use crate::file::{Content, Stamp};
    use crate::server::Settings;
    use crate::testing::{Disk, World};

    const SITE: SiteId = SiteId(0);

    fn file(modified_ns: i64, digest: Option<[u8; 16]>) -> Arc<File> {
        let stamp = Stamp { size: 4, modified_ns, ..Stamp::default() };
        let (template, media) = (HeaderTemplate::default(), media::of(b"a.iso"));
        let content = Content::Memory(BudgetedBytes::from(vec![b'x'; 4]).into());
        let file = File::new(stamp, media, None, false, (&template, None), content);
        Arc::new(file.known_by(Validators::new(TagSource::Time, false, digest), &template))
    }

    #[test]
    fn a_digest_goes_to_the_version_that_was_read_alone() {
        let world = World::new(Settings::default(), Disk::new(0));
        let path = SitePath::parse(b"/a.iso").unwrap().into_owned();
        let wanted = Digest { site: SITE, path: path.clone() };
        let now = Now::new(0, 1 << 40);
        let put = |identity| {
            let compressed = Compressed::default();
            let coded = Vec::new();
            let variants = Variants { identity, coded, looked_for: CodingSet::ALL, compressed };
            let entry = Arc::new(Entry::new(Resource::File(variants), 0));
            assert!(world.server.paths.insert(SITE, &path, &entry));
        };
        let etag = || {
            let entry = world.server.paths.peek(SITE, &path).unwrap();
            entry.variants().unwrap().identity.etag.map(|tag| tag.as_bytes().to_vec())
        };
        put(file(1, None));
        assert_eq!((world.server.to_digest(&wanted, &now).len(), etag()), (1, None));
        world.server.cache_digested(&wanted, &[file(2, Some([7; 16]))]);
        assert_eq!(etag(), None, "it is of another version");
        world.server.cache_digested(&wanted, &[file(1, Some([7; 16]))]);
        assert_eq!(etag(), Some(format!("\"{}\"", "07".repeat(16)).into_bytes()));
        assert!(world.server.to_digest(&wanted, &now).is_empty(), "it is read once");
        put(file(now.unix_ns() - 1_000_000_000, None));
        assert!(world.server.to_digest(&wanted, &now).is_empty(), "it may be written still");
    }
}
