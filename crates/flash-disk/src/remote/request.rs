//! Requests: encodes a job for a helper, and decodes it.
//!
//! Of a known entry a helper gets the stamps, which is enough to see whether it has changed. For a listing it reads
//! parts of the folder, and the server makes the listing itself.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use flash_core::cache::memory_budget::BudgetedBytes;
use flash_core::file::compressed::Compressed;
use flash_core::file::entry::{Entry, Resource, Variants};
use flash_core::file::{Content, File, Stamp};
use flash_core::job::{Find, Job, Load, Worth};
use flash_core::listing::{Batch, Folder, Kind, NAME_BYTES_MAX, OpenFolder, Part};
use flash_core::path::SitePath;
use flash_core::site::WINDOW_BYTES;
use flash_core::site::id::SiteId;
use flash_http::media;
use flash_http::negotiate::{Coding, CodingSet};
use flash_process::codec::{Reader, Writer};
use rustix::fs::FileType;

use super::stamp;
use crate::disk::Disk;
use crate::list::READ_NAMES_MAX;
use crate::stat;

const FIND: u8 = 1;
const LOAD: u8 = 2;
const NAMES: u8 = 3;
const DETAILS: u8 = 4;
const TEXT: u8 = 5;

/// More than any target that a head can hold.
const PATH_BYTES_MAX: usize = 1 << 20;
/// A file and its copies in each coding.
const VARIANTS_MAX: usize = 1 + Coding::ALL.len();

pub(super) fn write<'a>(
    disk: &Disk,
    job: &'a Job,
    reserved_bytes: u64,
    message: &mut Writer,
) -> Option<BorrowedFd<'a>> {
    message.u64(reserved_bytes);
    match job {
        // See `JobExecutor::help`.
        Job::Spool(_) | Job::ReadAhead(_) => unreachable!("the server's own threads do these"),
        Job::Find(find) => {
            message.u8(FIND);
            message.bytes(find.path.as_bytes());
            message.u64(find.worth.content_bytes_max);
            message.u64(find.worth.free_bytes);
            message.u8(find.worth.open.into());
            message.u8(find.codings.bits());
            let known = find.known_to_keep(disk.settings.memory_file_bytes_max);
            let looked_for = match known.map(|known| &known.resource) {
                Some(Resource::File(variants)) => variants.looked_for,
                _ => CodingSet::EMPTY,
            };
            message.u8(looked_for.bits());
            // The name of an index, or with an extension.
            message.bytes(known.and_then(|known| known.found_at()).map_or(b"", SitePath::name));
            let known: Vec<&Arc<File>> = known.into_iter().flat_map(|entry| entry.found_files()).collect();
            message.u32(known.len() as u32);
            for file in known {
                message.u8(code_of(file.coding));
                stamp::put(message, &file.stamp);
            }
            None
        }
        Job::Load(Load { site: _, file, window, goes_to, copy, completes: _ }) => {
            let window = file.range_for(window);
            message.u8(LOAD);
            stamp::put(message, &file.stamp);
            message.bool(file.validators.has_time);
            message.u64(window.start);
            message.u64(window.end);
            message.u64(*goes_to);
            message.u8((*copy).into());
            match &file.content {
                Content::Open(open) => Some(open.as_fd()),
                Content::Memory(_) => None,
            }
        }
        Job::Folder(folder) => match &folder.part {
            Part::Names { open, from } => {
                message.u8(NAMES);
                message.bytes(folder.path.as_bytes());
                message.u64(*from);
                message.u8(open.is_some().into());
                open.as_ref().map(|open| open.as_fd())
            }
            Part::Details(names) => {
                message.u8(DETAILS);
                message.bytes(folder.path.as_bytes());
                write_names(names, message);
                None
            }
            Part::Text(name) => {
                message.u8(TEXT);
                message.bytes(folder.path.as_bytes());
                message.bytes(name);
                None
            }
        },
        Job::List(_) => unreachable!("a listing is made where it is served, see Disk::list_with"),
    }
}

