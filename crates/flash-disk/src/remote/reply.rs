//! Replies: encodes a job's result, and decodes it. The decoder checks all that can be checked.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::vec::IntoIter;

use bytes::Bytes;
use flash_core::cache::memory_budget::BudgetedBytes;
use flash_core::file::entry::{Entry, Resource, Variants};
use flash_core::file::validators::ReprDigest;
use flash_core::file::validators::{ContentDigest, Tag, Validators};
use flash_core::file::{Content, File, HEAP_FILE_BYTES_MAX, OpenFile, Stamp, Window};
use flash_core::job::{Done, Failure, Find, Job, Load};
use flash_core::listing::{Folder, FolderRead, Part, Seen, TEXT_BYTES_MAX};
use flash_core::path::SitePath;
use flash_core::record::refusal::Refusal;
use flash_core::site::root::OpenRoot;
use flash_http::media::{self, Media};
use flash_http::negotiate::Coding;
use flash_os::shared_heap::HeapBuf;
use flash_process::codec::{Reader, Writer};
use flash_process::ipc::PACKET_BYTES_MAX;
use rustix::fs::FileType;

use super::stamp;
use super::{folder, request};
use crate::blocking::Blocking;
use crate::disk::Disk;
use crate::lookup_error::LookupError;
use crate::settings::SiteSettings;
use crate::site_root::SiteRoot;
use crate::snapshot::Snapshot;
use crate::stat;

/// The error of a malformed reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

const FAILED: u8 = 0;
const UNCHANGED: u8 = 1;
const FOLDER: u8 = 2;
const FOLDER_WITHOUT_SLASH: u8 = 3;
const FORBIDDEN: u8 = 4;
const NOT_FOUND: u8 = 5;
const FILE: u8 = 6;
const WARMED: u8 = 7;
const COPIED: u8 = 8;
const CHANGED: u8 = 9;
const UNREADABLE: u8 = 10;
const NAMES: u8 = 11;
const SCRIPT: u8 = 12;
const DETAILS: u8 = 13;
const TEXT: u8 = 14;

const IN_HEAP: u8 = 0;
const IN_SNAPSHOT: u8 = 1;
const ON_DISK: u8 = 2;
/// It is the file of the entry that the server knows.
const KNOWN: u8 = 3;
/// The open file, and its content for the requests that wait: a second read would make its pages seem frequent ones.
const FOR_ONCE: u8 = 4;

const FAILURES: [Failure; 4] = [Failure::Overloaded, Failure::TimedOut, Failure::Broken, Failure::NotFound];
const TYPE_BYTES_MAX: usize = 256;
const NAME_BYTES_MAX: usize = 256;

/// A name that would not be served.
const NOTHING: u8 = 0;
const A_FILE: u8 = 1;
const A_FOLDER: u8 = 2;

pub(super) fn write(job: &Job, done: &Done, message: &mut Writer) {
    match (job, done) {
        (Job::Find(Find { known: Some(known), .. }), Done::Found(entry)) if Arc::ptr_eq(known, entry) => {
            message.u8(UNCHANGED);
        }
        (_, Done::Found(entry)) => write_target(known_to(job), entry, message),
        (_, Done::Window(window)) => match window {
            Window::Warmed => message.u8(WARMED),
            Window::Copied(bytes) => {
                message.u8(COPIED);
                message.bytes(bytes);
            }
            Window::Changed => message.u8(CHANGED),
            // Only the server can tell what is resident when it sends.
            Window::Resident(_) | Window::Absent | Window::Failed => message.u8(UNREADABLE),
        },
        (_, Done::Folder(FolderRead::Names { names, next, .. })) => {
            message.u8(NAMES);
            request::write_names(names, message);
            message.u8(next.is_some().into());
            next.iter().for_each(|next| message.u64(*next));
        }
        (_, Done::Folder(FolderRead::Details(seen))) => {
            message.u8(DETAILS);
            message.u32(seen.len() as u32);
            seen.iter().for_each(|seen| write_seen(seen.as_ref(), message));
        }
        (_, Done::Folder(FolderRead::Text(text))) => {
            message.u8(TEXT);
            message.bool(text.is_some());
            message.bytes(text.as_deref().unwrap_or_default());
        }
        (_, Done::Listed(_)) => unreachable!("a helper process makes no listing"),
        (_, Done::Spooled(_) | Done::Unspooled(_)) => unreachable!("a helper process keeps no bodies"),
        (_, Done::Checked(_)) => unreachable!("no job checks a log-in"),
        (_, Done::Failed(failure) | Done::Unchecked { failure, .. }) => {
            message.u8(FAILED);
            message.u8(FAILURES.iter().position(|other| other == failure).unwrap_or_default() as u8);
        }
    }
}

