//! Tests of the cache: its limits, its sites, and what stays.

use super::*;
use crate::file::entry::Resource;
use crate::job::{Done, Find, Job};
use crate::testing::Disk;

const SITE: SiteId = SiteId(0);

fn limits(entries_max: usize, bytes_max: u64) -> CacheLimits {
    CacheLimits { entries_max, bytes_max, descriptors_max: entries_max, threads: 1, local_caches: 1 }
}

fn missing() -> Arc<Entry> {
    Arc::new(Entry::new(Resource::Missing, 0))
}

/// What a disk finds that copies files up to this size.
fn found(copied_bytes_max: u64, content: &[u8]) -> Arc<Entry> {
    let mut disk = Disk::new(copied_bytes_max);
    disk.put("/a", content.to_vec());
    let path = SitePath::parse(b"/a").unwrap().into_owned();
    match disk.try_now(&Job::Find(Find::first(SITE, path))) {
        Some(Done::Found(entry)) => entry,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_file_that_gets_no_room_for_a_copy_stays_open() {
    let cache = PathCache::new(limits(10, 1 << 20));
    let path = SitePath::parse(b"/a").unwrap();
    let content = vec![b'x'; 2 << 20];
    let open = found(0, &content);
    cache.insert(SITE, &path, &open);
    cache.insert(SITE, &path, &found(u64::MAX, &content));
    assert!(cache.peek(SITE, &path).is_some_and(|entry| Arc::ptr_eq(&entry, &open)));
    // Another version of it leaves nothing of the earlier one.
    cache.insert(SITE, &path, &found(u64::MAX, &[content, vec![b'y']].concat()));
    assert!(cache.peek(SITE, &path).is_none());
}

#[test]
fn neither_bound_is_passed() {
    let limits = CacheLimits { descriptors_max: 10, threads: 2, ..limits(6_000, 128 << 20) };
    let cache = PathCache::new(limits);
    for number in 0..20_000 {
        let name = format!("/{number}");
        assert!(cache.insert(SITE, &SitePath::parse(name.as_bytes()).unwrap(), &missing()));
    }
    assert!(cache.entries() <= 6_000, "{} entries", cache.entries());
    assert!(cache.entries() > 4_000, "{} entries", cache.entries());
    assert!(cache.used_bytes() <= 128 << 20);
}

/// Counters of two names may be the same ones, by the seed of a cache. So most of some caches have to be right.
#[test]
fn the_names_that_are_requested_most_often_come_first() {
    let right = (0..7).filter(|_| names_come_in_order()).count();
    assert!(right >= 4, "{right} of 7 caches");
}

fn names_come_in_order() -> bool {
    let cache = PathCache::new(CacheLimits { threads: 2, local_caches: 2, ..limits(6_000, 128 << 20) });
    let name = |number: usize| SitePath::of_decoded(format!("/{number}").as_bytes()).unwrap();
    for number in 0..1_000 {
        cache.insert(SITE, &name(number), &missing());
    }
    for number in 0..10 {
        for _ in 0..=10 * number {
            cache.get(SITE, &name(100 * number), 0);
        }
    }
    // It has left the cache, or was never in it.
    (0..100).for_each(|_| assert!(cache.get(SITE, &name(5_000), 0).is_none()));
    let names = |count| cache.most_requested(count).into_iter().map(|(_, path)| path).collect::<Vec<_>>();
    let expected: Vec<_> = (0..10).rev().map(|number| Box::from(name(100 * number).as_bytes())).collect();
    assert!(names(0).is_empty());
    names(3) == expected[..3] && names(1_000) == expected
}

#[test]
fn no_more_files_are_held_open_than_there_may_be_descriptors() {
    let mut disk = Disk::new(0);
    disk.put("/a", *b"too large for memory");
    let path = SitePath::parse(b"/a").unwrap();
    let find = Job::Find(Find::first(SITE, path.into_owned()));
    for (descriptors_max, threads) in [(10, 64), (100, 1)] {
        let limits = CacheLimits { descriptors_max, threads, ..limits(6_000, 128 << 20) };
        let cache = PathCache::new(limits);
        for number in 0..1_000 {
            let Some(Done::Found(open)) = disk.try_now(&find) else { panic!("it is there") };
            let name = format!("/{number}");
            assert!(cache.insert(SITE, &SitePath::parse(name.as_bytes()).unwrap(), &open));
        }
        let open = disk.open_files();
        assert!((descriptors_max / 2..=descriptors_max).contains(&open), "{open} of {descriptors_max}");
    }
    assert_eq!(disk.open_files(), 0);
}

#[test]
fn what_leads_nowhere_is_admitted_the_second_time() {
    let cache = PathCache::new(limits(100, 1 << 20));
    let admits = |name: String| {
        let path = SitePath::parse(name.as_bytes()).unwrap();
        assert!(cache.get(SITE, &path, 0).is_none());
        cache.admits_refusal(SITE, &path)
    };
    assert!(!admits("/a".into()) && admits("/a".into()) && admits("/a".into()));
    let admitted = (0..100_000).filter(|number| admits(format!("/{number}"))).count();
    assert!(admitted < 1_000, "{admitted} of those that were asked for once");
    assert!(!admits("/a".into()), "it was asked for long ago");
}

#[test]
fn a_path_is_another_one_in_another_site() {
    let cache = PathCache::new(limits(100, 1 << 20));
    let path = SitePath::parse(b"/a").unwrap();
    assert!(cache.insert(SITE, &path, &missing()));
    assert!(cache.get(SITE, &path, 9).is_some() && cache.get(SiteId(1), &path, 0).is_none());
    assert!(cache.admits_refusal(SITE, &path) && !cache.admits_refusal(SiteId(1), &path));
}

#[test]
fn the_entries_of_a_site_that_is_gone_leave_and_others_stay() {
    let cache = PathCache::new(limits(2_000, 16 << 20));
    let paths: Vec<String> = (0..500).map(|number| format!("/{number}")).collect();
    let path = |name: &String| SitePath::parse(name.as_bytes()).unwrap().into_owned();
    for (number, name) in paths.iter().enumerate() {
        assert!(cache.insert(SiteId(number as u32 % 3), &path(name), &missing()));
    }
    cache.retain_sites(|site| site != SiteId(1));
    for (number, name) in paths.iter().enumerate() {
        let site = SiteId(number as u32 % 3);
        assert_eq!(cache.get(site, &path(name), 0).is_some(), site != SiteId(1), "{name}");
    }
    assert_eq!(cache.entries(), 333);
}

#[test]
fn a_smaller_cache_keeps_what_is_worth_most_and_grows_again() {
    let cache = PathCache::new(limits(2_000, 16 << 20));
    let mut disk = Disk::new(10_000);
    let paths: Vec<&'static str> = (0..500).map(|number| &*format!("/{number}").leak()).collect();
    let path = |name: &str| SitePath::parse(name.as_bytes()).unwrap().into_owned();
    let is_hot = |number: usize| number.is_multiple_of(5);
    let fill = |disk: &mut Disk| {
        for name in &paths {
            let Some(Done::Found(entry)) = disk.try_now(&Job::Find(Find::first(SITE, path(name)))) else {
                panic!("it is there")
            };
            cache.insert(SITE, &path(name), &entry);
        }
    };
    paths.iter().for_each(|name| disk.put(name, vec![1; 10_000]));
    for (_, name) in paths.iter().enumerate().filter(|(number, _)| is_hot(*number)) {
        (0..10).for_each(|_| drop(cache.get(SITE, &path(name), 0)));
    }
    fill(&mut disk);
    assert!(cache.used_bytes() > 5_000_000 && cache.entries() == 500);
    cache.resize(1_500_000);
    assert!(cache.used_bytes() <= 1_500_000, "{} bytes", cache.used_bytes());
    let kept = (0..500).filter(|&number| cache.peek(SITE, &path(paths[number])).is_some());
    let (hot, cold): (Vec<_>, Vec<_>) = kept.partition(|&number| is_hot(number));
    assert!(hot.len() > 90 && cold.len() < 60, "{} hot ones and {} others", hot.len(), cold.len());
    fill(&mut disk);
    assert!(cache.used_bytes() <= 1_500_000, "{} bytes", cache.used_bytes());
    let larger = found(u64::MAX, &vec![1; 100_000]);
    let is_replaced = cache.replace(SITE, &path(paths[hot[0]]), |_| Some(larger));
    assert!(!is_replaced || cache.used_bytes() <= 1_500_000, "{} bytes", cache.used_bytes());
    cache.resize(u64::MAX);
    fill(&mut disk);
    assert_eq!(cache.entries(), 500, "there is room for all again");
}

#[test]
fn workers_without_caches_of_their_own_leave_the_room_to_all() {
    let with = PathCache::new(CacheLimits { threads: 4, local_caches: 4, ..limits(6_000, 128 << 20) });
    let without = PathCache::new(CacheLimits { threads: 4, local_caches: 0, ..limits(6_000, 128 << 20) });
    assert_eq!((with.bytes_max(), with.local_bytes_max()), (112 << 20, 4 << 20));
    assert_eq!((without.bytes_max(), without.local_bytes_max()), (128 << 20, 0));
    assert_eq!([with.file_bytes_max(), without.file_bytes_max()], [4 << 20; 2]);
}

#[test]
fn switched_off() {
    let cache = PathCache::new(limits(0, 1 << 20));
    let path = SitePath::parse(b"/a").unwrap();
    assert!(cache.insert(SITE, &path, &missing()), "there is nothing to wait for");
    assert!(cache.get(SITE, &path, 0).is_none());
    assert_eq!((cache.local_bytes_max(), cache.bytes_max()), (0, 0));
    cache.resize(1 << 20);
}

#[test]
fn what_is_locked_is_done_without() {
    let cache = PathCache::new(limits(100, 1 << 20));
    let path = SitePath::parse(b"/a").unwrap();
    assert!(cache.insert(SITE, &path, &missing()));
    let locked = cache.shards[0].0.write().unwrap();
    assert!(cache.get(SITE, &path, 0).is_none() && !cache.insert(SITE, &path, &missing()));
    drop(locked);
    assert!(cache.get(SITE, &path, 0).is_some());
    let read = cache.shards[0].0.read().unwrap();
    assert!(cache.get(SITE, &path, 0).is_some() && !cache.insert(SITE, &path, &missing()));
    drop(read);
}