pub(super) fn read(disk: &Disk, message: &mut Reader<'_>, descriptors: Vec<OwnedFd>) -> Option<Job> {
    let kind = message.u8()?;
    let mut descriptors = descriptors.into_iter();
    let job = match kind {
        FIND => {
            let path = path(message)?;
            let (content_bytes_max, free_bytes) = (message.u64()?, message.u64()?);
            let worth = Worth { content_bytes_max, free_bytes, open: message.bool()? };
            let (codings, looked_for) = (codings(message)?, codings(message)?);
            let index = message.bytes(NAME_BYTES_MAX)?;
            let found_at = (!index.is_empty() && !index.contains(&b'/')).then(|| path.beside(index));
            let known = message
                .many(VARIANTS_MAX, |message| Some((coding_of(message.u8()?)?, stamp::take(message)?)))?;
            let known = known_entry(disk, known, looked_for, found_at)?;
            Job::Find(Find { site: SiteId(0), path, known, asked_ms: 0, worth, codings })
        }
        LOAD => {
            let (stamp, has_time) = (stamp::take(message)?, message.bool()?);
            let window = message.u64()?..message.u64()?;
            let (goes_to, copy) = (message.u64()?, message.bool()?);
            let fits = window.start < window.end && window.end <= stamp.size;
            if !fits || window.end - window.start > WINDOW_BYTES {
                return None;
            }
            let file = descriptors.next()?;
            let examined = stat::examine_walked(&file).ok();
            let examined = examined.filter(|it| it.kind == FileType::RegularFile)?;
            // The server compares the window with what was handed out.
            let open = disk.open_window(file, &examined);
            let open = Content::Open(Arc::new(if has_time { open } else { open.exact() }));
            Job::Load(Load {
                site: None,
                file: bare_file(disk, stamp, None, open),
                window,
                goes_to,
                copy,
                completes: None,
            })
        }
        NAMES => {
            let (path, from) = (path(message)?, message.u64()?);
            let open = match message.bool()? {
                true => Some(open_folder(disk, descriptors.next()?)?),
                false => None,
            };
            Job::Folder(Box::new(Folder {
                site: SiteId(0),
                path,
                part: Part::Names { open, from },
                root: None,
            }))
        }
        DETAILS => {
            let (path, names) = (path(message)?, read_names(message)?);
            Job::Folder(Box::new(Folder { site: SiteId(0), path, part: Part::Details(names), root: None }))
        }
        TEXT => {
            let (path, name) = (path(message)?, message.bytes(NAME_BYTES_MAX)?);
            Job::Folder(Box::new(Folder { site: SiteId(0), path, part: Part::Text(name.into()), root: None }))
        }
        _ => return None,
    };
    descriptors.next().is_none().then_some(job)
}

pub(super) fn open_folder(disk: &Disk, folder: OwnedFd) -> Option<Arc<dyn OpenFolder>> {
    stat::examine(&folder).ok().filter(|it| it.kind == FileType::Directory)?;
    Some(Arc::new(disk.open_folder(folder)))
}

pub(super) fn write_names(names: &Batch, message: &mut Writer) {
    message.u32(names.len() as u32);
    for (name, kind) in names.iter() {
        message.bytes(name);
        message.u8(KINDS.iter().position(|other| *other == kind).unwrap_or_default() as u8);
    }
}

pub(super) fn read_names(message: &mut Reader<'_>) -> Option<Batch> {
    let mut names = Batch::default();
    message.many(READ_NAMES_MAX, |message| {
        let name = message.bytes(NAME_BYTES_MAX)?;
        let is_name =
            !matches!(name, b"" | b"." | b"..") && !name.iter().any(|byte| matches!(byte, b'/' | 0));
        let kind = KINDS.get(usize::from(message.u8()?))?;
        is_name.then(|| names.push(name, *kind))
    })?;
    Some(names)
}

const KINDS: [Kind; 3] = [Kind::File, Kind::Folder, Kind::Unclear];

/// Decodes a path, which has to be canonical.
fn path(message: &mut Reader<'_>) -> Option<SitePath<'static>> {
    SitePath::of_decoded(message.bytes(PATH_BYTES_MAX)?)
}

/// An entry with the known stamps, and without content.
fn known_entry(
    disk: &Disk,
    known: Vec<(Option<Coding>, Stamp)>,
    looked_for: CodingSet,
    found_at: Option<SitePath<'static>>,
) -> Option<Option<Arc<Entry>>> {
    let file =
        |(coding, stamp)| bare_file(disk, stamp, coding, Content::Memory(BudgetedBytes::from(vec![]).into()));
    let mut known = known.into_iter();
    let Some(identity) = known.next() else { return Some(None) };
    let (identity, coded) = (file(identity), known.map(file).collect());
    let variants = Variants { identity, coded, looked_for, compressed: Compressed::default() };
    let well_formed =
        variants.identity.coding.is_none() && variants.coded.iter().all(|file| file.coding.is_some());
    well_formed.then(|| Some(Arc::new(Entry::new(Resource::File(variants), 0).at(found_at))))
}

fn bare_file(disk: &Disk, stamp: Stamp, coding: Option<Coding>, content: Content) -> Arc<File> {
    Arc::new(File::new(stamp, media::of(b""), coding, false, (&disk.settings.site.template, None), content))
}

pub(super) fn codings(message: &mut Reader<'_>) -> Option<CodingSet> {
    CodingSet::of_bits(message.u8()?)
}

pub(super) fn code_of(coding: Option<Coding>) -> u8 {
    coding.map_or(0, |coding| 1 + coding as u8)
}

pub(super) fn coding_of(code: u8) -> Option<Option<Coding>> {
    match code {
        0 => Some(None),
        code => Coding::ALL.into_iter().find(|coding| code_of(Some(*coding)) == code).map(Some),
    }
}
