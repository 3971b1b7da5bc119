//! What holds however many are in each other's way.

use super::*;
use crate::parameters::{Caches, Disk, LockWait, Locks, Transmit};

/// Runs it, which checks every line by Little's law in debug builds, and looks at the whole.
fn lawful(parameters: &Parameters, demand: &Demand) -> Outcome {
    let outcome = outcome(parameters, demand);
    assert_eq!(outcome.checks.littles_law_error, 0.0, "{parameters:?}");
    assert_eq!(outcome.checks.work_conservation_error, 0.0, "{parameters:?}");
    assert!(outcome.processors.busy <= 1.0 + 1e-12, "{outcome:?}");
    // Throughput × mean time = clients, but for those under way at either end.
    let clients = outcome.requests_per_s * outcome.latency.mean_ms / 1e3;
    let ends = f64::from(parameters.run.clients) / outcome.requests as f64;
    assert!((clients / f64::from(parameters.run.clients) - 1.0).abs() < 2.0 * ends + 0.01, "{outcome:?}");
    outcome
}

#[test]
fn littles_law_and_conservation_hold_for_every_server() {
    let demand = zipf(sizes(2000), 0.8);
    for architecture in servers() {
        for (processors, clients) in [(1, 1), (1, 50), (3, 200)] {
            let mut parameters = parameters(architecture, processors, clients);
            parameters.machine.memory_mb = 25.0;
            lawful(&parameters, &demand);
        }
    }
}

