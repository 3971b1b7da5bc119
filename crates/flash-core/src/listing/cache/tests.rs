//! Listings and their cache, with a folder in memory. Requests share one listing, for a time and within a budget.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use bytes::Bytes;
use flash_http::negotiate::Coding;

use super::*;
use crate::file::Stamp;
use crate::listing::{Batch, Column, Folder, FolderRead, Kind, OpenFolder, Part, Seen, Texts};
use crate::path::SitePath;
use crate::site::id::SiteId;

struct Bench {
    cache: ListingCache,
    helper: Helper,
}

/// A helper, and the folder that it reads.
struct Helper {
    names: Vec<(String, Kind)>,
    /// The size of every file.
    size: u64,
    steps_are_short: bool,
    /// After this many parts, the next part leads to another device.
    parts_left: usize,
    looks_max: usize,
    /// How many parts of the folder were read.
    parts: usize,
    kept: usize,
    has_texts: bool,
}

struct AtWork<'a>(&'a ListingCache, &'a mut Helper);

#[derive(Debug)]
struct Opened(std::io::Stdin);

impl AsFd for Opened {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl OpenFolder for Opened {}

const READ_NAMES: usize = 999;

impl Maker for AtWork<'_> {
    fn texts(&self) -> Texts {
        let name = |name: &str| self.1.has_texts.then(|| name.as_bytes().into());
        Texts { header: name("HEADER.html"), footer: name("/README") }
    }

    fn ask(&mut self, folder: Folder) -> Option<Result<FolderRead, Failure>> {
        let helper = &mut *self.1;
        helper.parts_left = helper.parts_left.checked_sub(1)?;
        helper.parts += 1;
        Some(Ok(match folder.part {
            Part::Names { open, from } => {
                let (from, count) = (from as usize, helper.names.len());
                let to = count.min(from + READ_NAMES);
                let mut names = Batch::default();
                helper.names[from..to].iter().for_each(|(name, kind)| names.push(name.as_bytes(), *kind));
                let open = open.unwrap_or_else(|| Arc::new(Opened(std::io::stdin())));
                FolderRead::Names { names, open, next: (to < count).then_some(to as u64) }
            }
            Part::Details(names) => {
                let stamp = Stamp { size: helper.size, ..Stamp::default() };
                let seen = |(_, kind)| Some(Seen { stamp, folder: kind == Kind::Folder, digest: None });
                FolderRead::Details(names.iter().take(helper.looks_max).map(seen).collect())
            }
            Part::Text(name) => FolderRead::Text(Some(Bytes::from([b"text of ", &*name].concat()))),
        }))
    }

    fn is_over(&self) -> bool {
        self.1.steps_are_short
    }

    fn wait(&mut self) -> bool {
        false
    }

    fn kept(&mut self) {
        self.1.kept += 1;
    }

    fn make_room(&mut self) -> bool {
        self.0.make_room()
    }

    fn hold(&self, page: &[u8]) -> Bytes {
        Bytes::copy_from_slice(page)
    }
}

const KEEP_MS: u64 = 1_000;
const BUDGET: u64 = 1 << 20;

impl Bench {
    /// A folder of this many files.
    fn new(count: usize) -> Self {
        let names = (0..count).map(|number| (format!("file-{number:06}.txt"), Kind::File)).collect();
        let helper = Helper {
            names,
            size: 1,
            steps_are_short: false,
            parts_left: usize::MAX,
            looks_max: usize::MAX,
            parts: 0,
            kept: 0,
            has_texts: false,
        };
        Self { cache: ListingCache::new(KEEP_MS, BUDGET), helper }
    }

    fn budget(self, bytes: u64) -> Self {
        Self { cache: ListingCache::new(KEEP_MS, bytes), ..self }
    }

    fn step(&mut self, list: &List) -> Option<Done> {
        self.cache.list(list, &mut AtWork(&self.cache, &mut self.helper))
    }

    /// Does the job until the page is there.
    #[track_caller]
    fn page(&mut self, list: &List) -> (Arc<Listing>, Bytes) {
        let mut list = list.clone();
        for _ in 0..100_000 {
            match self.step(&list) {
                Some(Done::Listed(Listed { listing, page: Some(page) })) => return (listing, page),
                Some(Done::Listed(Listed { listing, page: None })) => list.listing = Some(listing),
                other => panic!("no page: {other:?}"),
            }
        }
        panic!("it is never ready");
    }

