//! Everything that a run depends on: the machine, the server on it, what things cost, and how long to look. The defaults are
//! the PIPELINED paper's (Tables 2 and 3); where the paper leaves a choice open, the field says what we chose and why.
//!
//! KB, MB and GB are 10^3, 10^6 and 10^9 bytes throughout.

mod quantity;
#[cfg(test)]
mod tests;

use std::num::NonZeroU32;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::quantity::{count, fraction, not_negative, optional_positive, positive};

/// One run's parameters. `Parameters::default()` is one processor of the paper's under AMPED.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Parameters {
    /// What serves.
    pub architecture: Architecture,
    pub machine: Machine,
    pub server: Server,
    pub costs: Costs,
    pub memory: Memory,
    pub run: Run,
}

/// What serves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Architecture {
    Mp,
    Mt,
    Sped,
    #[default]
    Amped,
    Pipelined,
    Uring,
    NewFlash,
}

/// The hardware.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Machine {
    /// Processors that the server runs on.
    #[serde(deserialize_with = "count")]
    pub processors: u32,
    /// Memory that the server and its caches may fill: the paper's system memory.
    #[serde(deserialize_with = "positive")]
    pub memory_mb: f64,
    /// Fixes the space for content (of each cache, where there are several), whatever the bookkeeping takes: the paper's
    /// validation does so.
    #[serde(deserialize_with = "optional_positive", skip_serializing_if = "Option::is_none")]
    pub data_cache_mb: Option<f64>,
    /// The disks. Files are spread over them evenly. The paper has one.
    pub disks: Vec<Disk>,
    /// How many requests each disk serves at a time: one, as long as a head has to move.
    #[serde(deserialize_with = "count")]
    pub disk_requests_at_once: u32,
    /// The rate of the link that all replies go through, one window after the other. Unless said, there is none to wait for:
    /// in the paper sending takes time, but nothing fills up.
    #[serde(deserialize_with = "optional_positive", skip_serializing_if = "Option::is_none")]
    pub link_mbit_s: Option<f64>,
}

/// A disk: first come, first served.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Disk {
    /// Seek and rotation, the paper's average latency.
    #[serde(deserialize_with = "not_negative")]
    pub access_ms: f64,
    /// How fast the disk reads after the access.
    #[serde(deserialize_with = "positive")]
    pub transfer_mbit_s: f64,
    /// Files are read in blocks of this size, with an access for each. Unless said, in one go: the paper has nothing on it,
    /// but the axes of its Figures 6(b) and 7(a) are what blocks would give.
    #[serde(default, deserialize_with = "optional_positive", skip_serializing_if = "Option::is_none")]
    pub block_kb: Option<f64>,
    /// Reads that the disk may do in a second. What is not used in a tenth of a second is lost. Unless said, there is no limit.
    #[serde(default, deserialize_with = "optional_positive", skip_serializing_if = "Option::is_none")]
    pub reads_per_s_max: Option<f64>,
}

/// How the server is set up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Server {
    /// MP's processes for each processor. The paper says 16 or 32; the left edge of its Figure 3(a), below 600 MB of 1,000,
    /// can only be 16.
    #[serde(deserialize_with = "count")]
    pub processes_per_processor: u32,
    /// MT's threads for each processor. The paper says 32 or 64; we take the one that is kinder to MT.
    #[serde(deserialize_with = "count")]
    pub threads_per_processor: u32,
    /// MT has a thread for each client instead. The paper's explanation of its Figure 8, that memory for threads grows with
    /// clients, sounds like this; its formulas do not.
    pub thread_per_client: bool,
    /// Helpers of each kind for each processor, where the architecture has them. §3.1 and §4: one to translate names and one to
    /// read files.
    #[serde(deserialize_with = "count")]
    pub helpers_per_processor: u32,
    /// Which processes have caches of their own. Unless said, as in the papers: shared in MT, PIPELINED and uring, replicated
    /// in the others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caches: Option<Caches>,
    /// What decides which files stay in memory. The papers' servers and simulators have LRU.
    pub content: Content,
    /// What Flash's copies in the heap may take of the memory. Unless said, a quarter of it, and 134 MB at most.
    #[serde(deserialize_with = "optional_positive", skip_serializing_if = "Option::is_none")]
    pub file_cache_mb: Option<f64>,
    /// Entries of each pathname cache: the paper's for all, although Flash's own MP has 200 a process.
    #[serde(deserialize_with = "count")]
    pub path_entries: u32,
    /// What guards caches that several processors use.
    pub locks: Locks,
    /// What a thread does that finds a lock taken.
    pub lock_wait: LockWait,
    /// What sending takes from the machine.
    pub transmit: Transmit,
    /// A reply goes out in windows of this size, and servers that multiplex turn to another request between two. The paper's
    /// self loop in Figure 1 has no number; Flash maps files in chunks of 64 KB.
    #[serde(deserialize_with = "count")]
    pub window_bytes: u32,
    /// After so much time a runner lets others have the processor. The paper has nothing on it; 10 ms is Solaris' and
    /// Linux' usual order of magnitude.
    #[serde(deserialize_with = "positive")]
    pub time_slice_us: f64,
}

