//! Several sites on one disk.

use std::fs;
use std::sync::{Arc, Barrier};
use std::thread;

use flash_core::site::id::SiteId;
use flash_core::site::root::OpenRoot;

use super::{Folder, find, find_job, outcome};
use crate::site_root::OpensHere;

/// Its first page often asks for several files at once.
#[test]
fn a_site_that_several_helpers_open_at_once_has_the_root_of_one() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path("other")).unwrap();
    for _ in 0..100 {
        let disk = folder.disk();
        let settings = Arc::new(disk.settings.site.clone());
        let folders = [folder.root(), folder.path("other")];
        let wanted = folders.map(|folder| (folder.into(), Arc::clone(&settings))).into();
        let next = disk.prepare_sites(wanted, |_| Arc::new(OpensHere)).unwrap();
        let (site, generation) = next.sites[1].clone();
        disk.replace_sites(next);
        let barrier = Barrier::new(4);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    barrier.wait();
                    let root = disk.site_root(site).unwrap();
                    assert_eq!(root.generation(), generation.get());
                });
            }
        });
    }
}

#[test]
fn a_site_that_no_job_asks_for_is_idle_until_one_has_looked_at_its_folder() {
    const SITE: SiteId = SiteId(0);
    let folder = Folder::new();
    folder.put("a.txt", "first");
    let disk = folder.disk();
    let count = || disk.idle_unasked_sites(2, |_| true);
    count();
    assert_eq!(outcome(&find(&disk, "/a.txt")), "first");
    count();
    assert_eq!(disk.watched_sites(), [SITE], "a job has asked for it");
    disk.idle_unasked_sites(2, |_| false);
    assert_eq!(disk.watched_sites(), [SITE], "it may not be idle");
    count();
    assert!(disk.watched_sites().is_empty());
    assert!(disk.try_now(&find_job("/a.txt", None)).is_none(), "no loop looks at a folder");
    let before = disk.site_root(SITE).unwrap().generation();
    fs::rename(folder.root(), folder.outside.path().join("before")).unwrap();
    fs::create_dir(folder.root()).unwrap();
    folder.put("a.txt", "second");
    assert_eq!(outcome(&find(&disk, "/a.txt")), "second");
    assert_eq!(disk.watched_sites(), [SITE]);
    assert!(disk.site_root(SITE).unwrap().generation() > before);
}

/// To free a site may take long.
#[test]
fn the_last_reference_to_an_earlier_site_goes_where_sites_are_forgotten() {
    let folder = Folder::new();
    fs::create_dir(folder.path("other")).unwrap();
    let disk = folder.disk();
    // As a loop holds it for a moment.
    let held = disk.sites.get(SiteId(0)).unwrap();
    let settings = Arc::new(disk.settings.site.clone());
    let next = disk.prepare_sites(vec![(folder.path("other").into(), settings)], |_| Arc::new(OpensHere));
    disk.replace_sites(next.unwrap());
    assert!(disk.forget_unused_sites(), "it is held here");
    assert!(disk.sites.get(SiteId(0)).is_none(), "and no job finds it");
    drop(held);
    assert!(!disk.forget_unused_sites());
}

/// Whoever was sent something of a new root is never sent anything of the old one.
#[test]
fn the_caches_know_of_a_new_root_before_anything_of_it_is_sent() {
    const SITE: SiteId = SiteId(0);
    let folder = Folder::new();
    let disk = folder.disk();
    let generation = disk.site_root(SITE).unwrap().present().upgrade().expect("it is its site's");
    let switches = 2_000;
    thread::scope(|scope| {
        let deploys = scope.spawn(|| {
            for number in 0..switches {
                fs::rename(folder.root(), folder.outside.path().join(number.to_string())).unwrap();
                fs::create_dir(folder.root()).unwrap();
                disk.look_at_root(SITE);
            }
        });
        while !deploys.is_finished() {
            let root = disk.site_root(SITE).unwrap().generation();
            assert!(generation.get() >= root, "a root of generation {root} answers already");
        }
    });
    assert!(generation.get() >= switches);
}