/// The entry that the server knows.
fn known_to(job: &Job) -> Option<&Arc<Entry>> {
    match job {
        Job::Find(find) => find.known.as_ref(),
        _ => None,
    }
}

/// In the place of a rule about Cache-Control.
const NO_RULE: u8 = u8::MAX;
/// What clients may ask about the digest of a file.
const NO_DIGEST: u8 = 0;
const UNSETTLED_DIGEST: u8 = 1;
const DIGEST: u8 = 2;

fn write_target(known: Option<&Arc<Entry>>, target: &Entry, message: &mut Writer) {
    let variants = match &target.resource {
        Resource::Folder => return message.u8(FOLDER),
        Resource::FolderWithoutSlash => return message.u8(FOLDER_WITHOUT_SLASH),
        Resource::Forbidden(refusal) => {
            message.u8(FORBIDDEN);
            return message.u8(*refusal as u8);
        }
        Resource::Missing => return message.u8(NOT_FOUND),
        Resource::Script(name) => {
            message.u8(SCRIPT);
            return message.bytes(name);
        }
        Resource::File(variants) => variants,
    };
    let files = || std::iter::once(&variants.identity).chain(&variants.coded);
    let is_known = |file: &Arc<File>| {
        let mut files = known.into_iter().flat_map(|known| known.found_files());
        files.any(|known| Arc::ptr_eq(known, file))
    };
    // Of a known file this process has the stamp alone.
    let described = files().find(|file| !is_known(file)).unwrap_or(&variants.identity);
    message.u8(FILE);
    // The name of an index, or with an extension.
    message.bytes(target.found_at().map_or(b"", SitePath::name));
    message.bytes(described.media.content_type.as_bytes());
    message.u8(described.cache_rule.unwrap_or(NO_RULE));
    message.u8(variants.looked_for.bits());
    message.u8(variants.coded.len() as u8);
    for file in files() {
        message.u8(request::code_of(file.coding));
        stamp::put(message, &file.stamp);
        write_validators(&file.validators, message);
        message.u8(match file.repr_digest {
            ReprDigest::Off => NO_DIGEST,
            ReprDigest::Unsettled => UNSETTLED_DIGEST,
            ReprDigest::Unknown | ReprDigest::Known(_) => DIGEST,
        });
        match &file.content {
            _ if is_known(file) => message.u8(KNOWN),
            Content::Memory(bytes) if file.kept_as.is_some() => {
                // Beyond a packet the bytes would travel in a file of memory, which costs more than the read.
                match message.bytes.len() + bytes.len() < PACKET_BYTES_MAX {
                    true => {
                        message.u8(FOR_ONCE);
                        message.bytes(bytes);
                    }
                    false => message.u8(ON_DISK),
                }
            }
            Content::Memory(bytes) => {
                message.u8(IN_HEAP);
                message.bytes(bytes);
            }
            // Of open files, only snapshots hold memory.
            Content::Open(open) => message.u8(if open.memory_bytes() > 0 { IN_SNAPSHOT } else { ON_DISK }),
        }
    }
}

pub(super) fn read(
    disk: &Disk,
    site: &SiteRoot,
    job: &Job,
    message: &mut Reader<'_>,
    descriptors: &mut IntoIter<OwnedFd>,
) -> Result<Done, Malformed> {
    let kind = message.u8().ok_or(Malformed)?;
    if kind == FAILED {
        let failure = message.u8().and_then(|code| FAILURES.get(usize::from(code))).ok_or(Malformed)?;
        return Ok(job.failed(*failure));
    }
    match job {
        Job::Find(find) => read_found(disk, site, find, kind, message, descriptors),
        Job::Load(load) => read_window(load, kind, message).map(Done::Window).ok_or(Malformed),
        Job::Folder(folder) => {
            let read = match &folder.part {
                Part::Names { .. } => read_names(disk, folder, kind, message, descriptors),
                Part::Details(names) => read_details((disk, folder), names.len(), kind, message),
                Part::Text(_) => read_text(kind, message),
            };
            read.map(Done::Folder).ok_or(Malformed)
        }
        // A helper process is never asked for one.
        Job::ReadAhead(_) | Job::List(_) | Job::Spool(_) => Err(Malformed),
    }
}

