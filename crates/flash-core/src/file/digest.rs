//! Digests of files: which are wanted, and where the results go. An entity tag may be made of one. A client may ask for one, in
//! `Repr-Digest` or as the file `/a.iso.sha256`, which is not there.
//!
//! The request path asks for a digest, and answers without it meanwhile. What reads the files, and in which thread, is not known
//! here.

use std::sync::Arc;

use flash_http::digest;
use flash_http::media;
use flash_http::negotiate::CodingSet;

use crate::cache::memory_budget::BudgetedBytes;
use crate::clock::Now;
use crate::file::compressed::Compressed;
use crate::file::entry::{Entry, Resource, Variants};
use crate::file::header::HeaderTemplate;
use crate::file::validators::{Tag, Validators};
use crate::file::{Content, File, Stamp};
use crate::path::SitePath;
use crate::server::Server;
use crate::site::id::SiteId;

/// The file that this path leads to needs a digest of its content, or a copy beside it does.
#[derive(Clone, Debug)]
pub struct Digest {
    pub site: SiteId,
    pub path: SitePath<'static>,
    /// What the path led to. Not every entry is cached.
    pub entry: Arc<Entry>,
}

/// What is asked for again meanwhile is the same, in whichever version.
impl PartialEq for Digest {
    fn eq(&self, other: &Self) -> bool {
        (self.site, &self.path) == (other.site, &other.path)
    }
}

impl Eq for Digest {}

impl Digest {
    /// Whether the files are read within a second, more or less.
    pub fn is_short(&self) -> bool {
        let lacking = self.entry.found_files().filter(|file| file.lacks_digest());
        lacking.map(|file| file.size()).sum::<u64>() <= SECOND_BYTES
    }
}

/// A file that is being written has another version soon, such as a log.
const RESTED_NS: i64 = 2_000_000_000;
/// The end of the name under which a file's digest is.
const SUFFIX: &[u8] = b".sha256";
/// So much is read in a second at least, if nothing goes before it.
const SECOND_BYTES: u64 = 64 << 20;
const RETRY_S_MAX: u64 = 60;

/// The path of the file whose digest is asked for, if the path is that of a digest by its name. Both as clients send them.
pub(crate) fn file_of(raw_path: &[u8]) -> Option<&[u8]> {
    let file = raw_path.strip_suffix(SUFFIX)?;
    // Of the name something has to be left.
    SitePath::parse(file).is_ok_and(|path| !path.names_folder()).then_some(file)
}

/// When a client may ask again for a digest that is being made.
pub(crate) fn retry_after_s(file: &File) -> u64 {
    (1 + file.size() / SECOND_BYTES).min(RETRY_S_MAX)
}

/// The text that `sha256sum -c` reads, as a file. It is as old as the file that it is about. Its tag is the digest, because texts of
/// all versions have one size.
pub(crate) fn checksum_of(file: &File, path: &SitePath<'_>, template: &HeaderTemplate) -> Option<Entry> {
    let digest = file.repr_digest.known()?;
    let text = digest::checksum_line(digest, path.name());
    let stamp = Stamp { size: text.len() as u64, ..file.stamp };
    let rule = template.cache_rule(path.extended(SUFFIX).relative());
    let content = Content::Memory(BudgetedBytes::from(text).into());
    let text = File::new(stamp, media::of(b".txt"), None, false, (template, rule), content);
    let tag = if file.validators.tag == Tag::Off { Tag::Off } else { Tag::Digest(Some(*digest)) };
    let identity = Arc::new(text.known_by(Validators { tag, ..file.validators }, template));
    let (coded, compressed) = (Vec::new(), Compressed::default());
    let variants = Variants { identity, coded, looked_for: CodingSet::ALL, compressed };
    Some(Entry::new(Resource::File(variants), 0))
}

impl Server {
    /// The files that are to be read. Files that are being written are left out. May wait for a lock.
    pub fn to_digest(&self, wanted: &Digest, now: &Now) -> Vec<Arc<File>> {
        let cached = self.paths.peek(wanted.site, &wanted.path);
        let entry = cached.as_ref().unwrap_or(&wanted.entry);
        // Whoever copies a file may set the first of the two back.
        let is_rested = |file: &&Arc<File>| {
            let written_ns = [file.stamp.modified_ns, file.stamp.changed_ns];
            !written_ns.iter().any(|at| (0..RESTED_NS).contains(&(now.unix_ns() - at)))
        };
        entry.found_files().filter(|file| file.lacks_digest()).filter(is_rested).map(Arc::clone).collect()
    }

