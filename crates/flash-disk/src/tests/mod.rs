//! The disk side against a real folder: what names lead to, what is noticed of changes, what needs no waiting.

mod changes;
mod copies;
mod digests;
mod find;
mod growing;
mod links;
pub(crate) mod list;
mod missing;
mod pages;
mod remote;
mod scripts;
mod sites;
mod snapshots;
mod spool;
mod users;
mod windows;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use flash_core::experiments::Experiments;
use flash_core::file::entry::{Entry, Resource, Variants};
use flash_core::file::header::HeaderTemplate;
use flash_core::file::validators::TagSource;
use flash_core::file::{Content, File, Window};
use flash_core::job::{Done, Failure, Find, Job, Load, Outcome};
use flash_core::listing::Texts;
use flash_core::path::SitePath;
use flash_core::site::id::SiteId;
use flash_core::site::media_types::MediaTypes;
use flash_core::site::path_rules::{PathRule, PathRules};
use flash_http::negotiate::CodingSet;
use tempfile::TempDir;

use super::*;

/// Files up to this size are read into memory.
const MEMORY_FILE_BYTES_MAX: u64 = 4 << 10;

/// A folder to serve, in one that is not served.
pub(crate) struct Folder {
    pub(crate) outside: TempDir,
}

impl Folder {
    pub(crate) fn new() -> Self {
        let folder = Self { outside: TempDir::new().expect("a folder for temporary files") };
        fs::create_dir(folder.root()).unwrap();
        folder
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.outside.path().join("root")
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root().join(name)
    }

    /// Creates or replaces a file that has been at rest for a while, and the folders above it.
    pub(crate) fn put(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        rest(&path);
        path
    }

    pub(crate) fn disk(&self) -> Disk {
        self.disk_with(|_| ())
    }

    pub(crate) fn disk_with(&self, change: impl FnOnce(&mut Settings)) -> Disk {
        let mut settings = Settings {
            site: SiteSettings {
                index: vec![b"index.html".to_vec(), b"index.htm".to_vec()],
                follow_links: FollowLinks::Inside,
                etag: TagSource::Time,
                digests: false,
                texts: Texts::default(),
                precompressed: true,
                compress: CodingSet::EMPTY,
                scripts: Vec::new(),
                program_folders: Arc::default(),
                extensions: Vec::new(),
                types: MediaTypes::default(),
                no_programs: PathRules::default(),
                deny: PathRules::default(),
                user_dirs: None,
                dotfiles: false,
                template: HeaderTemplate::default(),
                strip_prefix: Vec::new(),
            },
            memory_file_bytes_max: MEMORY_FILE_BYTES_MAX,
            single_copy: false,
            copies_bytes_max: 16 << 20,
            listings_bytes_max: 16 << 20,
            revalidate_ms: 0,
            zero_copy: false,
            names_briefly: Duration::from_secs(1),
            ahead_bytes_max: 64 << 20,
            others_open: false,
            experiments: Experiments::default(),
        };
        change(&mut settings);
        Disk::open(&self.root(), settings).expect("the folder can be served")
    }
}

/// Makes a file look as if it was last written a minute ago: one that has just been written is waited for.
pub(crate) fn rest(path: &Path) {
    set_modified(path, SystemTime::now() - Duration::from_secs(60));
}

fn set_modified(path: &Path, time: SystemTime) {
    fs::File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
}

fn path(path: impl AsRef<[u8]>) -> SitePath<'static> {
    SitePath::parse(path.as_ref()).expect("the tests' paths are sound").into_owned()
}

pub(crate) fn find_job(name: impl AsRef<[u8]>, known: Option<&Arc<Entry>>) -> Job {
    let codings = CodingSet::ALL;
    Job::Find(Find { known: known.cloned(), codings, ..Find::first(SiteId(0), path(name)) })
}

/// Does a job as a helper does that waits for whatever there is.
pub(crate) fn help(disk: &Disk, job: &Job) -> Outcome {
    disk.help(job, Device::ELSEWHERE).expect("it goes wherever the name leads")
}

#[track_caller]
fn found(outcome: Outcome) -> Arc<Entry> {
    match outcome.done {
        Done::Found(entry) => entry,
        other => panic!("nothing was found: {other:?}"),
    }
}

#[track_caller]
pub(crate) fn find(disk: &Disk, name: impl AsRef<[u8]>) -> Arc<Entry> {
    found(disk.run(&find_job(name, None)))
}

#[track_caller]
fn find_again(disk: &Disk, name: &str, known: &Arc<Entry>) -> Arc<Entry> {
    found(disk.run(&find_job(name, Some(known))))
}

#[track_caller]
pub(crate) fn variants(entry: &Entry) -> &Variants {
    match &entry.resource {
        Resource::File(variants) => variants,
        other => panic!("not a file: {other:?}"),
    }
}

/// What a name leads to, in a word: a file's content, or the reason why there is none.
pub(crate) fn outcome(entry: &Entry) -> String {
    match &entry.resource {
        Resource::File(variants) => {
            String::from_utf8(content(&variants.identity)).expect("the tests' files are text")
        }
        Resource::Folder => "folder".to_owned(),
        Resource::FolderWithoutSlash => "redirect".to_owned(),
        Resource::Script(name) => format!("script {}", name.escape_ascii()),
        Resource::Missing => "404".into(),
        Resource::Forbidden(_) => "403".into(),
    }
}

fn content(file: &File) -> Vec<u8> {
    match &file.content {
        Content::Memory(bytes) => bytes.to_vec(),
        Content::Open(_) => panic!("larger than the tests' small files"),
    }
}

/// Bytes in which every place looks different from those around it.
fn text(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at * 31 + at / 251) as u8).collect()
}

fn evict(path: &Path) {
    flash_os::residency::evict(&fs::File::open(path).unwrap()).unwrap();
}

/// Nothing is forbidden to the superuser: tests of what is say so and leave.
fn is_superuser(folder: &Folder) -> bool {
    let superuser = fs::metadata(folder.outside.path()).unwrap().uid() == 0;
    if superuser {
        eprintln!("skipped: this user may read everything");
    }
    superuser
}
