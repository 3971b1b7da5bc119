//! With a single client, a request takes the sum of its parts.

use super::*;
use crate::outcome::Event;
use crate::parameters::{Content, Disk, Transmit};

const CONNECTION_US: f64 = 129.0;
const SWITCH_US: f64 = 5.0;

/// The mean latency in µs where one client asks for one file of 10,000 bytes, by turns with another where the cache is to miss.
fn latency_us(parameters: &mut Parameters, misses: bool) -> f64 {
    let demand = zipf([10_000, 10_000], if misses { 0.0 } else { 100.0 });
    if misses {
        // Room for neither.
        parameters.machine.data_cache_mb = Some(0.009);
    }
    parameters.run.measured_requests = 1000.try_into().expect("it is not 0");
    let outcome = outcome(parameters, &demand);
    assert_eq!(outcome.data_hit_rate, if misses { 0.0 } else { 1.0 });
    assert!((outcome.requests_per_s * outcome.latency.mean_ms / 1e3 - 1.0).abs() < 1e-3, "{outcome:?}");
    outcome.latency.mean_ms * 1e3
}

fn lookups_us(architecture: Architecture) -> f64 {
    match architecture {
        // Its one look-up serves both.
        Architecture::NewFlash => 6.16,
        _ => 6.16 + 13.5,
    }
}

fn assert_close(architecture: Architecture, us: f64, expected_us: f64) {
    // Times are whole nanoseconds.
    assert!((us - expected_us).abs() < 0.01, "{architecture:?}: {us} µs, expected {expected_us}");
}

#[test]
fn a_hit_takes_the_sum_of_its_parts() {
    let transmit = 20.0 * 24.0;
    for architecture in servers() {
        let switches = match architecture {
            // From one of five threads to the next, and back to the first.
            Architecture::Pipelined => 5.0,
            _ => 0.0,
        };
        for processors in [1, 4] {
            let us = latency_us(&mut parameters(architecture, processors, 1), false);
            assert_close(
                architecture,
                us,
                CONNECTION_US + lookups_us(architecture) + transmit + switches * SWITCH_US,
            );
        }
    }
}

#[test]
fn a_miss_takes_the_disk_as_well() {
    let disk = 5350.0 + 80_000.0 / 594.0;
    for architecture in servers() {
        let switches = match architecture {
            Architecture::Mp | Architecture::Mt | Architecture::Sped | Architecture::Uring => 0.0,
            // To the helper and back.
            Architecture::Amped | Architecture::NewFlash => 2.0,
            Architecture::Pipelined => 7.0,
        };
        let mut parameters = parameters(architecture, 1, 1);
        parameters.machine.disks = vec![Disk::SLOW];
        let us = latency_us(&mut parameters, true);
        let parts = CONNECTION_US + lookups_us(architecture) + disk + 20.0 * 24.0;
        assert_close(architecture, us, parts + switches * SWITCH_US);
    }
}

#[test]
fn the_wire_and_the_link_take_their_time_and_no_processor() {
    for architecture in servers() {
        let mut parameters = parameters(architecture, 1, 1);
        parameters.server.transmit = Transmit::Wire;
        parameters.machine.link_mbit_s = Some(100.0);
        // Three windows: 4,096 bytes twice, and 1,808.
        parameters.server.window_bytes = 4096;
        let us = latency_us(&mut parameters, false);
        let switches = if architecture == Architecture::Pipelined { 5.0 } else { 0.0 };
        let parts = CONNECTION_US + lookups_us(architecture) + (8.0 + 8.0 + 4.0) * 24.0 + 80_000.0 / 100.0;
        assert_close(architecture, us, parts + switches * SWITCH_US);
    }
}

#[test]
fn a_connection_is_paid_for_once() {
    let mut parameters = parameters(Architecture::Sped, 1, 1);
    parameters.costs.requests_per_connection = 4;
    let us = latency_us(&mut parameters, false);
    assert_close(Architecture::Sped, us, CONNECTION_US / 4.0 + lookups_us(Architecture::Sped) + 480.0);
}

