//! Digests that outlive the server: a file of fixed size, which is read and written in place.
//!
//! It is divided into pages. All versions of one file have the same page, so a new one takes the place of an old one. Each record
//! has a check sum, so one that was half written is none. Several processes may have the file open. When a digest is worth keeping
//! is not decided here.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use flash_core::file::Stamp;
use flash_core::file::validators::ContentDigest;
use rustix::fs::OFlags;
use sha2::{Digest, Sha256};

use crate::mounts;

/// In the check sum, so that another form of the file holds no record of this one.
const FORM: &[u8] = b"flash digests 1";
const PAGE_BYTES: usize = 4096;
/// 16 MiB, of which the disk holds what was written.
const PAGES: u64 = 4096;
const STAMP_BYTES: usize = 40;
const DIGEST_BYTES: usize = 32;
const CHECK_BYTES: usize = 8;
const RECORD_BYTES: usize = STAMP_BYTES + DIGEST_BYTES + CHECK_BYTES;
const RECORDS: usize = PAGE_BYTES / RECORD_BYTES;
/// Device and inode, with which a stamp begins.
const FILE_BYTES: usize = 16;
/// Others may not write it: they could tell clients whatever digest they like.
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// The file, open.
#[derive(Debug)]
pub struct DigestStore(File);

type Page = [u8; PAGE_BYTES];
type Record = [u8; RECORD_BYTES];

impl DigestStore {
    /// Makes the file if it does not exist.
    ///
    /// # Errors
    /// If it cannot be written, if other users could write it, or if it is on a device that may wait for another machine: helpers
    /// of other devices read it.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = (OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK).bits();
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600).custom_flags(flags as i32);
        let file = options.open(path)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::other("it is no file"));
        }
        if metadata.uid() != rustix::process::geteuid().as_raw() || metadata.mode() & WRITABLE_BY_OTHERS != 0
        {
            return Err(io::Error::other("other users could write it"));
        }
        if !mounts::is_near(&file) {
            return Err(io::Error::other("it is on no local disk"));
        }
        Ok(Self(file))
    }

    /// May wait for the disk.
    pub(crate) fn get(&self, stamp: &Stamp) -> Option<ContentDigest> {
        let (key, page) = (bytes_of(stamp), self.page(place_of(stamp)).ok()?);
        let mut records = records(&page).filter(|record| record.starts_with(&key) && is_whole(record));
        records.next().map(|record| std::array::from_fn(|at| record[STAMP_BYTES + at]))
    }

    /// May wait for the disk. If it fails, the digest is made again after a restart.
    pub(crate) fn put(&self, stamp: &Stamp, digest: &ContentDigest) {
        let place = place_of(stamp);
        let Ok(page) = self.page(place) else { return };
        let key = bytes_of(stamp);
        let mut record = [0; RECORD_BYTES];
        record[..STAMP_BYTES].copy_from_slice(&key);
        record[STAMP_BYTES..][..DIGEST_BYTES].copy_from_slice(digest);
        let check = check_of(&record);
        record[STAMP_BYTES + DIGEST_BYTES..].copy_from_slice(&check);
        let of_file = records(&page).position(|other| other[..FILE_BYTES] == key[..FILE_BYTES]);
        let free = || records(&page).position(|other| !is_whole(other));
        // Digests are as good as random numbers.
        let at = of_file.or_else(free).unwrap_or(usize::from(digest[0]) % RECORDS);
        let _ = self.0.write_all_at(&record, place + (at * RECORD_BYTES) as u64);
    }

    /// What was never written is zero.
    fn page(&self, place: u64) -> io::Result<Page> {
        let (mut page, mut done) = ([0; PAGE_BYTES], 0);
        while done < PAGE_BYTES {
            match self.0.read_at(&mut page[done..], place + done as u64) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(page)
    }
}

fn records(page: &Page) -> impl Iterator<Item = &Record> {
    page.as_chunks().0.iter()
}

fn is_whole(record: &Record) -> bool {
    record.ends_with(&check_of(record))
}

/// The check sum of what stands before it in a record.
fn check_of(record: &Record) -> [u8; CHECK_BYTES] {
    let hash =
        Sha256::new().chain_update(FORM).chain_update(&record[..STAMP_BYTES + DIGEST_BYTES]).finalize();
    *hash.first_chunk().expect("a SHA-256 has 32 bytes")
}

