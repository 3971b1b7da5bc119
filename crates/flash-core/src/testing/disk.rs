//! A disk in memory. A script decides what a look at a window finds. The disk remembers which windows it called resident.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use flash_http::media;
use flash_http::negotiate::{Coding, CodingSet};

use crate::cache::memory_budget::BudgetedBytes;
use crate::file::compressed::Compressed;
use crate::file::entry::{Entry, Resource, Variants};
use crate::file::header::HeaderTemplate;
use crate::file::validators::ReprDigest;
use crate::file::{Content, File, OpenFile, Stamp, Window};
use crate::job::{Done, Failure, Find, Job, Listed, Spool, SpoolFile};
use crate::listing::cache::ListingCache;
use crate::listing::{Batch, Folder, FolderRead, Kind, Maker, OpenFolder, Part, Seen};
use crate::path::SitePath;
use crate::site::id::SiteId;

/// What a look at a window finds, in the order of the script. After its end everything is resident.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    Resident,
    /// Only this many bytes at the window's beginning are resident.
    ResidentUpTo(u64),
    /// The window is absent; a helper warms it.
    Absent,
    /// A copy, as for processes that the kernel denies `cachestat`.
    Copied,
    Changed,
    Failed,
}

#[derive(Debug)]
pub(crate) struct Disk {
    places: BTreeMap<&'static str, Node>,
    /// Contents by inode, for the socket that "sends" a file.
    contents: HashMap<u64, Arc<[u8]>>,
    shared: Arc<Mutex<Shared>>,
    memory_file_bytes_max: u64,
    /// Makes every `find` fail, and every `spool`.
    pub(crate) failure: Option<Failure>,
    pub(crate) listings: ListingCache,
    /// A job for a listing does as little as it can.
    pub(crate) short_steps: bool,
    /// How many jobs were done, by [`Job::name`].
    pub(crate) done: HashMap<&'static str, usize>,
    /// What is known of each file's digest.
    pub(crate) repr_digest: ReprDigest,
    /// Of the roots of sites. Others have 0.
    pub(crate) generations: HashMap<SiteId, u64>,
    /// The site whose root is empty.
    pub(crate) empty: Option<SiteId>,
}

#[derive(Debug)]
enum Node {
    File(Stamp),
    Folder {
        pages: Vec<usize>,
    },
    FolderWithoutSlash,
    Script,
    Forbidden,
    /// The file or script at this path answers for its folder.
    Index(&'static str),
}

#[derive(Debug, Default)]
struct Shared {
    script: VecDeque<Look>,
    /// The windows that were called resident since the last wait.
    vouched: Vec<(u64, Range<u64>)>,
    /// All windows that were asked for.
    asked: Vec<Range<u64>>,
}

/// A helper reads and copies no more than this of a window.
const READ_BYTES_MAX: u64 = 100_000;

/// 1994-11-15 08:12:31 UTC.
const MODIFIED_NS: i64 = 784_887_151_000_000_000;

impl Disk {
    pub(crate) fn new(memory_file_bytes_max: u64) -> Self {
        Self {
            places: BTreeMap::new(),
            contents: HashMap::new(),
            shared: Arc::default(),
            memory_file_bytes_max,
            failure: None,
            listings: ListingCache::new(1_000, 1 << 20),
            short_steps: false,
            repr_digest: ReprDigest::Off,
            done: HashMap::new(),
            generations: HashMap::new(),
            empty: None,
        }
    }

    /// Creates or replaces a file.
    pub(crate) fn put(&mut self, path: &'static str, content: impl Into<Arc<[u8]>>) {
        self.put_later(path, content, 0);
    }

    /// The same so many seconds after the disk's other files were written.
    pub(crate) fn put_later(
        &mut self,
        path: &'static str,
        content: impl Into<Arc<[u8]>>,
        seconds: u32,
    ) -> Stamp {
        let content = content.into();
        let inode = self.contents.len() as u64 + 1;
        let modified_ns = MODIFIED_NS + i64::from(seconds) * 1_000_000_000;
        let size = content.len() as u64;
        let stamp = Stamp { device: 1, inode, size, modified_ns, changed_ns: modified_ns };
        self.contents.insert(inode, content);
        self.places.insert(path, Node::File(stamp));
        stamp
    }

    pub(crate) fn remove(&mut self, path: &'static str) {
        self.places.remove(path);
    }

    /// How many files, opened or stored bodies, are still held.
    pub(crate) fn open_files(&self) -> usize {
        Arc::strong_count(&self.shared) - 1
    }