#[test]
fn the_timeline_tells_where_the_time_went() {
    let mut parameters = parameters(Architecture::Amped, 1, 1);
    parameters.machine.data_cache_mb = Some(0.009);
    let mut demand = zipf([10_000], 1.0);
    demand.follow = Some(17);
    let outcome = outcome(&parameters, &demand);
    let uses = outcome.timeline.iter().filter_map(|moment| match moment.event {
        Event::Uses { us, .. } => Some(us),
        Event::Reads { ms, .. } => Some(ms * 1e3),
        _ => None,
    });
    let uses: f64 = uses.sum();
    let last = outcome.timeline.last().expect("something happened to it");
    assert_eq!(last.event, Event::Done);
    assert!((last.at_us - uses).abs() < 1e-6, "{:?}", outcome.timeline);
    let roles = outcome.timeline.iter().filter_map(|moment| match &moment.event {
        Event::Taken { role } => Some(role.as_str()),
        _ => None,
    });
    assert_eq!(roles.collect::<Vec<_>>(), ["server", "read helper", "server"]);
}

#[test]
fn a_name_that_has_to_be_translated_takes_its_time() {
    for architecture in servers() {
        let mut parameters = parameters(architecture, 1, 1);
        parameters.server.path_entries = 1;
        parameters.costs.translate_us = 70.0;
        parameters.costs.translate_disk_fraction = 1.0;
        let outcome = outcome(&parameters, &zipf([10_000; 10], 0.0));
        assert!(outcome.data_hit_rate == 1.0 && outcome.path_hit_rate < 0.2, "{outcome:?}");
        // What is common to all, and what a miss adds: a directory, read by a helper in some.
        let (switches, switches_missed) = match architecture {
            Architecture::Mp | Architecture::Mt | Architecture::Sped | Architecture::Uring => (0.0, 0.0),
            Architecture::Amped | Architecture::NewFlash => (0.0, 2.0),
            Architecture::Pipelined => (5.0, 2.0),
        };
        let missed = (1.0 - outcome.path_hit_rate) * (70.0 + 2990.0 + switches_missed * SWITCH_US);
        let parts = CONNECTION_US + lookups_us(architecture) + 480.0 + switches * SWITCH_US;
        assert_close(architecture, outcome.latency.mean_ms * 1e3, parts + missed);
    }
}

/// The page cache and a disk's reads take the processor where they are used: 10 and 1 µs, and 100 and 2 µs.
fn paged(architecture: Architecture, content: Content) -> Parameters {
    let mut parameters = parameters(architecture, 1, 1);
    parameters.server.content = content;
    parameters.machine.memory_mb = 4.0;
    parameters.memory = crate::parameters::Memory { data_entry_bytes: 0.0, helper_mb: 0.0, thread_kb: 0.0 };
    parameters.costs.page_window_us = 10.0;
    parameters.costs.page_us_per_512_bytes = 1.0;
    parameters.costs.read_us = 100.0;
    parameters.costs.read_us_per_512_bytes = 2.0;
    parameters.machine.disks = vec![Disk { access_ms: 1.0, transfer_mbit_s: 1e9, ..Disk::SLOW }];
    parameters
}

#[test]
fn each_window_is_taken_from_the_page_cache() {
    for (content, windows) in [(Content::Lru, 0.0), (Content::PageCache, 3.0)] {
        let mut parameters = paged(Architecture::Sped, content);
        parameters.server.window_bytes = 4096;
        let us = latency_us(&mut parameters, false);
        // Eight packets, eight, and four.
        let pages = windows * 10.0 + if windows > 0.0 { 20.0 } else { 0.0 };
        assert_close(Architecture::Sped, us, CONNECTION_US + lookups_us(Architecture::Sped) + 480.0 + pages);
    }
}

