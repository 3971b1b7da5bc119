//! A listing, from its first name to its last page.
//!
//! [`Listing::page`] does one step of the work: it reads names until the step's time is over, or writes a page. All state
//! is in the listing, so any helper can do the next step. Names never change once they are complete. How a page is
//! [written](super::pages) is not known here.

use std::fmt::{self, Debug};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError, Weak};

use bytes::Bytes;

use super::batch::Batch;
use super::coder::Coder;
use super::folder::{Folder, FolderRead, OpenFolder, Part};
use super::name::{Kind, Name, Seen};
use super::names::{Names, OverBudget};
use super::order::{Column, Order};
use crate::cache::memory_budget::Budget;
use crate::file::entry::STALE_AFTER;
use crate::job::failure::Failure;
use crate::path::SitePath;
use crate::site::id::SiteId;
use crate::site::root::OpenRoot;

/// The names of a larger folder beyond this number are left out. A browser shows no page with more rows.
const NAMES_MAX: usize = 200_000;
/// Rows of a page: worth waking a helper, and few enough for one buffer.
const PAGE_ROWS: usize = 256;
/// Long names make pages with fewer rows.
pub(super) const PAGE_BYTES_MAX: usize = 128 << 10;
/// The largest row, without its name.
const ROW_BYTES: usize = 192;
/// A name is in a row twice: as link and as text. Each of its bytes takes at most this many in both.
const BYTES_PER_BYTE: usize = 11;
/// How many names are looked at before the clock is read. On a slow disk each look takes a while.
pub(super) const LOOKS: usize = 16;
/// A listing with at most this many pages has a known length, once all of them are written.
const WHOLE_PAGES_MAX: usize = 16;
/// What a listing takes, without its names.
const OWN_BYTES: usize = 1 << 10;

pub struct Listing {
    site: SiteId,
    pub(super) path: SitePath<'static>,
    pub(super) order: Order,
    asked_ms: u64,
    pub(super) budget: Arc<Budget>,
    /// All names and details are of this root. `None` for the only one there is.
    root: Option<Arc<dyn OpenRoot>>,
    /// The earlier listing of the same folder. Names and pages that are equal are shared with it.
    pub(super) before: Weak<Self>,
    making: Mutex<Making>,
    /// If the pages are compressed, what compresses them, from the first one on.
    pub(super) coder: Option<Mutex<Coder>>,
    /// Grows with every part of the work.
    progress: AtomicU64,
    ready: OnceLock<Ready>,
}

/// The work until all names are known.
#[derive(Default)]
struct Making {
    names: Option<Names>,
    open: Option<Arc<dyn OpenFolder>>,
    /// The position of the next names; `None` after the last.
    from: Option<u64>,
    /// The names that were read last, and how many of them have been entered.
    read: Batch,
    entered: usize,
    failure: Option<Failure>,
}

pub(super) struct Ready {
    pub(super) names: Arc<Names>,
    /// The first row of each page.
    pub(super) starts: Box<[u32]>,
    pub(super) pages: Mutex<Box<[Page]>>,
    ready_ms: u64,
}

#[derive(Clone, Default)]
pub(super) enum Page {
    #[default]
    Unwritten,
    /// The details of its first names are known.
    Begun(Vec<Option<Seen>>),
    Written(Bytes),
}

/// The result of one step of a listing.
#[derive(Debug)]
pub enum Step {
    /// The page that was asked for.
    Page(Bytes),
    /// The step's time is over: ask again.
    Unready,
    /// Another helper does a step of this listing now.
    Taken,
    /// A name leads to another device, for which this helper does not wait.
    Elsewhere,
    Failed(Failure),
}

/// The files whose texts stand above and below the rows, as [`Part::Text`] has them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Texts {
    pub header: Option<Box<[u8]>>,
    pub footer: Option<Box<[u8]>>,
}

/// What a listing needs for a step.
pub trait Maker {
    fn texts(&self) -> Texts {
        Texts::default()
    }

    /// Whether what it reads of files has their digests.
    fn tells_digests(&self) -> bool {
        false
    }

    /// The root that a new listing is made of. `None` if there is only one.
    fn root(&self) -> Option<Arc<dyn OpenRoot>> {
        None
    }

    /// Reads a part of the folder. `None` if that would block on another device.
    fn ask(&mut self, folder: Folder) -> Option<Result<FolderRead, Failure>>;

    /// Whether the step has taken long enough.
    fn is_over(&self) -> bool;

    /// Called if another helper does a step of the same listing. Blocks for a moment and returns true, if this helper may.
    fn wait(&mut self) -> bool;

    /// The cache keeps the listing from now on. The maker has to see that the cache's `age` is called.
    fn kept(&mut self);

    /// Evicts something, so that the budget has more room. Returns whether there was anything to evict.
    fn make_room(&mut self) -> bool;

    /// Copies a page into memory that any thread may free.
    fn hold(&self, page: &[u8]) -> Bytes;
}

