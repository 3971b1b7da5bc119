//! The jobs *list* and *folder*: steps of a listing, and the parts of a folder that a step needs.
//!
//! The listing itself, and what its rows look like, is [`flash_core::listing`]'s business.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use flash_core::job::{Done, Failure, Job, List, Listed};
use flash_core::listing::{
    self, Batch, Folder, FolderRead, Kind, Maker, NAME_BYTES_MAX, Part, Seen, TEXT_BYTES_MAX, Texts,
};
use flash_core::path::SitePath;
use flash_core::site::root::OpenRoot;
use flash_os::folder_entries::Entries;
use flash_os::shared_heap::HeapBuf;
use rustix::fs::{FileType, SeekFrom, seek, tell};

use crate::blocking::Blocking;
use crate::call_timer::{Stage, timed};
use crate::closer::Closer;
use crate::destination::Walk;
use crate::disk::Disk;
use crate::listings::Listings;
use crate::lookup_error::LookupError;
use crate::read::{ReadResult, read};
use crate::root::Root;
use crate::scripts::is_program;
use crate::settings::SiteSettings;
use crate::site_root::{SiteRoot, SiteRoots};
use crate::stat::FileStat;
use crate::users::{Users, user_of};

/// What one call reads of a folder. A name takes at least 24 bytes.
const READ_BYTES: usize = 32 << 10;
pub(crate) const READ_NAMES_MAX: usize = READ_BYTES / 24;

/// A folder whose names are being read.
#[derive(Debug)]
pub(crate) struct OpenFolder {
    /// `None` only while it is dropped.
    file: Option<OwnedFd>,
    closer: Option<Arc<Closer>>,
}

/// One step of a listing.
struct ListStep<'a> {
    listings: &'a Arc<Listings>,
    roots: &'a SiteRoots,
    ask: &'a mut dyn FnMut(Job) -> Option<Done>,
    blocking: Blocking,
    until: Instant,
}

impl Disk {
    /// Does a step of a listing. `ask` reads the folder. Returns `None` if the step would wait for another device.
    pub(crate) fn list(
        &self,
        list: &List,
        blocking: Blocking,
        ask: &mut dyn FnMut(Job) -> Option<Done>,
    ) -> Option<Done> {
        let until = Instant::now() + self.list_step;
        let roots = match self.sites.ask(list.site, blocking) {
            Ok(roots) => roots,
            Err(LookupError::Elsewhere | LookupError::WouldBlock) => return None,
            Err(stop) => return Some(Done::Failed(stop.failure())),
        };
        let mut step = ListStep { listings: &self.listings, roots: &roots, ask, blocking, until };
        let done = self.listings.cache.list(list, &mut step);
        self.listings.step_ended.notify_all();
        done
    }

    /// A page that is in memory already.
    pub(crate) fn list_now(&self, list: &List) -> Option<Done> {
        let listing = match &list.listing {
            Some(listing) => Arc::clone(listing),
            None => {
                let roots = self.sites.get(list.site).filter(|roots| !roots.is_idle())?;
                let generation = roots.generation().get();
                self.listings.cache.get_now(list, generation)?
            }
        };
        let page = Some(listing.page_now(list.page)?);
        Some(Done::Listed(Listed { listing, page }))
    }

    /// Reads a part of a folder.
    pub(crate) fn folder(&self, folder: &Folder, blocking: Blocking) -> Result<FolderRead, LookupError> {
        let site = self.root_in(folder.root.as_ref());
        if site.is_gone() {
            return Err(LookupError::RootGone);
        }
        let user_root;
        let (root, below) = match site.users.as_ref().zip(user_of(&folder.path)) {
            Some((users, (user, below))) => {
                user_root = Users::root(users, user, blocking)?;
                (&*user_root, below)
            }
            None => (&*site.root, site.settings.name_of(&folder.path)),
        };
        match &folder.part {
            Part::Names { open, from } => {
                let open = match open {
                    Some(open) => Arc::clone(open),
                    None => Arc::new(self.open_folder(root.open_folder(below, blocking)?)),
                };
                let (names, next) = names((&site, &folder.path), open.as_fd(), *from)?;
                Ok(FolderRead::Names { names, open, next })
            }
            Part::Details(names) => {
                let (until, mut all) = (Instant::now() + self.list_step, Vec::new());
                for (name, _) in names.iter() {
                    let seen = look(root, below, name, blocking)?;
                    all.push(seen.map(|seen| self.with_digest_of(&site.settings, seen)));
                    if Instant::now() >= until {
                        break;
                    }
                }
                Ok(FolderRead::Details(all))
            }
            Part::Text(name) => {
                let by_path = SitePath::of_decoded(name);
                if site.settings.deny.cover(by_path.as_ref().unwrap_or(&folder.path.child(name))) {
                    return Ok(FolderRead::Text(None));
                }
                let (root, name) = match by_path {
                    Some(path) => (&*site.root, site.settings.name_of(&path).to_vec()),
                    None => (root, below_folder(below, name)),
                };
                text(&site, root, &name, blocking).map(FolderRead::Text)
            }
        }
    }

    /// What a name has shown, with the digest of the file if it is known. May wait for the disk of the store.
    pub(crate) fn with_digest_of(&self, settings: &SiteSettings, seen: Seen) -> Seen {
        let is_told = settings.digests && !seen.folder;
        Seen { digest: is_told.then(|| self.digests.load(&seen.stamp)).flatten(), ..seen }
    }

    /// A folder that this process or another has opened.
    pub(crate) fn open_folder(&self, file: OwnedFd) -> OpenFolder {
        let class = self.device_of_mount(flash_os::file_stat::mount_of(&file)).class;
        let closer = if class.is_local() { &self.closer } else { &self.remote_closer };
        OpenFolder { file: Some(file), closer: closer.clone() }
    }
}

