//! What a server knows of itself at one moment.
//!
//! A thread of the admin socket gathers it for each question, so that loops do nothing for it. `/status.json`, `/metrics` and the
//! status page are made from it. How they look is not known here. A part that a server does not have is empty or absent.

use std::fmt::Write;

use flash_core::printable::is_printable;
use flash_core::record::counters::{Count, Counts, LoopCount, ProgramCount};
pub use flash_observe::metrics::DURATION_BOUNDS_US;
use flash_process::{EarlierServer, EarlierServers};
use serde::{Deserialize, Serialize};

/// A server at one moment. Counts run from its start, and never go back.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Snapshot {
    /// The process to send signals to.
    pub pid: u32,
    pub version: String,
    /// `amped`, and so on.
    pub architecture: String,
    pub started_unix_ms: u64,
    pub taken_unix_ms: u64,
    /// The number of the configuration that new requests get.
    pub generation: u64,
    /// The numbers of all configurations that are in use.
    pub generations_in_use: Vec<u64>,
    /// The same configurations, the present one last.
    pub configurations: Vec<ConfigurationSnapshot>,
    pub draining: bool,
    /// Servers whose place was taken, and which finish their requests.
    pub earlier_servers: Vec<EarlierServerSnapshot>,
    /// Open connections. `None` if they are not counted.
    pub open_connections: Option<u64>,
    pub connections_max: u64,
    /// Requests whose response has not ended.
    pub active_requests: u64,
    pub totals: Totals,
    /// Those that have answered a request.
    pub sites: Vec<SiteSnapshot>,
    pub loops: Vec<LoopSnapshot>,
    /// Causes of loops' sleeps, the longest time first.
    pub block_causes: Vec<BlockCause>,
    pub devices: Vec<DeviceSnapshot>,
    /// Folders of sites that are gone, or cannot be opened or looked at.
    pub root_faults: Vec<RootFault>,
    /// Lines of a log were dropped within the last ten minutes.
    pub drops_log_lines: bool,
    pub cache: CacheSnapshot,
    pub tls: TlsSnapshot,
    /// Programs, by their routes.
    pub programs: Vec<ProgramSnapshot>,
    pub certificates: Vec<CertificateSnapshot>,
    /// Certificates that an authority has not issued.
    pub renewal_failures: Vec<RenewalFailure>,
    /// The slowest requests of the last minute, the slowest first.
    pub slowest: Vec<SlowRequest>,
    /// The clients that got most bytes in the last minute, the first with most. With mp nobody knows.
    pub clients: Vec<ClientSnapshot>,
    /// The machine's name.
    pub machine: String,
    /// The processes of mp.
    pub workers: Option<Workers>,
    /// System calls that this kernel, or its container, does not have.
    pub missing_calls: Vec<MissingCall>,
}

impl Snapshot {
    /// Why an operator should look at the server.
    #[must_use]
    pub fn faults(&self) -> Vec<String> {
        let mounts = |what: &str, is_such: fn(&DeviceSnapshot) -> bool| {
            let mut mounts: Vec<&str> =
                self.devices.iter().filter(|device| is_such(device)).map(|device| &*device.mount).collect();
            mounts.dedup();
            (!mounts.is_empty()).then(|| format!("{what}: {}", mounts.join(", ")))
        };
        let roots = self.root_faults.iter().map(|root| format!("{} {}", root.folder, root.why));
        let is_unreachable = |of: &&ProgramSnapshot| of.counts.get(ProgramCount::Unreachable) > 0;
        let programs = self.programs.iter().filter(is_unreachable);
        let has_expired = |of: &&CertificateSnapshot| of.not_after_unix_s <= self.taken_unix_ms / 1000;
        let certificates = self.certificates.iter().filter(has_expired);
        let drops = self.drops_log_lines.then_some("lines of a log were dropped within the last ten minutes");
        self.draining
            .then(|| "the server is draining".to_owned())
            .into_iter()
            .chain(mounts("does not answer", |device| device.healthy == Some(false)))
            .chain(mounts("has errors", |device| device.fails))
            .chain(roots)
            .chain(programs.map(|of| format!("{}: cannot be reached: {}", of.route, of.program)))
            .chain(certificates.map(|of| format!("the certificate for {} has expired", of.names)))
            .chain(drops.map(str::to_owned))
            .collect()
    }
}

/// A system call that may not be used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MissingCall {
    pub name: String,
    /// What takes its place, and what that costs.
    pub instead: String,
}

/// A server whose place was taken.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct EarlierServerSnapshot {
    pub pid: u32,
    /// When its successor was started.
    pub since_unix_ms: u64,
}