impl Listing {
    pub(super) fn new(
        (site, path, order): (SiteId, SitePath<'static>, Order),
        asked_ms: u64,
        (budget, coder): (Arc<Budget>, Option<Coder>),
        root: Option<Arc<dyn OpenRoot>>,
        before: Weak<Self>,
    ) -> Self {
        let making = Making { from: Some(0), ..Making::default() };
        Self {
            site,
            path,
            order,
            asked_ms,
            budget,
            root,
            before,
            making: Mutex::new(making),
            coder: coder.map(Mutex::new),
            progress: AtomicU64::new(0),
            ready: OnceLock::new(),
        }
    }

    pub fn site(&self) -> SiteId {
        self.site
    }

    pub fn path(&self) -> &SitePath<'static> {
        &self.path
    }

    pub fn order(&self) -> Order {
        self.order
    }

    /// Of the root that it lists a folder of.
    pub fn generation(&self) -> u64 {
        self.root.as_ref().map_or(0, |root| root.generation())
    }

    /// Whether all names are known, so that only pages are left to write.
    pub fn is_ready(&self) -> bool {
        self.ready.get().is_some()
    }

    /// A number that grows with each step that makes progress.
    pub(crate) fn progress(&self) -> u64 {
        self.progress.load(Ordering::Relaxed)
    }

