//! From what was measured to what the models want to know. Arithmetic only.

use std::num::NonZeroU32;
use std::sync::Arc;

use flash_sim::parameters::{ByArchitecture, Content, Costs, Disk, Memory};
use flash_sim::{Architecture, Demand, Parameters, simulate};
use flash_traffic::sample::Sizes;
use flash_traffic::{References, Shape, Synthetic};

use super::disk::{DiskTimes, LARGE_BYTES, SMALL_BYTES};
use super::requests::{ARCHITECTURES, CLIENTS, COLD_BYTES, FEW_FILES, Helped, Requests, SIZES_BYTES};
use super::rounds::Rounds;

/// In a model, for one figure.
const SIMULATED_REQUESTS: u32 = 50_000;

/// Turning from one to another, and looking something up, in microseconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Turns {
    pub thread_switch_us: Rounds,
    pub process_switch_us: Rounds,
    pub look_up_us: Rounds,
    pub contended_us: Rounds,
}

/// A request for so many packets of 512 bytes takes `fixed_us` and `per_packet_us` for each.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct WaitQueue {
    pub fixed_us: f64,
    pub per_packet_us: f64,
}

impl WaitQueue {
    /// The line with the least sum of squares of relative errors: small requests count as much as large ones.
    pub(crate) fn through(points: &[(f64, f64)]) -> WaitQueue {
        let [mut s, mut sx, mut sxx, mut sy, mut sxy] = [0.0; 5];
        for &(x, y) in points {
            let weight = 1.0 / (y * y);
            s += weight;
            sx += weight * x;
            sxx += weight * x * x;
            sy += weight * y;
            sxy += weight * x * y;
        }
        let per_packet_us = (s * sxy - sx * sy) / (s * sxx - sx * sx);
        WaitQueue { fixed_us: (sy - per_packet_us * sx) / s, per_packet_us }
    }

    pub(crate) fn us(&self, bytes: u64) -> f64 {
        self.fixed_us + self.per_packet_us * packets(bytes)
    }
}

pub(crate) fn packets(bytes: u64) -> f64 {
    bytes.div_ceil(512) as f64
}

/// By `SIZES_BYTES`.
pub(crate) fn line(sized: &[Rounds]) -> WaitQueue {
    let points = SIZES_BYTES.iter().zip(sized).map(|(&bytes, us)| (packets(bytes), us.median()));
    WaitQueue::through(&points.collect::<Vec<_>>())
}

/// What is not told apart by any measurement is in `read_request_us`, so that all of a request's costs add up to what a
/// request takes. What a measurement says is less than nothing, is nothing.
pub(crate) fn costs(requests: &Requests, turns: &Turns) -> Costs {
    let (copies, pages) = (line(&requests.sized), line(&requests.paged));
    let clients = line(&requests.clients);
    let path_lookup_us = turns.look_up_us.median();
    let translate_us = requests.nameless.less(&requests.paged[0]).median().max(0.0);
    let reading = reading(requests, &pages, translate_us);
    let mut costs = Costs {
        connection_us: requests.connecting.less(&requests.sized[0]).median().max(0.0),
        read_request_us: (copies.fixed_us - path_lookup_us).max(0.0),
        path_lookup_us,
        translate_us,
        // Whether content is in the page cache is asked for each window.
        data_lookup_us: 0.0,
        transmit_us_per_512_bytes: copies.per_packet_us.max(0.0),
        page_window_us: (pages.fixed_us - copies.fixed_us).max(0.0),
        page_us_per_512_bytes: (pages.per_packet_us - copies.per_packet_us).max(0.0),
        client_us: clients.fixed_us.max(0.0),
        client_us_per_512_bytes: clients.per_packet_us.max(0.0),
        read_us: reading.fixed_us.max(0.0),
        read_us_per_512_bytes: reading.per_packet_us.max(0.0),
        hand_off_us: hand_off_us(&requests.inline, &requests.helped, turns.thread_switch_us.median()),
        thread_switch_us: turns.thread_switch_us.median().max(0.0),
        process_switch_us: turns.process_switch_us.median().max(0.0),
        requests_per_connection: Costs::default().requests_per_connection,
        send_header_us: 0.0,
        translate_disk_fraction: 0.0,
        send_window_us: 0.0,
        take_over_us: take_over_us(requests),
        more_us: ByArchitecture::default(),
    };
    costs.more_us = more_us(requests, &costs);
    costs
}