/// Who has caches to himself, and what that costs in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Caches {
    /// One data cache and one pathname cache for all, under locks where several processors use them.
    Shared,
    /// Each process has its own entries, 850 B a file, for content whose memory all processes share by mapping it. Table 1's
    /// formulas and Figure 2 describe that. Each process has a pathname cache of its own.
    Replicated,
    /// Every process has an equal part of the memory to itself, for content, books and pathnames.
    Private,
}

/// What decides which files stay in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Content {
    /// The file leaves that was used longest ago.
    #[default]
    Lru,
    /// Linux's page cache, with its two lists.
    PageCache,
    /// Flash's copies in the heap, by its own policy, and the page cache for all else.
    Flash,
}

/// How finely shared caches are locked. The paper does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Locks {
    /// One lock for both caches.
    One,
    /// One for the pathname cache and one for the data cache, the least that has to be.
    #[default]
    Each,
    /// As though they needed none.
    None,
}

/// What a thread does while another holds the lock. The paper does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LockWait {
    /// Sleeps; is woken when the lock comes free and tries again, as under today's mutexes. Ours: the paper has threads that
    /// queue at the lock and pay for switching.
    #[default]
    Sleep,
    /// Sleeps. The lock goes to the thread that waits longest, which holds it while it waits for a processor. Convoys form.
    Handed,
    /// Keeps its processor busy until the lock is free, in order of arrival.
    Spin,
}

/// The resource that sending occupies. The paper calls its time a network latency. But in its Figure 6(a) throughput grows with
/// processors, up to 2,750/s for 16. That is the result of 24 µs of processor time for 512 B: 5.8 ms for a response of 124.3
/// KB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Transmit {
    #[default]
    Processor,
    /// It passes while the processor does something else.
    Wire,
}

