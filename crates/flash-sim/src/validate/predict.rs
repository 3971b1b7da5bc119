//! The same server and load in the simulator.

use std::num::NonZeroU32;

use flash_sim::parameters::{Content, Disk, Memory};
use flash_sim::{Architecture, Demand, Outcome, Parameters, simulate};

use super::cell::{
    AMPED_HELPERS, Cell, FILE_CACHE_BYTES, Figures, FreeDisk, MEMORY_BYTES, PATH_ENTRIES, PROCESSES, READ_KB,
    READS_PER_SECOND, THREADS,
};
use super::site::{SEED, Site};
use flash_cli::Failure;

/// What each worker has of the file cache for itself, before the one that all share.
const OWN_SHARE: f64 = 1.0 / 8.0;
/// Clients stay.
const REQUESTS_PER_CONNECTION: u32 = 1_000_000;

pub(super) fn figures(
    (calibrated, disk): (&Parameters, &FreeDisk),
    site: &Site,
    cell: &Cell,
    requests: u32,
) -> Result<Figures, Failure> {
    let parameters = parameters((calibrated, disk), cell, requests);
    let demand =
        Demand { workload: site.workload.clone(), popularity: Some(site.popularity()), follow: None };
    let outcome = simulate(&parameters, &demand).map_err(|error| {
        Failure::Run(format!("{} at {} MB: {error}", cell.architecture.name(), cell.data_set_mb))
    })?;
    Ok(predicted(&outcome))
}

/// What was measured of costs and memory, on the machine that the real server had.
fn parameters((calibrated, disk): (&Parameters, &FreeDisk), cell: &Cell, requests: u32) -> Parameters {
    let mut parameters = calibrated.clone();
    parameters.architecture = cell.architecture;
    let machine = &mut parameters.machine;
    machine.processors = 1;
    machine.memory_mb = (MEMORY_BYTES as f64 / 1e6 - cell.server_mb).max(1.0);
    // All that the server took is subtracted already.
    parameters.memory = Memory { data_entry_bytes: 0.0, helper_mb: 0.0, thread_kb: 0.0 };
    machine.disk_requests_at_once = disk.requests_at_once;
    machine.disks = vec![Disk {
        block_kb: Some(f64::from(READ_KB) * 1.024),
        reads_per_s_max: Some(READS_PER_SECOND.into()),
        ..disk.disk
    }];
    let file_cache_mb = FILE_CACHE_BYTES as f64 / 1e6;
    parameters.server.content = Content::Flash;
    parameters.server.file_cache_mb = Some(file_cache_mb);
    if cell.architecture == Architecture::Mp {
        // Its processes do not tell what their copies take, so that was measured with the server.
        machine.memory_mb += file_cache_mb * (1.0 - OWN_SHARE);
    }
    parameters.server.helpers_per_processor = match cell.architecture {
        Architecture::Amped => AMPED_HELPERS,
        _ => 1,
    };
    parameters.server.path_entries = PATH_ENTRIES;
    parameters.server.processes_per_processor = PROCESSES;
    parameters.server.threads_per_processor = THREADS;
    parameters.costs.requests_per_connection = REQUESTS_PER_CONNECTION;
    parameters.run.seed = SEED;
    parameters.run.clients = cell.clients;
    parameters.run.measured_requests = NonZeroU32::new(requests).unwrap_or(NonZeroU32::MIN);
    parameters
}

fn predicted(outcome: &Outcome) -> Figures {
    Figures {
        requests_per_s: outcome.requests_per_s,
        mean_ms: outcome.latency.mean_ms,
        p50_ms: outcome.latency.p50_ms,
        p99_ms: outcome.latency.p99_ms,
        busy: outcome.processors.busy,
        reads_per_request: outcome.reads_per_request,
    }
}

#[cfg(test)]
mod tests {
    use flash_sim::parameters::Costs;

    use super::*;

    const DISK: FreeDisk = FreeDisk { disk: Disk::FAST, requests_at_once: 1 };

    fn cell(architecture: Architecture, data_set_mb: u32) -> Cell {
        let none = Figures {
            requests_per_s: 0.0,
            mean_ms: 0.0,
            p50_ms: 0.0,
            p99_ms: 0.0,
            busy: 0.0,
            reads_per_request: 0.0,
        };
        Cell {
            architecture,
            data_set_mb,
            clients: 8,
            server_mb: 2.0,
            failed: 0,
            measured: none,
            predicted: none,
        }
    }

    #[test]
    fn a_site_that_fits_takes_the_processor_and_one_that_does_not_the_disk() {
        // Today's costs, or about: with the paper's, the processor would be the slowest of all.
        let mut calibrated = Parameters::default();
        calibrated.costs =
            Costs { read_request_us: 20.0, transmit_us_per_512_bytes: 0.1, ..calibrated.costs };
        calibrated.memory.helper_mb = 0.08;
        let of = |mb| {
            let cell = cell(Architecture::Amped, mb);
            figures((&calibrated, &DISK), &Site::new(mb), &cell, 20_000).expect("it can be simulated")
        };
        let (fits, does_not) = (of(40), of(400));
        // A copy that leaves the heap is nowhere else, so a few files are read again.
        assert!(fits.reads_per_request < 0.01 && fits.busy > 0.95, "{fits:?}");
        // A clients' mean wait is what eight clients and this throughput make it (Little).
        assert!((fits.mean_ms * fits.requests_per_s / 8e3 - 1.0).abs() < 0.02, "{fits:?}");
        assert!(does_not.reads_per_request > 0.1, "{does_not:?}");
        assert!(does_not.reads_per_request * does_not.requests_per_s < f64::from(READS_PER_SECOND) * 1.001);
    }

    #[test]
    fn the_machine_is_the_real_servers() {
        let mut calibrated = Parameters::default();
        calibrated.costs.read_request_us = 7.0;
        calibrated.machine.processors = 9;
        let parameters = parameters((&calibrated, &DISK), &cell(Architecture::Mp, 40), 10);
        assert_eq!((parameters.machine.processors, parameters.costs.read_request_us), (1, 7.0));
        assert!((parameters.machine.memory_mb - (132.217_728 + 29.360_128)).abs() < 1e-9);
        assert_eq!(parameters.machine.disks[0].reads_per_s_max, Some(2000.0));
        assert_eq!(parameters.server.processes_per_processor, PROCESSES);
    }
}
