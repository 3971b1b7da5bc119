//! How a server gathers its [`Snapshot`]: it reads counters, and waits for no loop.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Instant;

use flash_core::Server;
use flash_core::record::counters::{Count, LoopCount};
use flash_observe::metrics::{CLASSES, Durations, LastBlock, LoopMetrics, MetricsMemory, ProgramCounts};
use flash_os::residency;
use flash_os::system_calls;
use flash_tls::{Certificate, Endpoint};

use super::history::Sample;
use super::snapshot::{
    BlockCause, BlockSnapshot, CacheSnapshot, CertificateSnapshot, DeviceSnapshot, DurationsSnapshot,
    EarlierServerSnapshot, LoopSnapshot, MissingCall, ProgramSnapshot, RenewalFailure, ResponseClass,
    RootFault, SiteSnapshot, Snapshot, TlsSnapshot, Totals,
};
use crate::clock;
use crate::server_state::ServerState;

/// The call in whose place guesses are.
const MINCORE: &str = "mincore";

/// What this process knows of itself.
pub(crate) fn of_process(server: &ServerState) -> Snapshot {
    let configuration = server.configuration();
    let Server { number, paths, .. } = &configuration.server;
    let counted = of_memory(server.metrics.memory());
    let causes = server.metrics.block_causes().into_iter();
    let (root_faults, drops_log_lines) = faults(server);
    let configurations = server.present().in_use();
    Snapshot {
        pid: std::process::id(),
        generation: number.number,
        generations_in_use: configurations.iter().map(|of| of.number).collect(),
        configurations,
        draining: server.is_draining(),
        earlier_servers: server
            .earlier_servers
            .get()
            .into_iter()
            .flat_map(EarlierServerSnapshot::all)
            .collect(),
        open_connections: Some(server.permits.connections() as u64),
        connections_max: server.permits.connections_max() as u64,
        totals: Totals {
            access_log_dropped: configuration.access_logs.dropped(),
            error_log_dropped: server.error_log.dropped(),
            ..counted.totals
        },
        devices: devices(server),
        root_faults,
        drops_log_lines,
        certificates: certificates(server),
        slowest: server.slowest.of_last_minute(counted.taken_unix_ms),
        clients: server.top_clients.of_last_minute(counted.taken_unix_ms),
        cache: CacheSnapshot {
            entries: paths.entries() as u64,
            bytes: paths.used_bytes(),
            bytes_max: paths.bytes_max(),
            evictions: paths.evictions(),
            ..counted.cache
        },
        missing_calls: counted.missing_calls.into_iter().map(with_guesses).collect(),
        loops: server.metrics.loops().iter().map(|metrics| of_loop(metrics)).collect(),
        block_causes: causes
            .map(|(cause, sleeps, sleep_us)| BlockCause { cause, sleeps, sleep_us })
            .collect(),
        ..counted
    }
}

/// With what came of guesses in this process, if it guesses.
fn with_guesses(mut missing: MissingCall) -> MissingCall {
    if let Some((all, wrong)) = residency::guesses().filter(|_| missing.name == MINCORE) {
        missing.instead += &format!(" ({wrong} of {all} guesses were wrong)");
    }
    missing
}

/// What the history keeps of this process.
pub(crate) fn sample_of_process(server: &ServerState) -> Sample {
    let loops = server.metrics.loops();
    let busy_us = loops.iter().map(|metrics| (metrics.name().to_owned(), metrics.get(LoopCount::BusyNs)));
    Sample { busy_us: busy_us.collect(), ..sample_of_memory(server.metrics.memory()) }
}

/// What the history keeps of all processes that share the memory.
pub(crate) fn sample_of_memory(memory: &MetricsMemory) -> Sample {
    let (requests, sent_bytes) = (memory.sum(Count::Requests), memory.sum(Count::SentBytes));
    Sample { requests, sent_bytes, ..Sample::default() }
}

/// The certificates of all sites.
fn certificates(server: &ServerState) -> Vec<CertificateSnapshot> {
    let endpoints = server.tls.all();
    let of_endpoint = |endpoint: &Arc<Endpoint>| {
        let certificates = endpoint.certificates();
        let snapshot = |certificate: &Certificate| {
            CertificateSnapshot::new(certificate.names().join(" "), certificate.validity_unix_s())
        };
        certificates.iter().map(snapshot).collect::<Vec<_>>()
    };
    endpoints.iter().flat_map(of_endpoint).collect()
}

/// The helpers of each device.
fn devices(server: &ServerState) -> Vec<DeviceSnapshot> {
    let helpers: Vec<_> = server.helpers.lock().iter().filter_map(Weak::upgrade).collect();
    by_device(helpers.iter().flat_map(|helpers| helpers.devices()))
}

/// The same, with one element for each device and the same jobs.
pub(crate) fn by_device(all: impl Iterator<Item = DeviceSnapshot>) -> Vec<DeviceSnapshot> {
    let mut devices: Vec<DeviceSnapshot> = Vec::new();
    for pool in all {
        let Some(sum) = devices.iter_mut().find(|of| (&of.mount, &of.kind) == (&pool.mount, &pool.kind))
        else {
            devices.push(pool);
            continue;
        };
        sum.healthy = sum.healthy.zip(pool.healthy).map(|(one, other)| one && other);
        sum.fails |= pool.fails;
        sum.oldest_us = sum.oldest_us.max(pool.oldest_us);
        for (all, more) in [
            (&mut sum.helpers, pool.helpers),
            (&mut sum.helpers_max, pool.helpers_max),
            (&mut sum.idle, pool.idle),
            (&mut sum.queued, pool.queued),
            (&mut sum.queue_max, pool.queue_max),
            (&mut sum.in_flight, pool.in_flight),
            (&mut sum.errors, pool.errors),
        ] {
            *all += more;
        }
    }
    devices
}