/// What each step costs. Whatever the paper gives no number for is 0.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Costs {
    /// Processor time for a client's connection, from accept to close.
    #[serde(deserialize_with = "not_negative")]
    pub connection_us: f64,
    /// Requests that share a connection. The paper's clients connect for each.
    #[serde(deserialize_with = "count")]
    pub requests_per_connection: u32,
    /// Processor time of reading and parsing a request.
    #[serde(deserialize_with = "not_negative")]
    pub read_request_us: f64,
    /// Processor time of a look-up in the pathname cache.
    #[serde(deserialize_with = "not_negative")]
    pub path_lookup_us: f64,
    /// Processor time of a translation that the pathname cache lacks.
    #[serde(deserialize_with = "not_negative")]
    pub translate_us: f64,
    /// The part of these translations that has to read a directory from the disk. Were it all, UC Berkeley's 511,189 files
    /// could not be served at more than some 400/s, and the paper's Figure 6(b) goes past 1,200.
    #[serde(deserialize_with = "fraction")]
    pub translate_disk_fraction: f64,
    /// Processor time of sending a response's head.
    #[serde(deserialize_with = "not_negative")]
    pub send_header_us: f64,
    /// Processor time of a look-up in the data cache.
    #[serde(deserialize_with = "not_negative")]
    pub data_lookup_us: f64,
    /// Processor time of each window sent, whatever its size.
    #[serde(deserialize_with = "not_negative")]
    pub send_window_us: f64,
    /// Time of sending 512 bytes. `server.transmit` says what it occupies.
    #[serde(deserialize_with = "not_negative")]
    pub transmit_us_per_512_bytes: f64,
    /// Processor time of each window of a file that is taken from the kernel's page cache, whatever its size.
    #[serde(deserialize_with = "not_negative")]
    pub page_window_us: f64,
    /// Processor time of copying 512 bytes from the page cache.
    #[serde(deserialize_with = "not_negative")]
    pub page_us_per_512_bytes: f64,
    /// Processor time of each read of a disk.
    #[serde(deserialize_with = "not_negative")]
    pub read_us: f64,
    /// Processor time of 512 bytes from a disk: for finding them room in memory.
    #[serde(deserialize_with = "not_negative")]
    pub read_us_per_512_bytes: f64,
    /// What a response takes of the clients' own processor, of which all have one. The paper's clients are as fast as need be.
    #[serde(deserialize_with = "not_negative")]
    pub client_us: f64,
    /// The same for 512 bytes of it.
    #[serde(deserialize_with = "not_negative")]
    pub client_us_per_512_bytes: f64,
    /// Processor time of passing a request to a thread or process that sleeps. One that is awake takes it without help.
    #[serde(deserialize_with = "not_negative")]
    pub hand_off_us: f64,
    /// Processor time of a request on a kept connection that nobody waits for, because all threads or processes serve others. One that is
    /// free takes the connection over.
    pub take_over_us: ByArchitecture,
    /// Processor time of a request that an architecture takes more than the others, for what no other cost is for.
    pub more_us: ByArchitecture,
    /// Processor time of a switch from one thread to another, of the same or of another pool.
    #[serde(deserialize_with = "not_negative")]
    pub thread_switch_us: f64,
    /// Processor time of a switch from one process to another. The paper gives a number for threads only; processes cannot be
    /// cheaper.
    #[serde(deserialize_with = "not_negative")]
    pub process_switch_us: f64,
}

/// Something that differs between servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ByArchitecture {
    /// Of MP.
    #[serde(deserialize_with = "not_negative")]
    pub mp: f64,
    /// Of MT.
    #[serde(deserialize_with = "not_negative")]
    pub mt: f64,
    /// Of AMPED.
    #[serde(deserialize_with = "not_negative")]
    pub amped: f64,
    /// Of PIPELINED.
    #[serde(deserialize_with = "not_negative")]
    pub pipelined: f64,
}

impl ByArchitecture {
    /// SPED has nothing more than others.
    pub fn of(&self, architecture: Architecture) -> f64 {
        match architecture {
            Architecture::Mp => self.mp,
            Architecture::Mt => self.mt,
            Architecture::Amped | Architecture::NewFlash => self.amped,
            Architecture::Pipelined => self.pipelined,
            Architecture::Sped | Architecture::Uring => 0.0,
        }
    }
}

/// What bookkeeping takes of the memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Memory {
    /// Memory for each file in the data cache, in each process that keeps books.
    #[serde(deserialize_with = "not_negative")]
    pub data_entry_bytes: f64,
    /// Memory of each helper process. The paper leaves the servers' own out.
    #[serde(deserialize_with = "not_negative")]
    pub helper_mb: f64,
    /// Memory of each thread.
    #[serde(deserialize_with = "not_negative")]
    pub thread_kb: f64,
}

/// Who asks, and how long we look.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Run {
    /// The seed of random numbers; the same seed gives the same results.
    pub seed: u64,
    /// Clients. Each sends its next request as soon as the last is answered.
    #[serde(deserialize_with = "count")]
    pub clients: u32,
    /// Requests answered before measuring begins, until the queues have settled. Unless said: 20 a client, and no fewer than a
    /// tenth of what is measured. The paper runs 5,000 seconds first, which its caches need; ours begin as warm as they would
    /// ever get.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settling_requests: Option<u64>,
    /// Requests that are measured.
    pub measured_requests: NonZeroU32,
}