/// A configuration that is in use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ConfigurationSnapshot {
    pub number: u64,
    /// When it became the one that new requests get.
    pub since_unix_ms: u64,
    /// Requests under way that hold it, but for those that the caches answer at once. With mp, connections that its processes have.
    pub requests: u64,
    /// The processes of mp that serve with it.
    pub workers: Vec<u32>,
}

/// Counts of the whole server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Totals {
    #[serde(flatten, with = "named")]
    pub counts: Counts<Count>,
    /// Lines of the access log that could not be written.
    pub access_log_dropped: u64,
    pub error_log_dropped: u64,
}

/// The responses of a site, by the first digit of their status.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SiteSnapshot {
    /// Its first name in the configuration. `_other` stands for all that have none, or came after the last that is counted apart.
    pub site: String,
    pub classes: Vec<ResponseClass>,
}

/// Responses of a site whose status has the same first digit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ResponseClass {
    /// `2xx` and so on. `other` stands for a status that is none.
    pub status: String,
    pub count: u64,
    /// Those that ended before their last byte left.
    pub cut: u64,
    pub body_bytes: u64,
    pub duration_us: u64,
    /// Responses by their duration. Element `n` counts those of at most [`DURATION_BOUNDS_US`] `[n]`, and of more than the bound
    /// before; the last one counts all others.
    pub durations: Vec<u64>,
}

/// A loop, or a stage of pipelined.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LoopSnapshot {
    pub name: String,
    #[serde(flatten, with = "named")]
    pub counts: Counts<LoopCount>,
    /// Turns by the ready events at their start. Element 0 counts those with none, and `n` those with `2^(n-1)` and more.
    pub ready: Vec<u64>,
    /// The turn that has not ended has this number.
    pub turn_under_way: Option<u64>,
    pub last_block: Option<BlockSnapshot>,
}

/// A sleep of a loop.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BlockSnapshot {
    pub unix_ms: u64,
    pub duration_us: u64,
    /// The system call.
    pub call: String,
    /// What it was about, if that is known.
    pub path: String,
    /// Empty until it is known.
    pub cause: String,
}

/// Sleeps of all loops with the same cause.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BlockCause {
    pub cause: String,
    pub sleeps: u64,
    pub sleep_us: u64,
}

/// What knows helpers of devices.
pub(crate) trait KnowsDevices: Send + Sync {
    fn devices(&self) -> Vec<DeviceSnapshot>;

    /// Another configuration serves. Each device may have so many helpers from now on.
    fn reloaded(&self, helpers_max: usize);
}

/// The helpers of a device for one kind of jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DeviceSnapshot {
    /// Where it is mounted, and its type: `/srv (ext4)`. `elsewhere` stands for all devices without helpers of their own.
    pub mount: String,
    /// `files` or `listings`.
    pub kind: String,
    /// Jobs pass. If not, it is marked down. `None` with mp, whose processes wait for the disk themselves.
    pub healthy: Option<bool>,
    /// Jobs in which it has failed.
    pub errors: u64,
    /// It has failed within the last minute.
    pub fails: bool,
    pub helpers: u64,
    pub helpers_max: u64,
    pub idle: u64,
    /// Jobs that wait for a helper.
    pub queued: u64,
    pub queue_max: u64,
    /// Jobs that helpers work on.
    pub in_flight: u64,
    /// How long the oldest of these has lasted.
    pub oldest_us: u64,
}

/// The cache of paths and files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CacheSnapshot {
    pub entries: u64,
    pub bytes: u64,
    pub bytes_max: u64,
    /// Requests that it answered at once.
    pub hits: u64,
    /// Look-ups that needed a job.
    pub misses: u64,
    pub evictions: u64,
}

/// Handshakes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TlsSnapshot {
    pub full: u64,
    pub resumed: u64,
    pub failed: u64,
    /// Closed, because too many were not finished.
    pub shed: u64,
}

/// The programs of a route, in all processes of the server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProgramSnapshot {
    /// As the configuration names it: `/cgi-bin`, `.php`.
    pub route: String,
    /// `cgi`, `app` or `fastcgi`.
    pub kind: String,
    /// The folder of its scripts, its command, or the address of its server.
    pub program: String,
    #[serde(flatten, with = "named")]
    pub counts: Counts<ProgramCount>,
    /// The wait for it; its start, or connecting; from the request for the program to its first byte, and to its last.
    pub queue: DurationsSnapshot,
    pub connect: DurationsSnapshot,
    pub first_byte: DurationsSnapshot,
    pub whole: DurationsSnapshot,
}

/// Durations by [`DURATION_BOUNDS_US`], and their sum.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DurationsSnapshot {
    pub durations: Vec<u64>,
    pub duration_us: u64,
}

/// A site's folder with which something is wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default)]
pub struct RootFault {
    pub folder: String,
    pub why: String,
}

