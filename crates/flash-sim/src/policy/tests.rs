//! Policies against what their papers and the kernel's source say, and against each other.

use flash_traffic::sample::Zipf;
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

use super::cache::Cache;
use super::*;

/// Files of one size.
const BYTES: u64 = 1000;

fn zipf(files: u32, requests: usize, exponent: f64) -> Replayed {
    let law = Zipf::new(files, exponent).expect("there is such a law");
    let weights: Vec<f64> = (0..files).map(|rank| law.weight(rank)).collect();
    let total: f64 = weights.iter().sum();
    let mut random = Xoshiro256PlusPlus::seed_from_u64(9);
    let mut draw = || {
        let mut left = random.random::<f64>() * total;
        let rank = weights.iter().position(|weight| {
            left -= weight;
            left < 0.0
        });
        rank.unwrap_or(0) as u32
    };
    Replayed {
        requests: (0..requests).map(|_| draw()).collect(),
        bytes: vec![BYTES; files as usize],
        warm_up: requests / 4,
        read_bytes: 128 << 10,
    }
}

fn hits(policy: PolicyName, replayed: &Replayed, capacity: u64) -> f64 {
    policy.score(replayed, capacity).hits
}

#[test]
fn no_policy_passes_belady_and_all_that_know_frequency_pass_lru() {
    let replayed = zipf(500, 40_000, 0.8);
    for part in [10, 4, 2] {
        let capacity = 500 * BYTES / part;
        let lru = hits(PolicyName::Lru, &replayed, capacity);
        let best = hits(PolicyName::Belady, &replayed, capacity);
        for policy in [PolicyName::S3Fifo, PolicyName::Sieve, PolicyName::WTinyLfu, PolicyName::TwoLists] {
            let hits = hits(policy, &replayed, capacity);
            assert!(hits > lru && hits < best, "1/{part}: {policy:?} {hits}, LRU {lru}, Belady {best}");
        }
    }
}

#[test]
fn everything_hits_where_everything_fits() {
    let replayed = zipf(500, 40_000, 0.8);
    for policy in PolicyName::ALL {
        // Flash's own entries take room beside the contents.
        let score = policy.score(&replayed, if policy == PolicyName::Flash { 64 << 20 } else { 520 * BYTES });
        assert!(score.hits > 0.999 && score.reads_per_request < 0.001, "{policy:?}: {score:?}");
    }
}

/// By trying everything: with files of one size nothing has fewer misses.
#[test]
fn belady_is_the_optimum_for_files_of_one_size() {
    fn least(requests: &[u32], kept: Vec<u32>, room: usize) -> usize {
        let Some((&file, rest)) = requests.split_first() else { return 0 };
        if kept.contains(&file) {
            return least(rest, kept, room);
        }
        let with = |mut kept: Vec<u32>| {
            kept.push(file);
            least(rest, kept, room)
        };
        let mut best = least(rest, kept.clone(), room);
        if kept.len() < room {
            best = best.min(with(kept.clone()));
        }
        for out in 0..kept.len() {
            let mut kept = kept.clone();
            kept.remove(out);
            best = best.min(with(kept));
        }
        1 + best
    }
    let mut random = Xoshiro256PlusPlus::seed_from_u64(4);
    for room in [1, 2, 3] {
        for _ in 0..20 {
            let requests: Vec<u32> = (0..9).map(|_| random.random_range(0..5)).collect();
            let misses = belady::misses(&requests, |_| 1, |_| 1, room as u64);
            let misses = misses.into_iter().filter(|&missed| missed).count();
            assert_eq!(misses, least(&requests, Vec::new(), room), "{requests:?} with room for {room}");
        }
    }
}

#[test]
fn a_large_file_leaves_before_small_ones_that_save_as_much() {
    let requests = [0, 1, 2, 0, 1, 2];
    let misses = belady::misses(&requests, |file| if file == 0 { 3 } else { 1 }, |_| 1, 3);
    assert_eq!(misses, [true, true, true, true, false, false]);
}

#[test]
fn a_page_that_is_read_twice_is_active_and_outlives_a_scan() {
    let mut cache = TwoLists::new(10 * BYTES);
    let read = |cache: &mut TwoLists, file| cache.request(file, BYTES);
    (0..2).for_each(|_| _ = read(&mut cache, 0));
    // Twice as many as there is room for, once each.
    (1..20).for_each(|file| assert!(!read(&mut cache, file)));
    assert!(cache.contains(0) && !cache.contains(1) && cache.contains(19));
    assert!(cache.used() <= 10 * BYTES);
    cache.forget(0);
    assert!(!cache.contains(0));
}

