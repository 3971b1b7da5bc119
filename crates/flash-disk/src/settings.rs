//! The settings of a [`Disk`](crate::Disk). Where the values come from is not decided here.

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use flash_core::experiments::Experiments;
use flash_core::file::File;
use flash_core::file::compressed::{COMPRESSED_FILE_BYTES_MAX, COMPRESSED_FILE_BYTES_MIN, Compressed};
use flash_core::file::header::HeaderTemplate;
use flash_core::file::validators::TagSource;
use flash_core::listing::Texts;
use flash_core::path::SitePath;
use flash_core::site::media_types::MediaTypes;
use flash_core::site::path_rules::PathRules;
use flash_http::media::Media;
use flash_http::negotiate::CodingSet;

/// What is served of the folder, and how names lead to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteSettings {
    /// Names tried in a folder, in order.
    pub index: Vec<Vec<u8>>,
    /// Ends of names, tried in order where a path has no file: `.html` finds `about.html` at `/about`.
    pub extensions: Vec<Vec<u8>>,
    /// Which files have another media type than their names tell.
    pub types: MediaTypes,
    pub follow_links: FollowLinks,
    /// The suffixes of scripts. A file with such a name is never opened.
    pub scripts: Vec<Vec<u8>>,
    /// The real paths of folders of programs. No file in them is ever sent.
    pub program_folders: Arc<[PathBuf]>,
    /// Paths where no program runs: a file with such a name is not sent there either.
    pub no_programs: PathRules,
    /// Paths that lead nowhere, whatever lies there. Listings leave them out.
    pub deny: PathRules,
    /// What entity tags are made of.
    pub etag: TagSource,
    /// Clients may ask for digests.
    pub digests: bool,
    /// What stands above and below the rows of listings.
    pub texts: Texts,
    /// Look for `.br`, `.zst` and `.gz` beside a file.
    pub precompressed: bool,
    /// The codings in which Flash itself compresses files.
    pub compress: CodingSet,
    /// The folder in a user's home behind `/~name/`.
    pub user_dirs: Option<Vec<u8>>,
    /// Show names that begin with a dot.
    pub dotfiles: bool,
    pub template: HeaderTemplate,
    /// What paths begin with that the folder's names do not: `assets` if `/assets/a` is `a` in the folder. Other paths are looked
    /// for as they are.
    pub strip_prefix: Vec<u8>,
}

impl SiteSettings {
    /// The codings in which a file of this type, with this value of `Cache-Control`, may be compressed.
    pub(crate) fn compressed(&self, media: &Media, cache_rule: Option<u8>) -> CodingSet {
        let may_be = media.compressible && !self.template.forbids_transform(cache_rule);
        if may_be { self.compress } else { CodingSet::EMPTY }
    }

    /// The codings of these in which a file of this type may have a copy beside it.
    pub(crate) fn copied(&self, media: &Media, codings: CodingSet) -> CodingSet {
        if self.precompressed && media.compressible { codings } else { CodingSet::EMPTY }
    }

    /// Whether clients may get a file of this type in different codings.
    pub(crate) fn varies(&self, media: &Media, cache_rule: Option<u8>) -> bool {
        !self.copied(media, CodingSet::ALL).union(self.compressed(media, cache_rule)).is_empty()
    }

    /// What may be compressed of a file that was found.
    pub(crate) fn to_compress(&self, file: &File) -> Compressed {
        let possible = match (COMPRESSED_FILE_BYTES_MIN..=COMPRESSED_FILE_BYTES_MAX).contains(&file.size()) {
            true => self.compressed(&file.media, file.cache_rule),
            false => CodingSet::EMPTY,
        };
        Compressed::possible(possible)
    }

    /// The media type of the file of this name below the folder.
    pub(crate) fn media(&self, name: &[u8]) -> Media {
        self.types.of(&self.path_of(name))
    }

    /// The name below the folder that a path of the site leads to, without slashes at its ends.
    pub(crate) fn name_of<'p>(&self, path: &'p SitePath<'_>) -> &'p [u8] {
        self.stripped(path.relative())
    }

    /// The same for a path without slashes at its ends.
    pub(crate) fn stripped<'p>(&self, path: &'p [u8]) -> &'p [u8] {
        match path.strip_prefix(&*self.strip_prefix) {
            _ if self.strip_prefix.is_empty() => path,
            Some(b"") => b"",
            Some([b'/', name @ ..]) => name,
            _ => path,
        }
    }

    /// The path of the site that leads to a name below the folder.
    pub(crate) fn path_of<'n>(&self, name: &'n [u8]) -> Cow<'n, [u8]> {
        match &*self.strip_prefix {
            b"" => name.into(),
            prefix => [prefix, b"/", name].concat().into(),
        }
    }
}

/// Settings of the disk, and those of its first site.
#[derive(Clone, Debug)]
pub struct Settings {
    pub site: SiteSettings,
    /// The largest file that is copied into memory when it is found.
    pub memory_file_bytes_max: u64,
    /// A file whose content is copied into the cache leaves the page cache. Where memory is short, it would be paid for twice.
    pub single_copy: bool,
    /// Memory for all copies, with the evicted ones that are still being sent.
    pub copies_bytes_max: u64,
    /// Memory for listings. A listing that does not fit is refused.
    pub listings_bytes_max: u64,
    /// Memory for what is read ahead of all readers of large files together.
    pub ahead_bytes_max: u64,
    /// How long a listing in memory answers requests.
    pub revalidate_ms: u64,
    /// Files that are not in memory are sent from the page cache.
    pub zero_copy: bool,
    /// How long the names of a folder are held, if nothing tells that the folder has changed.
    pub names_briefly: Duration,
    /// Processes of other users open and read local files themselves, if these are in memory.
    pub others_open: bool,
    pub experiments: Experiments,
}

/// How the content of files that are not in memory is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SendMode {
    /// As copies, piece by piece. Each is checked after it was taken.
    Copy,
    /// From the page cache, by `sendfile`. If a file changes in place, clients may get a mixture, because the socket
    /// still refers to the page.
    Sendfile,
    /// From a memory map. For experiments.
    Mmap,
    /// As copies, and the file is opened again for each piece. For experiments.
    Reopen,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FollowLinks {
    /// Symbolic links that stay below the root.
    Inside,
    Anywhere,
}