    fn pages(&mut self, list: &List) -> (Arc<Listing>, Vec<Bytes>) {
        let (listing, first) = self.page(list);
        let mut pages = vec![first];
        for page in 1..listing.page_count() {
            pages.push(self.page(&List { listing: Some(Arc::clone(&listing)), page, ..list.clone() }).1);
        }
        (listing, pages)
    }

    fn used(&self) -> u64 {
        self.cache.budget().bytes_max() - self.cache.budget().left_bytes()
    }
}

fn at(asked_ms: u64) -> List {
    let path = SitePath::parse(b"/folder/").unwrap().into_owned();
    List { site: SiteId(0), path, order: Order::default(), asked_ms, listing: None, page: 0 }
}

fn by_size(asked_ms: u64) -> List {
    List { order: Order::new(Column::Size, false), ..at(asked_ms) }
}

#[test]
fn requests_join_a_listing_while_it_is_read_and_for_a_time_afterwards() {
    let mut bench = Bench::new(2_500);
    bench.helper.steps_are_short = true;
    let Some(Done::Listed(Listed { listing, page: None })) = bench.step(&at(0)) else { panic!("too fast") };
    assert!(bench.cache.get_now(&at(0), 0).is_none(), "it is not ready");
    // However long that takes.
    let (joined, _) = bench.page(&at(1_700));
    assert!(Arc::ptr_eq(&listing, &joined) && bench.helper.kept == 1);
    let names_read = bench.helper.parts;
    assert!(Arc::ptr_eq(&listing, &bench.cache.get_now(&at(1_999), 0).unwrap()));
    assert!(Arc::ptr_eq(&listing, &bench.page(&at(1_999)).0));
    assert_eq!(bench.helper.parts, names_read, "its first page is kept");
    assert!(bench.cache.get_now(&at(2_000), 0).is_none(), "twice the time since it was begun");
    let (second, _) = bench.page(&at(2_000));
    assert!(!Arc::ptr_eq(&listing, &second));
    // One that is read at once answers for that time, once.
    assert!(bench.cache.get_now(&at(2_999), 0).is_some() && bench.cache.get_now(&at(3_000), 0).is_none());
    let (descending, _) =
        bench.page(&List { order: Order { descending: true, ..Order::default() }, ..at(2_000) });
    assert!(!Arc::ptr_eq(&descending, &second), "another order is another listing");
    let (elsewhere, _) = bench.page(&List { site: SiteId(1), ..at(2_000) });
    assert!(!Arc::ptr_eq(&elsewhere, &second), "another site's listing is another one");
}

#[test]
fn a_listing_lives_as_long_as_it_is_kept_or_read() {
    let mut bench = Bench::new(10);
    bench.page(&at(0));
    assert!(bench.used() > 0);
    assert!(bench.cache.age(), "it has just come");
    assert!(bench.used() > 0 && !bench.cache.age());
    assert_eq!(bench.used(), 0);
    let (listing, page) = bench.page(&at(5_000));
    bench.cache.age();
    bench.cache.age();
    assert!(bench.used() > page.len() as u64);
    drop(listing);
    assert_eq!(bench.used(), page.len() as u64, "it is still being sent");
    drop(page);
    assert_eq!(bench.used(), 0);
    // Without a time to keep it, it is read for each request that finds none under way.
    bench.cache = ListingCache::new(0, BUDGET);
    bench.page(&at(9_000));
    assert_eq!((bench.used(), bench.helper.kept), (0, 2));
}

#[test]
fn a_listing_that_no_request_waits_for_is_given_up() {
    for list in [at(0), by_size(0)] {
        let mut bench = Bench::new(5_000);
        bench.helper.steps_are_short = true;
        let step = bench.step(&list);
        bench.step(&list);
        let parts = bench.helper.parts;
        assert!(bench.used() > 0 && parts < 5);
        drop(step);
        assert_eq!(bench.used(), 0);
        bench.page(&list);
        assert!(bench.helper.parts > parts + 4, "read anew from its beginning");
    }
}

/// On a slow disk each look takes a while.
#[test]
fn a_step_goes_on_where_the_last_one_ended() {
    for list in [at(0), by_size(0)] {
        let mut bench = Bench::new(256);
        bench.helper.steps_are_short = true;
        bench.page(&list);
        assert_eq!(bench.helper.parts, 1 + 256 / 16, "each name is looked at once");
    }
}