/// Where the page of a file begins.
fn place_of(stamp: &Stamp) -> u64 {
    let hash = Sha256::digest(&bytes_of(stamp)[..FILE_BYTES]);
    let number = u64::from_le_bytes(*hash.first_chunk().expect("a SHA-256 has 32 bytes"));
    number % PAGES * PAGE_BYTES as u64
}

fn bytes_of(stamp: &Stamp) -> [u8; STAMP_BYTES] {
    let Stamp { device, inode, size, modified_ns, changed_ns } = *stamp;
    let numbers = [device, inode, size, modified_ns.cast_unsigned(), changed_ns.cast_unsigned()];
    let bytes = numbers.map(u64::to_le_bytes);
    std::array::from_fn(|at| bytes.as_flattened()[at])
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn stamp(inode: u64, changed_ns: i64) -> Stamp {
        Stamp { device: 7, inode, size: 9, modified_ns: -1, changed_ns }
    }

    #[test]
    fn what_is_kept_is_found_by_the_next_server_and_of_no_other_version() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("digests");
        DigestStore::open(&path).unwrap().put(&stamp(1, 1), &[1; 32]);
        let store = DigestStore::open(&path).unwrap();
        assert_eq!(store.get(&stamp(1, 1)), Some([1; 32]));
        let Stamp { device, inode, size, modified_ns, changed_ns } = stamp(1, 1);
        for other in [
            Stamp { device: device + 1, ..stamp(1, 1) },
            Stamp { inode: inode + 1, ..stamp(1, 1) },
            Stamp { size: size + 1, ..stamp(1, 1) },
            Stamp { modified_ns: modified_ns + 1, ..stamp(1, 1) },
            Stamp { changed_ns: changed_ns + 1, ..stamp(1, 1) },
        ] {
            assert_eq!(store.get(&other), None, "{other:?}");
        }
        store.put(&stamp(1, 2), &[2; 32]);
        assert_eq!((store.get(&stamp(1, 1)), store.get(&stamp(1, 2))), (None, Some([2; 32])));
    }

    #[test]
    fn the_file_is_bounded_and_most_of_what_fits_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let store = DigestStore::open(&folder.path().join("digests")).unwrap();
        let digest = |inode: u64| -> ContentDigest { Sha256::digest(inode.to_le_bytes()).into() };
        let inodes = 0..PAGES * RECORDS as u64 / 2;
        inodes.clone().for_each(|inode| store.put(&stamp(inode, 1), &digest(inode)));
        let found = inodes.clone().filter(|inode| store.get(&stamp(*inode, 1)) == Some(digest(*inode)));
        assert!(found.count() as u64 * 100 > inodes.end * 99);
        assert!(store.0.metadata().unwrap().len() <= PAGES * PAGE_BYTES as u64);
    }

    #[test]
    fn a_record_that_is_not_whole_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("digests");
        let store = DigestStore::open(&path).unwrap();
        store.put(&stamp(1, 1), &[1; 32]);
        for at in 0..RECORD_BYTES as u64 {
            let mut byte = [0];
            store.0.read_exact_at(&mut byte, place_of(&stamp(1, 1)) + at).unwrap();
            store.0.write_all_at(&[byte[0] ^ 1], place_of(&stamp(1, 1)) + at).unwrap();
            assert_eq!(store.get(&stamp(1, 1)), None, "byte {at}");
            store.0.write_all_at(&byte, place_of(&stamp(1, 1)) + at).unwrap();
        }
        assert!(store.get(&stamp(1, 1)).is_some());
        fs::write(&path, b"short").unwrap();
        store.put(&stamp(2, 1), &[2; 32]);
        assert_eq!((store.get(&stamp(1, 1)), store.get(&stamp(2, 1))), (None, Some([2; 32])));
    }

    #[test]
    fn nothing_is_taken_that_others_could_write() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("digests");
        drop(DigestStore::open(&path).unwrap());
        symlink(&path, folder.path().join("link")).unwrap();
        assert!(DigestStore::open(&folder.path().join("link")).is_err());
        assert!(DigestStore::open(folder.path()).is_err());
        assert!(DigestStore::open(&folder.path().join("none/digests")).is_err());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o620)).unwrap();
        assert!(DigestStore::open(&path).unwrap_err().to_string().contains("other users"));
    }
}
