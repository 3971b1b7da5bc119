//! Compressing files: which are wanted in a coding, and where the results go.
//!
//! The request path asks for a coding that a client would have got, and answers without it meanwhile. What compresses, and in
//! which thread, is not known here.

use std::sync::Arc;

use flash_http::negotiate::Coding;

use crate::clock::Now;
use crate::file::File;
use crate::file::compressed::CompressionResult;
use crate::path::SitePath;
use crate::server::Server;
use crate::site::id::SiteId;

/// The file that this path leads to is wanted in this coding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compression {
    pub site: SiteId,
    pub path: SitePath<'static>,
    pub coding: Coding,
}

/// Text becomes at least this many times smaller, more or less.
const EXPECTED: u64 = 4;
/// A file that is being written has another version soon, such as a log.
const RESTED_NS: i64 = 2_000_000_000;

impl Server {
    /// The file that is to be compressed, if that was not done yet and the result would be worth its room in the cache. May
    /// wait for a lock.
    pub fn to_compress(&self, wanted: &Compression, now: &Now) -> Option<Arc<File>> {
        let entry = self.paths.peek(wanted.site, &wanted.path)?;
        let variants = entry.variants().filter(|variants| variants.compressed.may_make(wanted.coding))?;
        let age_ns = now.unix_ns() - variants.identity.stamp.modified_ns;
        if (0..RESTED_NS).contains(&age_ns) {
            return None;
        }
        let worth = self.paths.worth_blocking(wanted.site, &wanted.path);
        if !worth.of_content(variants.identity.size() / EXPECTED) {
            variants.compressed.failed(now.ms());
            return None;
        }
        Some(Arc::clone(&variants.identity))
    }

    /// Puts a result beside the file that it was made of. If that has changed since, drops the result. May wait for a lock.
    pub fn cache_compressed(
        &self,
        wanted: &Compression,
        of: &File,
        result: &CompressionResult,
        now_ms: u64,
    ) -> bool {
        let is_in = self.paths.replace(wanted.site, &wanted.path, |entry| {
            let is_it = |file: &File| file.stamp == of.stamp;
            let variants = entry.variants().filter(|variants| is_it(&variants.identity))?;
            let compressed = variants.compressed.with(wanted.coding, result)?;
            Some(Arc::new(entry.with_compressed(variants, compressed)))
        });
        if !is_in
            && let Some(entry) = self.paths.peek(wanted.site, &wanted.path)
            && let Some(variants) = entry.variants()
        {
            variants.compressed.failed(now_ms);
        }
        is_in
    }
}

#[cfg(test)]
mod tests {
    use flash_http::Values;
    use flash_http::media;
    use flash_http::negotiate::{Accepts, CodingSet};

    use super::*;
    use crate::cache::memory_budget::BudgetedBytes;
    use crate::file::compressed::Compressed;
    use crate::file::entry::{Entry, Resource, Variants};
    use crate::file::header::HeaderTemplate;
    use crate::file::{Content, Stamp};
    use crate::server::Settings;
    use crate::testing::{Disk, World};

    const SITE: SiteId = SiteId(0);

    fn content(bytes: usize) -> Content {
        Content::Memory(BudgetedBytes::from(vec![b'x'; bytes]).into())
    }

    fn file(modified_ns: i64, coding: Option<Coding>) -> Arc<File> {
        let stamp = Stamp { size: 4000, modified_ns, ..Stamp::default() };
        let template = HeaderTemplate::default();
        Arc::new(File::new(stamp, media::of(b"a.css"), coding, true, (&template, None), content(4000)))
    }

    fn variants(modified_ns: i64, coded: Vec<Arc<File>>) -> Variants {
        let compressed = Compressed::possible(CodingSet::ALL);
        Variants { identity: file(modified_ns, None), coded, looked_for: CodingSet::ALL, compressed }
    }

    fn made(of: &File, coding: Coding) -> CompressionResult {
        let template = HeaderTemplate::default();
        CompressionResult::Made(Arc::new(of.compressed(coding, &template, (content(1000), 1000, [7; 32]))))
    }

    fn accepts(value: &str) -> Accepts {
        Accepts::of(Values::one(value.as_bytes()))
    }

