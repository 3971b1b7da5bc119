//! Tests of the policy.

use super::*;
use crate::job::{Done, Find, Job};
use crate::path::SitePath;
use crate::testing::Disk;

struct World {
    shard: Shard,
    frequencies: Frequencies,
    limits: Room,
    disk: Disk,
}

fn named(path: &str) -> Name<'_> {
    Name { hash: hash(path), site: SiteId(0), path: path.as_bytes() }
}

fn hash(name: &str) -> u64 {
    let mixed =
        |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31);
    mixed(name.bytes().fold(7, mixed), 1)
}

impl World {
    fn new(bytes: u64, entries: u64) -> Self {
        let limits = Room { bytes, entries, descriptors: entries };
        let frequencies = Frequencies::new(entries as usize);
        Self { shard: Shard::default(), frequencies, limits, disk: Disk::new(u64::MAX) }
    }

    fn entry(&mut self, name: &str, bytes: usize) -> Arc<Entry> {
        self.disk.put(name.to_owned().leak(), vec![b'x'; bytes]);
        let path = SitePath::parse(name.as_bytes()).unwrap().into_owned();
        let found = self.disk.try_now(&Job::Find(Find::first(SiteId(0), path)));
        let Some(Done::Found(entry)) = found else { panic!("it is there") };
        entry
    }

    /// A request, as the request path makes it. Returns whether the shard had the entry.
    fn request(&mut self, name: &str, bytes: usize) -> bool {
        self.frequencies.add(hash(name), 1);
        if self.shard.get(named(name)).is_some() {
            return true;
        }
        let worth = self.shard.worth(hash(name), &self.limits, &self.frequencies);
        if worth.content_bytes_max >= bytes as u64 {
            let entry = self.entry(name, bytes);
            self.shard.insert(named(name), &entry, (&self.limits, &self.frequencies), &mut Evicted::new());
        }
        assert!(self.shard.used().exceeds(&self.limits).is_none());
        false
    }
}

#[test]
fn a_scan_replaces_nothing_that_is_requested() {
    let mut world = World::new(1 << 20, 1_000);
    let hot: Vec<String> = (0..90).map(|number| format!("/hot-{number}")).collect();
    for _ in 0..5 {
        hot.iter().for_each(|name| _ = world.request(name, 10_000));
    }
    let mut hits = 0;
    for number in 0..20_000 {
        world.request(&format!("/scanned-{number}"), 1_000);
        hits += usize::from(world.request(&hot[number % hot.len()], 10_000));
    }
    assert!(hits >= 19_800, "{hits} of 20,000: within a point of all");
}

#[test]
fn a_first_pass_copies_small_files_only() {
    const LARGE: usize = COPIED_AT_ONCE_BYTES_MAX as usize + 1;
    let mut world = World::new(1 << 20, 1_000);
    assert!(!world.request("/small", LARGE - 1) && world.request("/small", LARGE - 1));
    assert!(!world.request("/large", LARGE), "it is sent from the page cache");
    assert!(!world.request("/large", LARGE), "it was, and is worth a copy now");
    assert!(world.request("/large", LARGE));
}

#[test]
fn small_files_come_before_large_ones_that_are_as_frequent() {
    let mut world = World::new(1 << 20, 1_000);
    for _ in 0..20 {
        for number in 0..100 {
            world.request(&format!("/large-{number}"), 100_000);
            world.request(&format!("/small-{number}"), 5_000);
        }
    }
    let held = |kind: &str| {
        let names = (0..100).map(|number| format!("/{kind}-{number}"));
        names.filter(|name| world.shard.get(named(name)).is_some()).count()
    };
    assert!(held("small") >= 98, "{}", held("small"));
    assert!((1..=5).contains(&held("large")), "{} in what is left", held("large"));
}

#[test]
fn what_was_popular_gives_way_to_what_is() {
    let mut world = World::new(1 << 20, 1_000);
    let day = |world: &mut World, day: usize| {
        let names: Vec<String> = (0..90).map(|number| format!("/{day}-{number}")).collect();
        let hits = (0..40_000).filter(|number| world.request(&names[number % names.len()], 10_000)).count();
        hits as f64 / 40_000.0
    };
    assert!(day(&mut world, 1) > 0.99);
    assert!(day(&mut world, 2) > 0.4, "it takes a while");
    assert!(day(&mut world, 2) > 0.99);
}

#[test]
fn what_is_worth_a_copy_is_then_taken() {
    let mut world = World::new(1 << 20, 1_000);
    for number in 0..300 {
        for _ in 0..=number % 7 {
            world.request(&format!("/{number}"), 3_000 + 97 * number);
        }
    }
    let (mut worth, mut taken) = (0, 0);
    for number in 0..300 {
        let name = format!("/new-{number}");
        (0..4).for_each(|_| world.frequencies.add(hash(&name), 1));
        let bytes = 3_000 + 97 * number;
        if world.shard.worth(hash(&name), &world.limits, &world.frequencies).content_bytes_max < bytes as u64
        {
            continue;
        }
        worth += 1;
        let entry = world.entry(&name, bytes);
        taken += usize::from(world.shard.insert(
            named(&name),
            &entry,
            (&world.limits, &world.frequencies),
            &mut Evicted::new(),
        ));
    }
    assert!(worth > 20 && taken * 5 >= worth * 4, "{taken} of {worth}");
}

#[test]
fn what_is_refused_replaces_nothing() {
    let mut world = World::new(1 << 20, 1_000);
    for number in 0..200 {
        for _ in 0..=number % 7 {
            world.request(&format!("/{number}"), 10_000);
        }
    }
    let (mut taken, mut refused) = (0, 0);
    for number in 0..200 {
        let name = format!("/large-{number}");
        (0..10 + number % 40).for_each(|_| world.frequencies.add(hash(&name), 1));
        let entry = world.entry(&name, 150_000);
        let (before, mut evicted) = (world.shard.used(), Evicted::new());
        let limits = (&world.limits, &world.frequencies);
        if world.shard.insert(named(&name), &entry, limits, &mut evicted) {
            taken += 1;
        } else {
            refused += 1;
            assert!(evicted.is_empty() && world.shard.used() == before, "after {taken} that were taken");
        }
        let hit = |name: &String| world.shard.get(named(name)).is_some();
        let names = (0..200).flat_map(|number| [format!("/{number}"), format!("/large-{number}")]);
        assert_eq!(names.filter(hit).count() as u64, world.shard.used().entries);
    }
    assert!(taken > 0 && refused > 0, "{taken} and {refused}");
}
