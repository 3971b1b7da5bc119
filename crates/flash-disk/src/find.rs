//! The job *find*: walks to a name, opens its file, and reads what is sent first. Copies in a coding are looked for if the
//! client takes them.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use flash_core::cache::memory_budget::{BudgetedBytes, Reservation};
use flash_core::experiments::FileCache;
use flash_core::file::entry::{Entry, Resource, Variants};
use flash_core::file::header::HeaderTemplate;
use flash_core::file::validators::{ReprDigest, Validators};
use flash_core::file::{COPIED_AT_ONCE_BYTES_MAX, Content, File, HEAP_FILE_BYTES_MAX, Stamp};
use flash_core::job::{Done, Find, Worth};
use flash_core::path::SitePath;
use flash_core::record::refusal::Refusal;
use flash_core::site::WINDOW_BYTES;
use flash_core::site::root::OpenRoot;
use flash_http::negotiate::{Coding, CodingSet};
use flash_os::file_hints;
use flash_os::residency;
use rustix::fs::FileType;

use crate::blocking::Blocking;
use crate::destination::{Destination, FoundFile, Walk};
use crate::disk::Disk;
use crate::lookup_error::LookupError;
use crate::mounts::DeviceClass;
use crate::names::Reader;
use crate::open_file::OpenFile;
use crate::read::{self, ReadResult};
use crate::root::{Root, Walked};
use crate::scripts::{is_program, is_script, script, script_above};
use crate::settings::SendMode;
use crate::site_root::SiteRoot;
use crate::snapshot::Snapshot;
use crate::stat::{self, FileStat, RESTED_NS, is_rested, unix_ns};
use crate::target::Target;
use crate::users::user_of;

/// After this many looks a file that never rests is taken as it is.
const LOOKS_MAX: usize = 5;

/// A tool that copies a folder may write a file this long after its compressed copy.
const COPY_OLDER_NS_MAX: i64 = 2_000_000_000;

/// How a name is opened, and its compressed copies.
struct Opening<'a> {
    site: &'a SiteRoot,
    root: &'a Root,
    /// The name that the media type follows from.
    typed_as: &'a [u8],
    worth: Worth,
    blocking: Blocking,
}

/// A file that has been opened.
struct Opened<'a> {
    open: &'a Opening<'a>,
    name: &'a [u8],
    coding: Option<Coding>,
    class: DeviceClass,
    /// Others read it themselves. A page that is read here too would seem to be a frequent one.
    others_read: bool,
}

impl Opened<'_> {
    fn made(&self, disk: &Disk, stamp: Stamp, validators: Validators, content: Content) -> File {
        let (settings, typed_as) = (&self.open.site.settings, self.open.typed_as);
        let repr_digest = match self.class.is_digested() {
            true => disk.repr_digest(settings, &stamp, self.open.blocking),
            false => ReprDigest::Off,
        };
        let media = settings.media(typed_as);
        let cache_rule = settings.template.cache_rule(&settings.path_of(typed_as));
        let varies = settings.varies(&media, cache_rule);
        let file = File::new(stamp, media, self.coding, varies, (&settings.template, cache_rule), content)
            .known_by(validators, &settings.template);
        File { repr_digest, ..file }
    }
}

/// What a look at an open file has come to.
#[expect(clippy::large_enum_variant, reason = "it lives for one call")]
enum Look {
    Made(File),
    /// It did not rest; what it is now.
    Again(OwnedFd, FileStat),
}

/// A file's copies in some codings.
#[derive(Default)]
struct Copies {
    coded: Vec<Arc<File>>,
    /// Not all of them were known already.
    has_new: bool,
}

impl Disk {
    pub(crate) fn find(&self, find: &Find, blocking: Blocking) -> Result<Done, LookupError> {
        let roots = match self.sites.ask(find.site, blocking) {
            Ok(roots) => roots,
            Err(stop) => return not_open(find, stop),
        };
        let site = roots.current();
        let target = match self.target(&site, find, blocking) {
            Ok(Some(target)) => target,
            Ok(None) => {
                let known = find.known.as_ref().expect("only a known entry can be unchanged");
                known.checked(find.asked_ms);
                return Ok(Done::Found(Arc::clone(known)));
            }
            Err(LookupError::Missing) => Resource::Missing.into(),
            Err(LookupError::Forbidden(refusal)) => Resource::Forbidden(refusal).into(),
            Err(stop) => return Err(stop),
        };
        let entry = Entry::new(target.resource, find.asked_ms).of_root(site.generation());
        Ok(Done::Found(Arc::new(entry.at(target.found_at))))
    }