#[test]
fn slow_readers_of_a_folder_that_does_not_change_share_its_memory() {
    let mut bench = Bench::new(2_000);
    let (first, pages) = bench.pages(&at(0));
    let used = bench.used();
    let mut readers = vec![(first, pages)];
    for round in 1..20 {
        readers.push(bench.pages(&at(round * 5_000)));
        bench.cache.age();
        bench.cache.age();
    }
    assert!(bench.used() < used + 20 * 100, "{} bytes, of one alone {used}", bench.used());
    // Once it does change, its names stay shared, and once there are others nothing is.
    bench.helper.size = 2;
    readers.push(bench.pages(&at(200_000)));
    let with_others = bench.used();
    assert!(with_others > used + 100_000 && with_others < 2 * used - 20_000, "{with_others} bytes");
    bench.helper.names.pop();
    readers.push(bench.pages(&at(300_000)));
    assert!(bench.used() > with_others + 40_000, "{} bytes", bench.used());
}

#[test]
fn beyond_the_budget_there_is_no_listing_and_nothing_is_held() {
    let mut bench = Bench::new(5_000).budget(100_000);
    let done = bench.step(&at(0));
    assert!(matches!(done, Some(Done::Failed(Failure::OverBudget))), "{done:?}");
    assert_eq!(bench.used(), 0);
    bench.helper.names.truncate(1_000);
    bench.page(&at(0));
    // Names that were asked for by others are told the same.
    bench.helper.names.extend((0..9_000).map(|number| (format!("{number}"), Kind::File)));
    bench.helper.steps_are_short = true;
    let Some(Done::Listed(Listed { listing, .. })) = bench.step(&at(5_000)) else {
        panic!("too large at once")
    };
    while !matches!(bench.step(&at(5_000)), Some(Done::Failed(Failure::OverBudget))) {}
    let done = bench.step(&List { listing: Some(listing), ..at(5_000) });
    assert!(matches!(done, Some(Done::Failed(Failure::OverBudget))), "{done:?}");
}

/// A listing needs its names. Its pages, and listings that are only kept, are evicted.
#[test]
fn pages_that_find_no_room_are_written_for_each_reader() {
    let mut bench = Bench::new(3_000).budget(280_000);
    let (listing, pages) = bench.pages(&at(0));
    assert!(pages.iter().map(Bytes::len).sum::<usize>() > 300_000);
    let kept = (0..listing.page_count()).filter(|page| listing.page_now(*page).is_some()).count();
    assert!((1..8).contains(&kept), "{kept} pages");
    assert_eq!(
        bench.pages(&List { listing: Some(Arc::clone(&listing)), ..at(0) }).1,
        pages,
        "the same again"
    );
    drop(pages);
    let (other, _) = bench.page(&by_size(0));
    assert!(listing.page_now(0).is_none() && other.page_now(0).is_some());
    drop(listing);
    assert_eq!(bench.cache.get_now(&at(0), 0).map(|_| ()), None, "it had to go");
}

#[test]
fn a_step_that_had_no_time_for_all_looks_leaves_them_to_the_next_one() {
    for list in [at(0), by_size(0)] {
        let mut bench = Bench::new(600);
        let expected = bench.pages(&list).1;
        for looks_max in [1, 5] {
            bench.cache = ListingCache::new(KEEP_MS, BUDGET);
            (bench.helper.steps_are_short, bench.helper.looks_max) = (true, looks_max);
            assert_eq!(bench.pages(&list).1, expected, "{looks_max}");
        }
    }
}

#[test]
fn a_name_on_another_device_leaves_all_to_those_who_may_wait_for_it() {
    for list in [at(0), by_size(0)] {
        let mut bench = Bench::new(3_000);
        for (_, kind) in &mut bench.helper.names[2_900..] {
            *kind = Kind::Unclear;
        }
        let expected = bench.pages(&list).1;
        for parts_left in 0..15 {
            bench.cache = ListingCache::new(KEEP_MS, BUDGET);
            bench.helper.steps_are_short = true;
            bench.helper.parts_left = parts_left;
            let mut list = list.clone();
            while let Some(done) = bench.step(&list) {
                let Done::Listed(Listed { listing, page }) = done else { panic!("{done:?}") };
                list.listing = Some(listing);
                if page.is_some() {
                    break;
                }
            }
            bench.helper.parts_left = usize::MAX;
            assert_eq!(bench.pages(&list).1, expected, "{parts_left}");
        }
    }
}