    pub(super) fn has_progressed(&self) {
        self.progress.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether a request at that time may join the listing. Every request may while names are being read.
    pub(crate) fn is_fresh(&self, now_ms: u64, keep_ms: u64) -> bool {
        let until_ms = |ready: &Ready| (ready.ready_ms + keep_ms).min(self.asked_ms + STALE_AFTER * keep_ms);
        self.ready.get().is_none_or(|ready| now_ms < until_ms(ready))
    }

    /// The number of pages. Zero until all names are known.
    pub fn page_count(&self) -> u32 {
        self.ready.get().map_or(0, |ready| ready.starts.len() as u32)
    }

    /// A page in memory. Returns `None` at once if a helper has the pages locked.
    pub fn page_now(&self, number: u32) -> Option<Bytes> {
        try_lock(&self.ready.get()?.pages)?.get(number as usize)?.written().cloned()
    }

    /// All pages, if there are few and all are in memory.
    pub(crate) fn whole_now(&self) -> Option<Vec<Bytes>> {
        let pages = try_lock(&self.ready.get()?.pages)?;
        if pages.len() > WHOLE_PAGES_MAX {
            None
        } else {
            pages.iter().map(|page| page.written().cloned()).collect()
        }
    }

    /// Drops the pages. They are written again when a reader needs them. Returns whether there were any. A page that is compressed
    /// stays, because the next ones continue it. It is smaller than the names that are in memory for it.
    pub(crate) fn evict_pages(&self) -> bool {
        let Some(ready) = self.ready.get().filter(|_| self.coder.is_none()) else { return false };
        let mut pages = lock(&ready.pages);
        let written = pages.iter_mut().filter(|page| page.written().is_some());
        let evicted: Vec<Page> = written.map(std::mem::take).collect();
        drop(pages);
        !evicted.is_empty()
    }

    /// Does a step towards this page.
    pub fn page(&self, number: u32, now_ms: u64, maker: &mut dyn Maker) -> Step {
        let ready = match self.ready.get() {
            Some(ready) => ready,
            None => match self.prepare(now_ms, maker) {
                Ok(ready) => ready,
                Err(step) => return step,
            },
        };
        let page = match self.written(ready, number as usize, maker) {
            Ok(page) => page,
            Err(step) => return step,
        };
        // If all pages are in memory, the response can say its length.
        if number == 0 && ready.starts.len() <= WHOLE_PAGES_MAX {
            for number in 1..ready.starts.len() {
                if maker.is_over() || self.written(ready, number, maker).is_err() {
                    break;
                }
            }
        }
        Step::Page(page)
    }

    fn prepare(&self, now_ms: u64, maker: &mut dyn Maker) -> Result<&Ready, Step> {
        let mut making = try_lock(&self.making).ok_or(Step::Taken)?;
        if let Some(ready) = self.ready.get() {
            return Ok(ready);
        }
        loop {
            match self.advance(&mut making, maker) {
                Ok(None) if maker.is_over() => return Err(Step::Unready),
                Ok(None) => {}
                Ok(Some(names)) => return Ok(self.ready.get_or_init(|| self.sorted(names, now_ms))),
                Err(Step::Failed(failure)) => {
                    *making = Making { failure: Some(failure), ..Making::default() };
                    return Err(Step::Failed(failure));
                }
                Err(step) => return Err(step),
            }
        }
    }

    /// Reads some names, or the details of some. Returns all names when they are complete.
    fn advance(&self, making: &mut Making, maker: &mut dyn Maker) -> Result<Option<Names>, Step> {
        if let Some(failure) = making.failure {
            return Err(Step::Failed(failure));
        }
        let names = match &mut making.names {
            Some(names) => names,
            empty => loop {
                match Names::new(&self.budget, (OWN_BYTES + self.path.as_bytes().len()) as u64) {
                    Ok(names) => break empty.insert(names),
                    Err(OverBudget) => make_room(maker)?,
                }
            },
        };
        if making.entered < making.read.len() {
            making.entered +=
                self.enter(making.read.iter().skip(making.entered).take(LOOKS), names, maker)?;
            self.has_progressed();
            return Ok(None);
        }
        let Some(from) = making.from else { return Ok(making.names.take()) };
        let part = Part::Names { open: making.open.clone(), from };
        match self.ask(part, maker)? {
            FolderRead::Names { names, open, next } => {
                (making.read, making.entered, making.from) = (names, 0, next);
                making.open = next.and(Some(open));
                Ok(None)
            }
            FolderRead::Details(_) | FolderRead::Text(_) => Err(Step::Failed(Failure::Broken)),
        }
    }

    /// Enters names that were read, with details if the order needs them. Returns how many: as far as details are known.
    fn enter<'a>(
        &self,
        batch: impl Iterator<Item = (&'a [u8], Kind)> + Clone,
        names: &mut Names,
        maker: &mut dyn Maker,
    ) -> Result<usize, Step> {
        let room = NAMES_MAX - names.len();
        let (all, batch) = (batch.clone(), batch.take(room));
        let is_unclear = |kind: Kind| kind == Kind::Unclear || self.order.by != Column::Name;
        let mut unclear = Batch::default();
        for (name, kind) in batch.clone().filter(|(_, kind)| is_unclear(*kind)) {
            unclear.push(name, kind);
        }
        let mut seen = self.look(unclear, maker)?.into_iter();
        for (entered, (name, kind)) in batch.enumerate() {
            let name = match is_unclear(kind).then(|| seen.next()) {
                None => Name { name, details: None, folder: kind == Kind::Folder },
                Some(Some(Some(seen))) => Name { name, details: Some(seen.details()), folder: seen.folder },
                // The name has vanished, or leads to nothing that would be served.
                Some(Some(None)) => continue,
                Some(None) => return Ok(entered),
            };
            while names.push(name) == Err(OverBudget) {
                make_room(maker)?;
            }
        }
        all.clone().skip(room).for_each(|_| names.leave_out());
        Ok(all.count())
    }

    /// The details of names from the first on: of one at least, and of as many as a short step has time for.
    pub(super) fn look(&self, names: Batch, maker: &mut dyn Maker) -> Result<Vec<Option<Seen>>, Step> {
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let count = names.len();
        match self.ask(Part::Details(names), maker)? {
            FolderRead::Details(seen) if (1..=count).contains(&seen.len()) => Ok(seen),
            _ => Err(Step::Failed(Failure::Broken)),
        }
    }

    pub(super) fn ask(&self, part: Part, maker: &mut dyn Maker) -> Result<FolderRead, Step> {
        match maker.ask(Folder { site: self.site, path: self.path.clone(), part, root: self.root.clone() }) {
            None => Err(Step::Elsewhere),
            Some(Err(failure)) => Err(Step::Failed(failure)),
            Some(Ok(read)) => {
                self.has_progressed();
                Ok(read)
            }
        }
    }

    fn sorted(&self, mut names: Names, now_ms: u64) -> Ready {
        names.sort(self.order);
        let before = self.before.upgrade();
        let before = before.as_ref().and_then(|before| before.ready.get());
        let names = match before.filter(|before| *before.names == names) {
            Some(before) => Arc::clone(&before.names),
            None => Arc::new(names),
        };
        let starts = starts(&names);
        let pages = Mutex::new(vec![Page::Unwritten; starts.len()].into_boxed_slice());
        Ready { names, starts, pages, ready_ms: now_ms }
    }
}

impl Page {
    pub(super) fn written(&self) -> Option<&Bytes> {
        if let Self::Written(page) = self { Some(page) } else { None }
    }
}

impl Ready {
    pub(super) fn rows(&self, page: usize) -> Range<usize> {
        let start = |page: usize| self.starts.get(page).map_or(self.names.len(), |start| *start as usize);
        start(page)..start(page + 1)
    }
}

/// The first row of each page. A listing without names has one page, too.
fn starts(names: &Names) -> Box<[u32]> {
    let (mut starts, mut rows, mut bytes) = (vec![0], 0, 0);
    for (number, name) in names.iter().enumerate() {
        let row_bytes = ROW_BYTES + name.name.len() * BYTES_PER_BYTE;
        if rows == PAGE_ROWS || (rows > 0 && bytes + row_bytes > PAGE_BYTES_MAX) {
            starts.push(number as u32);
            (rows, bytes) = (0, 0);
        }
        rows += 1;
        bytes += row_bytes;
    }
    starts.into_boxed_slice()
}

fn make_room(maker: &mut dyn Maker) -> Result<(), Step> {
    if maker.make_room() { Ok(()) } else { Err(Step::Failed(Failure::OverBudget)) }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

impl Debug for Listing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Listing({} {:?}, {} pages)",
            self.path.as_bytes().escape_ascii(),
            self.order,
            self.page_count()
        )
    }
}
