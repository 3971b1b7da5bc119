//! What decides which files stay, within the machine: the same reads as without time, and a limit of them.

use super::*;
use crate::parameters::Content;
use crate::policy::{PolicyName, Replayed};

const FILES: u64 = 1000;
const MEMORY_BYTES: u64 = 16_000_000;

fn of(architecture: Architecture, content: Content) -> Parameters {
    let mut parameters = parameters(architecture, 1, 32);
    parameters.machine.memory_mb = MEMORY_BYTES as f64 / 1e6;
    parameters.memory = crate::parameters::Memory { data_entry_bytes: 0.0, helper_mb: 0.0, thread_kb: 0.0 };
    parameters.machine.disks[0].block_kb = Some(131.072);
    parameters.server.content = content;
    parameters.run.measured_requests = 30_000.try_into().expect("it is not 0");
    parameters
}

/// Files of 50 KB on average, much more than there is memory for.
fn demand() -> Demand {
    zipf((0..FILES).map(|file| 10_000 + file * 7919 % 80_000), 0.8)
}

#[test]
fn the_machine_reads_as_often_as_the_policy_misses() {
    let demand = demand();
    let mut sequence = demand.workload.sequence(Part::WHOLE, 2);
    let files = &demand.workload.catalogue().files;
    let replayed = Replayed {
        requests: (0..130_000).map(|_| sequence.next().expect("it has no end").file).collect(),
        bytes: files.iter().map(|file| file.bytes.unwrap_or(0).next_multiple_of(4096)).collect(),
        warm_up: 100_000,
        read_bytes: 131_072,
    };
    for (content, policy) in [
        (Content::Lru, PolicyName::Lru),
        (Content::PageCache, PolicyName::TwoLists),
        (Content::Flash, PolicyName::Flash),
    ] {
        let expected = policy.score(&replayed, MEMORY_BYTES).reads_per_request;
        for architecture in [Architecture::Sped, Architecture::Amped, Architecture::Mt] {
            let mut parameters = of(architecture, content);
            // What is being read takes room, which a policy without time does not know. So few read at a time.
            parameters.run.clients = 4;
            let reads = outcome(&parameters, &demand).reads_per_request;
            // Requests for a file that is being read wait for the same read, and time passes at another pace.
            assert!(
                (reads / expected - 1.0).abs() < 0.06,
                "{architecture:?}, {content:?}: {reads}, {expected}"
            );
        }
    }
}

#[test]
fn what_knows_frequency_reads_less() {
    let demand = demand();
    let reads = |content| outcome(&of(Architecture::Amped, content), &demand).reads_per_request;
    let [lru, pages, flash] = [Content::Lru, Content::PageCache, Content::Flash].map(reads);
    assert!(flash < pages && pages < lru, "{flash}, {pages}, {lru}");
}

#[test]
fn a_limit_of_reads_decides_where_the_disk_is_quick() {
    let demand = demand();
    let mut parameters = of(Architecture::Amped, Content::PageCache);
    parameters.costs.connection_us = 10.0;
    parameters.costs.transmit_us_per_512_bytes = 0.1;
    parameters.server.helpers_per_processor = 32;
    parameters.machine.disks[0].access_ms = 0.1;
    parameters.machine.disk_requests_at_once = 16;
    let free = outcome(&parameters, &demand);
    parameters.machine.disks[0].reads_per_s_max = Some(500.0);
    let limited = outcome(&parameters, &demand);
    let reads_per_s = limited.reads_per_request * limited.requests_per_s;
    assert!((reads_per_s / 500.0 - 1.0).abs() < 0.02, "{reads_per_s}");
    assert!(
        free.requests_per_s > 2.0 * limited.requests_per_s,
        "{} {}",
        free.requests_per_s,
        limited.requests_per_s
    );
}
