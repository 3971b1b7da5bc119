//! What a plan says, and what follows from it for a run.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::at::{At, Extent};
use super::check::Finding;
use super::drawing::Drawing;
use super::load::Load;
use super::workload::Workload;

/// Doublings and halvings of a search, about.
const CONFORM_STEPS: f64 = 8.0;
/// How long clients ask after the warm-up before time counts, if they ask at a rate from then on, or the disk is slow.
pub(crate) const SETTLE: Duration = Duration::from_secs(2);

/// One experiment.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// A word that is fit for a file name: `flash-fig6-7`.
    pub name: String,
    pub title: String,
    /// What the experiment does. If it differs from the paper, the reason. Plain text; empty lines separate paragraphs.
    pub about: String,
    /// The experiment that this one repeats. None where it is our own.
    pub paper: Option<Paper>,
    pub servers: Vec<ServerEntry>,
    #[serde(default)]
    pub machine: MachineNeeds,
    /// The requests. None if [`cases`](Self::cases) give them.
    pub workload: Option<Workload>,
    /// Workloads beside each other, each a place on the x axis. A plan has these or one workload.
    #[serde(default, rename = "case")]
    pub cases: Vec<Case>,
    pub load: Load,
    /// The parameter that varies besides the server.
    pub sweep: Option<Sweep>,
    pub repeats: u32,
    #[serde(default)]
    pub quick: Quick,
    #[serde(default, rename = "figure")]
    pub figures: Vec<Drawing>,
    #[serde(default, rename = "finding")]
    pub findings: Vec<Finding>,
}

/// Where an experiment comes from.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Paper {
    /// `Flash (Pai, Druschel, Zwaenepoel, USENIX 1999), Figures 6 and 7`.
    pub source: String,
    pub did: String,
    pub found: String,
}

/// A server by the name that `flash-rig` knows, or a variant of one under a name of its own.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(untagged)]
pub enum ServerEntry {
    Named(String),
    Variant(Variant),
}

/// A server with other flags than those it usually runs with.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    /// What it is called in data and figures.
    pub name: String,
    /// The server as `flash-rig` knows it.
    pub server: String,
    #[serde(default)]
    pub flags: Vec<String>,
}

/// What the machine is made into while servers are measured.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct MachineNeeds {
    /// The server's memory, its page cache counted.
    pub memory_mb: Option<u64>,
    /// Reads a second that the server's disk does at most.
    pub disk_reads_per_second: Option<u64>,
    pub read_ahead_kb: Option<u32>,
    /// The site lies on an ext4 on a disk that reads one after the other, and takes about this long for each. It does so after the
    /// warm-up.
    pub seek_ms: Option<f64>,
    /// The site lies on an ext4 on a disk with this arm, in the words of `flash slowdisk`: `deskstar c-look`. It is slow after the warm-up.
    pub arm: Option<String>,
    /// Whether the page cache is emptied before each measurement.
    pub cold: bool,
}

impl MachineNeeds {
    /// What makes a fast disk the wanted one, if there is to be one.
    pub fn slow_disk(&self) -> Option<String> {
        let us = |ms: f64| (ms * 1000.0) as u64;
        // A read takes half of the mean at least, and half more at most.
        let seeks =
            |ms: f64| format!("concurrent 1\nread delay uniform:{}us-{}us", us(ms * 0.5), us(ms * 1.5));
        self.arm.as_ref().map(|arm| format!("arm {arm}")).or_else(|| self.seek_ms.map(seeks))
    }
}

/// A workload among others.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    pub name: String,
    pub workload: Workload,
    /// The requests of a quick run.
    pub quick: Option<Workload>,
    /// Another memory than the machine's, if that has a limit.
    pub memory_mb: Option<u64>,
    /// Servers that cannot do this.
    #[serde(default)]
    pub without: Vec<String>,
}

/// The x axis: one thing at several values.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Sweep {
    pub axis: Axis,
    pub values: Vec<f64>,
}

/// What may be varied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Axis {
    /// The size of a workload's only file, in units of 1,024 bytes.
    FileKilobytes,
    /// How much there is to ask for, in units of 10^6 bytes.
    DataSetMegabytes,
    Clients,
    /// Connections that are held open beside the clients', each of which has had one answer.
    IdleConnections,
    /// The rate of requests in parts of the server's own capacity, which is measured first, in each round.
    LoadLevel,
    /// How long the disk takes to answer a read; 0 is the disk as it is.
    DeviceMilliseconds,
    /// `--helpers-max` of Flash.
    Helpers,
    /// `--loops` of Flash, and processors that the server may use.
    Loops,
    /// Processes of a server that has one for each connection.
    Processes,
}

/// A run to see that everything works, and which way things seem to go.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Quick {
    /// Some of the sweep's values; none are all of them.
    pub values: Vec<f64>,
    /// Some of the servers; none are all of them.
    pub servers: Vec<String>,
    pub repeats: Option<u32>,
    pub clients: Option<u32>,
    pub seconds: Option<f64>,
    pub warm_up_seconds: Option<f64>,
    /// What is asked for instead, such as a smaller tree.
    pub workload: Option<Workload>,
}

