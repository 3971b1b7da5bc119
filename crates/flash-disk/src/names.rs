//! Name tables: which names a folder holds, so that a loop can tell that a name is missing without waiting for the disk.
//!
//! The dentry cache has an answer for a name that was looked up before. For a new name `RESOLVE_CACHED` says EAGAIN, even if
//! every block of the folder is in memory. A helper that finds a name missing therefore [reads](read) all names of the folder,
//! if they are few, and publishes a table of their hashes. A loop that looks for another new name there compares the folder's
//! stamp with that of the table. If they are equal and the table lacks the name, the name is missing.
//!
//! If the table has an equal hash, the disk is asked. [`root`](crate::root) decides how a loop looks at a folder.

pub(crate) mod folder_reader;
pub(crate) mod read;
pub(crate) mod table;

use std::hash::{BuildHasher, DefaultHasher, Hasher, RandomState};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::{ArcSwapOption, Guard};

use self::read::Reading;
use self::table::{FolderState, Says, Table};

/// A folder with more names gets no table.
pub(crate) const TABLE_NAMES_MAX: u32 = 16 << 10;
/// All tables together hold at most this many names, of four bytes each.
const NAMES_MAX: usize = 1 << 20;
/// The number of folders with a slot.
const FOLDERS_MAX: usize = 1 << 13;
/// Slots in which a folder may be kept.
const WAYS: usize = 4;
/// A folder with a longer path gets no table.
const PATH_BYTES_MAX: usize = 1 << 10;
/// Each missing name pays for reading so many names of its folder. Reading thus costs at most a fixed multiple of the
/// look-ups, for folders of any size.
const NAMES_PER_MISS: u32 = 512;
/// The names that a huge folder is expected to have, so that it is seldom read in vain.
const HUGE: u32 = 64 * TABLE_NAMES_MAX;
/// The tag of an empty slot.
const EMPTY: u64 = 0;

/// The tables of all folders. Loops read them without a lock; helpers replace them.
#[derive(Debug)]
pub(crate) struct NameTables {
    /// The key of the folder in each slot. A loop loads a slot only if its key is equal.
    tags: Box<[AtomicU64]>,
    slots: Box<[ArcSwapOption<Folder>]>,
    seed: RandomState,
    briefly: Duration,
    clock: Mutex<Clock>,
}

/// The clock algorithm, which decides which folder is evicted.
#[derive(Debug, Default)]
struct Clock {
    hand: usize,
    /// The names in all tables.
    names: usize,
}

/// Who reads a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reader {
    /// A helper. Where one reads already, others do not.
    Helper,
    /// The [thread](folder_reader) for it. A helper that reads already may not run for long, because it has the lowest priority.
    FolderReader,
}

/// A folder in which a name was missing.
#[derive(Debug)]
pub(crate) struct Folder {
    key: u64,
    root: u32,
    path: Box<[u8]>,
    table: Option<Table>,
    /// Names that were missing since the folder was last read.
    misses: AtomicU32,
    /// How many names the folder is expected to have.
    expected: u32,
    is_being_read: AtomicBool,
    /// Whether it was used since the clock's hand last passed.
    is_used: AtomicBool,
}

/// A folder on the way to a name.
struct Step<'n> {
    key: u64,
    path: &'n [u8],
    /// The name that is looked up in the folder.
    part: &'n [u8],
    is_last: bool,
}

impl NameTables {
    /// If a folder may change without a trace, its table is valid for `briefly`.
    pub(crate) fn new(briefly: Duration) -> Self {
        Self {
            tags: std::iter::repeat_with(|| AtomicU64::new(EMPTY)).take(FOLDERS_MAX).collect(),
            slots: std::iter::repeat_with(ArcSwapOption::empty).take(FOLDERS_MAX).collect(),
            seed: RandomState::new(),
            briefly,
            clock: Mutex::default(),
        }
    }

    /// Whether a walk to `name` is sure to fail. A folder on the way lacks the next name, or has a regular file in
    /// place of a folder. `is_current` tells whether a folder is still in its state, or returns `None` if it would
    /// have to wait.
    pub(crate) fn lack(
        &self,
        root: u32,
        name: &[u8],
        is_current: impl Fn(&[u8], &FolderState) -> Option<bool>,
    ) -> bool {
        self.steps(root, name).any(|Step { key, path, part, is_last }| {
            let fails = |table: &Table| match table.says(self.hash(part)) {
                Says::Missing => true,
                Says::File => !is_last,
                Says::Anything => false,
            };
            let folder = self.folder(key, root, path);
            let folder = folder.as_ref().and_then(|folder| folder.as_ref());
            folder.is_some_and(|folder| folder.shows(fails, |state| is_current(path, state)))
        })
    }

