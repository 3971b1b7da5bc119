//! The files of the simulated site, with every version of each. Responses are judged by them.

use std::collections::HashSet;
use std::sync::Arc;

use flash_http::etag::EntityTag;

use super::*;
use crate::testing::Random;

pub(super) const PATHS: &[&str] = &[
    "/small",
    "/small-too",
    "/empty",
    "/middle",
    "/middle-too",
    "/window",
    "/window-too",
    "/large",
    "/a/b/c",
];
pub(super) const LISTED: &[&str] = &["/folder/", "/one/", "/many/"];

#[derive(Debug, Default)]
pub(super) struct Places {
    versions: Vec<Version>,
    /// Files that were gone for a while.
    vanished: HashSet<&'static str>,
    /// Inodes whose bytes are no longer those that were opened.
    pub(super) overwritten: HashSet<u64>,
}

#[derive(Clone, Debug)]
pub(super) struct Version {
    pub(super) path: &'static str,
    pub(super) inode: u64,
    pub(super) etag: String,
    pub(super) bytes: Arc<[u8]>,
    is_there: bool,
}

impl Places {
    pub(super) fn new(disk: &mut Disk, random: &mut Random) -> Self {
        let mut places = Self::default();
        for path in PATHS {
            places.put(path, disk, random);
        }
        for (path, chunks) in LISTED.iter().zip([&[3, 2][..], &[1], &[40, 0, 40, 7]]) {
            disk.put_folder(path, chunks);
        }
        disk.forbid("/closed");
        places
    }

    /// A file changes in place, is replaced by another, or vanishes.
    pub(super) fn change(&mut self, disk: &mut Disk, random: &mut Random) {
        let path = self.any_path(random);
        let before = self.now(path).map(|version| version.inode);
        for version in self.versions.iter_mut().filter(|version| version.path == path) {
            version.is_there = false;
        }
        if random.chance(20) {
            disk.remove(path);
            self.vanished.insert(path);
            return;
        }
        if random.chance(50) {
            self.overwritten.extend(before);
        }
        self.put(path, disk, random);
    }

    fn put(&mut self, path: &'static str, disk: &mut Disk, random: &mut Random) {
        let size = match path {
            "/empty" => 0,
            "/window" | "/window-too" => random.within(MEMORY_FILE_BYTES_MAX + 1..150_000),
            "/large" => random.within(WINDOW_BYTES..2 * WINDOW_BYTES + 50_000),
            "/middle" | "/middle-too" => random.within(4_000..MEMORY_FILE_BYTES_MAX + 1),
            _ => random.within(1..1_000),
        };
        let bytes = content(random, size);
        // No two versions have a second in common, or nobody could tell them apart.
        let stamp = disk.put_later(path, Arc::clone(&bytes), self.versions.len() as u32);
        let etag = EntityTag::new(stamp.modified_ns, stamp.size, "");
        let etag = String::from_utf8(etag.as_bytes().to_vec()).expect("entity tags are text");
        self.versions.push(Version { path, inode: stamp.inode, etag, bytes, is_there: true });
    }

    pub(super) fn any_path(&self, random: &mut Random) -> &'static str {
        // Large files are seldom asked for: their bytes take time.
        let path = *random.pick(PATHS);
        if path == "/large" && random.chance(60) { "/small" } else { path }
    }

    /// An entity tag that the file may have, now or not.
    pub(super) fn any_etag(&self, path: &'static str, random: &mut Random) -> String {
        let all: Vec<_> = self.versions.iter().filter(|version| version.path == path).collect();
        let latest = all.last().expect("every file was there once");
        if random.chance(60) { latest.etag.clone() } else { random.pick(&all).etag.clone() }
    }

    pub(super) fn now(&self, path: &str) -> Option<&Version> {
        self.versions.iter().find(|version| version.path == path && version.is_there)
    }

    pub(super) fn version(&self, path: &str, etag: &str) -> &Version {
        let is_it = |version: &&Version| version.path == path && version.etag == etag;
        self.versions.iter().find(is_it).unwrap_or_else(|| panic!("{path} was never {etag}"))
    }

    pub(super) fn sizes(&self, path: &str) -> impl Iterator<Item = u64> {
        self.versions
            .iter()
            .filter(move |version| version.path == path)
            .map(|version| version.bytes.len() as u64)
    }

    pub(super) fn was_gone(&self, path: &str) -> bool {
        self.vanished.contains(path)
    }
}

fn content(random: &mut Random, size: u64) -> Arc<[u8]> {
    let words = std::iter::repeat_with(|| random.next().to_le_bytes());
    let mut bytes: Vec<u8> = words.take(size.div_ceil(8) as usize).flatten().collect();
    bytes.truncate(size as usize);
    bytes.into()
}
