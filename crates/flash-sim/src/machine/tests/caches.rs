//! LRU against an exact count, Table 1, and caches that are warm from the beginning.

use super::super::memory::Division;
use super::*;
use crate::parameters::Caches;
use crate::policy::Lru;

#[test]
fn lru_is_what_a_list_in_order_would_be() {
    let weights: Vec<u64> = (0..200).map(|file| 1 + file * 31 % 17).collect();
    let weigh = |file: u32| weights[file as usize];
    let mut random = Xoshiro256PlusPlus::seed_from_u64(3);
    for capacity in [1, 10, 100, 1000, 10_000] {
        let mut lru = Lru::new(capacity);
        // The newest last.
        let mut list: Vec<u32> = Vec::new();
        let used = |list: &[u32]| list.iter().map(|&file| weigh(file)).sum::<u64>();
        for _ in 0..20_000 {
            let file = (200.0 * random.random::<f64>().powi(2)) as u32;
            let there = list.contains(&file);
            list.retain(|&other| other != file);
            match random.random_range(0..10) {
                0 => {
                    let fits = !there && used(&list) + weigh(file) <= capacity;
                    assert_eq!(lru.insert_oldest(file, weigh), fits);
                    match (there, fits) {
                        // It keeps its place, which the list has just lost: it goes to the newest in both.
                        (true, _) => {
                            lru.touch(file);
                            list.push(file);
                        }
                        (false, true) => list.insert(0, file),
                        (false, false) => {}
                    }
                }
                _ => {
                    assert_eq!(lru.touch(file), there);
                    lru.insert(file, weigh);
                    if weigh(file) <= capacity {
                        list.push(file);
                        while used(&list) > capacity {
                            list.remove(0);
                        }
                    }
                }
            }
            assert_eq!((lru.len(), lru.used()), (list.len(), used(&list)));
        }
    }
}

/// By counting: how many distinct bytes were asked for since a file was last asked for decides whether it is still there.
#[test]
fn hit_rates_are_those_of_stack_distances() {
    let bytes = [3000; 500];
    let mut stream = zipf(bytes, 0.9).workload.sequence(Part::WHOLE, 5);
    let asks: Vec<u32> = (0..30_000).map(|_| stream.next().expect("it has no end").file).collect();
    for room in [1_usize, 20, 200, 499] {
        let mut lru = Lru::new(3000 * room as u64);
        let mut stack: Vec<u32> = Vec::new();
        let (mut ours, mut exact) = (0, 0);
        for &file in &asks {
            ours += u32::from(lru.touch(file));
            lru.insert(file, |file| bytes[file as usize]);
            let depth = stack.iter().rev().position(|&other| other == file);
            exact += u32::from(depth.is_some_and(|depth| depth < room));
            stack.retain(|&other| other != file);
            stack.push(file);
        }
        assert_eq!(ours, exact);
    }
}