    fn path() -> SitePath<'static> {
        SitePath::parse(b"/a.css").unwrap().into_owned()
    }

    fn insert(world: &World, variants: Variants) -> Arc<Entry> {
        let entry = Arc::new(Entry::new(Resource::File(variants), 0));
        assert!(world.server.paths.insert(SITE, &path(), &entry));
        entry
    }

    #[test]
    fn what_was_compressed_during_a_look_up_stays() {
        let wanted = Compression { site: SITE, path: path(), coding: Coding::Gzip };
        for pays in [true, false] {
            let world = World::new(Settings::default(), Disk::new(0));
            let before = insert(&world, variants(1, Vec::new()));
            let of = &before.variants().unwrap().identity;
            let result = if pays { made(of, Coding::Gzip) } else { CompressionResult::DoesNotPay };
            assert!(world.server.cache_compressed(&wanted, of, &result, 0));
            // A look-up that began earlier, and one of another version.
            for (version, stays) in [(1, true), (2, false)] {
                insert(&world, variants(version, Vec::new()));
                let entry = world.server.paths.peek(SITE, &path()).unwrap();
                let compressed = &entry.variants().unwrap().compressed;
                assert_eq!(compressed.may_make(Coding::Gzip), !stays);
                assert_eq!(compressed.file(Coding::Gzip).is_some(), stays && pays);
            }
        }
    }

    #[test]
    fn a_client_gets_the_best_that_is_there_and_the_best_of_all_is_asked_for() {
        let world = World::new(Settings::default(), Disk::new(0));
        insert(&world, variants(1, Vec::new()));
        let present = || world.server.paths.peek(SITE, &path()).unwrap();
        let check = |value: &str, sent: Option<Coding>, asked: Option<Coding>| {
            let entry = present();
            let variants = entry.variants().unwrap();
            assert_eq!(variants.choose(|| accepts(value)).coding, sent, "{value}");
            assert_eq!(variants.wanted(|| accepts(value)), asked, "{value}");
        };
        let take = |coding: Coding, result: &dyn Fn(&File) -> CompressionResult| {
            let wanted = Compression { site: SITE, path: path(), coding };
            let of = world.server.to_compress(&wanted, &Now::new(0, 1 << 40)).expect("it is to be made");
            assert!(world.server.cache_compressed(&wanted, &of, &result(&of), 0));
            assert!(world.server.to_compress(&wanted, &Now::new(0, 1 << 40)).is_none(), "it is made once");
        };
        check("", None, None);
        check("gzip, br", None, Some(Coding::Br));
        take(Coding::Gzip, &|of| made(of, Coding::Gzip));
        check("gzip, br", Some(Coding::Gzip), Some(Coding::Br));
        check("gzip, br;q=0.9", Some(Coding::Gzip), None);
        take(Coding::Br, &|_| CompressionResult::DoesNotPay);
        check("gzip, br", Some(Coding::Gzip), None);
        check("br", None, None);
        check("zstd;q=0.5, gzip;q=0.4", Some(Coding::Gzip), Some(Coding::Zstd));
        check("identity, gzip;q=0.9", None, None);
        let before = present().weight_bytes();
        take(Coding::Zstd, &|of| made(of, Coding::Zstd));
        assert!(present().weight_bytes() > before + 1000, "it counts in the cache");
    }

    #[test]
    fn a_copy_on_the_disk_comes_first() {
        let copies = vec![file(1, Some(Coding::Gzip))];
        let variants = variants(1, copies);
        assert_eq!(variants.wanted(|| accepts("br, gzip")), None);
        assert_eq!(variants.wanted(|| accepts("br")), Some(Coding::Br));
        let of = &variants.identity;
        let compressed = variants.compressed.with(Coding::Br, &made(of, Coding::Br)).unwrap();
        let variants = Variants { compressed, ..variants };
        assert_eq!(variants.choose(|| accepts("br, gzip")).coding, Some(Coding::Gzip));
        assert_eq!(variants.choose(|| accepts("br")).coding, Some(Coding::Br));
    }

    #[test]
    fn what_was_made_of_an_earlier_version_is_dropped() {
        let world = World::new(Settings::default(), Disk::new(0));
        let wanted = Compression { site: SITE, path: path(), coding: Coding::Br };
        insert(&world, variants(1, Vec::new()));
        let of = world.server.to_compress(&wanted, &Now::new(0, 1 << 40)).unwrap();
        let next = insert(&world, variants(2, Vec::new()));
        assert!(!world.server.cache_compressed(&wanted, &of, &made(&of, Coding::Br), 0));
        let present = world.server.paths.peek(SITE, &path()).unwrap();
        assert!(
            Arc::ptr_eq(&present, &next) && present.variants().unwrap().wanted(|| accepts("br")).is_some()
        );
    }

    #[test]
    fn a_coding_is_asked_for_now_and_then_and_after_a_failure_much_later() {
        let compressed = Compressed::possible(CodingSet::ALL);
        let claims = |times: std::ops::Range<u64>| times.filter(|&now| compressed.claim(now)).count();
        assert_eq!(claims(0..1000), 10);
        compressed.failed(1000);
        assert_eq!(claims(1000..11_000), 0);
        assert_eq!(claims(11_000..11_050), 1);
    }

    #[test]
    fn a_file_that_is_being_written_is_left_alone() {
        let world = World::new(Settings::default(), Disk::new(0));
        let second_ns = 1_000_000_000;
        insert(&world, variants(10 * second_ns, Vec::new()));
        let wanted = Compression { site: SITE, path: path(), coding: Coding::Br };
        let at = |seconds: u64| world.server.to_compress(&wanted, &Now::new(0, seconds * 1000)).is_some();
        assert_eq!([10, 11, 12, 13].map(at), [false, false, true, true]);
        assert!(at(5), "a time in the future says nothing");
    }
}
