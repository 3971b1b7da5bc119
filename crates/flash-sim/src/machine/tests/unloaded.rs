//! With a single client, a request takes the sum of its parts.

use super::*;
use crate::outcome::Event;
use crate::parameters::{Disk, Transmit};

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