    /// How many names of the folder a helper process may read, if it finds this name missing.
    pub(crate) fn wanted(&self, root: u32, name: &[u8]) -> u32 {
        let mut wanted = NAMES_PER_MISS;
        for Step { key, path, part, .. } in self.steps(root, name) {
            let folder = self.folder(key, root, path);
            if let Some(folder) = folder.as_ref().and_then(|folder| folder.as_ref()) {
                let holds = |table: &Table| table.is_valid() && table.says(self.hash(part)) == Says::Anything;
                // If this table has the name, a part further down may be missing.
                let is_below = folder.table.as_ref().is_some_and(holds);
                wanted = if is_below { NAMES_PER_MISS } else { folder.count_miss().unwrap_or_default() };
            }
        }
        if self.briefly.is_zero() { 0 } else { wanted }
    }

    /// The folder of this path, for a helper that found a name missing there.
    pub(crate) fn visit(&self, root: u32, path: &[u8]) -> Option<Arc<Folder>> {
        if path.len() > PATH_BYTES_MAX {
            return None;
        }
        let mut key = self.key_of_root(root);
        path.split(|&byte| byte == b'/').filter(|part| !part.is_empty()).for_each(|part| add(part, &mut key));
        let key = finished(&key);
        if let Some(folder) = self.folder(key, root, path) {
            return folder.clone();
        }
        let folder = Arc::new(Folder::new(key, root, path, None, 0));
        self.put(&folder);
        Some(folder)
    }

    /// Replaces a folder's table by what a reading has found.
    pub(crate) fn publish(&self, folder: &Folder, reading: Reading) {
        let (table, expected) = match reading {
            Reading::Whole(table) => {
                let count = table.names() as u32;
                (Some(table), count)
            }
            Reading::MoreThan(count) if count < TABLE_NAMES_MAX => (None, 2 * count),
            Reading::MoreThan(_) => (None, HUGE),
            Reading::Never => (None, u32::MAX),
            Reading::NotNow => return folder.is_being_read.store(false, Ordering::Relaxed),
        };
        self.put(&Arc::new(Folder::new(folder.key, folder.root, &folder.path, table, expected)));
    }

    /// How long a table is valid if its folder may change without a trace.
    pub(crate) fn briefly(&self) -> Duration {
        self.briefly
    }

    /// A name's hash. The seed is secret, so no client can make up missing names with the hashes of others.
    pub(crate) fn hash(&self, name: &[u8]) -> u32 {
        let mut hasher = self.seed.build_hasher();
        hasher.write(name);
        hasher.finish() as u32
    }