fn read_found(
    disk: &Disk,
    site: &SiteRoot,
    find: &Find,
    kind: u8,
    message: &mut Reader<'_>,
    descriptors: &mut IntoIter<OwnedFd>,
) -> Result<Done, Malformed> {
    let mut found_at = None;
    let resource = match (kind, &find.known) {
        (UNCHANGED, Some(known)) => {
            known.checked(find.asked_ms);
            return Ok(Done::Found(Arc::clone(known)));
        }
        (FOLDER, _) => Resource::Folder,
        (FOLDER_WITHOUT_SLASH, _) => Resource::FolderWithoutSlash,
        (FORBIDDEN, _) => Resource::Forbidden(message.u8().and_then(Refusal::of_number).ok_or(Malformed)?),
        (NOT_FOUND, _) if descriptors.as_slice().is_empty() => {
            folder::read(&site.root, disk.name_of(find), message).ok_or(Malformed)?;
            Resource::Missing
        }
        (SCRIPT, _) => {
            let name = read_script(&site.settings, find, message).ok_or(Malformed)?;
            let script = SitePath::of_decoded(&name).ok_or(Malformed)?;
            found_at = (script != find.path).then_some(script);
            Resource::Script(name)
        }
        (FILE, _) => {
            found_at = read_found_at(&site.settings, find, message).ok_or(Malformed)?;
            match read_variants(disk, &site.settings, find, message, descriptors)? {
                Some(variants) => Resource::File(variants),
                None => return Ok(find.failed(Failure::Overloaded)),
            }
        }
        _ => return Err(Malformed),
    };
    let entry = Entry::new(resource, find.asked_ms).of_root(site.generation());
    Ok(Done::Found(Arc::new(entry.at(found_at))))
}

/// The fields of responses are those of `settings`. `None` if the budget has no room for a copy that the helper has made.
fn read_variants(
    disk: &Disk,
    settings: &SiteSettings,
    find: &Find,
    message: &mut Reader<'_>,
    descriptors: &mut IntoIter<OwnedFd>,
) -> Result<Option<Variants>, Malformed> {
    let media = read_media(settings, find, disk.name_of(find), message).ok_or(Malformed)?;
    let rule = message.u8().ok_or(Malformed)?;
    let template = (&settings.template, (rule != NO_RULE).then_some(rule));
    let looked_for = request::codings(message).ok_or(Malformed)?;
    let count = message.u8().ok_or(Malformed)?;
    let varies = settings.varies(&media, template.1);
    let mut read_file = || -> Result<Option<Arc<File>>, Malformed> {
        let coding = message.u8().and_then(request::coding_of).ok_or(Malformed)?;
        let stamp = stamp::take(message).ok_or(Malformed)?;
        let (has_time, digest) = read_validators(message).ok_or(Malformed)?;
        let digest_kind = message.u8().ok_or(Malformed)?;
        let described = stamp;
        let (stamp, content, open) = match read_content(disk, (stamp, has_time), message, descriptors)? {
            ContentRead::Known => return known_file(find, coding, &stamp).map(Some).ok_or(Malformed),
            ContentRead::NoRoom => return Ok(None),
            ContentRead::New(stamp, content) => (stamp, content, None),
            ContentRead::ForOnce(stamp, content, open) => (stamp, content, Some(open)),
        };
        let digest = digest.filter(|_| stamp == described);
        let validators = Validators::new(settings.etag, has_time, digest);
        // The helper does not know what this process has read.
        let validators = disk.with_digest(validators, &stamp, Blocking::Anywhere);
        let repr_digest = || disk.repr_digest(settings, &stamp, Blocking::Anywhere);
        let repr_digest = match digest_kind {
            NO_DIGEST => ReprDigest::Off,
            UNSETTLED_DIGEST => repr_digest().unsettled(),
            DIGEST => repr_digest(),
            _ => return Err(Malformed),
        };
        let file = File::new(stamp, media, coding, varies, template, content);
        let file = File { repr_digest, ..file.known_by(validators, &settings.template) };
        Ok(Some(Arc::new(match open {
            Some(open) => file.for_once(open),
            None => file,
        })))
    };
    let Some(identity) = read_file()? else { return Ok(None) };
    let mut coded: Vec<Arc<File>> = Vec::new();
    for _ in 0..count {
        let Some(file) = read_file()? else { return Ok(None) };
        if file.coding.is_none() || coded.iter().any(|other| other.coding == file.coding) {
            return Err(Malformed);
        }
        coded.push(file);
    }
    match identity.coding {
        Some(_) => Err(Malformed),
        None => {
            let known = find.known.as_ref().and_then(|known| known.variants());
            let compressed = match known.filter(|known| Arc::ptr_eq(&known.identity, &identity)) {
                Some(known) => known.compressed.with_files(Arc::clone),
                None => settings.to_compress(&identity),
            };
            Ok(Some(Variants { identity, coded, looked_for, compressed }))
        }
    }
}

