//! Listings: which names, in which order, in how many pages, and for how many requests.

use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::thread;
use std::time::Instant;

use bytes::Bytes;
use flash_core::job::{List, Listed};
use flash_core::listing::{Batch, Column, Folder as FolderJob, FolderRead, Kind, Listing, Order, Part};

use super::*;

const BY_NAME: Order = Order::new(Column::Name, false);

pub(crate) fn list_job(folder: &str, order: Order, asked_ms: u64) -> List {
    List { site: SiteId(0), path: path(folder), order, asked_ms, listing: None, page: 0 }
}

/// Does jobs until this page is there.
#[track_caller]
pub(super) fn list_page(list: &List, mut does: impl FnMut(&List) -> Outcome) -> (Arc<Listing>, Bytes) {
    let mut list = list.clone();
    loop {
        match does(&list).done {
            Done::Listed(Listed { listing, page: Some(page) }) => return (listing, page),
            Done::Listed(Listed { listing, page: None }) => list.listing = Some(listing),
            other => panic!("no listing: {other:?}"),
        }
    }
}

/// All pages, one after the other.
#[track_caller]
pub(super) fn list_pages(list: &List, mut does: impl FnMut(&List) -> Outcome) -> Vec<Bytes> {
    let (listing, first) = list_page(list, &mut does);
    let mut pages = vec![first];
    for page in 1..listing.page_count() {
        let list = List { listing: Some(Arc::clone(&listing)), page, ..list.clone() };
        pages.push(list_page(&list, &mut does).1);
    }
    pages
}

/// The links of each page's rows.
#[track_caller]
pub(super) fn list(disk: &Disk, folder: &str, order: Order) -> Vec<Vec<String>> {
    let job = list_job(folder, order, 0);
    assert!(disk.try_now(&Job::List(job.clone())).is_none(), "no call reads a folder without waiting");
    let pages = list_pages(&job, |list| help(disk, &Job::List(list.clone())));
    pages.iter().map(|page| links(page)).collect()
}

fn links(rows: &[u8]) -> Vec<String> {
    let rows = std::str::from_utf8(rows).expect("rows are UTF-8");
    let rows = rows.split("<td><a href=\"").skip(1).filter(|row| !row.starts_with("../"));
    rows.map(|row| row[..row.find('"').unwrap()].to_owned()).collect()
}

#[test]
fn folders_come_first_and_columns_order_the_rest() {
    let folder = Folder::new();
    let hour = Duration::from_secs(3600);
    let then = SystemTime::now() - 100 * hour;
    for (name, bytes, age) in [("b.txt", 10, 2), ("a.txt", 30, 1), ("c.txt", 20, 3)] {
        let path = folder.put(name, text(bytes));
        set_modified(&path, then - age * hour);
    }
    fs::create_dir(folder.path("z")).unwrap();
    let disk = folder.disk();
    let order = |by, descending| list(&disk, "/", Order::new(by, descending)).concat().join(" ");
    assert_eq!(order(Column::Name, false), "z/ a.txt b.txt c.txt");
    assert_eq!(order(Column::Name, true), "z/ c.txt b.txt a.txt");
    assert_eq!(order(Column::Size, false), "z/ b.txt c.txt a.txt");
    assert_eq!(order(Column::Size, true), "z/ a.txt c.txt b.txt");
    assert_eq!(order(Column::Time, false), "z/ c.txt b.txt a.txt");
    assert_eq!(order(Column::Time, true), "z/ a.txt b.txt c.txt");
}

#[test]
fn a_large_folder_has_several_pages() {
    let folder = Folder::new();
    let names: Vec<String> = (0..2000).map(|number| format!("{number:04}")).collect();
    for name in &names {
        fs::write(folder.path(name), "x").unwrap();
    }
    let mut disk = folder.disk();
    for step in [Duration::ZERO, Duration::from_secs(60)] {
        disk.list_step = step;
        for by in [Column::Name, Column::Size, Column::Time] {
            let pages = list(&disk, "/", Order::new(by, false));
            assert_eq!(pages.len(), 8);
            let mut all = pages.concat();
            if by == Column::Time {
                all.sort();
            }
            assert_eq!(all, names);
        }
    }
}