#[test]
fn they_hold_for_every_way_to_set_a_server_up() {
    let demand = zipf(sizes(2000), 0.8);
    for architecture in servers() {
        let mut base = parameters(architecture, 2, 100);
        base.machine.memory_mb = 25.0;
        let vary = |change: fn(&mut Parameters)| {
            let mut parameters = base.clone();
            change(&mut parameters);
            lawful(&parameters, &demand);
        };
        vary(|p| p.server.caches = Some(Caches::Shared));
        vary(|p| p.server.caches = Some(Caches::Replicated));
        vary(|p| p.server.caches = Some(Caches::Private));
        for wait in [LockWait::Sleep, LockWait::Handed, LockWait::Spin] {
            let mut parameters = base.clone();
            parameters.server.caches = Some(Caches::Shared);
            parameters.server.lock_wait = wait;
            parameters.server.locks = Locks::One;
            parameters.costs.data_lookup_us = 200.0;
            lawful(&parameters, &demand);
        }
        vary(|p| p.server.transmit = Transmit::Wire);
        vary(|p| p.machine.link_mbit_s = Some(100.0));
        vary(|p| p.machine.disks = vec![Disk::FAST, Disk::SLOW]);
        vary(|p| p.server.window_bytes = 2000);
        vary(|p| p.server.time_slice_us = 100.0);
        vary(|p| (p.costs.translate_disk_fraction, p.server.path_entries) = (0.5, 200));
        vary(|p| (p.costs.hand_off_us, p.costs.requests_per_connection) = (3.0, 5));
        vary(|p| p.server.thread_per_client = true);
        vary(|p| (p.server.helpers_per_processor, p.machine.disk_requests_at_once) = (4, 3));
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let demand = zipf(sizes(2000), 0.8);
    for architecture in servers() {
        let mut parameters = parameters(architecture, 4, 100);
        parameters.machine.memory_mb = 25.0;
        parameters.costs.translate_disk_fraction = 0.1;
        let first = outcome(&parameters, &demand);
        assert_eq!(first, outcome(&parameters, &demand));
        parameters.run.seed += 1;
        assert_ne!(first, outcome(&parameters, &demand));
    }
}

#[test]
fn processors_that_never_wait_bound_the_throughput() {
    // Everything fits, so that a request is processor time and nothing else.
    let demand = zipf([10_000; 100], 0.5);
    for architecture in servers().filter(|&architecture| architecture != Architecture::Pipelined) {
        let mut parameters = parameters(architecture, 8, 400);
        parameters.server.locks = Locks::None;
        parameters.costs.thread_switch_us = 0.0;
        parameters.costs.process_switch_us = 0.0;
        let outcome = lawful(&parameters, &demand);
        assert_eq!(outcome.data_hit_rate, 1.0);
        let lookups = if architecture == Architecture::NewFlash { 6.16 } else { 6.16 + 13.5 };
        let bound = 8e6 / (129.0 + lookups + 20.0 * 24.0);
        assert!((outcome.requests_per_s / bound - 1.0).abs() < 0.01, "{architecture:?}: {outcome:?}");
    }
}

#[test]
fn a_lock_that_is_always_held_bounds_the_throughput() {
    let demand = zipf([100; 100], 0.5);
    let mut parameters = parameters(Architecture::Mt, 8, 400);
    parameters.server.lock_wait = LockWait::Spin;
    parameters.costs.data_lookup_us = 500.0;
    let outcome = lawful(&parameters, &demand);
    assert!((outcome.requests_per_s / 2000.0 - 1.0).abs() < 0.01, "{outcome:?}");
    assert!(outcome.locks[1].held > 0.99 && outcome.locks[1].contended > 0.99, "{outcome:?}");
    assert!(outcome.processors.spinning > 0.5, "{outcome:?}");
}

#[test]
fn a_disk_that_is_always_busy_bounds_the_throughput_and_blocks_sped() {
    let demand = zipf([10_000; 100], 0.0);
    for architecture in servers() {
        let mut parameters = parameters(architecture, 4, 100);
        parameters.machine.data_cache_mb = Some(0.009);
        let outcome = lawful(&parameters, &demand);
        let bound = 1e3 / (2.99 + 80_000.0 / 1.2e6);
        assert!((outcome.requests_per_s / bound - 1.0).abs() < 0.01, "{architecture:?}: {outcome:?}");
        assert!(outcome.disks[0].busy > 0.999, "{outcome:?}");
    }
    // A file that is in memory, and one of every hundred requests for one that is not: only SPED lets the others wait.
    let wait = |architecture| {
        let mut parameters = parameters(architecture, 1, 8);
        parameters.machine.data_cache_mb = Some(0.05);
        let mut sizes = vec![10_000; 1];
        sizes.push(1_000_000);
        outcome(&parameters, &zipf(sizes, 6.0)).processors.busy
    };
    assert!(wait(Architecture::Sped) + 0.02 < wait(Architecture::Amped));
}

#[test]
fn what_cannot_be_simulated_is_refused() {
    let demand = zipf([1000], 1.0);
    let mut amped = parameters(Architecture::Amped, 16, 1);
    amped.machine.memory_mb = 48.0;
    let refusal = simulate(&amped, &demand).expect_err("the helpers take all of it").to_string();
    assert_eq!(refusal, "threads and helpers take 48.0 MB, and memory_mb is 48.0: expected more, in MB");
    let mut diskless = parameters(Architecture::Mp, 1, 1);
    diskless.machine.disks.clear();
    assert_eq!(simulate(&diskless, &demand), Err(crate::SimulationError::Diskless));
    assert_eq!(
        simulate(&amped, &zipf([], 1.0)).err(),
        Some(crate::SimulationError::Memory { overhead_mb: 48.0, memory_mb: 48.0 })
    );
    assert_eq!(
        simulate(&parameters(Architecture::Mp, 1, 1), &zipf([], 1.0)),
        Err(crate::SimulationError::Empty)
    );
}

#[test]
fn more_helpers_keep_a_disk_with_several_channels_busy() {
    let served = |helpers, at_once| {
        let mut parameters = parameters(Architecture::Amped, 1, 100);
        parameters.machine.data_cache_mb = Some(0.009);
        parameters.server.helpers_per_processor = helpers;
        parameters.machine.disk_requests_at_once = at_once;
        outcome(&parameters, &zipf([10_000; 100], 0.0)).requests_per_s
    };
    let one = served(1, 1);
    assert!((served(1, 4) / one - 1.0).abs() < 0.01);
    assert!((served(4, 1) / one - 1.0).abs() < 0.05);
    assert!(served(4, 4) / one > 3.5);
}

#[test]
fn service_inversion_is_0_in_the_order_of_size_and_1_in_its_reverse() {
    let inversion = |replies: &[(u64, u64)]| {
        let mut tally = super::super::tally::Tally::new(replies.len() as u32);
        replies.iter().for_each(|&(took, bytes)| tally.answered(0, took, bytes));
        tally.service_inversion()
    };
    assert_eq!(inversion(&[(3000, 30), (1000, 10), (2000, 20), (4000, 40)]), 0.0);
    assert_eq!(inversion(&[(3000, 20), (1000, 40), (2000, 30), (4000, 10)]), 1.0);
    assert_eq!(inversion(&[(1000, 20), (2000, 10), (3000, 30), (4000, 30)]), 0.25);
}