/// A helper that is asked for a listing while another is in a call for it.
struct Second {
    may_wait: bool,
    waited: usize,
}

impl Maker for Second {
    fn ask(&mut self, folder: Folder) -> Option<Result<FolderRead, Failure>> {
        panic!("{folder:?} is the other's")
    }

    fn is_over(&self) -> bool {
        self.waited == 3
    }

    fn wait(&mut self) -> bool {
        self.waited += 1;
        self.may_wait
    }

    fn kept(&mut self) {}

    fn make_room(&mut self) -> bool {
        false
    }

    fn hold(&self, page: &[u8]) -> Bytes {
        panic!("{} bytes of a page that nobody asked for", page.len())
    }
}

/// A helper that is always in the middle of a call.
struct First<'a>(&'a ListingCache);

impl Maker for First<'_> {
    fn ask(&mut self, _: Folder) -> Option<Result<FolderRead, Failure>> {
        let mut second = Second { may_wait: true, waited: 0 };
        let done = self.0.list(&at(0), &mut second);
        assert!(matches!(done, Some(Done::Listed(Listed { page: None, .. }))), "{done:?}");
        assert_eq!(second.waited, 3);
        let mut third = Second { may_wait: false, waited: 0 };
        assert!(self.0.list(&at(0), &mut third).is_none(), "it leaves the job to those who may wait");
        None
    }

    fn is_over(&self) -> bool {
        false
    }

    fn wait(&mut self) -> bool {
        panic!("there is no other")
    }

    fn kept(&mut self) {}

    fn make_room(&mut self) -> bool {
        false
    }

    fn hold(&self, page: &[u8]) -> Bytes {
        Bytes::copy_from_slice(page)
    }
}

#[test]
fn two_helpers_are_never_at_work_on_the_names_of_one_listing() {
    let cache = ListingCache::new(KEEP_MS, BUDGET);
    assert!(cache.list(&at(0), &mut First(&cache)).is_none());
}

#[test]
fn the_rest_of_a_huge_folder_is_counted() {
    let mut bench = Bench::new(200_003).budget(64 << 20);
    let (listing, pages) = bench.pages(&at(0));
    assert_eq!(listing.page_count(), 200_000u32.div_ceil(256));
    let last = String::from_utf8(pages.last().unwrap().to_vec()).unwrap();
    assert!(last.contains("<p>… and 3 more, which are not shown."), "{last}");
    // Twelve bytes or so for each of them beside the name itself.
    drop(pages);
    listing.evict_pages();
    assert!(bench.used() < 200_000 * (15 + 12), "{} bytes", bench.used());
}

#[test]
fn pages_are_bounded_whatever_names_there_are() {
    let mut bench = Bench::new(0);
    bench.helper.names =
        (0..600).map(|number| (format!("{number:04}{}", "\"".repeat(250)), Kind::File)).collect();
    bench.helper.size = u64::MAX;
    let (_, pages) = bench.pages(&at(0));
    let longest = pages.iter().map(Bytes::len).max().unwrap();
    assert!((100_000..132_000).contains(&longest), "{longest} bytes");
    let rows: usize =
        pages.iter().map(|page| String::from_utf8_lossy(page).matches("<tr><td><a href=\"").count()).sum();
    assert_eq!(rows, 600 + 1, "and the folder above");
}

fn in_coding(asked_ms: u64, coding: Coding) -> List {
    List { order: Order { coding: Some(coding), ..Order::default() }, ..at(asked_ms) }
}

#[test]
fn a_compressed_listing_is_the_same_whichever_page_is_asked_for_first() {
    for coding in Coding::ALL {
        let mut bench = Bench::new(3_000).budget(16 << 20);
        let plain = bench.pages(&at(0)).1;
        let (listing, pages) = bench.pages(&in_coding(0, coding));
        assert_eq!(pages.len(), plain.len());
        assert!(pages.concat().len() * 4 < plain.concat().len(), "{coding:?}");
        assert!(!listing.evict_pages(), "what follows continues them");
        // In short steps, and from the last page on.
        let mut other = Bench::new(3_000).budget(16 << 20);
        other.helper.steps_are_short = true;
        let (listing, first) = other.page(&in_coding(0, coding));
        let mut page =
            |page| other.page(&List { listing: Some(Arc::clone(&listing)), page, ..in_coding(0, coding) }).1;
        let mut again: Vec<_> = (1..listing.page_count()).rev().map(&mut page).collect();
        again.push(first);
        again.reverse();
        assert_eq!(again, pages, "{coding:?}");
    }
}