impl ServerEntry {
    /// What it is called in data and figures.
    pub fn name(&self) -> &str {
        match self {
            ServerEntry::Named(name) => name,
            ServerEntry::Variant(variant) => &variant.name,
        }
    }

    /// What `flash-rig` calls it, and the flags it gets besides.
    pub fn base(&self) -> (&str, &[String]) {
        match self {
            ServerEntry::Named(name) => (name, &[]),
            ServerEntry::Variant(variant) => (&variant.server, &variant.flags),
        }
    }
}

impl Axis {
    /// What stands under the axis, with its unit.
    pub fn label(self) -> &'static str {
        match self {
            Axis::FileKilobytes => "file size, KB",
            Axis::DataSetMegabytes => "data set, MB",
            Axis::Clients => "clients",
            Axis::IdleConnections => "idle connections",
            Axis::LoadLevel => "load, in parts of the server's capacity",
            Axis::DeviceMilliseconds => "time of a disk read, ms",
            Axis::Helpers => "helpers at most",
            Axis::Loops => "loops",
            Axis::Processes => "processes",
        }
    }

    /// What it is called in data, with its unit: the name that plans give it, with `_`.
    pub fn column(self) -> &'static str {
        match self {
            Axis::FileKilobytes => "file_kilobytes",
            Axis::DataSetMegabytes => "data_set_megabytes",
            Axis::Clients => "clients",
            Axis::IdleConnections => "idle_connections",
            Axis::LoadLevel => "load_level",
            Axis::DeviceMilliseconds => "device_milliseconds",
            Axis::Helpers => "helpers",
            Axis::Loops => "loops",
            Axis::Processes => "processes",
        }
    }
}

impl Plan {
    /// The x axis of a run of this extent, in the order it is measured.
    pub fn places(&self, extent: Extent) -> Vec<At> {
        let quick = (extent == Extent::Quick && !self.quick.values.is_empty()).then_some(&self.quick.values);
        match (&self.sweep, &self.cases[..]) {
            (Some(sweep), _) => quick.unwrap_or(&sweep.values).iter().copied().map(At::Value).collect(),
            (None, []) => vec![At::Only],
            (None, cases) => cases.iter().map(|case| At::Case(case.name.clone())).collect(),
        }
    }

    /// The servers of a run of this extent.
    pub fn servers(&self, extent: Extent) -> impl Iterator<Item = &ServerEntry> {
        let some = (extent == Extent::Quick && !self.quick.servers.is_empty()).then_some(&self.quick.servers);
        self.servers
            .iter()
            .filter(move |entry| some.is_none_or(|some| some.iter().any(|name| name == entry.name())))
    }

    pub fn repeats(&self, extent: Extent) -> u32 {
        self.quick.repeats.filter(|_| extent == Extent::Quick).unwrap_or(self.repeats)
    }

    /// How clients behave in a run of this extent.
    pub fn load(&self, extent: Extent) -> Load {
        let mut load = self.load.clone();
        if extent == Extent::Quick {
            load.clients = self.quick.clients.unwrap_or(load.clients);
            load.seconds = self.quick.seconds.unwrap_or(load.seconds);
            load.warm_up_seconds = self.quick.warm_up_seconds.unwrap_or(load.warm_up_seconds);
        }
        load
    }

    /// About how long one measurement takes: a server starts and stops besides.
    pub fn cell_seconds(&self, extent: Extent) -> f64 {
        let load = self.load(extent);
        let steps = if load.conform.is_some() { CONFORM_STEPS } else { 1.0 };
        let settles = self.machine.slow_disk().is_some()
            || self.sweep.as_ref().is_some_and(|sweep| sweep.axis == Axis::LoadLevel);
        let settle = if settles { SETTLE.as_secs_f64() } else { 0.0 };
        steps * (load.warm_up_seconds + settle + load.seconds) + 1.0
    }

    /// Whether this server can do what is asked for at a place.
    pub fn can(&self, server: &str, at: &At) -> bool {
        self.case(at).is_none_or(|case| !case.without.iter().any(|name| name == server))
    }

    /// The memory of a server at a place, if it has a limit.
    pub fn memory_mb(&self, at: &At) -> Option<u64> {
        let usual = self.machine.memory_mb?;
        Some(self.case(at).and_then(|case| case.memory_mb).unwrap_or(usual))
    }

    fn case(&self, at: &At) -> Option<&Case> {
        self.cases.iter().find(|case| matches!(at, At::Case(name) if *name == case.name))
    }

    /// What is asked for at a place.
    pub fn workload(&self, extent: Extent, at: &At) -> Option<&Workload> {
        let quick = extent == Extent::Quick;
        if let At::Case(_) = at {
            let case = self.case(at)?;
            return Some(case.quick.as_ref().filter(|_| quick).unwrap_or(&case.workload));
        }
        self.quick.workload.as_ref().filter(|_| quick).or(self.workload.as_ref())
    }

    /// What stands under the x axis.
    pub fn x_label(&self) -> &'static str {
        self.sweep.as_ref().map_or("", |sweep| sweep.axis.label())
    }
}