impl Disk {
    /// Table 2.
    pub const FAST: Disk =
        Disk { access_ms: 2.99, transfer_mbit_s: 1200.0, block_kb: None, reads_per_s_max: None };
    /// Table 2.
    pub const SLOW: Disk =
        Disk { access_ms: 5.35, transfer_mbit_s: 594.0, block_kb: None, reads_per_s_max: None };

    /// What an access is for, in words.
    pub fn access(&self) -> String {
        match self.block_kb {
            None => "an access for each file".to_owned(),
            Some(kb) => format!("an access for each {kb} KB"),
        }
    }
}

impl Architecture {
    /// The PIPELINED paper's, in its order.
    pub const ALL: [Architecture; 5] = [
        Architecture::Mp,
        Architecture::Mt,
        Architecture::Sped,
        Architecture::Amped,
        Architecture::Pipelined,
    ];

    /// What the paper does not have.
    pub const LATER: [Architecture; 2] = [Architecture::Uring, Architecture::NewFlash];

    /// As in parameter files.
    pub fn name(self) -> &'static str {
        match self {
            Architecture::Mp => "mp",
            Architecture::Mt => "mt",
            Architecture::Sped => "sped",
            Architecture::Amped => "amped",
            Architecture::Pipelined => "pipelined",
            Architecture::Uring => "uring",
            Architecture::NewFlash => "newflash",
        }
    }
}

/// A parameter file that cannot be used: the line, what was expected, and the unit.
#[derive(Debug, thiserror::Error, PartialEq)]
#[error(transparent)]
pub struct ParameterError(#[from] toml::de::Error);

impl Parameters {
    /// Reads a parameter file's text. What it leaves out keeps its default.
    pub fn from_toml(text: &str) -> Result<Parameters, ParameterError> {
        Ok(toml::from_str(text)?)
    }
}

impl Default for Machine {
    fn default() -> Machine {
        Machine {
            processors: 1,
            memory_mb: 1000.0,
            data_cache_mb: None,
            disks: vec![Disk::FAST],
            disk_requests_at_once: 1,
            link_mbit_s: None,
        }
    }
}

impl Default for Server {
    fn default() -> Server {
        Server {
            processes_per_processor: 16,
            threads_per_processor: 32,
            thread_per_client: false,
            helpers_per_processor: 1,
            caches: None,
            content: Content::default(),
            file_cache_mb: None,
            path_entries: 6000,
            locks: Locks::default(),
            lock_wait: LockWait::default(),
            transmit: Transmit::default(),
            window_bytes: 65_536,
            time_slice_us: 10_000.0,
        }
    }
}

impl Default for Costs {
    fn default() -> Costs {
        Costs {
            connection_us: 129.0,
            requests_per_connection: 1,
            read_request_us: 0.0,
            path_lookup_us: 6.16,
            translate_us: 0.0,
            translate_disk_fraction: 0.0,
            send_header_us: 0.0,
            data_lookup_us: 13.5,
            send_window_us: 0.0,
            transmit_us_per_512_bytes: 24.0,
            page_window_us: 0.0,
            page_us_per_512_bytes: 0.0,
            read_us: 0.0,
            read_us_per_512_bytes: 0.0,
            client_us: 0.0,
            client_us_per_512_bytes: 0.0,
            hand_off_us: 0.0,
            take_over_us: ByArchitecture::default(),
            more_us: ByArchitecture::default(),
            thread_switch_us: 5.0,
            process_switch_us: 5.0,
        }
    }
}

impl Default for Memory {
    fn default() -> Memory {
        Memory { data_entry_bytes: 850.0, helper_mb: 1.5, thread_kb: 25.0 }
    }
}

impl Default for Run {
    fn default() -> Run {
        let measured_requests = NonZeroU32::new(200_000).expect("it is not 0");
        Run { seed: 1, clients: 1000, settling_requests: None, measured_requests }
    }
}