#[test]
fn a_page_that_comes_back_soon_is_active_at_once() {
    let mut cache = TwoLists::new(4 * BYTES);
    let read = |cache: &mut TwoLists, file| cache.request(file, BYTES);
    // Two active ones, and two inactive ones.
    for file in [0, 1, 0, 1, 2, 3] {
        read(&mut cache, file);
    }
    assert!(!read(&mut cache, 4), "2 leaves");
    assert!(!cache.contains(2) && !read(&mut cache, 2), "it comes back, and is active");
    (10..14).for_each(|file| _ = read(&mut cache, file));
    assert!(cache.contains(2), "it outlives what is new");
    assert!(!cache.contains(4));
}

#[test]
fn pages_make_room_for_what_else_needs_memory() {
    let mut cache = TwoLists::new(10 * BYTES);
    (0..10).for_each(|file| _ = cache.request(file, BYTES));
    cache.resize(3 * BYTES);
    assert_eq!(cache.used(), 3 * BYTES);
    assert!((0..7).all(|file| !cache.contains(file)) && (7..10).all(|file| cache.contains(file)));
}

#[test]
fn what_a_disk_reads_has_its_room_already() {
    let mut cache = TwoLists::new(10 * BYTES);
    (0..10).for_each(|file| _ = cache.request(file, BYTES));
    // Two wait for the first of them.
    [10, 10, 11].iter().for_each(|&file| cache.begin_read(file, BYTES));
    assert_eq!(cache.used(), 8 * BYTES);
    assert!(!cache.contains(1) && cache.contains(2) && !cache.contains(10));
    (0..2).for_each(|_| cache.end_read(10));
    cache.read(10, BYTES);
    assert_eq!(cache.used(), 9 * BYTES, "the other one is still read");
    cache.end_read(11);
    cache.read(11, BYTES);
    assert_eq!(cache.used(), 10 * BYTES);
    cache.end_read(99);
}

#[test]
fn flash_keeps_one_copy_of_what_is_requested_again() {
    let limits = FlashLimits {
        memory_bytes: 8 << 20,
        file_cache_bytes: 2 << 20,
        entries_max: 1000,
        threads: 1,
        processes: 1,
    };
    let mut flash = Flash::new(limits);
    let bytes = 50_000;
    assert_eq!(flash.look(0, 7, (bytes, bytes), 0), Found::Nowhere);
    flash.read(0, 7, (bytes, bytes), 0);
    assert!(flash.contains(0, 7));
    assert_eq!(flash.look(0, 7, (bytes, bytes), 99), Found::Open);
    assert_eq!(flash.look(0, 7, (bytes, bytes), 100), Found::ToCopy);
    flash.read(0, 7, (bytes, bytes), 100);
    assert_eq!(flash.look(0, 7, (bytes, bytes), 100), Found::Copy);
    // There is room, so it has a copy, and no pages beside that.
    assert!(flash.used() >= bytes && flash.used() < 2 * bytes, "{}", flash.used());
    // A scan of a thousand files takes what room there is, and leaves what was requested again.
    for file in 100..1100 {
        assert!(!flash.request(file, bytes));
        assert!(flash.used() <= 8 << 20);
    }
    assert!(flash.contains(0, 7));
}

#[test]
fn the_same_requests_have_the_same_score() {
    let replayed = zipf(2000, 20_000, 0.8);
    for policy in PolicyName::ALL {
        assert_eq!(policy.score(&replayed, 200 * BYTES), policy.score(&replayed, 200 * BYTES), "{policy:?}");
    }
}

#[test]
fn processes_have_copies_of_their_own_and_share_the_page_cache() {
    let limits = FlashLimits {
        memory_bytes: 8 << 20,
        file_cache_bytes: 2 << 20,
        entries_max: 1000,
        threads: 1,
        processes: 2,
    };
    let mut flash = Flash::new(limits);
    let bytes = 50_000;
    for process in [0, 1] {
        // What one has copied is in the page cache as before, where the other one finds it.
        let found = flash.look(process, 7, (bytes, bytes), 0);
        assert_eq!(found, if process == 0 { Found::Nowhere } else { Found::Named });
        flash.read(process, 7, (bytes, bytes), 0);
        assert_eq!(flash.look(process, 7, (bytes, bytes), 100), Found::ToCopy);
        flash.read(process, 7, (bytes, bytes), 100);
        assert_eq!(flash.look(process, 7, (bytes, bytes), 100), Found::Copy);
    }
    assert!(flash.used() >= 3 * bytes && flash.used() < 4 * bytes, "{}", flash.used());
}