#[test]
fn a_listing_is_sent_as_it_is_if_there_is_no_room_to_compress_it() {
    let mut bench = Bench::new(10).budget(100_000);
    bench.page(&by_size(0));
    let parts = bench.helper.parts;
    let (listing, page) = bench.page(&in_coding(0, Coding::Br));
    assert_eq!((listing.order().coding, bench.helper.parts), (None, parts + 2), "it is read once");
    assert_eq!(bench.page(&at(0)).1, page);
    assert!(bench.cache.get_now(&by_size(0), 0).is_some(), "nothing had to go for it");
    bench.helper.names.extend((0..9_000).map(|number| (format!("{number}"), Kind::File)));
    let done = bench.step(&in_coding(5_000, Coding::Br));
    assert!(matches!(done, Some(Done::Failed(Failure::OverBudget))), "{done:?}");
    assert!(bench.helper.parts <= parts + 2 + 10, "its names are read once, too");
}

#[test]
fn pages_that_can_be_written_again_give_way_to_what_compresses_a_listing() {
    let mut bench = Bench::new(20_000).budget(2_600_000);
    let plain = bench.pages(&at(0)).0;
    assert!(bench.cache.budget().left_bytes() < 100_000);
    assert_eq!(bench.page(&in_coding(0, Coding::Br)).0.order().coding, Some(Coding::Br));
    assert_eq!(plain.page_now(0), None);
    // Other names fit without it alone.
    bench.helper.names.extend((0..40_000).map(|number| (format!("{number}"), Kind::File)));
    assert_eq!(bench.page(&in_coding(5_000, Coding::Br)).0.order().coding, None);
}

#[test]
fn slow_readers_of_compressed_listings_leave_room_for_others() {
    let mut bench = Bench::new(5_000).budget(16 << 20);
    let mut readers = Vec::new();
    for round in 0..20 {
        readers.push(bench.page(&in_coding(round * 5_000, Coding::Br)));
    }
    let coded = readers.iter().filter(|(listing, _)| listing.order().coding.is_some()).count();
    assert!((1..8).contains(&coded), "{coded} are compressed");
    assert!(bench.used() < 8 << 20, "{} bytes", bench.used());
    // One that ends has its memory free for the next.
    let first = List { listing: Some(readers.remove(0).0), ..in_coding(0, Coding::Br) };
    bench.page(&List { page: 19, ..first });
    assert_eq!(bench.page(&in_coding(200_000, Coding::Br)).0.order().coding, Some(Coding::Br));
}

#[test]
fn what_can_be_written_again_goes_before_a_compressed_page_exceeds_the_budget() {
    let mut bench = Bench::new(5_000).budget(8 << 20);
    let (coded, _) = bench.page(&in_coding(0, Coding::Br));
    let (plain, pages) = bench.pages(&by_size(0));
    drop(pages);
    let _rest = bench.cache.budget().reserve(bench.cache.budget().left_bytes());
    let last = List { listing: Some(Arc::clone(&coded)), page: 11, ..in_coding(0, Coding::Br) };
    bench.page(&last);
    assert_eq!(plain.page_now(0), None, "it had to go");
    assert!(bench.cache.budget().left_bytes() > 0);
}

#[test]
fn a_header_and_a_footer_stand_once_and_for_people_alone() {
    let mut bench = Bench::new(600);
    bench.helper.has_texts = true;
    let text = |pages: &[Bytes]| String::from_utf8(pages.concat()).unwrap();
    let html = text(&bench.pages(&at(0)).1);
    let (header, footer) =
        ("</h1>\ntext of HEADER.html\n<table>", "</table>\n<pre>text of /README</pre>\n</html>");
    assert_eq!((html.matches(header).count(), html.matches(footer).count()), (1, 1));
    let json = List { order: Order { format: crate::listing::Format::Json, ..Order::default() }, ..at(0) };
    assert!(!text(&bench.pages(&json).1).contains("text of"));
}