    /// A folder whose listing has a page for each number, with that many rows. The other names of a page vanish between two
    /// looks. The names of a single page do not vanish.
    pub(crate) fn put_folder(&mut self, path: &'static str, pages: &[usize]) {
        self.places.insert(path, Node::Folder { pages: pages.to_vec() });
        if let Some(bare) = path.strip_suffix('/').filter(|bare| !bare.is_empty()) {
            self.places.insert(bare, Node::FolderWithoutSlash);
        }
    }

    /// The file or script at this path answers for its folder.
    pub(crate) fn put_index(&mut self, path: &'static str) {
        let folder = &path[..=path.rfind('/').expect("it lies in a folder")];
        self.places.insert(folder, Node::Index(path));
    }

    pub(crate) fn put_script(&mut self, path: &'static str) {
        self.places.insert(path, Node::Script);
    }

    pub(crate) fn forbid(&mut self, path: &'static str) {
        self.places.insert(path, Node::Forbidden);
    }

    pub(crate) fn script(&self, looks: impl IntoIterator<Item = Look>) {
        self.shared().script.extend(looks);
    }

    /// Time has passed, so pages may have left the cache. No earlier look counts.
    pub(crate) fn forget_vouched(&self) {
        self.shared().vouched.clear();
    }

    /// The bytes of a window that a look has just found resident.
    pub(crate) fn vouched_bytes(&self, file: &File, range: Range<u64>) -> &[u8] {
        let inode = file.stamp.inode;
        let holds = |(of, window): &(u64, Range<u64>)| {
            *of == inode && window.start <= range.start && range.end <= window.end
        };
        assert!(
            self.shared().vouched.iter().any(holds),
            "{range:?} is sent without a look since the last wait: sendfile might sleep"
        );
        &self.contents[&inode][range.start as usize..range.end as usize]
    }

    pub(crate) fn take_asked(&self) -> Vec<Range<u64>> {
        std::mem::take(&mut self.shared().asked)
    }

    /// Does the job if that "needs no waiting". Finds do not wait; listings and absent windows do.
    pub(crate) fn try_now(&mut self, job: &Job) -> Option<Done> {
        let done = match job {
            Job::Find(find) => self.find(find),
            Job::Load(load) => match load.file.window_now(load.window.clone()) {
                Window::Absent => return None,
                window => Done::Window(window),
            },
            Job::List(list) => {
                let listing = match &list.listing {
                    Some(listing) => Arc::clone(listing),
                    None => self.listings.get_now(list, 0)?,
                };
                let page = Some(listing.page_now(list.page)?);
                return Some(Done::Listed(Listed { listing, page }));
            }
            Job::ReadAhead(_) | Job::Folder(_) | Job::Spool(_) => return None,
        };
        *self.done.entry(job.name()).or_default() += 1;
        Some(done)
    }

    pub(crate) fn help(&mut self, job: &Job) -> Done {
        let done = self.done.entry(job.name()).or_default();
        *done += 1;
        assert!(*done < 100_000, "the same is asked for again and again: {job:?}");
        match job {
            Job::Find(find) => self.find(find),
            Job::Load(load) => Done::Window(load.file.load_window(load.window.clone(), load.copy)),
            Job::ReadAhead(ahead) => {
                ahead.file.read_ahead(ahead.rest.clone());
                Done::Window(Window::Warmed)
            }
            Job::Spool(spool) => self.spool(spool),
            Job::List(list) => {
                self.listings.list(list, &mut Worker(self)).expect("nothing is on another device")
            }
            Job::Folder(folder) => self.read_folder(folder).map_or_else(Done::Failed, Done::Folder),
        }
    }

    fn spool(&self, spool: &Spool) -> Done {
        let done = self.failure.map_or(Ok(()), Err).and_then(|()| match spool {
            Spool::Write { file, bytes } => {
                let new = || Spooled { bytes: Mutex::default(), _shared: Arc::clone(&self.shared) };
                let file = file.clone().unwrap_or_else(|| Arc::new(new()));
                file.append(bytes).map(|()| Done::Spooled(file))
            }
            Spool::Read { file, range } => file.read(range.clone()).map(Done::Unspooled),
        });
        done.unwrap_or_else(Done::Failed)
    }

