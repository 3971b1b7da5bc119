//! The digests of states of files: lately made ones in memory, and all of them in a [store](crate::digest_store), if there is one.

use std::sync::OnceLock;

use flash_core::file::Stamp;
use flash_core::file::validators::ContentDigest;

use crate::blocking::Blocking;
use crate::digest_store::DigestStore;
use crate::recent::Recent;

/// How many digests are kept in memory.
const DIGESTS_MAX: usize = 16_384;
/// After a power failure a file may have its old content with its new times, until the kernel has written both. By default it
/// does so within 35 seconds.
const WRITTEN_NS: i64 = 60_000_000_000;

#[derive(Debug)]
pub(crate) struct KnownDigests {
    recent: Recent<Stamp, ContentDigest>,
    /// Those of earlier servers, too.
    store: OnceLock<DigestStore>,
}

impl Default for KnownDigests {
    fn default() -> Self {
        Self { recent: Recent::new(DIGESTS_MAX), store: OnceLock::new() }
    }
}

impl KnownDigests {
    pub(crate) fn keep_in(&self, store: DigestStore) {
        let _ = self.store.set(store);
    }

    /// What is known in memory.
    pub(crate) fn get(&self, stamp: &Stamp, blocking: Blocking) -> Option<ContentDigest> {
        if blocking.waits() { self.recent.get(stamp) } else { self.recent.get_now(stamp) }
    }

    /// The same with the store. May wait for its disk.
    pub(crate) fn load(&self, stamp: &Stamp) -> Option<ContentDigest> {
        let stored = || {
            let digest = self.store.get()?.get(stamp)?;
            self.recent.put(*stamp, digest);
            Some(digest)
        };
        self.recent.get(stamp).or_else(stored)
    }

    /// The digest of what was read from `read_ns` on.
    pub(crate) fn put(&self, stamp: &Stamp, digest: ContentDigest, read_ns: i64) {
        self.recent.put(*stamp, digest);
        if let Some(store) = self.store.get()
            && read_ns.saturating_sub(stamp.changed_ns) >= WRITTEN_NS
        {
            store.put(stamp, &digest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_disk_may_not_have_yet_is_not_stored() {
        let folder = tempfile::tempdir().unwrap();
        let open = || DigestStore::open(&folder.path().join("digests")).unwrap();
        let (known, old, young) = (
            KnownDigests::default(),
            Stamp { inode: 1, ..Stamp::default() },
            Stamp { inode: 2, changed_ns: 1, ..Stamp::default() },
        );
        known.keep_in(open());
        for stamp in [&old, &young] {
            known.put(stamp, [7; 32], WRITTEN_NS);
            assert_eq!(known.get(stamp, Blocking::Never), Some([7; 32]));
        }
        let next = KnownDigests::default();
        next.keep_in(open());
        assert_eq!(next.get(&old, Blocking::Anywhere), None, "it is on the disk alone");
        assert_eq!((next.load(&old), next.load(&young)), (Some([7; 32]), None));
        assert_eq!(next.get(&old, Blocking::Never), Some([7; 32]));
    }
}
