//! What one thread has counted, and how the threads' counts become one.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use crate::conformance::ClientTally;
use crate::inversion::Windows;

/// What can go wrong with a request. Each that goes wrong is counted once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    /// No connection could be made.
    Connect,
    /// TLS could not begin, or it agreed on another protocol.
    Handshake,
    /// No whole answer in time.
    Timeout,
    /// The connection ended before the answer did.
    Reset,
    /// A record of TLS was wrong, or the server has given an alert.
    Tls,
    /// The server has ended the connection of HTTP/2 with an error, or without an answer to a request for the second time.
    Goaway,
    /// The server has ended the request's stream of HTTP/2, with this code (RFC 9113 §7).
    StreamReset(u32),
    /// What came is no HTTP, or no answer to what was asked.
    BadResponse,
    /// A whole answer of another length than the file's, or one that ended before the length it had promised.
    WrongLength,
    WrongContent,
    /// 3xx, 4xx or 5xx, where it was not asked for.
    Status(u8),
}

impl Fault {
    /// One for each name, except that the codes of streams' ends have names of their own.
    pub(crate) const ALL: [Fault; 12] = [
        Fault::Connect,
        Fault::Handshake,
        Fault::Timeout,
        Fault::Reset,
        Fault::Tls,
        Fault::Goaway,
        Fault::BadResponse,
        Fault::WrongLength,
        Fault::WrongContent,
        Fault::Status(3),
        Fault::Status(4),
        Fault::Status(5),
    ];

    /// Its name in reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Fault::Connect => "connect",
            Fault::Handshake => "handshake",
            Fault::Tls => "tls",
            Fault::Goaway => "goaway",
            Fault::StreamReset(code) => {
                STREAM_RESETS.get(code as usize).copied().unwrap_or("rst_stream_unknown")
            }
            Fault::Timeout => "timeout",
            Fault::Reset => "reset",
            Fault::BadResponse => "bad_response",
            Fault::WrongLength => "wrong_length",
            Fault::WrongContent => "wrong_content",
            Fault::Status(3) => "status_3xx",
            Fault::Status(4) => "status_4xx",
            Fault::Status(_) => "status_5xx",
        }
    }
}

/// What the name of every reset stream begins with.
pub(crate) const STREAM_RESET: &str = "rst_stream_";

/// By their codes.
const STREAM_RESETS: [&str; 14] = [
    "rst_stream_no_error",
    "rst_stream_protocol_error",
    "rst_stream_internal_error",
    "rst_stream_flow_control_error",
    "rst_stream_settings_timeout",
    "rst_stream_stream_closed",
    "rst_stream_frame_size_error",
    "rst_stream_refused_stream",
    "rst_stream_cancel",
    "rst_stream_compression_error",
    "rst_stream_connect_error",
    "rst_stream_enhance_your_calm",
    "rst_stream_inadequate_security",
    "rst_stream_http_1_1_required",
];

/// Requests of one class.
pub(crate) struct ClassTally {
    /// Whole and right answers.
    pub(crate) requests: u64,
    pub(crate) errors: u64,
    pub(crate) body_bytes: u64,
    /// Waits in nanoseconds: of answers, and of requests that were given up.
    pub(crate) waits: Histogram<u64>,
    /// How many of them were given up. They would have waited longer.
    pub(crate) given_up: u64,
    /// They are those of an open loop.
    pub(crate) is_open: bool,
}

pub(crate) struct Tally {
    pub(crate) classes: Vec<ClassTally>,
    pub(crate) faults: BTreeMap<Fault, u64>,
    /// Answers by status, right or wrong.
    pub(crate) statuses: BTreeMap<u16, u64>,
    /// All that came through the sockets, heads and frames too.
    pub(crate) received_bytes: u64,
    pub(crate) connections: u64,
    pub(crate) handshakes_full: u64,
    pub(crate) handshakes_resumed: u64,
    /// From the beginning of a connection to the end of its handshake, in nanoseconds.
    pub(crate) handshakes: Histogram<u64>,
    pub(crate) retries: u64,
    /// Under way or due when the run ended.
    pub(crate) unanswered: u64,
    /// Requests that came due, and those of them that open loops asked.
    pub(crate) asked: u64,
    pub(crate) due: u64,
    /// Those of open loops that found all connections busy.
    pub(crate) queued: u64,
    /// The part of the measured time in which the busiest thread had something to do.
    pub(crate) busy: f64,
    /// From when a request of an open loop was due until it was sent, in nanoseconds.
    pub(crate) lateness: Histogram<u64>,
    pub(crate) windows: Windows,
    /// Of closed loops.
    pub(crate) clients: Vec<ClientTally>,
    pub(crate) ended: Instant,
}