    fn find(&self, find: &Find) -> Done {
        if let Some(failure) = self.failure {
            return find.failed(failure);
        }
        let asked = std::str::from_utf8(find.path.as_bytes()).expect("the tests' paths are text");
        let ends = asked.match_indices('/').map(|(slash, _)| &asked[..slash]);
        let path = match self.places.get(asked) {
            Some(Node::Index(path)) => path,
            Some(_) => asked,
            // A script, and its path info.
            None => ends
                .into_iter()
                .find(|end| matches!(self.places.get(*end), Some(Node::Script)))
                .unwrap_or(asked),
        };
        let resource = match self.places.get(path).filter(|_| self.empty != Some(find.site)) {
            None | Some(Node::Index(_)) => Resource::Missing,
            Some(Node::Script) => Resource::Script(path.as_bytes().into()),
            Some(Node::Forbidden) => Resource::Forbidden(crate::record::refusal::Refusal::Permission),
            Some(Node::Folder { .. }) => Resource::Folder,
            Some(Node::FolderWithoutSlash) => Resource::FolderWithoutSlash,
            Some(Node::File(stamp)) => match &find.known {
                Some(known)
                    if known.files().any(|file| file.stamp == *stamp)
                        && known.has_looked_for(|| find.codings) =>
                {
                    known.checked(find.asked_ms);
                    return Done::Found(Arc::clone(known));
                }
                known => Resource::File(self.variants(path, stamp, known.as_deref(), find.codings)),
            },
        };
        let found_at =
            (path != asked).then(|| SitePath::parse(path.as_bytes()).expect("a path").into_owned());
        let generation = self.generations.get(&find.site).copied().unwrap_or_default();
        Done::Found(Arc::new(Entry::new(resource, find.asked_ms).of_root(generation).at(found_at)))
    }

    /// A file, and its copies in the codings that the client takes. It keeps what is known of the file itself.
    fn variants(&self, path: &str, stamp: &Stamp, known: Option<&Entry>, codings: CodingSet) -> Variants {
        let is_it = |file: &&Arc<File>| file.stamp == *stamp;
        let kept = known.and_then(|known| known.files().find(is_it).map(Arc::clone));
        let identity = kept.unwrap_or_else(|| Arc::new(self.open(path, stamp, None)));
        if !identity.media.compressible {
            return Variants {
                identity,
                coded: Vec::new(),
                looked_for: CodingSet::ALL,
                compressed: Compressed::default(),
            };
        }
        let known = known.map_or(CodingSet::EMPTY, |known| match &known.resource {
            Resource::File(variants) => variants.looked_for,
            _ => CodingSet::EMPTY,
        });
        let looked_for = codings.union(known);
        let copy = |coding: Coding| match self.places.get(&*format!("{path}{}", coding.suffix())) {
            Some(Node::File(stamp)) => Some(Arc::new(self.open(path, stamp, Some(coding)))),
            _ => None,
        };
        Variants {
            identity,
            coded: looked_for.iter().filter_map(copy).collect(),
            looked_for,
            compressed: Compressed::default(),
        }
    }

    fn open(&self, path: &str, stamp: &Stamp, coding: Option<Coding>) -> File {
        let bytes = &self.contents[&stamp.inode];
        let content = if stamp.size <= self.memory_file_bytes_max {
            Content::Memory(BudgetedBytes::from(bytes.to_vec()).into())
        } else {
            let (inode, bytes, shared) = (stamp.inode, Arc::clone(bytes), Arc::clone(&self.shared));
            Content::Open(Arc::new(Opened { inode, bytes, shared, descriptor: io::stdin() }))
        };
        let media = media::of(path.as_bytes());
        let template = (&HeaderTemplate::default(), None);
        let file = File::new(*stamp, media, coding, media.compressible, template, content);
        File { repr_digest: self.repr_digest, ..file }
    }

    fn read_folder(&self, folder: &Folder) -> Result<FolderRead, Failure> {
        let path = std::str::from_utf8(folder.path.as_bytes()).expect("the tests' paths are text");
        let Some(Node::Folder { pages }) = self.places.get(path) else {
            return Err(Failure::NotFound);
        };
        Ok(match &folder.part {
            Part::Names { open, from } => {
                let count = if pages.len() > 1 { PAGE_ROWS * pages.len() } else { pages[0] };
                let mut names = Batch::default();
                let end = count.min(*from as usize + READ_NAMES_MAX);
                for number in *from as usize..end {
                    let name = format!("{}-{}.txt", number / PAGE_ROWS, number % PAGE_ROWS);
                    names.push(name.as_bytes(), Kind::File);
                }
                let open = open.clone().unwrap_or_else(|| {
                    Arc::new(OpenedFolder { descriptor: io::stdin(), _shared: Arc::clone(&self.shared) })
                });
                FolderRead::Names { names, open, next: (end < count).then_some(end as u64) }
            }
            Part::Details(names) => {
                let look = |(name, _): (&[u8], Kind)| {
                    let name = std::str::from_utf8(name).expect("the tests' names are text");
                    let numbers = name.strip_suffix(".txt").and_then(|name| name.split_once('-'));
                    let (page, number) = numbers.expect("a name that was given out");
                    let number: usize = number.parse().expect("a number");
                    let is_there = number < pages[page.parse::<usize>().expect("a number")];
                    let stamp = Stamp {
                        size: number as u64,
                        modified_ns: 784_887_151_000_000_000,
                        ..Stamp::default()
                    };
                    is_there.then_some(Seen { stamp, folder: false, digest: None })
                };
                FolderRead::Details(names.iter().map(look).collect())
            }
            Part::Text(_) => FolderRead::Text(None),
        })
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Names of a page of a listing, unless they are long.
pub(crate) const PAGE_ROWS: usize = 256;
/// How many names are read at a time.
const READ_NAMES_MAX: usize = 100;

/// Does the job of a listing.
struct Worker<'a>(&'a Disk);

impl Maker for Worker<'_> {
    fn ask(&mut self, folder: Folder) -> Option<Result<FolderRead, Failure>> {
        Some(self.0.read_folder(&folder))
    }