#[test]
fn the_processor_works_for_reads_of_the_disk() {
    for architecture in [Architecture::Mt, Architecture::Sped, Architecture::Amped] {
        let mut parameters = paged(architecture, Content::PageCache);
        let us = latency_us(&mut parameters, true);
        let switches = if architecture == Architecture::Amped { 2.0 } else { 0.0 };
        let reading = 1000.0 + 100.0 + 20.0 * 2.0;
        // What was read is copied once, and is sent from that copy.
        let copying = 10.0 + 20.0;
        let parts = CONNECTION_US + lookups_us(architecture) + 480.0 + reading + copying;
        assert!((us - parts - switches * SWITCH_US).abs() < 0.1, "{architecture:?}: {us}, {parts}");
    }
}

#[test]
fn what_an_architecture_takes_more_is_its_own() {
    let mut parameters = parameters(Architecture::Mt, 1, 1);
    parameters.costs.more_us.mt = 7.0;
    let us = latency_us(&mut parameters, false);
    assert_close(Architecture::Mt, us, CONNECTION_US + lookups_us(Architecture::Mt) + 480.0 + 7.0);
    parameters.architecture = Architecture::Sped;
    let us = latency_us(&mut parameters, false);
    assert_close(Architecture::Sped, us, CONNECTION_US + lookups_us(Architecture::Sped) + 480.0);
}

#[test]
fn only_those_who_sleep_are_woken() {
    // One client finds all five threads of the pipeline asleep; of many clients, most find them awake.
    let us = |clients| {
        let mut parameters = parameters(Architecture::Pipelined, 1, clients);
        parameters.costs.hand_off_us = 100.0;
        parameters.costs.thread_switch_us = 0.0;
        let outcome = outcome(&parameters, &zipf([10_000], 1.0));
        outcome.processors.busy * 1e6 / outcome.requests_per_s - CONNECTION_US - 6.16 - 13.5 - 480.0
    };
    let (one, many) = (us(1), us(64));
    assert!((one - 400.0).abs() < 1.0 && many < 100.0, "{one}, {many}");
}

#[test]
fn all_clients_share_a_processor() {
    let mut one = parameters(Architecture::Sped, 1, 1);
    one.costs.client_us = 50.0;
    one.costs.client_us_per_512_bytes = 100.0;
    let us = latency_us(&mut one, false);
    let parts = CONNECTION_US + lookups_us(Architecture::Sped) + 480.0;
    assert_close(Architecture::Sped, us, parts + 50.0 + 20.0 * 100.0);
    // With many of them, it is the slowest part, and the server's processor is idle meanwhile.
    let many = Parameters { run: parameters(Architecture::Sped, 1, 16).run, ..one };
    let outcome = outcome(&many, &zipf([10_000], 1.0));
    assert!((outcome.requests_per_s * 2050.0 / 1e6 - 1.0).abs() < 1e-3, "{outcome:?}");
    assert!((outcome.processors.busy / (parts / 2050.0) - 1.0).abs() < 0.01, "{outcome:?}");
}

#[test]
fn a_connection_that_nobody_waits_for_is_taken_over() {
    // Two clients of one process; then there is one for each of them.
    let us = |processes, per_connection| {
        let mut parameters = parameters(Architecture::Mp, 1, 2);
        parameters.server.processes_per_processor = processes;
        parameters.costs.process_switch_us = 0.0;
        parameters.costs.connection_us = 0.0;
        parameters.costs.requests_per_connection = per_connection;
        parameters.costs.take_over_us.mp = 40.0;
        let outcome = outcome(&parameters, &zipf([10_000], 1.0));
        outcome.processors.busy * 1e6 / outcome.requests_per_s
    };
    let free = 6.16 + 13.5 + 480.0;
    assert!((us(1, u32::MAX) - free - 40.0).abs() < 0.1, "{}", us(1, u32::MAX));
    assert!((us(2, u32::MAX) - free).abs() < 0.1, "{}", us(2, u32::MAX));
    assert!((us(1, 1) - free).abs() < 0.1, "a new connection is accepted: {}", us(1, 1));
}