    /// The folders that a walk to `name` passes, each with the next part of the name. An empty part, `.` or `..` ends
    /// them.
    fn steps<'n>(&self, root: u32, name: &'n [u8]) -> impl Iterator<Item = Step<'n>> {
        let mut key = self.key_of_root(root);
        let mut start = 0_usize;
        std::iter::from_fn(move || {
            let rest = name.get(start..)?;
            let part = rest.split(|&byte| byte == b'/').next()?;
            if matches!(part, b"" | b"." | b"..") {
                return None;
            }
            let is_last = part.len() == rest.len();
            let step = Step { key: finished(&key), path: &name[..start.saturating_sub(1)], part, is_last };
            add(part, &mut key);
            start += part.len() + 1;
            Some(step)
        })
    }

    fn key_of_root(&self, root: u32) -> DefaultHasher {
        let mut key = self.seed.build_hasher();
        key.write_u32(root);
        key
    }

    fn folder(&self, key: u64, root: u32, path: &[u8]) -> Option<Guard<Option<Arc<Folder>>>> {
        let place = set(key).find(|&place| self.tags[place].load(Ordering::Acquire) == key)?;
        let folder = self.slots[place].load();
        folder.as_ref().is_some_and(|folder| folder.root == root && *folder.path == *path).then_some(folder)
    }

    fn put(&self, folder: &Arc<Folder>) {
        let mut clock = self.clock.lock().unwrap_or_else(PoisonError::into_inner);
        let place = self.place_for(folder.key, &mut clock);
        self.replace(place, Some(Arc::clone(folder)), &mut clock);
        let mut steps_left = 2 * FOLDERS_MAX;
        while clock.names > NAMES_MAX && steps_left > 0 {
            steps_left -= 1;
            clock.hand = (clock.hand + 1) % FOLDERS_MAX;
            if clock.hand != place && !self.was_used(clock.hand) {
                self.replace(clock.hand, None, &mut clock);
            }
        }
    }

    fn replace(&self, place: usize, folder: Option<Arc<Folder>>, clock: &mut Clock) {
        let names = |folder: &Option<Arc<Folder>>| folder.as_ref().map_or(0, |folder| folder.names());
        let tag = folder.as_ref().map_or(EMPTY, |folder| folder.key);
        clock.names += names(&folder);
        clock.names -= names(&self.slots[place].swap(folder));
        self.tags[place].store(tag, Ordering::Release);
    }

    /// The slot that the folder is in, or an empty one, or that of a folder that was not used lately.
    fn place_for(&self, key: u64, clock: &mut Clock) -> usize {
        let set = set(key);
        let tagged = |tag| set.clone().find(|&place| self.tags[place].load(Ordering::Relaxed) == tag);
        tagged(key).or_else(|| tagged(EMPTY)).unwrap_or_else(|| {
            clock.hand = (clock.hand + 1) % FOLDERS_MAX;
            let way = |number: usize| set.start + (clock.hand + number) % WAYS;
            (0..WAYS).map(way).find(|&place| !self.was_used(place)).unwrap_or(way(0))
        })
    }

    /// Whether the folder in this slot was used since the last call.
    fn was_used(&self, place: usize) -> bool {
        self.slots[place].load().as_ref().is_some_and(|folder| folder.is_used.swap(false, Ordering::Relaxed))
    }
}

/// Adds the next part of a path to its key.
fn add(part: &[u8], key: &mut DefaultHasher) {
    key.write(part);
    key.write_u8(b'/');
}

fn finished(key: &DefaultHasher) -> u64 {
    key.finish().max(EMPTY + 1)
}

/// The slots in which the folder of this key may be.
fn set(key: u64) -> Range<usize> {
    let start = key as usize % (FOLDERS_MAX / WAYS) * WAYS;
    start..start + WAYS
}

impl Folder {
    fn new(key: u64, root: u32, path: &[u8], table: Option<Table>, expected: u32) -> Self {
        Self {
            key,
            root,
            path: path.into(),
            table,
            misses: AtomicU32::new(0),
            expected,
            is_being_read: AtomicBool::new(false),
            is_used: AtomicBool::new(false),
        }
    }

    /// Whether the folder's table shows that a walk fails.
    fn shows(
        &self,
        fails: impl Fn(&Table) -> bool,
        is_current: impl Fn(&FolderState) -> Option<bool>,
    ) -> bool {
        let Some(table) = self.table.as_ref().filter(|table| table.is_valid() && fails(table)) else {
            return false;
        };
        if table.is_due() {
            return false;
        }
        let is_current = table.state().map_or(Some(true), is_current);
        if is_current == Some(false) {
            table.outdate();
        }
        if is_current == Some(true) && !self.is_used.load(Ordering::Relaxed) {
            self.is_used.store(true, Ordering::Relaxed);
        }
        is_current == Some(true)
    }

    /// Counts a missing name. If it is time to read the folder, returns how many names may be read. The caller then
    /// has to [publish](NameTables::publish) the reading.
    pub(crate) fn missed(&self, state: &FolderState, reader: Reader) -> Option<u32> {
        let serves =
            |table: &Table| table.is_valid() && !table.is_being_renewed() && table.state() == Some(state);
        if self.table.as_ref().is_some_and(serves) {
            return None;
        }
        let reads =
            |_: &u32| !self.is_being_read.swap(true, Ordering::Relaxed) || reader == Reader::FolderReader;
        self.count_miss().filter(reads)
    }

    fn count_miss(&self) -> Option<u32> {
        if self.table.as_ref().is_some_and(Table::is_being_renewed) {
            // A renewal may read the whole folder, once in half a term.
            return Some(TABLE_NAMES_MAX);
        }
        let misses = self.misses.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        let names = misses.saturating_mul(NAMES_PER_MISS);
        (names >= self.expected).then_some(names.min(TABLE_NAMES_MAX))
    }

    fn names(&self) -> usize {
        self.table.as_ref().map_or(0, Table::names)
    }
}

#[cfg(test)]
mod tests;
