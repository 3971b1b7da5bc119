//! The traces against Tables 4 and 5, with an exact cache of recent files.

use flash_traffic::FileId;

use super::*;
use crate::workload::{PAPER_TRACES, PaperTrace};

/// A cache of recent files bounded by bytes, as plain as can be: a list of neighbours by file.
struct Lru<'a> {
    sizes: &'a [File],
    /// The neighbours of each file that is in: less and more recently used. The last place is the list's own.
    older: Vec<u32>,
    newer: Vec<u32>,
    held: Vec<bool>,
    bytes: u64,
    bytes_max: u64,
}

impl<'a> Lru<'a> {
    fn new(sizes: &'a [File], bytes_max: u64) -> Lru<'a> {
        let end = sizes.len() as u32;
        let (older, newer) = (vec![end; sizes.len() + 1], vec![end; sizes.len() + 1]);
        Lru { sizes, older, newer, held: vec![false; sizes.len()], bytes: 0, bytes_max }
    }

    fn unlink(&mut self, file: u32) {
        let (older, newer) = (self.older[file as usize], self.newer[file as usize]);
        self.newer[older as usize] = newer;
        self.older[newer as usize] = older;
    }

    fn size(&self, file: u32) -> u64 {
        self.sizes[file as usize].bytes.unwrap()
    }

    /// Whether it was in; now it is, as the newest.
    fn ask(&mut self, file: u32) -> bool {
        let end = self.sizes.len();
        let hit = self.held[file as usize];
        if hit {
            self.unlink(file);
        } else {
            self.bytes += self.size(file);
            self.held[file as usize] = true;
        }
        let newest = self.older[end];
        self.older[file as usize] = newest;
        self.newer[file as usize] = end as u32;
        self.newer[newest as usize] = file;
        self.older[end] = file;
        while self.bytes > self.bytes_max {
            let oldest = self.newer[end];
            self.unlink(oldest);
            self.held[oldest as usize] = false;
            self.bytes -= self.size(oldest);
        }
        hit
    }
}

/// Of requests to a cache of the trace's Table 5, after the cache has been filled with `warm` files, oldest first.
fn hit_percent(trace: &PaperTrace, site: &Synthetic, warm: impl Iterator<Item = FileId>, seed: u64) -> f64 {
    const REQUESTS: u32 = 300_000;
    let mut cache = Lru::new(&site.catalogue.files, trace.cache_bytes);
    for file in warm {
        cache.ask(file);
    }
    let mut draws = site.sequence(Part::WHOLE, seed);
    let hits = (0..REQUESTS).filter(|_| cache.ask(draws.next().unwrap().file)).count();
    100.0 * hits as f64 / f64::from(REQUESTS)
}

/// The order in which files were last asked for, the oldest first, after requests have gone on for ever. Under independent
/// references the time since a file's last request is exponential with the file's rate.
fn recency(site: &Synthetic, seed: u64) -> Vec<FileId> {
    let mut random = generator(seed, 1_000);
    let ages: Vec<f64> = site.popularity().iter().map(|share| -random.random::<f64>().ln() / share).collect();
    let mut order: Vec<FileId> = (0..ages.len() as FileId).collect();
    order.sort_by(|a, b| ages[*b as usize].total_cmp(&ages[*a as usize]));
    order
}

fn site(trace: &PaperTrace, seed: u64) -> Synthetic {
    Synthetic::new(&trace.synthetic(), seed).unwrap()
}

#[test]
fn traces_are_as_tables_4_and_5_say() {
    for (trace, seed) in PAPER_TRACES.iter().zip(7..) {
        let site = site(trace, seed);
        let files = &site.catalogue().files;
        assert_eq!(files.len(), trace.files as usize, "{}", trace.name);
        assert_eq!(files.iter().map(|file| file.bytes.unwrap()).sum::<u64>(), trace.dataset_bytes);
        let mean = trace.dataset_bytes as f64 / f64::from(trace.files);
        assert!((site.mean_reply_bytes() / mean - 1.0).abs() < 0.011, "{}", trace.name);
        let hits = hit_percent(trace, &site, recency(&site, seed).into_iter(), seed);
        assert!((hits - trace.hit_percent).abs() < 0.3, "{}: {hits} for {}", trace.name, trace.hit_percent);
    }
}

#[test]
fn a_cache_filled_by_recency_is_one_that_was_asked_for_long() {
    let trace = PaperTrace::named("worldcup98").unwrap();
    let small = PaperTrace { cache_bytes: trace.cache_bytes / 20, ..*trace };
    let site = site(trace, 3);
    let at_once = hit_percent(&small, &site, recency(&site, 3).into_iter(), 3);
    let mut draws = site.sequence(Part { index: 1, of: 2 }, 3);
    let in_time = hit_percent(&small, &site, (0..1_000_000).map(|_| draws.next().unwrap().file), 3);
    assert!(at_once > 90.0 && at_once < 99.0, "{at_once}: a cache that has everything shows nothing");
    assert!((at_once - in_time).abs() < 0.03, "{at_once} at once, {in_time} in time");
}

#[test]
fn a_seed_gives_the_same_site_and_requests() {
    let trace = PaperTrace::named("nasa").unwrap();
    let head = |seed, index| {
        let site = site(trace, seed);
        let mut draws = site.sequence(Part { index, of: 2 }, seed);
        let asks: Vec<FileId> = (0..100).map(|_| draws.next().unwrap().file).collect();
        (site.catalogue().files[..100].to_vec(), asks)
    };
    assert_eq!(head(1, 0), head(1, 0));
    assert_ne!(head(1, 0).1, head(1, 1).1, "parts draw on their own");
    let (one, two) = (head(1, 0), head(2, 0));
    assert!(one.0 != two.0 && one.1 != two.1);
}

#[test]
fn ranks_are_asked_for_by_zipf_s_law() {
    let shape = SyntheticFiles {
        files: 100,
        sizes: Sizes { ln_mean: 5.0, ln_sd: 1.0, bytes_total: None },
        zipf_exponent: 1.0,
        mean_reply_bytes: None,
    };
    let mut draws = Synthetic::new(&shape, 1).unwrap().sequence(Part::WHOLE, 1);
    let mut count = [0.0; 100];
    (0..1_000_000).for_each(|_| count[draws.next().unwrap().file as usize] += 1.0);
    for (rank, expected) in [(1.0, 192_776.0), (10.0, 19_277.6), (100.0, 1_927.8)] {
        let count: f64 = count[rank as usize - 1];
        // Five standard deviations of a count.
        assert!((count - expected).abs() < 5.0 * expected.sqrt(), "rank {rank}: {count}");
    }
}

#[test]
fn what_cannot_be_is_an_error() {
    let shape = PaperTrace::named("nasa").unwrap().synthetic();
    let refused = |shape| Synthetic::new(&shape, 1).unwrap_err();
    assert_eq!(refused(SyntheticFiles { files: 0, ..shape }), SyntheticError::Popularity);
    assert_eq!(refused(SyntheticFiles { zipf_exponent: f64::NAN, ..shape }), SyntheticError::Popularity);
    let sizes = Sizes { bytes_total: Some(9_128), ..shape.sizes };
    assert_eq!(refused(SyntheticFiles { sizes, ..shape }), SyntheticError::Sizes(SizeError::TotalBelowFiles));
    assert_eq!(refused(SyntheticFiles { mean_reply_bytes: Some(0.5), ..shape }), SyntheticError::MeanReply);
}