#[test]
fn table_1_has_the_papers_numbers() {
    let of = |architecture, processors, memory_mb| {
        let mut parameters = parameters(architecture, processors, 1000);
        parameters.machine.memory_mb = memory_mb;
        Division::of(&parameters)
    };
    // §3.1: 100 MB of files of 15 KB need some 5 MB of books, and the two helpers 3 MB.
    let one_flash = of(Architecture::Amped, 1, 1000.0);
    let files = 100e6 / 15e3;
    assert_eq!(one_flash.overhead_bytes(files).round(), (files * 850.0 + 3e6).round());
    // F files, N processors: the five formulas.
    let overhead = |architecture, processors| of(architecture, processors, 1000.0).overhead_bytes(1000.0);
    assert_eq!(overhead(Architecture::Mp, 4), 1000.0 * 850.0 * 4.0 * 16.0);
    assert_eq!(overhead(Architecture::Mt, 4), 1000.0 * 850.0 + 4.0 * 32.0 * 25e3);
    assert_eq!(overhead(Architecture::Sped, 4), 1000.0 * 850.0 * 4.0);
    assert_eq!(overhead(Architecture::Amped, 4), 1000.0 * 850.0 * 4.0 + 3e6 * 4.0);
    assert_eq!(overhead(Architecture::Pipelined, 4), 1000.0 * 850.0 + 7.0 * 4.0 * 25e3);
    // Figure 3(a) begins a little above 500 of 1,000 MB, and is down to a fifteenth at 16 processors.
    let content_mb = |architecture, processors| {
        let division = of(architecture, processors, 1000.0);
        let mb = division.content_bytes(15e3) / 1e6;
        assert!((mb * 1e6 + division.overhead_bytes(mb * 1e6 / 15e3) - 1000e6).abs() < 1.0);
        mb.round()
    };
    assert_eq!((content_mb(Architecture::Mp, 1), content_mb(Architecture::Mp, 16)), (524.0, 64.0));
    assert_eq!((content_mb(Architecture::Mt, 1), content_mb(Architecture::Mt, 16)), (946.0, 934.0));
    assert_eq!((content_mb(Architecture::Sped, 1), content_mb(Architecture::Sped, 16)), (946.0, 524.0));
    assert_eq!((content_mb(Architecture::Amped, 1), content_mb(Architecture::Amped, 16)), (944.0, 499.0));
    assert_eq!(
        (content_mb(Architecture::Pipelined, 1), content_mb(Architecture::Pipelined, 16)),
        (946.0, 944.0)
    );
}

/// The formula and what the simulated caches hold are the same thing, as long as files are as large as it takes them to be.
#[test]
fn caches_hold_what_table_1_leaves() {
    let demand = zipf([15_000; 3000], 0.6);
    for architecture in Architecture::ALL {
        let mut parameters = parameters(architecture, 4, 64);
        parameters.machine.memory_mb = 30.0;
        let content = Division::of(&parameters).content_bytes(15e3);
        let outcome = outcome(&parameters, &demand);
        assert!((outcome.data_cached_mb * 1e6 - content).abs() < 80_000.0, "{outcome:?}");
        assert!((outcome.overhead_mb + outcome.data_cache_mb - 30.0).abs() < 1e-6, "{outcome:?}");
    }
}

/// Che's approximation of LRU's hit rate, for files of equal size.
fn che(shares: &[f64], room: f64) -> f64 {
    let total: f64 = shares.iter().sum();
    let there = |time: f64| shares.iter().map(move |share| 1.0 - (-share / total * time).exp());
    let (mut low, mut high) = (0.0, 1e12);
    for _ in 0..200 {
        let middle = (low + high) / 2.0;
        match there(middle).sum::<f64>() < room {
            true => low = middle,
            false => high = middle,
        }
    }
    there(low).zip(shares).map(|(p, share)| p * share / total).sum()
}

#[test]
fn caches_are_warm_from_the_beginning() {
    // The first is full long before its warm-up ends; the second would need millions of requests, and is filled by age.
    for (files, exponent, room) in [(20_000, 0.7, 4000.0), (20_000, 1.3, 14_000.0)] {
        let demand = zipf(vec![1000; files], exponent);
        let expected = che(demand.popularity.as_ref().expect("it is known"), room);
        for (architecture, caches) in
            [(Architecture::Mt, Caches::Shared), (Architecture::Sped, Caches::Private)]
        {
            let mut parameters = parameters(architecture, 2, 100);
            parameters.machine.data_cache_mb = Some(room * 1e-3);
            parameters.server.caches = Some(caches);
            parameters.run.settling_requests = Some(0);
            parameters.run.measured_requests = 200_000.try_into().expect("it is not 0");
            let misses = 1.0 - outcome(&parameters, &demand).data_hit_rate;
            let expected = 1.0 - expected;
            // Four standard errors of the count.
            let error = 4.0 * (expected / 200e3).sqrt();
            assert!((misses - expected).abs() < error, "{misses} of requests miss, expected {expected}");
        }
    }
}