/// The file that the server knows with this coding, if it is in this state.
fn known_file(find: &Find, coding: Option<Coding>, stamp: &Stamp) -> Option<Arc<File>> {
    let mut known = find.known.iter().flat_map(|known| known.found_files());
    known.find(|file| file.coding == coding && file.stamp == *stamp).map(Arc::clone)
}

/// The script's name has to be the path, or a prefix of it, or an index below it.
fn read_script(settings: &SiteSettings, find: &Find, message: &mut Reader<'_>) -> Option<Box<[u8]>> {
    let path = find.path.as_bytes();
    let name = message.bytes(path.len() + NAME_BYTES_MAX)?;
    let is_script = settings.scripts.iter().any(|suffix| name.ends_with(suffix));
    let leads = match path.strip_prefix(name) {
        Some(info) => matches!(info, [] | [b'/', ..]),
        None => {
            let index = name.strip_prefix(path).filter(|_| find.path.names_folder());
            index.is_some_and(|index| settings.index.iter().any(|other| other == index))
        }
    };
    (is_script && leads).then(|| name.into())
}

/// The names of files that may answer in place of the path: those of indexes, or with extensions.
fn others<'n>(settings: &'n SiteSettings, path: &SitePath<'_>) -> impl Iterator<Item = Vec<u8>> + use<'n> {
    let (indexes, extensions): (&[Vec<u8>], &[Vec<u8>]) = match path.names_folder() {
        true => (&settings.index, &[]),
        false => (&[], &settings.extensions),
    };
    let name = path.name().to_vec();
    let extended = extensions.iter().map(move |end| [&name[..], end].concat());
    indexes.iter().cloned().chain(extended)
}

/// The path of the file that answers in place of the path, if one does.
fn read_found_at(
    settings: &SiteSettings,
    find: &Find,
    message: &mut Reader<'_>,
) -> Option<Option<SitePath<'static>>> {
    let name = message.bytes(NAME_BYTES_MAX)?;
    match name {
        b"" if !find.path.names_folder() => Some(None),
        _ => others(settings, &find.path).any(|other| other == name).then(|| Some(find.path.beside(name))),
    }
}

/// The media type has to be that of a name that the path can lead to. `name` is that of the path, below its folder.
fn read_media(settings: &SiteSettings, find: &Find, name: &[u8], message: &mut Reader<'_>) -> Option<Media> {
    let content_type = message.bytes(TYPE_BYTES_MAX)?;
    let folder = match find.path.names_folder() {
        true => name,
        false => &name[..name.iter().rposition(|&byte| byte == b'/').unwrap_or(0)],
    };
    let slash: &[u8] = if folder.is_empty() { b"" } else { b"/" };
    let others = others(settings, &find.path).map(|other| [folder, slash, &other].concat());
    let medias = [name.to_vec()].into_iter().chain(others).map(|name| settings.media(&name));
    medias.chain([media::of(b"")]).find(|media| media.content_type.as_bytes() == content_type)
}

enum ContentRead {
    /// With the stamp, which is read from the file itself if it is open.
    New(Stamp, Content),
    /// The content is for the requests that wait, and the open file for the caches.
    ForOnce(Stamp, Content, Arc<dyn OpenFile>),
    /// The server has it.
    Known,
    /// The budget has no room for a copy that the helper has made.
    NoRoom,
}

fn write_validators(validators: &Validators, message: &mut Writer) {
    message.bool(validators.has_time);
    let digest = if let Tag::Digest(digest) = validators.tag { digest } else { None };
    message.bool(digest.is_some());
    digest.into_iter().for_each(|digest| message.array(digest));
}

/// Whether the file's time counts, and the digest of its content.
fn read_validators(message: &mut Reader<'_>) -> Option<(bool, Option<ContentDigest>)> {
    let has_time = message.bool()?;
    let digest = if message.bool()? { Some(message.array()?) } else { None };
    Some((has_time, digest))
}