    /// What the path leads to. `None` if the known entry is still current.
    fn target(
        &self,
        site: &SiteRoot,
        find: &Find,
        blocking: Blocking,
    ) -> Result<Option<Target>, LookupError> {
        if site.is_gone() {
            return Err(LookupError::RootGone);
        }
        let user_root;
        let (root, name) = match site.users.as_ref().zip(user_of(&find.path)) {
            Some((users, (user, name))) => {
                user_root = users.root(user, blocking)?;
                (&*user_root, name)
            }
            None => (&*site.root, site.settings.name_of(&find.path)),
        };
        let of_this_root = |entry: &&Entry| entry.generation() == site.generation();
        let known = find
            .known_to_keep(self.settings.memory_file_bytes_max)
            .map(|known| &**known)
            .filter(of_this_root)
            .and_then(variants_of);
        // Also of an entry whose file gets a copy now.
        let looked_for = find.known.as_deref().filter(of_this_root).and_then(variants_of);
        let codings = find.codings.union(looked_for.map_or(CodingSet::EMPTY, |known| known.looked_for));
        let by_folder = !codings_of(site, name, codings).is_empty();
        let walk = Walk { blocking, by_folder, compares: known.is_some() };
        let place = match site.settings.deny.cover(&find.path) {
            true => Err(LookupError::Missing),
            false => Destination::find((site, root), &find.path, name, walk),
        };
        if matches!(place, Err(LookupError::Missing)) && self.folder_reader.is_some() && blocking.waits() {
            root.learn_names(name, Reader::Helper);
        }
        let place = match place {
            Err(LookupError::Missing) if std::ptr::eq(root, &*site.root) => {
                let script = script_above(site, &find.path, blocking)?;
                return script.map(Some).ok_or(LookupError::Missing);
            }
            place => place?,
        };
        let found = match place {
            Destination::Folder => return Ok(Some(Resource::Folder.into())),
            Destination::FolderWithoutSlash => return Ok(Some(Resource::FolderWithoutSlash.into())),
            Destination::File(found) if is_script(site, &found.name) => {
                return script((site, root), &find.path, &found.name).map(Some);
            }
            Destination::File(found) => found,
        };
        let has_copies = !codings_of(site, &found.name, CodingSet::ALL).is_empty();
        let open = Opening { site, root, typed_as: &found.name, worth: find.worth, blocking };
        let wanted = codings_of(site, &found.name, codings);
        let current = known.filter(|known| known.identity.stamp == found.walked.stat.stamp);
        let identity = match current {
            Some(known) => Arc::clone(&known.identity),
            None => Arc::new(self.file(&open, &found.walked, &found.name, None)?),
        };
        let known_copies = known.map_or(&[][..], |known| &known.coded);
        let found_at = found_at(&find.path, &found.name);
        let path = found_at.as_ref().unwrap_or(&find.path);
        let Copies { coded, has_new } = self.copies_of(&open, (&found, path), wanted, known_copies)?;
        let looked_for = if has_copies { wanted } else { CodingSet::ALL };
        // Another index file may have taken the place of a known one, by a link to it.
        let is_there = find.known.as_ref().is_some_and(|known| known.found_at() == found_at.as_ref());
        let is_current = |known: &Variants| {
            is_there && !has_new && known.coded.len() == coded.len() && known.looked_for == looked_for
        };
        if current.is_some_and(is_current) {
            return Ok(None);
        }
        let compressed = match current {
            Some(known) => known.compressed.with_files(Arc::clone),
            None => site.settings.to_compress(&identity),
        };
        let resource = Resource::File(Variants { identity, coded, looked_for, compressed });
        Ok(Some(Target { resource, found_at }))
    }