/// What a file from the disk takes more than one whose pages are in memory, and whose name is looked up.
fn reading(requests: &Requests, pages: &WaitQueue, translate_us: f64) -> WaitQueue {
    if requests.cold.iter().any(Rounds::is_empty) {
        return WaitQueue { fixed_us: 0.0, per_packet_us: 0.0 };
    }
    let more = COLD_BYTES.iter().zip(&requests.cold);
    let more = more.map(|(&bytes, us)| (packets(bytes), us.median() - pages.us(bytes) - translate_us));
    WaitQueue::through(&more.collect::<Vec<_>>())
}

/// What a request takes more where each is taken over by somebody.
fn take_over_us(requests: &Requests) -> ByArchitecture {
    let more = |crowded: &Rounds, architecture: Architecture| {
        let at =
            ARCHITECTURES.iter().position(|&name| name == architecture.name()).expect("all were measured");
        crowded.less(&requests.architectures[at]).median().max(0.0)
    };
    ByArchitecture {
        mp: more(&requests.crowded_mp, Architecture::Mp),
        mt: more(&requests.crowded_mt, Architecture::Mt),
        ..ByArchitecture::default()
    }
}

/// The same few files, asked for by as many clients, in the models. What a real architecture takes more than sped there, beyond what the
/// model of it does, is in no other cost.
fn more_us(requests: &Requests, costs: &Costs) -> ByArchitecture {
    let modelled = |architecture| modelled_us(architecture, costs);
    let sped = modelled(Architecture::Sped);
    let more = |architecture: Architecture| {
        let at =
            ARCHITECTURES.iter().position(|&name| name == architecture.name()).expect("all were measured");
        let real = requests.architectures[at].less(&requests.architectures[0]).median();
        (real - (modelled(architecture) - sped)).max(0.0)
    };
    ByArchitecture {
        mp: more(Architecture::Mp),
        mt: more(Architecture::Mt),
        amped: more(Architecture::Amped),
        pipelined: more(Architecture::Pipelined),
    }
}

/// Microseconds of the processor for a request, in a model.
fn modelled_us(architecture: Architecture, costs: &Costs) -> f64 {
    let mut parameters = Parameters { architecture, costs: costs.clone(), ..Parameters::default() };
    parameters.costs.requests_per_connection = u32::MAX;
    (parameters.costs.client_us, parameters.costs.client_us_per_512_bytes) = (0.0, 0.0);
    // As the real servers have them.
    parameters.server.processes_per_processor = 32;
    parameters.server.threads_per_processor = 64;
    parameters.server.content = Content::Flash;
    parameters.run.clients = CLIENTS;
    parameters.run.measured_requests = NonZeroU32::new(SIMULATED_REQUESTS).expect("it is not 0");
    let shape = Shape {
        folder: "few".into(),
        files: FEW_FILES,
        sizes: Sizes { ln_mean: 0.0, ln_sd: 0.0, bytes_total: Some(u64::from(FEW_FILES) * SIZES_BYTES[0]) },
        exponent: 0.0,
        references: References::Independent,
    };
    let workload = Arc::new(Synthetic::new(&shape, 1).expect("there are such sites"));
    let demand = Demand { workload, popularity: None, follow: None };
    let outcome = simulate(&parameters, &demand).expect("everything fits");
    outcome.processors.busy * 1e6 / outcome.requests_per_s
}