/// Each look may take long: a client waits for a step until the disk's deadline.
#[test]
fn a_step_has_one_look_if_there_is_no_time_for_more() {
    const NAMES: [&str; 3] = ["a", "b", "c"];
    let folder = Folder::new();
    for name in NAMES {
        folder.put(name, "x");
    }
    let mut disk = folder.disk();
    let looked = |disk: &Disk| {
        let mut names = Batch::default();
        NAMES.iter().for_each(|name| names.push(name.as_bytes(), Kind::File));
        let part = Part::Details(names);
        let job = FolderJob { site: SiteId(0), path: path("/"), part, root: None };
        match disk.run(&Job::Folder(Box::new(job))).done {
            Done::Folder(FolderRead::Details(seen)) => seen.len(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(looked(&disk), 3);
    disk.list_step = Duration::ZERO;
    assert_eq!(looked(&disk), 1);
}

#[test]
fn an_empty_folder_has_one_page_without_rows() {
    assert_eq!(list(&Folder::new().disk(), "/", BY_NAME), [Vec::<String>::new()]);
}

/// What disappears while a listing is under way is left out, even all of a page's names.
#[test]
fn names_that_vanish_between_pages_are_left_out() {
    let folder = Folder::new();
    for number in 0..600 {
        fs::write(folder.path(&format!("{number:04}")), "x").unwrap();
    }
    let mut disk = folder.disk();
    disk.list_step = Duration::ZERO;
    let run = |list: &List| disk.run(&Job::List(list.clone()));
    let first = list_job("/", BY_NAME, 0);
    let (listing, _) = list_page(&first, run);
    for number in 256..513 {
        fs::remove_file(folder.path(&format!("{number:04}"))).unwrap();
    }
    let page = |page| List { listing: Some(Arc::clone(&listing)), page, ..first.clone() };
    assert!(list_page(&page(1), run).1.is_empty());
    assert_eq!(links(&list_page(&page(2), run).1)[0], "0513");
    assert_eq!(listing.page_count(), 3);
}

#[test]
fn for_a_while_others_get_the_same_at_once() {
    let folder = Folder::new();
    folder.put("a.txt", "a");
    let disk = folder.disk_with(|settings| settings.revalidate_ms = 1_000);
    let at = |asked_ms| Job::List(list_job("/", BY_NAME, asked_ms));
    assert!(disk.try_now(&at(0)).is_none());
    let (_, first) = list_page(&list_job("/", BY_NAME, 0), |list| disk.run(&Job::List(list.clone())));
    folder.put("b.txt", "b");
    let Some(Outcome { done: Done::Listed(Listed { page: Some(page), .. }), .. }) = disk.try_now(&at(999))
    else {
        panic!("it is read again")
    };
    assert_eq!(page, first);
    assert!(disk.try_now(&at(1_000)).is_none());
    let (_, second) = list_page(&list_job("/", BY_NAME, 1_000), |list| disk.run(&Job::List(list.clone())));
    assert_eq!(links(&second), ["a.txt", "b.txt"]);
}

#[test]
fn a_listing_that_is_asked_for_no_more_gives_its_memory_back() {
    let folder = Folder::new();
    folder.put("a.txt", "a");
    let disk = folder.disk_with(|settings| settings.revalidate_ms = 50);
    let budget = Arc::clone(disk.listings.cache.budget());
    for asked_ms in [0, 10_000] {
        drop(list_page(&list_job("/", BY_NAME, asked_ms), |list| disk.run(&Job::List(list.clone()))));
        assert!(budget.left_bytes() < budget.bytes_max(), "it is kept");
        let give_up = Instant::now() + Duration::from_secs(30);
        while budget.left_bytes() < budget.bytes_max() {
            assert!(Instant::now() < give_up, "it is never let go");
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// In some architectures each connection's thread does its jobs itself.
#[test]
fn threads_that_list_at_the_same_time_share_the_work() {
    let folder = Folder::new();
    for number in 0..3000 {
        fs::write(folder.path(&format!("{number:04}")), "x").unwrap();
    }
    let mut disk = folder.disk_with(|settings| settings.revalidate_ms = 3_600_000);
    disk.list_step = Duration::from_millis(1);
    let by_size = Order::new(Column::Size, false);
    let found: Vec<_> = thread::scope(|scope| {
        let run = || list_page(&list_job("/", by_size, 0), |list| disk.run(&Job::List(list.clone()))).0;
        let threads = [(); 8].map(|()| scope.spawn(run));
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(found.iter().all(|listing| Arc::ptr_eq(listing, &found[0])));
}

#[test]
fn a_listing_beyond_the_budget_is_refused() {
    let folder = Folder::new();
    for number in 0..3000 {
        fs::write(folder.path(&format!("{number:04}-{}", "x".repeat(100))), "x").unwrap();
    }
    let disk = folder.disk_with(|settings| settings.listings_bytes_max = 200_000);
    let mut list = list_job("/", BY_NAME, 0);
    let failure = loop {
        match disk.run(&Job::List(list.clone())).done {
            Done::Listed(Listed { listing, page: None }) => list.listing = Some(listing),
            Done::Failed(failure) => break failure,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(failure, Failure::OverBudget);
    let budget = disk.listings.cache.budget();
    drop(list);
    assert_eq!(budget.left_bytes(), budget.bytes_max());
}

#[test]
fn only_what_would_be_served_is_shown() {
    let folder = Folder::new();
    folder.put("plain.txt", "x");
    folder.put(".hidden", "x");
    folder.put("real/x", "x");
    fs::write(folder.outside.path().join("secret.txt"), "x").unwrap();
    symlink("real", folder.path("to-folder")).unwrap();
    symlink("plain.txt", folder.path("to-file")).unwrap();
    symlink("nowhere", folder.path("dangling")).unwrap();
    symlink("../secret.txt", folder.path("outside")).unwrap();
    let fifo = folder.path("fifo");
    rustix::fs::mknodat(rustix::fs::CWD, fifo, rustix::fs::FileType::Fifo, 0o644.into(), 0).unwrap();
    let shown = "real/ to-folder/ plain.txt to-file";
    for by in [Column::Name, Column::Size] {
        let mut all = list(&folder.disk(), "/", Order::new(by, false)).concat();
        all[2..].sort();
        all[..2].sort();
        assert_eq!(all.join(" "), shown);
    }
    let open = folder.disk_with(|settings| settings.site.dotfiles = true);
    assert_eq!(list(&open, "/", BY_NAME).concat().join(" "), "real/ to-folder/ .hidden plain.txt to-file");
    let anywhere = folder.disk_with(|settings| settings.site.follow_links = FollowLinks::Anywhere);
    assert!(list(&anywhere, "/", BY_NAME).concat().contains(&"outside".to_owned()));
}

#[test]
fn every_link_leads_back_to_its_name() {
    let folder = Folder::new();
    let names: [&[u8]; 6] = [b"a b", b"50%", b"q?x", b"#1", b"c:d", b"\xff\xfe"];
    for name in names {
        fs::write(folder.root().join(std::ffi::OsStr::from_bytes(name)), "found").unwrap();
    }
    let disk = folder.disk();
    let links = list(&disk, "/", BY_NAME).concat();
    assert_eq!(links.len(), names.len());
    for link in links {
        assert_eq!(outcome(&find(&disk, format!("/{link}"))), "found", "{link}");
    }
}

#[test]
fn a_folder_within_a_folder() {
    let folder = Folder::new();
    folder.put("a/b/x.txt", "x");
    let disk = folder.disk();
    assert_eq!(list(&disk, "/a/", BY_NAME), [["b/"]]);
    assert_eq!(list(&disk, "/a/b/", Order::new(Column::Size, false)), [["x.txt"]]);
}

#[test]
fn a_folder_that_is_gone_cannot_be_listed() {
    let disk = Folder::new().disk();
    let job = Job::List(list_job("/gone/", BY_NAME, 0));
    assert!(matches!(disk.run(&job).done, Done::Failed(Failure::NotFound)));
}

#[test]
fn a_denied_header_or_footer_is_in_no_listing() {
    let folder = Folder::new();
    for name in ["d/HEADER", "d/x", "README"] {
        folder.put(name, format!("text of {name}"));
    }
    for (rule, is_shown) in [("x", [true, true]), ("HEADER", [false, true]), ("/README", [true, false])] {
        let disk = folder.disk_with(|settings| {
            let name = |name: &str| Some(name.as_bytes().into());
            settings.site.texts = Texts { header: name("HEADER"), footer: name("/README") };
            settings.site.deny = [PathRule::parse(rule).unwrap()].into_iter().collect();
        });
        let page = list_page(&list_job("/d/", BY_NAME, 0), |list| help(&disk, &Job::List(list.clone()))).1;
        let page = String::from_utf8(page.to_vec()).unwrap();
        assert_eq!(["d/HEADER", "README"].map(|name| page.contains(&format!("text of {name}"))), is_shown);
    }
}
