//! Digests of contents: for the entity tags of files whose times say nothing, and for clients who ask for one.
//!
//! Equal SHA-256s mean equal bytes. A digest is kept for a state of a file, with its time of change, which no program can set. What
//! is copied into memory is digested then, if its tag needs that. All other digests are made by a thread of the lowest priority.
//! Which files need one is not decided here.

use std::os::fd::AsFd;
use std::sync::Arc;

use flash_core::file::entry::Entry;
use flash_core::file::validators::{ContentDigest, ReprDigest};
use flash_core::file::{Content, File, OpenFile, Stamp};
use flash_core::site::id::SiteId;
use flash_os::{file_hints, read_at};
use rustix::io::retry_on_intr;
use sha2::{Digest, Sha256};

use crate::blocking::Blocking;
use crate::call_timer::{Stage, timed};
use crate::digest_store::DigestStore;
use crate::disk::Disk;
use crate::open_at::open_again;
use crate::settings::SiteSettings;
use crate::stat::{self, is_rested, unix_ns};

/// What is read at a time. A helper that needs the disk waits for this much of it.
const PIECE_BYTES: usize = 256 << 10;
/// A file that has changed or was deleted is not read further than to the next multiple.
const EXAMINED_EACH_BYTES: u64 = 64 << 20;

pub(crate) fn of_bytes(bytes: &[u8]) -> ContentDigest {
    Sha256::digest(bytes).into()
}

impl Disk {
    /// From now on digests are kept there, too.
    pub fn keep_digests_in(&self, store: DigestStore) {
        self.digests.keep_in(store);
    }

    /// The same file with its digest, and whether all of it was read for that. Asks between two pieces whether to go on. `None` if
    /// it fails, or if the file changes meanwhile.
    pub fn digested(
        &self,
        site: SiteId,
        file: &File,
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Option<(File, bool)> {
        // A copy may be that of no state of the file.
        let is_kept = is_on_disk(&file.content)
            || matches!(file.repr_digest, ReprDigest::Unknown | ReprDigest::Known(_));
        let known = is_kept.then(|| self.digests.load(&file.stamp)).flatten();
        let digest = match known {
            Some(digest) => digest,
            None => {
                let read_ns = unix_ns();
                let digest = self.digest(file, goes_on)?;
                if is_kept {
                    self.digests.put(&file.stamp, digest, read_ns);
                }
                digest
            }
        };
        let site = self.sites.get(site)?.current_owned();
        Some((file.clone().with_digest(digest, &site.settings.template), known.is_none()))
    }

    /// The entry with the digests that the entity tags of its files lack.
    pub fn digested_entry(&self, site: SiteId, entry: &Arc<Entry>) -> Arc<Entry> {
        let lacks = entry.found_files().filter(|file| file.validators.lacks_digest());
        let digested = lacks.filter_map(|file| self.digested(site, file, &mut || true));
        let digested: Vec<_> = digested.map(|(file, _)| Arc::new(file)).collect();
        entry.with_digests_of(&digested).map_or_else(|| Arc::clone(entry), Arc::new)
    }

    /// Reads all of a file. Of an open file, the digest is that of the state that it is named after.
    pub(crate) fn digest(&self, file: &File, goes_on: &mut dyn FnMut() -> bool) -> Option<ContentDigest> {
        if let Content::Open(open) = &file.content
            && is_on_disk(&file.content)
        {
            return self.digest_on_disk(&**open, &file.stamp, goes_on);
        }
        let (mut hash, mut offset) = (Sha256::new(), 0);
        while offset < file.size() {
            let piece = self.piece(file, offset..file.size())?;
            hash.update(&piece);
            offset += piece.len() as u64;
        }
        Some(hash.finalize().into())
    }

    /// The pages that it reads make no others leave the page cache.
    fn digest_on_disk(
        &self,
        open: &dyn OpenFile,
        stamp: &Stamp,
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Option<ContentDigest> {
        // A second write in one tick leaves the same time.
        if !self.device_of_mount(open.mount()).class.is_digested() || !is_rested(stamp) {
            return None;
        }
        // Where senders wait, the kernel reads ahead for them: reads elsewhere in the file would disturb that.
        let own = self.senders_wait.then(|| open_again(open)).and_then(Result::ok);
        own.iter().for_each(file_hints::read_randomly);
        let file = own.as_ref().map_or(open.as_fd(), AsFd::as_fd);
        let is_same = || stat::examine(file).is_ok_and(|now| now.stamp == *stamp);
        let (mut hash, mut offset) = (Sha256::new(), 0);
        let mut piece = vec![0; PIECE_BYTES];
        while offset < stamp.size {
            if !goes_on() {
                return None;
            }
            let left = usize::try_from(stamp.size - offset).unwrap_or(PIECE_BYTES);
            let bytes = &mut piece[..left.min(PIECE_BYTES)];
            let read = || retry_on_intr(|| read_at::read_once(file, &mut *bytes, offset));
            let count = timed(Stage::Read, read_at::call(), read).ok().filter(|count| *count > 0)?;
            hash.update(&piece[..count]);
            let end = offset + count as u64;
            if end / EXAMINED_EACH_BYTES > offset / EXAMINED_EACH_BYTES && !is_same() {
                return None;
            }
            offset = end;
        }
        is_same().then(|| hash.finalize().into())
    }

    /// What clients may ask about the digest of a file in this state.
    pub(crate) fn repr_digest(
        &self,
        settings: &SiteSettings,
        stamp: &Stamp,
        blocking: Blocking,
    ) -> ReprDigest {
        match settings.digests {
            true => self.digests.get(stamp, blocking).map_or(ReprDigest::Unknown, ReprDigest::Known),
            false => ReprDigest::Off,
        }
    }
}

fn is_on_disk(content: &Content) -> bool {
    matches!(content, Content::Open(open) if open.memory_bytes() == 0)
}