    fn is_over(&self) -> bool {
        self.0.short_steps
    }

    fn wait(&mut self) -> bool {
        unreachable!("there is one thread")
    }

    fn kept(&mut self) {}

    fn make_room(&mut self) -> bool {
        self.0.listings.make_room()
    }

    fn hold(&self, page: &[u8]) -> Bytes {
        Bytes::copy_from_slice(page)
    }
}

#[derive(Debug)]
struct OpenedFolder {
    descriptor: io::Stdin,
    /// Counts as a file.
    _shared: Arc<Mutex<Shared>>,
}

impl AsFd for OpenedFolder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl OpenFolder for OpenedFolder {}

/// A file too large for memory.
#[derive(Debug)]
struct Opened {
    inode: u64,
    bytes: Arc<[u8]>,
    shared: Arc<Mutex<Shared>>,
    /// Any descriptor will do: no test reads from it.
    descriptor: io::Stdin,
}

impl Opened {
    fn copy(&self, window: Range<u64>) -> Window {
        let end = window.end.min(window.start + READ_BYTES_MAX);
        Window::Copied(Bytes::copy_from_slice(&self.bytes[window.start as usize..end as usize]))
    }
}

impl AsFd for Opened {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl OpenFile for Opened {
    fn window_now(&self, _: &Stamp, window: Range<u64>) -> Window {
        let mut shared = self.shared.lock().expect("no test panics while it holds the lock");
        shared.asked.push(window.clone());
        let look = shared.script.pop_front().unwrap_or(Look::Resident);
        match look {
            Look::Resident | Look::ResidentUpTo(_) => {
                let most = if let Look::ResidentUpTo(bytes) = look { bytes } else { u64::MAX };
                let beginning = window.start..window.end.min(window.start.saturating_add(most));
                shared.vouched.push((self.inode, beginning.clone()));
                Window::Resident(beginning)
            }
            Look::Absent => Window::Absent,
            Look::Copied => self.copy(window),
            Look::Changed => Window::Changed,
            Look::Failed => Window::Failed,
        }
    }

    /// A helper's load does not call anything resident: when the loop sees the result, the pages may be gone.
    fn load_window(&self, _: &Stamp, window: Range<u64>, copy: bool) -> Window {
        self.shared.lock().expect("no test panics while it holds the lock").asked.push(window.clone());
        if copy { self.copy(window) } else { Window::Warmed }
    }

    fn wait_for_window(&self, stamp: &Stamp, window: Range<u64>, _: u64) -> Window {
        self.window_now(stamp, window)
    }

    fn memory_bytes(&self) -> u64 {
        0
    }
}

/// A request's body, or the first part of it.
#[derive(Debug)]
struct Spooled {
    bytes: Mutex<Vec<u8>>,
    /// Counts as an open file.
    _shared: Arc<Mutex<Shared>>,
}

impl SpoolFile for Spooled {
    fn append(&self, bytes: &[u8]) -> Result<(), Failure> {
        assert!(!bytes.is_empty());
        self.bytes.lock().expect("no test panics while it holds the lock").extend_from_slice(bytes);
        Ok(())
    }

    fn read(&self, range: Range<u64>) -> Result<Bytes, Failure> {
        assert!(!range.is_empty());
        let bytes = self.bytes.lock().expect("no test panics while it holds the lock");
        // As much as it likes.
        let end = range.end.min(range.start + READ_BYTES_MAX);
        Ok(Bytes::copy_from_slice(&bytes[range.start as usize..end as usize]))
    }
}
