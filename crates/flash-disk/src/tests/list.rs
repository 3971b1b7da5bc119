//! Listings: which names, in which order, in how many jobs.

use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;

use flash_core::job::{List, Listed};
use flash_core::listing::{Column, Names, Order};

use super::*;

const BY_NAME: Order = Order { by: Column::Name, descending: false };

/// One job after the other; the links of each one's rows.
fn list(disk: &Disk, folder: &str, order: Order) -> Vec<Vec<String>> {
    let mut jobs = Vec::new();
    let mut names: Option<Arc<Names>> = None;
    let mut from = Some(0);
    while let Some(next) = from {
        let listed = list_once(disk, folder, order, names, next);
        jobs.push(links(&listed.rows));
        (names, from) = (Some(listed.names), listed.next);
    }
    jobs
}

#[track_caller]
fn list_once(disk: &Disk, folder: &str, order: Order, names: Option<Arc<Names>>, from: usize) -> Listed {
    let job = Job::List(List { path: path(folder), order, names, from });
    assert!(disk.try_now(&job).is_none(), "no call reads a folder without waiting");
    match help(disk, &job).done {
        Done::Listed(listed) => listed,
        other => panic!("no listing: {other:?}"),
    }
}

fn links(rows: &[u8]) -> Vec<String> {
    let rows = std::str::from_utf8(rows).expect("rows are UTF-8");
    rows.split("<a href=\"./").skip(1).map(|row| row[..row.find('"').unwrap()].to_owned()).collect()
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
    let order = |by, descending| list(&disk, "/", Order { by, descending }).concat().join(" ");
    assert_eq!(order(Column::Name, false), "z/ a.txt b.txt c.txt");
    assert_eq!(order(Column::Name, true), "z/ c.txt b.txt a.txt");
    assert_eq!(order(Column::Size, false), "z/ b.txt c.txt a.txt");
    assert_eq!(order(Column::Size, true), "z/ a.txt c.txt b.txt");
    assert_eq!(order(Column::Time, false), "z/ c.txt b.txt a.txt");
    assert_eq!(order(Column::Time, true), "z/ a.txt b.txt c.txt");
}

#[test]
fn a_large_folder_takes_several_jobs() {
    let folder = Folder::new();
    let names: Vec<String> = (0..600).map(|number| format!("{number:04}")).collect();
    for name in &names {
        fs::write(folder.path(name), "x").unwrap();
    }
    let disk = folder.disk();
    for by in [Column::Name, Column::Size, Column::Time] {
        let jobs = list(&disk, "/", Order { by, descending: false });
        assert_eq!(jobs.len(), 3);
        let mut all = jobs.concat();
        if by == Column::Time {
            all.sort();
        }
        assert_eq!(all, names);
    }
}

#[test]
fn an_empty_folder_is_one_job_without_rows() {
    assert_eq!(list(&Folder::new().disk(), "/", BY_NAME), [Vec::<String>::new()]);
}

/// What disappears while a listing is under way is left out, even all of a job's names.
#[test]
fn names_that_vanish_between_jobs_are_left_out() {
    let folder = Folder::new();
    for number in 0..600 {
        fs::write(folder.path(&format!("{number:04}")), "x").unwrap();
    }
    let disk = folder.disk();
    let first = list_once(&disk, "/", BY_NAME, None, 0);
    for number in 256..513 {
        fs::remove_file(folder.path(&format!("{number:04}"))).unwrap();
    }
    let second = list_once(&disk, "/", BY_NAME, Some(Arc::clone(&first.names)), first.next.unwrap());
    assert!(second.rows.is_empty());
    let third = list_once(&disk, "/", BY_NAME, Some(second.names), second.next.unwrap());
    assert_eq!(links(&third.rows)[0], "0513");
    assert_eq!(third.next, None);
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
        let mut all = list(&folder.disk(), "/", Order { by, descending: false }).concat();
        all[2..].sort();
        all[..2].sort();
        assert_eq!(all.join(" "), shown);
    }
    let open = folder.disk_with(|settings| settings.dotfiles = true);
    assert_eq!(list(&open, "/", BY_NAME).concat().join(" "), "real/ to-folder/ .hidden plain.txt to-file");
    let anywhere = folder.disk_with(|settings| settings.follow_links = FollowLinks::Anywhere);
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
    assert_eq!(list(&disk, "/a/b/", Order { by: Column::Size, descending: false }), [["x.txt"]]);
}

#[test]
fn a_folder_that_is_gone_cannot_be_listed() {
    let disk = Folder::new().disk();
    let job = Job::List(List { path: path("/gone/"), order: BY_NAME, names: None, from: 0 });
    assert!(matches!(disk.run(&job).done, Done::Failed(Failure::Gone)));
}
