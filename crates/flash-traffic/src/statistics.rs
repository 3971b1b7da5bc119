//! What can be said of requests whatever they came from: how many, how large, how skewed, how well a cache would do.

use std::collections::BTreeMap;

use crate::sample::Recency;
use crate::workload::FileId;

/// Requests in numbers. Of sizes and distances, medians are the upper one of two middle ones, and deviations those of a
/// sample.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TraceStatistics {
    /// How many requests there are.
    pub requests: u64,
    /// How many files they ask for.
    pub files: u64,
    /// What these files weigh together.
    pub data_set_bytes: u64,
    /// What replies would weigh if each carried its whole file.
    pub asked_bytes: u64,
    /// The mean of a file's bytes.
    pub size_bytes_mean: f64,
    /// The median of a file's bytes.
    pub size_bytes_median: u64,
    /// Mean and standard deviation of ln(bytes).
    pub ln_size: Moments,
    /// How many files are asked for a single time.
    pub asked_once: u64,
    /// How many requests go to the tenth of the files that is asked for most.
    pub top_tenth_requests: u64,
    /// How many requests ask for a file that was asked for before; only these have a distance.
    pub asked_again: u64,
    /// The median LRU-stack distance, where 1 is the file that was asked for last.
    pub distance_median: u32,
    /// Mean and standard deviation of ln(distance).
    pub ln_distance: Moments,
}

/// The mean, and the standard deviation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Moments {
    /// 0 where there is nothing to take it of.
    pub mean: f64,
    /// 0 where there are fewer than two values.
    pub sd: f64,
}

impl TraceStatistics {
    /// Those of requests for files of these sizes.
    pub fn of(sizes: &[u64], asked: &[FileId]) -> Self {
        let mut times = vec![0_u64; sizes.len()];
        let mut stack = Recency::new(u32::try_from(sizes.len()).expect("files have numbers of 32 bits"));
        let mut distances = Vec::new();
        for &file in asked {
            times[file as usize] += 1;
            distances.extend(stack.touch(file));
        }
        let asked_for = || sizes.iter().zip(&times).filter(|(_, times)| **times > 0);
        let mut bytes: Vec<u64> = asked_for().map(|(&size, _)| size).collect();
        let data_set_bytes = bytes.iter().sum();
        let ln = |value: f64| value.max(1.0).ln();
        Self {
            requests: asked.len() as u64,
            files: bytes.len() as u64,
            data_set_bytes,
            asked_bytes: asked_for().map(|(size, times)| size * times).sum(),
            size_bytes_mean: data_set_bytes as f64 / (bytes.len() as f64).max(1.0),
            ln_size: Moments::of(bytes.iter().map(|&size| ln(size as f64))),
            size_bytes_median: median(&mut bytes),
            asked_once: times.iter().filter(|&&times| times == 1).count() as u64,
            top_tenth_requests: {
                times.sort_unstable_by(|one, other| other.cmp(one));
                times[..bytes.len() / 10].iter().sum()
            },
            asked_again: distances.len() as u64,
            ln_distance: Moments::of(distances.iter().map(|&distance| ln(f64::from(distance)))),
            distance_median: median(&mut distances),
        }
    }
}

impl Moments {
    fn of(values: impl Iterator<Item = f64> + Clone) -> Self {
        let count = values.clone().count() as f64;
        let mean = values.clone().sum::<f64>() / count.max(1.0);
        let squares: f64 = values.map(|value| (value - mean).powi(2)).sum();
        Self { mean, sd: (squares / (count - 1.0).max(1.0)).sqrt() }
    }
}

fn median<T: Ord + Copy + Default>(values: &mut [T]) -> T {
    let middle = values.len() / 2;
    if values.is_empty() { T::default() } else { *values.select_nth_unstable(middle).1 }
}

/// How many of these requests find their file in an LRU cache of so many bytes that begins empty. A file larger than the cache
/// is not cached.
pub fn lru_hits(sizes: &[u64], asked: &[FileId], cache_bytes: u64) -> u64 {
    // Files by the time of their last use, and the time by file.
    let mut order: BTreeMap<u64, FileId> = BTreeMap::new();
    let mut held: Vec<Option<u64>> = vec![None; sizes.len()];
    let (mut hits, mut held_bytes) = (0, 0);
    for (now, &file) in (0..).zip(asked) {
        let bytes = sizes[file as usize];
        if bytes > cache_bytes {
            continue;
        }
        match held[file as usize].replace(now) {
            Some(before) => {
                order.remove(&before);
                hits += 1;
            }
            None => held_bytes += bytes,
        }
        order.insert(now, file);
        while held_bytes > cache_bytes
            && let Some((_, oldest)) = order.pop_first()
        {
            held[oldest as usize] = None;
            held_bytes -= sizes[oldest as usize];
        }
    }
    hits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_requests_by_hand() {
        let statistics = TraceStatistics::of(&[10, 30, 20, 99], &[0, 1, 0, 0, 2, 1]);
        assert_eq!(statistics.requests, 6);
        assert_eq!((statistics.files, statistics.data_set_bytes, statistics.asked_bytes), (3, 60, 110));
        assert_eq!((statistics.size_bytes_mean, statistics.size_bytes_median), (20.0, 20));
        assert_eq!((statistics.asked_once, statistics.top_tenth_requests), (1, 0));
        // File 0 comes back over one other and over none, file 1 over two others.
        assert_eq!((statistics.asked_again, statistics.distance_median), (3, 2));
        let mean = (2.0_f64.ln() + 3.0_f64.ln()) / 3.0;
        assert!((statistics.ln_distance.mean - mean).abs() < 1e-12);
    }

    #[test]
    fn no_requests_have_no_statistics() {
        assert_eq!(TraceStatistics::of(&[10], &[]), TraceStatistics::default());
    }

    #[test]
    fn a_cache_drops_what_was_used_longest_ago() {
        let sizes = [10, 10, 10, 31];
        assert_eq!(lru_hits(&sizes, &[0, 1, 2, 0, 1, 2], 30), 3);
        assert_eq!(lru_hits(&sizes, &[0, 1, 2, 0, 1, 2], 29), 0);
        // A use keeps file 0 when 2 comes.
        assert_eq!(lru_hits(&sizes, &[0, 1, 0, 2, 0, 1], 20), 2);
        // What does not fit drops nothing.
        assert_eq!(lru_hits(&sizes, &[0, 3, 0, 3], 30), 1);
        assert_eq!(lru_hits(&sizes, &[0, 0], 0), 0);
    }
}
