//! What shards count adds up, whoever counts.

use std::sync::atomic::AtomicU64;

use super::*;

fn end(site: u32, status: u16, duration_us: u64) -> ResponseEnd {
    ResponseEnd {
        site,
        status,
        cut: duration_us > 1_000_000,
        body_bytes: 100,
        duration_us,
        ..ResponseEnd::default()
    }
}

#[test]
fn a_response_is_in_the_class_of_its_status_and_its_duration() {
    let memory = MetricsMemory::for_loops(2).unwrap();
    let (one, other) = (memory.shard(), memory.shard());
    let site = memory.names.number("a.example");
    for (shard, status, us) in
        [(&one, 200, 0), (&one, 200, 50), (&other, 206, 51), (&other, 404, 600_000_001), (&one, 999, 7)]
    {
        shard.response(&end(site, status, us));
    }
    memory.count_refusal(&end(site, 503, 0));
    let [ok, moved, wrong, failed, odd] = memory.of_site(site);
    assert_eq!((ok.durations[..3].to_vec(), ok.count()), (vec![2, 1, 0], 3));
    assert_eq!((ok.duration_us, ok.body_bytes, ok.cut), (101, 300, 0));
    assert_eq!((wrong.durations.last(), wrong.count(), wrong.cut), (Some(&1), 1, 1));
    assert_eq!((moved.count(), failed.count(), odd.count()), (0, 1, 1));
    assert!(memory.of_site(memory.names.number("b.example")).iter().all(|of| of.count() == 0));
    assert_eq!((memory.sum(Count::Begun), memory.sum(Count::Requests)), (1, 1));
}

#[test]
fn loops_beyond_their_shards_and_workers_lose_nothing() {
    for memory in [MetricsMemory::for_loops(1).unwrap(), MetricsMemory::for_workers(2).unwrap()] {
        let shards: Vec<Shard> = (0..4).map(|_| memory.shard()).collect();
        std::thread::scope(|scope| {
            for shard in &shards {
                scope.spawn(move || {
                    for _ in 0..10_000 {
                        shard.response(&end(0, 200, 1));
                        shard.add(Count::SentBytes, 3);
                    }
                });
            }
        });
        assert_eq!(memory.of_site(0)[0].count(), 40_000);
        assert_eq!(memory.sum(Count::SentBytes), 120_000);
    }
}

#[test]
fn all_sites_fit_into_a_shard() {
    let memory = MetricsMemory::for_loops(1).unwrap();
    memory.shard().response(&end(u32::MAX, 999, u64::MAX));
    assert_eq!(memory.of_site(u32::MAX)[4].count(), 1);
}

/// Of the mapping that holds this word.
fn resident_kb(word: &AtomicU64) -> u64 {
    let address = std::ptr::from_ref(word).addr();
    let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let range = |line: &str| {
        let (first, end) = line.split_whitespace().next()?.split_once('-')?;
        Some(usize::from_str_radix(first, 16).ok()?..usize::from_str_radix(end, 16).ok()?)
    };
    let mut lines = maps.lines().skip_while(|line| !range(line).is_some_and(|of| of.contains(&address)));
    let line = lines.find_map(|line| line.strip_prefix("Rss:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn a_report_takes_no_memory_for_what_nobody_has_counted() {
    let memory = MetricsMemory::for_loops(2).unwrap();
    let (one, _other) = (memory.shard(), memory.shard());
    let sites: Vec<u32> = (0..3000).map(|site| memory.names.number(&format!("{site}.example"))).collect();
    one.response(&end(sites[7], 200, 1));
    for site in &sites {
        assert_eq!(memory.has_responses(*site), *site == sites[7]);
        assert_eq!(memory.of_site(*site)[0].count(), u64::from(*site == sites[7]));
    }
    // The head, and the one site that was visited.
    let resident: Vec<u64> = memory.shards.iter().map(|shard| resident_kb(&shard[0])).collect();
    assert!(resident.iter().all(|kb| *kb <= 28), "{resident:?} KB");
}

#[test]
fn classes_without_responses_take_no_memory() {
    let memory = MetricsMemory::for_loops(1).unwrap();
    let shard = memory.shard();
    let sites: Vec<u32> = (0..8000).map(|site| memory.names.number(&format!("{site}.example"))).collect();
    let before = resident_kb(&memory.shards[1][0]);
    sites.iter().for_each(|site| shard.response(&end(*site, 200, 1)));
    let each = (resident_kb(&memory.shards[1][0]) - before) * 1024 / sites.len() as u64;
    assert!(each < 500, "{each} bytes a site");
    assert!(sites.iter().all(|site| memory.of_site(*site)[0].count() == 1));
}

#[test]
fn a_site_is_new_until_it_is_taken() {
    let memory = MetricsMemory::for_loops(2).unwrap();
    let (one, other) = (memory.shard(), memory.shard());
    for (shard, site, status) in [(&one, 7, 200), (&other, 7, 404), (&other, 70, 200)] {
        shard.response(&end(site, status, 1));
    }
    assert_eq!(memory.take_changed(), [7, 70].into());
    assert_eq!(memory.take_changed(), [].into());
    one.response(&end(70, 200, 1));
    assert_eq!(memory.take_changed(), [70].into());
    assert_eq!(memory.of_site(70)[0].count(), 2);
}