    /// Puts a file that has its digest in the place of the same version without. May wait for a lock.
    pub fn cache_digested(&self, wanted: &Digest, digested: Arc<File>) {
        let digested = [digested];
        self.paths.replace(wanted.site, &wanted.path, |entry| entry.with_digests_of(&digested).map(Arc::new));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::validators::{ContentDigest, TagSource};
    use crate::server::Settings;
    use crate::testing::{Disk, World};

    const SITE: SiteId = SiteId(0);

    fn file(modified_ns: i64, digest: Option<ContentDigest>) -> Arc<File> {
        let stamp = Stamp { size: 4, modified_ns, ..Stamp::default() };
        let (template, media) = (HeaderTemplate::default(), media::of(b"a.iso"));
        let content = Content::Memory(BudgetedBytes::from(vec![b'x'; 4]).into());
        let file = File::new(stamp, media, None, false, (&template, None), content);
        Arc::new(file.known_by(Validators::new(TagSource::Time, false, digest), &template))
    }

    #[test]
    fn a_digest_goes_to_the_version_that_was_read_alone() {
        let world = World::new(Settings::default(), Disk::new(0));
        let path = SitePath::parse(b"/a.iso").unwrap().into_owned();
        let nothing = Arc::new(Entry::new(Resource::Missing, 0));
        let wanted = Digest { site: SITE, path: path.clone(), entry: nothing };
        let now = Now::new(0, 1 << 40);
        let put = |identity| {
            let compressed = Compressed::default();
            let coded = Vec::new();
            let variants = Variants { identity, coded, looked_for: CodingSet::ALL, compressed };
            let entry = Arc::new(Entry::new(Resource::File(variants), 0));
            assert!(world.server.paths.insert(SITE, &path, &entry));
        };
        let etag = || {
            let entry = world.server.paths.peek(SITE, &path).unwrap();
            entry.variants().unwrap().identity.etag.map(|tag| tag.as_bytes().to_vec())
        };
        put(file(1, None));
        assert_eq!((world.server.to_digest(&wanted, &now).len(), etag()), (1, None));
        world.server.cache_digested(&wanted, file(2, Some([7; 32])));
        assert_eq!(etag(), None, "it is of another version");
        world.server.cache_digested(&wanted, file(1, Some([7; 32])));
        assert_eq!(etag(), Some(format!("\"{}\"", "07".repeat(16)).into_bytes()));
        assert!(world.server.to_digest(&wanted, &now).is_empty(), "it is read once");
        // A look that began before the digest was known.
        put(file(1, None));
        assert!(etag().is_some(), "what is known of a version stays");
        put(file(2, None));
        assert_eq!(etag(), None, "it is of another version");
        put(file(now.unix_ns() - 1_000_000_000, None));
        assert!(world.server.to_digest(&wanted, &now).is_empty(), "it may be written still");
    }

    #[test]
    fn names_of_digests() {
        for (path, file) in [
            ("/a.iso.sha256", Some("/a.iso")),
            ("/a/b.sha256", Some("/a/b")),
            ("/a/b.sha256.sha256", Some("/a/b.sha256")),
            ("/.sha256", None),
            ("/a/.sha256", None),
            ("/a/b/...sha256", None),
            ("/%.sha256", None),
            ("/a.sha256/", None),
            ("/a.SHA256", None),
            ("/a", None),
        ] {
            assert_eq!(file_of(path.as_bytes()), file.map(str::as_bytes), "{path}");
        }
    }

    #[test]
    fn a_client_waits_longer_for_a_large_file_but_not_for_ever() {
        for (bytes, seconds) in [(0, 1), (4 << 30, 60), (1 << 30, 17), (1 << 40, 60)] {
            let stamp = Stamp { size: bytes, ..Stamp::default() };
            assert_eq!(retry_after_s(&File { stamp, ..File::clone(&file(1, None)) }), seconds);
        }
    }
}