/// Reads the names that one call returns, from this position on. Also returns the next position.
fn names(
    (site, path): (&SiteRoot, &SitePath<'_>),
    folder: BorrowedFd<'_>,
    from: u64,
) -> Result<(Batch, Option<u64>), LookupError> {
    // A helper process may have died after it had moved the position.
    if tell(folder).map_err(LookupError::of)? != from {
        seek(folder, SeekFrom::Start(from)).map_err(LookupError::of)?;
    }
    let mut buffer = vec![MaybeUninit::uninit(); READ_BYTES];
    let mut entries = Entries::new(folder, &mut buffer);
    let mut names = Batch::default();
    loop {
        let Some(entry) = timed(Stage::Read, "getdents64", || entries.next()) else {
            return Ok((names, None));
        };
        let entry = entry.map_err(LookupError::of)?;
        let name = entry.file_name().to_bytes();
        let hidden = matches!(name, b"." | b"..")
            || (name.starts_with(b".") && !site.settings.dotfiles)
            || site.settings.deny.cover_in(path, name);
        let kind = match entry.file_type() {
            FileType::RegularFile => Some(Kind::File),
            FileType::Directory => Some(Kind::Folder),
            FileType::Symlink | FileType::Unknown => Some(Kind::Unclear),
            _ => None,
        };
        if let Some(kind) = kind.filter(|_| !hidden && name.len() <= NAME_BYTES_MAX) {
            names.push(name, kind);
        }
        let next = entry.next_entry_cookie();
        if entries.is_buffer_empty() {
            return Ok((names, Some(next)));
        }
    }
}

/// Size, time and kind of one name. `None` if Flash does not serve such a file.
fn look(root: &Root, folder: &[u8], name: &[u8], blocking: Blocking) -> Result<Option<Seen>, LookupError> {
    let path = below_folder(folder, name);
    let FileStat { kind, stamp, .. } = match root.examine(&path, blocking) {
        Err(stop @ (LookupError::Elsewhere | LookupError::Busy)) => return Err(stop),
        Err(_) => return Ok(None),
        Ok(examined) => examined,
    };
    let servable = matches!(kind, FileType::RegularFile | FileType::Directory);
    Ok(servable.then_some(Seen { stamp, folder: kind == FileType::Directory, digest: None }))
}

fn below_folder(folder: &[u8], name: &[u8]) -> Vec<u8> {
    let slash: &[u8] = if folder.is_empty() { b"" } else { b"/" };
    [folder, slash, name].concat()
}

/// The content of a small file that is no program. `None` if there is none.
fn text(site: &SiteRoot, root: &Root, name: &[u8], blocking: Blocking) -> Result<Option<Bytes>, LookupError> {
    let walk = Walk { blocking, by_folder: false, compares: false };
    let opened = walk.to(root, None, name).and_then(|walked| match walked.stat.kind {
        FileType::RegularFile => root.open_file(&walked, name, blocking),
        _ => Err(LookupError::Missing),
    });
    let (file, examined) = match opened {
        Err(stop @ (LookupError::WouldBlock | LookupError::Elsewhere | LookupError::Busy)) => {
            return Err(stop);
        }
        Err(_) => return Ok(None),
        Ok(opened) => opened,
    };
    let size = examined.stamp.size;
    if size > TEXT_BYTES_MAX || is_program(site, &file) {
        return Ok(None);
    }
    match read(file.as_fd(), 0, size as usize, blocking) {
        ReadResult::Whole(text) => Ok(Some(text)),
        ReadResult::WouldBlock => Err(LookupError::WouldBlock),
        ReadResult::Shrunk | ReadResult::Failed => Ok(None),
    }
}

impl Maker for ListStep<'_> {
    fn texts(&self) -> Texts {
        self.roots.current().settings.texts.clone()
    }

    fn tells_digests(&self) -> bool {
        self.roots.current().settings.digests
    }

    fn root(&self) -> Option<Arc<dyn OpenRoot>> {
        Some(self.roots.current_owned())
    }

    fn ask(&mut self, folder: Folder) -> Option<Result<FolderRead, Failure>> {
        (self.ask)(Job::Folder(Box::new(folder))).map(Done::into_folder)
    }

    fn is_over(&self) -> bool {
        Instant::now() >= self.until
    }

    fn wait(&mut self) -> bool {
        // The other helper may wait for a device that this one must not wait for.
        let may_wait = self.blocking == Blocking::Anywhere;
        if may_wait {
            // A step that has ended before the wait is noticed at the timeout.
            let turn = self.listings.turn.lock().unwrap_or_else(PoisonError::into_inner);
            let left = self.until.saturating_duration_since(Instant::now());
            drop(self.listings.step_ended.wait_timeout(turn, left));
        }
        may_wait
    }

    fn kept(&mut self) {
        // Without the thread the listing stays until another one evicts it.
        let _ = self.listings.sweep();
    }

    fn make_room(&mut self) -> bool {
        self.listings.cache.make_room()
    }

    fn hold(&self, page: &[u8]) -> Bytes {
        Bytes::from_owner(HeapBuf::from(page))
    }
}

impl AsFd for OpenFolder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_ref().expect("a folder is open until it is dropped").as_fd()
    }
}

impl Drop for OpenFolder {
    fn drop(&mut self) {
        if let (Some(file), Some(closer)) = (self.file.take(), &self.closer) {
            closer.close(file);
        }
    }
}

impl listing::OpenFolder for OpenFolder {}