impl Tally {
    /// `classes` says of each whether it is an open loop's.
    pub(crate) fn new(classes: &[bool], start: Instant) -> Tally {
        let class = |&is_open| ClassTally {
            requests: 0,
            errors: 0,
            body_bytes: 0,
            waits: histogram(),
            given_up: 0,
            is_open,
        };
        Tally {
            classes: classes.iter().map(class).collect(),
            faults: BTreeMap::new(),
            statuses: BTreeMap::new(),
            received_bytes: 0,
            connections: 0,
            handshakes_full: 0,
            handshakes_resumed: 0,
            handshakes: histogram(),
            retries: 0,
            unanswered: 0,
            asked: 0,
            due: 0,
            queued: 0,
            busy: 0.0,
            lateness: histogram(),
            windows: Windows::default(),
            clients: Vec::new(),
            ended: start,
        }
    }

    pub(crate) fn answer(&mut self, class: usize, body_bytes: u64, wait: Duration) {
        let class = &mut self.classes[class];
        class.requests += 1;
        class.body_bytes += body_bytes;
        let wait = nanoseconds(wait);
        class.waits.saturating_record(wait);
        self.windows.push(body_bytes, wait);
    }

    pub(crate) fn fault(&mut self, class: usize, fault: Fault) {
        self.classes[class].errors += 1;
        *self.faults.entry(fault).or_default() += 1;
    }

    /// A request that nobody waits for any longer. Left out, those that a stalled server never answers would make it look
    /// better than it is.
    pub(crate) fn given_up(&mut self, class: usize, wait: Duration) {
        self.classes[class].given_up += 1;
        self.classes[class].waits.saturating_record(nanoseconds(wait));
    }

    pub(crate) fn handshake(&mut self, is_resumed: bool, time: Duration) {
        match is_resumed {
            true => self.handshakes_resumed += 1,
            false => self.handshakes_full += 1,
        }
        self.handshakes.saturating_record(nanoseconds(time));
    }

    pub(crate) fn late(&mut self, by: Duration) {
        self.lateness.saturating_record(nanoseconds(by));
    }

    pub(crate) fn merge(&mut self, other: Tally) {
        for (class, other) in self.classes.iter_mut().zip(other.classes) {
            class.requests += other.requests;
            class.errors += other.errors;
            class.body_bytes += other.body_bytes;
            class.waits.add(&other.waits).expect("all histograms have the same bounds");
            class.given_up += other.given_up;
        }
        for (fault, count) in other.faults {
            *self.faults.entry(fault).or_default() += count;
        }
        for (status, count) in other.statuses {
            *self.statuses.entry(status).or_default() += count;
        }
        self.received_bytes += other.received_bytes;
        self.connections += other.connections;
        self.handshakes_full += other.handshakes_full;
        self.handshakes_resumed += other.handshakes_resumed;
        self.handshakes.add(&other.handshakes).expect("all histograms have the same bounds");
        self.retries += other.retries;
        self.unanswered += other.unanswered;
        self.asked += other.asked;
        self.due += other.due;
        self.queued += other.queued;
        self.busy = self.busy.max(other.busy);
        self.lateness.add(&other.lateness).expect("all histograms have the same bounds");
        self.windows.merge(other.windows);
        self.clients.extend(other.clients);
        self.ended = self.ended.max(other.ended);
    }
}

/// From 100 ns to an hour, in three digits.
pub(crate) fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(100, 3_600_000_000_000, 3).expect("the bounds are in order")
}

fn nanoseconds(wait: Duration) -> u64 {
    u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX).max(1)
}