/// A job goes there and comes back; the turning that it brings about is counted elsewhere.
fn hand_off_us(inline: &Helped, helped: &Helped, switch_us: f64) -> f64 {
    let jobs = helped.jobs.less(&inline.jobs).median();
    let us = helped.us.less(&inline.us).median();
    let switches = helped.switches.less(&inline.switches).median();
    if jobs <= 0.0 {
        return 0.0;
    }
    ((us - switches * switch_us) / jobs / 2.0).max(0.0)
}

/// Helpers are threads unless people ask for processes, and any thread reads a large file sooner or later.
pub(crate) fn memory(requests: &Requests) -> Memory {
    let kernel = requests.kernel_entry_bytes.as_ref().map_or(0.0, Rounds::median);
    let thread_bytes = requests.reading_thread_bytes.median().max(0.0);
    Memory {
        data_entry_bytes: (requests.entry_bytes.median() + kernel).max(0.0),
        helper_mb: thread_bytes / 1e6,
        thread_kb: thread_bytes / 1e3,
    }
}

/// A read takes an access, and what a larger one takes longer is transfer.
pub(crate) fn disk(times: &DiskTimes) -> Disk {
    let (small_us, large_us) = (times.small_us.median(), times.large_us.median());
    let bits = (LARGE_BYTES - SMALL_BYTES) as f64 * 8.0;
    let transfer_mbit_s = bits / (large_us - small_us).max(1.0);
    let access_us = small_us - SMALL_BYTES as f64 * 8.0 / transfer_mbit_s;
    Disk { access_ms: access_us.max(0.0) / 1e3, transfer_mbit_s, block_kb: None, reads_per_s_max: None }
}