/// What all processes that share the memory have counted.
pub(crate) fn of_memory(memory: &MetricsMemory) -> Snapshot {
    let taken_unix_ms = clock::unix_ms();
    let counts = memory.counts();
    Snapshot {
        version: env!("CARGO_PKG_VERSION").into(),
        machine: memory.machine.to_string(),
        architecture: memory.architecture.into(),
        started_unix_ms: taken_unix_ms.saturating_sub(clock::server_us(Instant::now()) / 1000),
        taken_unix_ms,
        active_requests: active_requests(memory),
        sites: sites(memory),
        cache: CacheSnapshot {
            hits: counts.get(Count::CacheHits),
            misses: counts.get(Count::CacheMisses),
            ..CacheSnapshot::default()
        },
        tls: TlsSnapshot {
            full: counts.get(Count::HandshakesFull),
            resumed: counts.get(Count::HandshakesResumed),
            failed: counts.get(Count::HandshakesFailed),
            shed: counts.get(Count::HandshakesShed),
        },
        totals: Totals { counts, ..Totals::default() },
        programs: memory.programs.all().into_iter().map(of_program).collect(),
        missing_calls: system_calls::missing()
            .map(|row| MissingCall { name: row.name.into(), instead: row.instead.into() })
            .collect(),
        renewal_failures: renewal_failures(memory),
        ..Snapshot::default()
    }
}

/// Folders of sites with which something is wrong, in their order, each once; and whether a log has dropped lines lately.
pub(crate) fn faults(server: &ServerState) -> (Vec<RootFault>, bool) {
    let faults: BTreeMap<_, _> = server.disk.root_faults().into_iter().collect();
    let fault = |(folder, why): (PathBuf, &str)| RootFault {
        folder: folder.to_string_lossy().into_owned(),
        why: why.into(),
    };
    let drop_lines = server.error_log.drops_lines() || server.configuration().access_logs.drop_lines();
    (faults.into_iter().map(fault).collect(), drop_lines)
}

/// Why an authority has not issued certificates, as the process says that asks for them.
fn renewal_failures(memory: &MetricsMemory) -> Vec<RenewalFailure> {
    let text = memory.renewal_failures.read();
    let text = String::from_utf8_lossy(&text);
    let lines = text.lines().filter_map(|line| line.split_once(' '));
    lines.map(|(host, why)| RenewalFailure { host: host.into(), why: why.into() }).collect()
}

/// Requests that have begun, and whose response has not ended.
fn active_requests(memory: &MetricsMemory) -> u64 {
    // Those that are over come first. A request that begins meanwhile cannot be over before.
    let over = memory.sum(Count::Requests) + memory.sum(Count::Abandoned);
    memory.sum(Count::Begun).saturating_sub(over)
}

/// The responses of each site that has any.
pub(crate) fn sites(memory: &MetricsMemory) -> Vec<SiteSnapshot> {
    let all = memory.names.all().into_iter().filter(|(number, _)| memory.has_responses(*number));
    of_sites(memory, all)
}

/// The responses of each site that has had any since the last call.
pub(crate) fn changed_sites(memory: &MetricsMemory) -> Vec<SiteSnapshot> {
    let changed = memory.take_changed().into_iter();
    of_sites(memory, changed.filter_map(|number| Some((number, memory.names.name(number)?))))
}

fn of_sites(memory: &MetricsMemory, sites: impl Iterator<Item = (u32, String)>) -> Vec<SiteSnapshot> {
    let site = |(number, site): (u32, String)| {
        let classes = CLASSES.iter().zip(memory.of_site(number)).filter(|(_, of)| of.count() > 0);
        let classes = classes.map(|(status, of)| ResponseClass {
            status: (*status).into(),
            count: of.count(),
            cut: of.cut,
            body_bytes: of.body_bytes,
            duration_us: of.duration_us,
            durations: of.durations,
        });
        SiteSnapshot { site, classes: classes.collect() }
    };
    sites.map(site).filter(|site| !site.classes.is_empty()).collect()
}

fn of_program((name, of): (String, ProgramCounts)) -> ProgramSnapshot {
    // Programs beyond the last that is counted apart are `_other`.
    let mut words = name.splitn(3, '\t');
    let (kind, mut word) = (words.next().unwrap_or_default(), || words.next().unwrap_or_default().to_owned());
    let (route, program) = (word(), word());
    ProgramSnapshot {
        route: if route.is_empty() { kind.into() } else { route },
        kind: kind.into(),
        program,
        counts: of.counts,
        queue: durations(of.queue),
        connect: durations(of.connect),
        first_byte: durations(of.first_byte),
        whole: durations(of.whole),
    }
}

fn durations(Durations { classes, sum_us }: Durations) -> DurationsSnapshot {
    DurationsSnapshot { durations: classes, duration_us: sum_us }
}

fn of_block(LastBlock { unix_ms, lasted, call, path, cause }: LastBlock) -> BlockSnapshot {
    BlockSnapshot {
        unix_ms,
        duration_us: lasted.as_micros() as u64,
        call: call.into(),
        path: String::from_utf8_lossy(&path).into_owned(),
        cause,
    }
}

fn of_loop(metrics: &LoopMetrics) -> LoopSnapshot {
    LoopSnapshot {
        name: metrics.name().into(),
        counts: metrics.counts(),
        ready: metrics.ready(),
        turn_under_way: metrics.turn_under_way(),
        last_block: metrics.last_block().map(of_block),
    }
}