    /// Copies in these codings that are there and may be read. A copy that is older than the file was made of another version
    /// of it.
    fn copies_of(
        &self,
        open: &Opening<'_>,
        (found, path): (&FoundFile, &SitePath<'_>),
        codings: CodingSet,
        known: &[Arc<File>],
    ) -> Result<Copies, LookupError> {
        let mut copies = Copies::default();
        for coding in codings.iter() {
            if open.site.settings.deny.cover(&path.extended(coding.suffix().as_bytes())) {
                continue;
            }
            let name = with_suffix(&found.name, coding);
            let known = known.iter().find(|file| file.coding == Some(coding));
            let walk = Walk { blocking: open.blocking, by_folder: false, compares: known.is_some() };
            let copy = walk.to(open.root, found.folder.as_ref(), &name).and_then(|walked| {
                let stat = &walked.stat;
                match known {
                    _ if stat.kind != FileType::RegularFile => Err(LookupError::Missing),
                    _ if stat.stamp.modified_ns + COPY_OLDER_NS_MAX < found.walked.stat.stamp.modified_ns => {
                        Err(LookupError::Missing)
                    }
                    Some(known) if known.stamp == stat.stamp => Ok(Arc::clone(known)),
                    _ => {
                        let file = self.file(open, &walked, &name, Some(coding))?;
                        copies.has_new = true;
                        Ok(Arc::new(file))
                    }
                }
            });
            match copy {
                Ok(file) => copies.coded.push(file),
                Err(stop @ (LookupError::WouldBlock | LookupError::Elsewhere | LookupError::Busy)) => {
                    return Err(stop);
                }
                // There is none, or it may not be read. The file itself still serves.
                Err(
                    LookupError::Missing
                    | LookupError::RootGone
                    | LookupError::Forbidden(_)
                    | LookupError::Broken,
                ) => {}
            }
        }
        Ok(copies)
    }

    fn file(
        &self,
        open: &Opening<'_>,
        walked: &Walked,
        name: &[u8],
        coding: Option<Coding>,
    ) -> Result<File, LookupError> {
        let &Opening { site, root, blocking, .. } = open;
        let (file, mut examined) = root.open_file(walked, name, blocking)?;
        if is_program(site, &file) {
            return Err(LookupError::Forbidden(Refusal::Program));
        }
        let class = self.device_of_mount(examined.mount).class;
        let others_read = self.settings.others_open && class.is_local();
        if blocking.waits() && others_read {
            root.read_access_rules(name, &file, blocking);
        }
        if !blocking.waits() && !class.reads_now() {
            return Err(LookupError::WouldBlock);
        }
        let opened = Opened { open, name, coding, class, others_read };
        let (mut file, mut looks_left) = (file, LOOKS_MAX);
        loop {
            looks_left -= 1;
            match self.look(&opened, file, examined, looks_left)? {
                Look::Made(made) => return Ok(made),
                Look::Again(same, now) => (file, examined) = (same, now),
            }
        }
    }

    /// Reads an open file, or keeps it open, if it rests.
    fn look(
        &self,
        opened: &Opened<'_>,
        file: OwnedFd,
        examined: FileStat,
        looks_left: usize,
    ) -> Result<Look, LookupError> {
        let (&Opening { site, worth, blocking, .. }, stamp) = (opened.open, examined.stamp);
        let validators = self.validators(opened.open, opened.name, &stamp)?;
        // A digest is that of one state, whatever time the file has.
        let by_change = !validators.has_time || site.settings.digests;
        if let Some(pause) = self.pause(&stamp, by_change, looks_left) {
            if !blocking.waits() {
                return Err(LookupError::WouldBlock);
            }
            thread::sleep(pause);
            let now = stat::examine(&file)?;
            return Ok(Look::Again(file, now));
        }
        let is_worth_it =
            worth.of_content(stamp.size) || (!opened.class.reads_now() && worth.has_room_for(stamp.size));
        let answers_once = blocking.waits() && stamp.size <= HEAP_FILE_BYTES_MAX;
        let may_be_copied = stamp.size <= self.settings.memory_file_bytes_max && !opened.others_read;
        if validators.lacks_digest() && may_be_copied && !blocking.waits() {
            // A digest takes too long for a loop, even of memory.
            return Err(LookupError::WouldBlock);
        }
        let is_copied = may_be_copied && (is_worth_it || answers_once);
        let Some(room) = is_copied.then(|| self.copies.reserve(stamp.size)).flatten() else {
            return self.kept_open(opened, file, examined).map(Look::Made);
        };
        let is_only_copy = is_worth_it && self.settings.single_copy;
        if is_only_copy && !blocking.waits() && stamp.size > COPIED_AT_ONCE_BYTES_MAX {
            // The page cache gives its copy up, which may wait. A few pages leave it by themselves.
            return Err(LookupError::WouldBlock);
        }
        let rested_ns = is_rested(&stamp).then(unix_ns);
        let content = match self.copied(&file, room, blocking) {
            ReadResult::Whole(Some(content)) => content,
            ReadResult::Whole(None) => {
                let open = self.open_file(file, &examined, validators.has_time);
                let content = Content::Open(Arc::new(open));
                return Ok(Look::Made(opened.made(self, stamp, validators, content)));
            }
            ReadResult::WouldBlock => return Err(LookupError::WouldBlock),
            ReadResult::Shrunk if looks_left > 0 && blocking.waits() => {
                let now = stat::examine(&file)?;
                return Ok(Look::Again(file, now));
            }
            ReadResult::Shrunk => return Err(LookupError::Busy),
            ReadResult::Failed => return Err(LookupError::Broken),
        };
        // The file may have changed while it was read. Its time of writing may have been set back, but not that of its change.
        let after = stat::examine(&file)?;
        // A file that was replaced meanwhile is still the one that was read.
        let is_same = stamp == after.stamp || (after.is_unlinked && stamp.same_content(&after.stamp));
        if !is_same && looks_left > 0 {
            return if blocking.waits() {
                Ok(Look::Again(file, after))
            } else {
                Err(LookupError::WouldBlock)
            };
        }
        // What is known of a state of the file is not that of a file that never rests.
        let validators = if is_same { validators } else { validators.with_digest(None) };
        let rested_ns = rested_ns.filter(|_| stamp == after.stamp);
        let made = opened.made(self, stamp, validators, content);
        let made = self.digested_copy(made, rested_ns, &site.settings.template);
        if is_only_copy && blocking.waits() {
            // A failure leaves a second one.
            file_hints::forget(&file);
        }
        Ok(Look::Made(match !is_worth_it && worth.open {
            true => made.for_once(Arc::new(self.open_file(file, &examined, validators.has_time))),
            false => made,
        }))
    }

    /// A copy with its digest, if its tag needs that. It is the digest of the bytes that are sent. If the file never rested while it
    /// was read, it is that of no state of the file.
    fn digested_copy(&self, copy: File, rested_ns: Option<i64>, template: &HeaderTemplate) -> File {
        let own = copy.repr_digest;
        let repr_digest = if rested_ns.is_some() { own } else { own.unsettled() };
        let copy = File { repr_digest, ..copy };
        let digest = || self.digest(&copy, &mut || true);
        let Some(digest) = copy.validators.lacks_digest().then(digest).flatten() else { return copy };
        if let Some(read_ns) = rested_ns {
            self.digests.put(&copy.stamp, digest, read_ns);
        }
        copy.with_digest(digest, template)
    }

    /// How long to wait for a file to rest, unless it is taken as it is.
    fn pause(&self, stamp: &Stamp, by_change: bool, looks_left: usize) -> Option<Duration> {
        // Whoever sets a time that says nothing sets it after each write.
        let written_ns = if by_change { stamp.changed_ns } else { stamp.modified_ns };
        let age_ns = unix_ns().saturating_sub(written_ns);
        // A log is written all the time. A response from an open file is compared before it ends.
        let looks_enough = if stamp.size > self.settings.memory_file_bytes_max { LOOKS_MAX - 2 } else { 0 };
        // A time in the future says nothing, and another look would not help.
        let is_young = (0..RESTED_NS).contains(&age_ns);
        (is_young && looks_left > looks_enough).then(|| Duration::from_nanos((RESTED_NS - age_ns) as u64))
    }

    /// A file that is read when it is sent.
    fn kept_open(&self, opened: &Opened<'_>, file: OwnedFd, examined: FileStat) -> Result<File, LookupError> {
        // A content in memory is compared after it was read. This one is not.
        let examined = if opened.class.is_local() { examined } else { stat::examine(&file)? };
        let stamp = examined.stamp;
        let validators = self.validators(opened.open, opened.name, &stamp)?;
        let file = self.open_file(file, &examined, validators.has_time);
        if opened.open.blocking.waits() {
            file.warm(0..WINDOW_BYTES.min(stamp.size));
        }
        Ok(opened.made(self, stamp, validators, Content::Open(Arc::new(file))))
    }

    /// What a version of a file is known by, as far as that is known now.
    fn validators(&self, open: &Opening<'_>, name: &[u8], stamp: &Stamp) -> Result<Validators, LookupError> {
        let &Opening { site, root, blocking, .. } = open;
        let has_time = self.times.count(root, name, stamp, blocking)?;
        Ok(self.with_digest(Validators::new(site.settings.etag, has_time, None), stamp, blocking))
    }

    /// The same with the digest that is kept of this state of the file.
    pub(crate) fn with_digest(
        &self,
        validators: Validators,
        stamp: &Stamp,
        blocking: Blocking,
    ) -> Validators {
        if !validators.lacks_digest() {
            return validators;
        }
        validators.with_digest(self.digests.get(stamp, blocking))
    }

    /// A file that this process or another has opened.
    pub(crate) fn open_file(&self, file: OwnedFd, examined: &FileStat, has_time: bool) -> OpenFile {
        let open = self.open_window(file, examined);
        if has_time { open.watched(examined.stamp) } else { open.exact() }
    }

    /// An open file for a single window, which another process sends.
    pub(crate) fn open_window(&self, file: OwnedFd, examined: &FileStat) -> OpenFile {
        let class = self.device_of_mount(examined.mount).class;
        let send_mode = self.send_mode(class.lends(), examined.owner);
        let assumed = self.settings.experiments.residency_assumed;
        // A close may wait for the file's device. A device that hangs must not keep files of other devices open.
        let closer = if class.is_local() { &self.closer } else { &self.remote_closer };
        if !self.senders_wait {
            // Read-ahead leaves marks on pages. A read that meets a mark starts more read-ahead, and so may wait for
            // room in the disk's queue. Random access leaves no marks. Helpers read ahead explicitly.
            file_hints::read_randomly(&file);
        }
        OpenFile::new(file, send_mode, assumed, examined.mount, closer.clone(), Arc::clone(&self.readers))
    }

    /// Pages of the cache are sent only if the kernel tells this process which pages are in memory.
    fn send_mode(&self, lends: bool, owner: u32) -> SendMode {
        let lends = || lends && residency::can_tell(owner);
        match self.settings.experiments.file_cache {
            FileCache::Memory if self.settings.zero_copy && lends() => SendMode::Sendfile,
            FileCache::Descriptor if lends() => SendMode::Sendfile,
            FileCache::Mapped if lends() => SendMode::Mmap,
            FileCache::Memory | FileCache::Descriptor | FileCache::Mapped => SendMode::Copy,
            FileCache::Off => SendMode::Reopen,
        }
    }

    /// A copy of the whole file, of the size of `room`. `None` if the system has no memory.
    fn copied(&self, file: &OwnedFd, room: Reservation, blocking: Blocking) -> ReadResult<Option<Content>> {
        let size = room.bytes();
        if size <= HEAP_FILE_BYTES_MAX {
            let bytes = read::read(file.as_fd(), 0, size as usize, blocking);
            return bytes.map(|bytes| Some(Content::Memory(BudgetedBytes::new(bytes, room).into())));
        }
        if !blocking.waits() {
            // Copying this much is too long for a loop, even from memory.
            return ReadResult::WouldBlock;
        }
        let snapshot = Snapshot::take(file, room, self.closer.clone());
        snapshot.map(|snapshot| snapshot.map(|snapshot| Content::Open(Arc::new(snapshot) as _)))
    }
}

/// The path of the file of this name, if that is not the one that was asked for.
fn found_at(path: &SitePath<'_>, name: &[u8]) -> Option<SitePath<'static>> {
    let start = name.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
    (path.names_folder() || path.name() != &name[start..]).then(|| path.beside(&name[start..]))
}

fn variants_of(entry: &Entry) -> Option<&Variants> {
    match &entry.resource {
        Resource::File(variants) => Some(variants),
        _ => None,
    }
}

/// The result if a site cannot be opened.
pub(crate) fn not_open(find: &Find, stop: LookupError) -> Result<Done, LookupError> {
    match stop {
        // A reload has forgotten it.
        LookupError::Missing => Ok(Done::Found(Arc::new(Entry::new(Resource::Missing, find.asked_ms)))),
        stop => Err(stop),
    }
}

/// The codings of these in which the file of this name may have a copy.
fn codings_of(site: &SiteRoot, name: &[u8], codings: CodingSet) -> CodingSet {
    site.settings.copied(&site.settings.media(name), codings)
}

fn with_suffix(name: &[u8], coding: Coding) -> Vec<u8> {
    [name, coding.suffix().as_bytes()].concat()
}