fn read_content(
    disk: &Disk,
    (stamp, has_time): (Stamp, bool),
    message: &mut Reader<'_>,
    descriptors: &mut IntoIter<OwnedFd>,
) -> Result<ContentRead, Malformed> {
    let kind = message.u8().ok_or(Malformed)?;
    if kind == KNOWN {
        return Ok(ContentRead::Known);
    }
    let bytes = match kind {
        IN_HEAP | FOR_ONCE => {
            let bytes = message.bytes(HEAP_FILE_BYTES_MAX as usize).ok_or(Malformed)?;
            if bytes.len() as u64 != stamp.size || stamp.size > disk.settings.memory_file_bytes_max {
                return Err(Malformed);
            }
            bytes
        }
        _ => &[],
    };
    // The request said how much room there was.
    let held = || BudgetedBytes::new(owned(bytes), disk.copies.reserve_beyond(stamp.size)).into();
    if kind == IN_HEAP {
        return Ok(ContentRead::New(stamp, Content::Memory(held())));
    }
    let descriptor = descriptors.next().ok_or(Malformed)?;
    let examined = stat::examine_walked(&descriptor)?;
    if examined.kind != FileType::RegularFile {
        return Err(Malformed);
    }
    match kind {
        IN_SNAPSHOT => {
            if examined.stamp.size != stamp.size || stamp.size > disk.settings.memory_file_bytes_max {
                return Err(Malformed);
            }
            let Some(room) = disk.copies.reserve(stamp.size) else { return Ok(ContentRead::NoRoom) };
            let snapshot = Snapshot::of_copy(descriptor, room, disk.closer.clone()).ok_or(Malformed)?;
            Ok(ContentRead::New(stamp, Content::Open(Arc::new(snapshot))))
        }
        ON_DISK | FOR_ONCE => {
            let open = Arc::new(disk.open_file(descriptor, &examined, has_time));
            match kind == FOR_ONCE && examined.stamp == stamp {
                true => Ok(ContentRead::ForOnce(examined.stamp, Content::Memory(held()), open)),
                // The file may have changed meanwhile, so its own stamp counts.
                false => Ok(ContentRead::New(examined.stamp, Content::Open(open))),
            }
        }
        _ => Err(Malformed),
    }
}

fn owned(bytes: &[u8]) -> Bytes {
    Bytes::from_owner(HeapBuf::from(bytes))
}

fn read_window(load: &Load, kind: u8, message: &mut Reader<'_>) -> Option<Window> {
    match kind {
        WARMED if !load.copy => Some(Window::Warmed),
        COPIED => {
            let range = load.file.range_for(&load.window);
            let length = usize::try_from(range.end - range.start).ok()?;
            let bytes = message.bytes(length)?;
            load.file.read_elsewhere(&load.window, owned(bytes))
        }
        CHANGED => Some(Window::Changed),
        UNREADABLE => Some(Window::Failed),
        _ => None,
    }
}

fn read_names(
    disk: &Disk,
    folder: &Folder,
    kind: u8,
    message: &mut Reader<'_>,
    descriptors: &mut IntoIter<OwnedFd>,
) -> Option<FolderRead> {
    if kind != NAMES {
        return None;
    }
    let names = request::read_names(message)?;
    let next = if message.bool()? { Some(message.u64()?) } else { None };
    let open = match &folder.part {
        Part::Names { open: Some(open), .. } => Arc::clone(open),
        _ => request::open_folder(disk, descriptors.next()?)?,
    };
    Some(FolderRead::Names { names, open, next })
}

fn read_text(kind: u8, message: &mut Reader<'_>) -> Option<FolderRead> {
    let is_there = (kind == TEXT).then(|| message.bool()).flatten()?;
    let text = message.bytes(TEXT_BYTES_MAX as usize)?;
    Some(FolderRead::Text(is_there.then(|| owned(text))))
}

fn write_seen(seen: Option<&Seen>, message: &mut Writer) {
    let Some(Seen { stamp, folder, digest: _ }) = seen else { return message.u8(NOTHING) };
    message.u8(if *folder { A_FOLDER } else { A_FILE });
    stamp::put(message, stamp);
}

fn read_details(
    (disk, folder): (&Disk, &Folder),
    asked: usize,
    kind: u8,
    message: &mut Reader<'_>,
) -> Option<FolderRead> {
    if kind != DETAILS {
        return None;
    }
    let count = message.u32()? as usize;
    if count > asked {
        return None;
    }
    let site = disk.root_in(folder.root.as_ref());
    let mut seen = || {
        let folder = match message.u8()? {
            NOTHING => return Some(None),
            kind @ (A_FILE | A_FOLDER) => kind == A_FOLDER,
            _ => return None,
        };
        let seen = Seen { stamp: stamp::take(message)?, folder, digest: None };
        // The helper does not know what this process has read.
        Some(Some(disk.with_digest_of(&site.settings, seen)))
    };
    (0..count).map(|_| seen()).collect::<Option<_>>().map(FolderRead::Details)
}

impl From<LookupError> for Malformed {
    fn from(_: LookupError) -> Self {
        Malformed
    }
}