/// How many reads of one reader's pace a disk does at a time.
pub(crate) fn disk_requests_at_once(times: &DiskTimes) -> u32 {
    (times.crowded_per_s.median() * times.small_us.median() / 1e6).round().max(1.0) as u32
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    fn rounds(figure: f64) -> Rounds {
        [figure].into_iter().collect()
    }

    /// A server of which we know everything: 12 us a request, 0.1 us a packet. From the page cache it is 3 us and 0.05 us more, and from
    /// a disk another 10 us and 0.2 us.
    pub(crate) fn known() -> (Requests, Turns) {
        let mut requests = Requests {
            connecting: rounds(12.2 + 30.0),
            nameless: rounds(12.2 + 3.1 + 5.0),
            cold: COLD_BYTES.map(|bytes| rounds(12.0 + 3.0 + 5.0 + 10.0 + 0.35 * packets(bytes))),
            inline: Helped { us: rounds(17.0), jobs: rounds(0.0), switches: rounds(0.5) },
            // Two hand-offs of 4 us, and two more turns of 1.5 us.
            helped: Helped { us: rounds(17.0 + 8.0 + 3.0), jobs: rounds(1.0), switches: rounds(2.5) },
            architectures: [12.2, 12.5, 14.0, 14.0, 20.0].map(rounds),
            crowded_mt: rounds(14.0 + 6.0),
            crowded_mp: rounds(14.0 + 30.0),
            thread_bytes: rounds(2_000.0),
            reading_thread_bytes: rounds(20_000.0),
            process_bytes: rounds(300_000.0),
            entry_bytes: rounds(400.0),
            kernel_entry_bytes: Some(rounds(1_200.0)),
            ..Requests::default()
        };
        for (sized, bytes) in requests.sized.iter_mut().zip(SIZES_BYTES) {
            sized.add(12.0 + 0.1 * packets(bytes));
        }
        for (clients, bytes) in requests.clients.iter_mut().zip(SIZES_BYTES) {
            clients.add(6.0 + 0.02 * packets(bytes));
        }
        for (paged, bytes) in requests.paged.iter_mut().zip(SIZES_BYTES) {
            paged.add(15.0 + 0.15 * packets(bytes));
        }
        let turns = Turns {
            thread_switch_us: rounds(1.5),
            process_switch_us: rounds(2.0),
            look_up_us: rounds(0.25),
            contended_us: rounds(0.5),
        };
        (requests, turns)
    }

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-6
    }

    #[test]
    fn a_known_servers_costs_are_found() {
        let (requests, turns) = known();
        let costs = costs(&requests, &turns);
        assert!(near(costs.transmit_us_per_512_bytes, 0.1), "{costs:?}");
        assert!(near(costs.connection_us, 30.0) && near(costs.translate_us, 5.0), "{costs:?}");
        assert!(near(costs.page_window_us, 3.0) && near(costs.page_us_per_512_bytes, 0.05), "{costs:?}");
        assert!(near(costs.client_us, 6.0) && near(costs.client_us_per_512_bytes, 0.02), "{costs:?}");
        assert!(near(costs.read_us, 10.0) && near(costs.read_us_per_512_bytes, 0.2), "{costs:?}");
        assert!(near(costs.path_lookup_us, 0.25), "{costs:?}");
        assert!(near(costs.take_over_us.mt, 6.0) && near(costs.take_over_us.mp, 30.0), "{costs:?}");
        // The others are slower than their hand-offs and switches make them, which are few under this load.
        let more = costs.more_us;
        assert!(more.amped < 0.31 && more.mt < 1.8 && more.pipelined < 7.8, "{more:?}");
        assert!(more.pipelined > 0.0, "{more:?}");
        assert!(near(costs.hand_off_us, 4.0), "{costs:?}");
        let together = costs.read_request_us + costs.path_lookup_us;
        assert!(near(together, 12.0), "{costs:?}");
        let memory = memory(&requests);
        assert!(near(memory.data_entry_bytes, 1_600.0) && near(memory.thread_kb, 20.0), "{memory:?}");
    }

    #[test]
    fn noise_makes_nothing_negative() {
        let (mut requests, turns) = known();
        requests.nameless = rounds(11.0);
        requests.paged = requests.sized.clone();
        requests.cold = COLD_BYTES.map(|_| rounds(9.0));
        requests.connecting = rounds(11.0);
        requests.helped = requests.inline.clone();
        let costs = costs(&requests, &turns);
        let least =
            [costs.page_window_us, costs.translate_us, costs.connection_us, costs.hand_off_us, costs.read_us];
        assert_eq!(least, [0.0; 5]);
    }

    #[test]
    fn a_line_favours_no_size() {
        // One of them is off by a tenth, the smallest or the largest: the line is drawn to either as much.
        let exact = |x: f64| 10.0 + x;
        let points = |n: usize| {
            [1.0, 20.0, 400.0]
                .map(|x| (x, exact(x)))
                .into_iter()
                .enumerate()
                .map(move |(i, (x, y))| (x, if i == n { 1.1 * y } else { y }))
        };
        let error = |n: usize| {
            let line = WaitQueue::through(&points(n).collect::<Vec<_>>());
            let (x, _) = points(n).nth(n).expect("there are three");
            (line.fixed_us + line.per_packet_us * x) / exact(x) - 1.0
        };
        assert!(error(0) > 0.05 && error(2) > 0.05, "{} {}", error(0), error(2));
    }

    /// A disk that takes 90 us and then sends 4,000 Mbit/s, to eight at a time.
    pub(crate) fn known_disk() -> DiskTimes {
        let us = |bytes: u64| 90.0 + bytes as f64 * 8.0 / 4_000.0;
        DiskTimes {
            small_us: rounds(us(SMALL_BYTES)),
            large_us: rounds(us(LARGE_BYTES)),
            crowded_per_s: rounds(8.0 * 1e6 / us(SMALL_BYTES)),
        }
    }

    #[test]
    fn a_known_disk_is_found() {
        let times = known_disk();
        let disk = disk(&times);
        assert!(near(disk.access_ms, 0.09) && near(disk.transfer_mbit_s, 4_000.0), "{disk:?}");
        assert_eq!(disk_requests_at_once(&times), 8);
    }
}