/// A certificate that is shown to clients.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CertificateSnapshot {
    /// Its names, separated by spaces.
    pub names: String,
    pub not_before_unix_s: u64,
    pub not_after_unix_s: u64,
}

impl EarlierServerSnapshot {
    /// Those that have not ended.
    pub(crate) fn all(servers: &EarlierServers) -> impl Iterator<Item = Self> {
        servers.alive().map(|&EarlierServer { pid, since_unix_ms, .. }| Self { pid, since_unix_ms })
    }
}

impl CertificateSnapshot {
    pub(crate) fn new(names: String, [not_before_unix_s, not_after_unix_s]: [u64; 2]) -> Self {
        Self { names, not_before_unix_s, not_after_unix_s }
    }
}

/// Why an authority has issued no certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RenewalFailure {
    /// The first of its hosts.
    pub host: String,
    /// In the authority's own words.
    pub why: String,
}

/// A response that took long.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SlowRequest {
    /// When its head was complete.
    pub unix_ms: u64,
    pub request: String,
    pub host: String,
    pub status: u16,
    pub body_bytes: u64,
    pub duration_us: u64,
    pub walk_us: u64,
    pub open_us: u64,
    pub read_us: u64,
    pub queue_us: u64,
    pub help_us: u64,
    pub send_us: u64,
    /// From its complete head to the beginning of the response.
    pub first_byte_us: u64,
    /// The wait for its program; its start, or connecting; from then to its first byte; and the program's time in all.
    pub program_queue_us: u64,
    pub program_connect_us: u64,
    pub program_first_byte_us: u64,
    pub program_us: u64,
}

/// What a client got in the last minute.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClientSnapshot {
    pub client: String,
    pub responses: u64,
    pub bytes: u64,
    /// The request line of the largest response.
    pub largest: String,
    pub largest_bytes: u64,
}

/// The processes of mp.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Workers {
    pub processes: u64,
    pub busy: u64,
    pub list: Vec<WorkerSnapshot>,
}

/// A process of mp.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WorkerSnapshot {
    pub pid: u32,
    pub number: u64,
    /// The number of its configuration.
    pub generation: u64,
    /// It has a connection.
    pub busy: bool,
    /// How long it has had connections since its start.
    pub busy_us: u64,
    pub connections: u64,
    /// Sleeps in jobs.
    pub blocks: u64,
    /// The job that it is at.
    pub job: Option<JobSnapshot>,
    pub last_block: Option<BlockSnapshot>,
}

/// A job that is under way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct JobSnapshot {
    /// The device, as [`DeviceSnapshot`] names it.
    pub mount: String,
    pub kind: String,
    pub path: String,
    pub duration_us: u64,
}

/// How counts are written: by their names.
mod named {
    use std::collections::HashMap;

    use flash_core::record::counters::{CounterSet, Counts};
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<C: CounterSet, S: Serializer>(
        counts: &Counts<C>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_map(counts.told().map(|(row, count)| (row.name, count)))
    }

    pub(super) fn deserialize<'de, C: CounterSet, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Counts<C>, D::Error> {
        let named = HashMap::<String, u64>::deserialize(from)?;
        Ok(Counts::new(|what: C| named.get(what.row().name).copied().unwrap_or_default()))
    }
}

impl ProgramSnapshot {
    /// The labels of its series.
    pub(super) fn labels(&self) -> Vec<(&str, &str)> {
        vec![("route", &self.route), ("kind", &self.kind), ("program", &self.program)]
    }
}

impl Snapshot {
    /// `/status.json`. What clients have sent is printable there, too.
    pub fn json(&self) -> String {
        let json = serde_json::to_string_pretty(self).expect("it is plain data");
        let mut text = String::with_capacity(json.len() + 1);
        for c in json.chars() {
            // Those of its own layout are no part of a string.
            match c == '\n' || is_printable(c) {
                true => text.push(c),
                false => {
                    c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| _ = write!(text, "\\u{unit:04x}"))
                }
            }
        }
        text.push('\n');
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let snapshot = Snapshot {
            pid: 7,
            generations_in_use: vec![2, 3],
            totals: Totals {
                counts: Counts::new(|what| 5 * u64::from(what == Count::Requests)),
                ..Totals::default()
            },
            loops: vec![LoopSnapshot { name: "loop-0".into(), ready: vec![1, 2], ..LoopSnapshot::default() }],
            ..Snapshot::default()
        };
        let json = snapshot.json();
        assert_eq!(serde_json::from_str::<Snapshot>(&json).unwrap(), snapshot);
        let value: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!((&value["pid"], &value["totals"]["requests"]), (&7.into(), &5.into()));
        let older: Snapshot = serde_json::from_str("{\"pid\":7}").unwrap();
        assert_eq!(
            older,
            Snapshot { pid: 7, ..Snapshot::default() },
            "another version may have fewer fields"
        );
    }
}
