//! The parameters' costs in the simulation's time.

use crate::engine::{Time, from_ms, from_us};
use crate::model::{Kind, Work};
use crate::parameters::{Disk, Parameters, Transmit};

#[derive(Debug)]
pub(super) struct Prices {
    read_request: Time,
    path_lookup: Time,
    translate: Time,
    send_header: Time,
    data_lookup: Time,
    hand_off: Time,
    connection: Time,
    pub(super) take_over: Time,
    thread_switch: Time,
    process_switch: Time,
    send_window_us: f64,
    transmit_us_per_packet: f64,
    page_window_us: f64,
    page_us_per_packet: f64,
    read_us: f64,
    read_us_per_packet: f64,
    client_us: f64,
    client_us_per_packet: f64,
    transmit: Transmit,
    link_mbit_s: Option<f64>,
}

impl Prices {
    pub(super) fn new(parameters: &Parameters) -> Prices {
        let costs = &parameters.costs;
        Prices {
            read_request: from_us(costs.read_request_us + costs.more_us.of(parameters.architecture)),
            path_lookup: from_us(costs.path_lookup_us),
            translate: from_us(costs.translate_us),
            send_header: from_us(costs.send_header_us),
            data_lookup: from_us(costs.data_lookup_us),
            hand_off: from_us(costs.hand_off_us),
            connection: from_us(costs.connection_us),
            take_over: from_us(costs.take_over_us.of(parameters.architecture)),
            thread_switch: from_us(costs.thread_switch_us),
            process_switch: from_us(costs.process_switch_us),
            send_window_us: costs.send_window_us,
            transmit_us_per_packet: costs.transmit_us_per_512_bytes,
            page_window_us: costs.page_window_us,
            page_us_per_packet: costs.page_us_per_512_bytes,
            read_us: costs.read_us,
            read_us_per_packet: costs.read_us_per_512_bytes,
            client_us: costs.client_us,
            client_us_per_packet: costs.client_us_per_512_bytes,
            transmit: parameters.server.transmit,
            link_mbit_s: parameters.machine.link_mbit_s,
        }
    }

    pub(super) fn of(&self, work: Work) -> Time {
        match work {
            Work::Connection => self.connection,
            Work::ReadRequest => self.read_request,
            Work::PathLookup => self.path_lookup,
            Work::Translate => self.translate,
            Work::SendHeader => self.send_header,
            Work::DataLookup => self.data_lookup,
            Work::HandOff => self.hand_off,
        }
    }

    /// Turning to a runner of this kind.
    pub(super) fn switch(&self, kind: Kind) -> Time {
        match kind {
            Kind::Thread => self.thread_switch,
            Kind::Process | Kind::HelperProcess => self.process_switch,
        }
    }

    /// What any request costs at the very least.
    pub(super) fn least(&self) -> Time {
        self.connection
            + self.read_request
            + self.path_lookup
            + self.send_header
            + from_us(self.send_window_us)
    }

    /// Processor time for sending a window.
    pub(super) fn send(&self, bytes: u64) -> Time {
        match self.transmit {
            Transmit::Processor => from_us(self.send_window_us + self.transmit_us(bytes)),
            Transmit::Wire => from_us(self.send_window_us),
        }
    }

    /// Time on the wire, which requests do not share.
    pub(super) fn wire(&self, bytes: u64) -> Time {
        match self.transmit {
            Transmit::Processor => 0,
            Transmit::Wire => from_us(self.transmit_us(bytes)),
        }
    }

    /// Time of the clients' processor for a response.
    pub(super) fn client(&self, bytes: u64) -> Time {
        from_us(self.client_us + packets(bytes) * self.client_us_per_packet)
    }

    /// Time of the link, if there is one.
    pub(super) fn link(&self, bytes: u64) -> Time {
        self.link_mbit_s.map_or(0, |mbit_s| from_us(bytes as f64 * 8.0 / mbit_s))
    }

    /// Processor time for taking a window from the page cache.
    pub(super) fn page_window(&self, bytes: u64) -> Time {
        from_us(self.page_window_us + packets(bytes) * self.page_us_per_packet)
    }

    /// Processor time for bringing so many bytes from a disk into the page cache.
    pub(super) fn read_work(&self, disk: &Disk, bytes: u64) -> Time {
        let (reads, _) = self.read(disk, bytes);
        from_us(reads as f64 * self.read_us + packets(bytes) * self.read_us_per_packet)
    }

    /// How many reads of the disk bring so many bytes, and how long they take.
    pub(super) fn read(&self, disk: &Disk, bytes: u64) -> (u64, Time) {
        let reads = disk.block_kb.map_or(1.0, |kb| (bytes as f64 / (kb * 1e3)).ceil().max(1.0));
        let time = from_ms(reads * disk.access_ms) + from_us(bytes as f64 * 8.0 / disk.transfer_mbit_s);
        (reads as u64, time)
    }

    /// In packets of 512 bytes, as the paper counts.
    fn transmit_us(&self, bytes: u64) -> f64 {
        packets(bytes) * self.transmit_us_per_packet
    }
}

fn packets(bytes: u64) -> f64 {
    bytes.div_ceil(512) as f64
}
