//! What a cache of the same bytes would have read that knows the future: Belady's, on requests by the same law.

use flash_sim::policy::{PolicyName, Replayed};
use flash_traffic::Part;

use super::site::Site;

/// Replayed at most. A longer run reads no less for each request.
const REQUESTS_MAX: usize = 1_000_000;
const PAGE_BYTES: u64 = 4096;
/// What the kernel reads ahead, unless the plan says otherwise.
const READ_AHEAD_KB: u32 = 128;

/// Reads of the disk per request, after a warm-up of so many requests.
pub(super) fn reads_per_request(
    site: &Site,
    seed: u64,
    (memory_bytes, read_ahead_kb): (u64, Option<u32>),
    (warm_up, measured): (usize, usize),
) -> f64 {
    let part = REQUESTS_MAX as f64 / (warm_up + measured).max(REQUESTS_MAX) as f64;
    let [warm_up, measured] = [warm_up, measured].map(|requests| (requests as f64 * part) as usize);
    let mut sequence = site.workload.sequence(Part::WHOLE, seed);
    let requests = std::iter::from_fn(|| sequence.next()).map(|ask| ask.file);
    let files = &site.workload.catalogue().files;
    let replayed = Replayed {
        requests: requests.take(warm_up + measured).collect(),
        bytes: files.iter().map(|file| file.bytes.unwrap_or(0).next_multiple_of(PAGE_BYTES)).collect(),
        warm_up,
        read_bytes: u64::from(read_ahead_kb.unwrap_or(READ_AHEAD_KB)) << 10,
    };
    PolicyName::Belady.score(&replayed, memory_bytes).reads_per_request
}
