//! Digests of contents, for the entity tags of files whose times say nothing.
//!
//! A digest is half a SHA-256, so equal digests mean equal bytes. It is kept for a state of a file, with its time of change, which
//! no program can set. What is copied into memory is digested then. A larger file is read by a thread of the lowest priority. Which
//! files need a digest is not decided here.

use std::sync::Arc;

use flash_core::file::entry::Entry;
use flash_core::file::validators::ContentDigest;
use flash_core::file::{Content, File, Stamp};
use flash_core::site::id::SiteId;
use sha2::{Digest, Sha256};

use crate::disk::Disk;
use crate::stat::{self, RESTED_NS, unix_ns};

pub(crate) fn of_bytes(bytes: &[u8]) -> ContentDigest {
    half(Sha256::new_with_prefix(bytes))
}

fn half(hash: Sha256) -> ContentDigest {
    *hash.finalize().first_chunk().expect("a SHA-256 has 32 bytes")
}

impl Disk {
    /// The same file with its digest. Reads all of it. `None` if that fails, or if the file changes meanwhile.
    pub fn digested(&self, site: SiteId, file: &File) -> Option<File> {
        let site = self.sites.get(site)?.current_owned();
        let digest = match self.digests.get(&file.stamp) {
            Some(digest) => digest,
            None => self.digest(file)?,
        };
        let validators = file.validators.with_digest(Some(digest));
        Some(file.clone().known_by(validators, &site.settings.template))
    }

    /// The entry with the digests that its files lack.
    pub fn digested_entry(&self, site: SiteId, entry: &Arc<Entry>) -> Arc<Entry> {
        let lacks = entry.found_files().filter(|file| file.validators.lacks_digest());
        let digested: Vec<_> = lacks.filter_map(|file| self.digested(site, file)).map(Arc::new).collect();
        entry.with_digests_of(&digested).map_or_else(|| Arc::clone(entry), Arc::new)
    }

    /// Reads all of a file, and keeps the digest if the file did not change meanwhile.
    pub(crate) fn digest(&self, file: &File) -> Option<ContentDigest> {
        let mut hash = Sha256::new();
        let mut offset = 0;
        while offset < file.size() {
            let piece = self.piece(file, offset..file.size())?;
            hash.update(&piece);
            offset += piece.len() as u64;
        }
        let digest = half(hash);
        match &file.content {
            Content::Open(open) if open.memory_bytes() == 0 => {
                let now = stat::examine(open).ok()?.stamp;
                self.keep_digest(&file.stamp, &now, digest).then_some(digest)
            }
            // What is in memory does not change.
            Content::Open(_) | Content::Memory(_) => Some(digest),
        }
    }

    /// Keeps the digest of what was read between two looks at a file. Returns whether it is that of one state of the file.
    pub(crate) fn keep_digest(&self, before: &Stamp, after: &Stamp, digest: ContentDigest) -> bool {
        // A second write in one tick leaves the same time. One in the future says nothing.
        let is_rested = !(0..RESTED_NS).contains(&unix_ns().saturating_sub(before.changed_ns));
        let is_one = is_rested && before == after;
        if is_one {
            self.digests.put(*before, digest);
        }
        is_one
    }
}
