//! The metrics that are no [counters](flash_core::record::counters): what there is now, and what sites, devices and causes of blocks have
//! counted.

use flash_core::record::counters::{Kind, Row, Section};

use super::writer::{Series, seconds};
use crate::admin::snapshot::{
    DURATION_BOUNDS_US, DeviceSnapshot, DurationsSnapshot, ProgramSnapshot, ResponseClass, Snapshot,
};

/// Adds the series of a family.
type Write = fn(&Snapshot, &mut Series<'_>);

macro_rules! families {
    ($($section:ident $kind:ident $metric:literal $help:literal, $alert:literal, $write:expr;)+) => {
        /// In the order in which they are written.
        pub(super) const FAMILIES: &[(Row, Write)] = &[$((
            Row {
                metric: $metric,
                kind: Kind::$kind,
                section: Section::$section,
                help: $help,
                alert: $alert,
                ..Row::EMPTY
            },
            $write,
        )),+];
    };
}

families! {
    Responses Histogram "http_server_request_duration_seconds"
        "Time from a request's complete head to the last byte of its response in the kernel.",
        "too many `5xx` of all; the 99th percentile is too high",
        durations;
    Responses Summary "http_server_response_body_size_bytes"
        "Body bytes of responses that the kernel took.",
        "traffic is far from what is usual",
        |of, to| each_class(of, |labels, class| {
            to.add_part("_count", labels, class.count);
            to.add_part("_sum", labels, class.body_bytes);
        });
    Responses Counter "flash_responses_cut"
        "Responses that ended before their last byte left.",
        "clients or programs break off often",
        |of, to| each_class(of, |labels, class| to.add(labels, class.cut));
    Responses Gauge "http_server_active_requests"
        "Requests that have begun, and whose response has not ended.",
        "it grows without end",
        |of, to| to.add(&[], of.active_requests);

    Connections Gauge "flash_connections"
        "Open connections.",
        "more than 80 % of `flash_connections_max`",
        |of, to| of.open_connections.into_iter().for_each(|open| to.add(&[], open));
    Connections Gauge "flash_connections_max"
        "Connections that may be open at once.",
        "`flash_connections` is more than 80 % of it",
        |of, to| of.open_connections.into_iter().for_each(|_| to.add(&[], of.connections_max));
    Connections Counter "flash_tls_handshakes"
        "TLS handshakes, by their result.",
        "many fail or are shed",
        |of, to| to.add_labelled("result", &of.totals.counts);

    Loops Counter "flash_blocks"
        "Sleeps of all loops, by their cause.",
        "which cause the blocks have",
        |of, to| of.block_causes.iter().for_each(|of| to.add(&[("cause", &of.cause)], of.sleeps));
    Loops Counter "flash_block_seconds"
        "Time of these sleeps.",
        "which cause the blocks have",
        |of, to| of.block_causes.iter().for_each(|of| to.add(&[("cause", &of.cause)], seconds(of.sleep_us)));

    Disks Gauge "flash_device_healthy"
        "Whether jobs pass: 1, or 0 while the device is marked down and its requests get 503.",
        "0 for more than a few seconds",
        |of, to| each_device(of, to, |of| of.healthy.map(f64::from));
    Disks Counter "flash_device_errors"
        "Jobs in which the device has failed, such as by EIO or ESTALE.",
        "any increase: the error log says which file",
        |of, to| each_device(of, to, |of| of_helpers(of, of.errors));
    Disks Gauge "flash_device_helpers"
        "Helpers of the device.",
        "none",
        |of, to| each_device(of, to, |of| of_helpers(of, of.helpers));
    Disks Gauge "flash_device_helpers_max"
        "Helpers that the device may have.",
        "`flash_device_jobs_in_flight` equals it: the disk is saturated",
        |of, to| each_device(of, to, |of| of_helpers(of, of.helpers_max));
    Disks Gauge "flash_device_queue"
        "Jobs that wait for a helper.",
        "more than half of `flash_device_queue_max`",
        |of, to| each_device(of, to, |of| of_helpers(of, of.queued));
    Disks Gauge "flash_device_queue_max"
        "Jobs that may wait.",
        "`flash_device_queue` is more than half of it",
        |of, to| each_device(of, to, |of| of_helpers(of, of.queue_max));
    Disks Gauge "flash_device_jobs_in_flight"
        "Jobs that helpers work on.",
        "it equals `flash_device_helpers_max`",
        |of, to| each_device(of, to, |of| Some(of.in_flight as f64));
    Disks Gauge "flash_device_oldest_job_seconds"
        "How long the oldest of these has lasted.",
        "above 1: the disk is sick",
        |of, to| each_device(of, to, |of| Some(seconds(of.oldest_us)));
    Disks Counter "flash_job_seconds"
        "Time that jobs took, once for each request that waited, by step.",
        "the disk has become slower",
        |of, to| to.add_labelled("step", &of.totals.counts);

    Programs Histogram "flash_program_queue_seconds"
        "Time that requests waited for a free process of a program, or for a server with room.",
        "it grows: all processes or servers are busy",
        |of, to| each_program(of, to, |of| &of.queue);
    Programs Histogram "flash_program_connect_seconds"
        "Time until the process had started, or until the server was connected to. What is there already takes none.",
        "it grows: the server does not keep up with connections",
        |of, to| each_program(of, to, |of| &of.connect);
    Programs Histogram "flash_program_first_byte_seconds"
        "Time until the first byte of a program. The wait and the connection are among it.",
        "the 99th percentile is too high",
        |of, to| each_program(of, to, |of| &of.first_byte);
    Programs Histogram "flash_program_duration_seconds"
        "Time until the last byte of a program. One whose client is slow may wait for it.",
        "the 99th percentile is too high",
        |of, to| each_program(of, to, |of| &of.whole);

    Caches Counter "flash_cache_evictions"
        "Entries that others replaced.",
        "the cache is too small",
        |of, to| to.add(&[], of.cache.evictions);
    Caches Gauge "flash_cache_entries"
        "Entries of the cache of paths.",
        "none",
        |of, to| to.add(&[], of.cache.entries);
    Caches Gauge "flash_cache_used_bytes"
        "Memory of the entries.",
        "none",
        |of, to| to.add(&[], of.cache.bytes);
    Caches Gauge "flash_cache_max_bytes"
        "Memory that they may have.",
        "it shrinks: the machine is short of memory",
        |of, to| to.add(&[], of.cache.bytes_max);

    Server Counter "flash_log_lines_dropped"
        "Log lines that could not be written.",
        "any",
        |of, to| {
            to.add(&[("log", "access")], of.totals.access_log_dropped);
            to.add(&[("log", "error")], of.totals.error_log_dropped);
        };
    Server Gauge "flash_certificate_not_after_seconds"
        "When the certificate of these names expires, in seconds since 1970.",
        "less than 14 days left, and a sixth of its life",
        |of, to| of.certificates.iter().for_each(|of| to.add(&[("names", &of.names)], of.not_after_unix_s));
    Server Gauge "flash_certificate_not_before_seconds"
        "When the certificate of these names began to be valid, in seconds since 1970.",
        "none",
        |of, to| of.certificates.iter().for_each(|of| to.add(&[("names", &of.names)], of.not_before_unix_s));
    Server Gauge "flash_certificate_renewals_failing"
        "Certificates that an authority did not issue when it was last asked.",
        "any",
        |of, to| to.add(&[], of.renewal_failures.len() as u64);
    Server Gauge "flash_workers"
        "Processes that serve (mp).",
        "none",
        |of, to| of.workers.iter().for_each(|of| to.add(&[], of.processes));
    Server Gauge "flash_workers_busy"
        "Those that have a connection.",
        "all are busy",
        |of, to| of.workers.iter().for_each(|of| to.add(&[], of.busy));
    Server Gauge "flash_configuration_generation"
        "The number of the configuration that new requests get.",
        "none",
        |of, to| to.add(&[], of.generation);
    Server Gauge "flash_configurations_in_use"
        "Configurations that requests hold.",
        "more than 2 for an hour: a request never ends",
        |of, to| to.add(&[], of.generations_in_use.len());
    Server Gauge "flash_draining"
        "1 while the server drains.",
        "1 for longer than the time to drain",
        |of, to| to.add(&[], u8::from(of.draining));
    Server Gauge "process_start_time_seconds"
        "When the server started, in seconds since 1970.",
        "it changes: the server was restarted",
        |of, to| to.add(&[], of.started_unix_ms as f64 / 1000.0);
    Server Info "flash_build"
        "What runs.",
        "servers run different versions",
        |of, to| to.add(&[("version", &of.version)], 1);
}

fn durations(snapshot: &Snapshot, to: &mut Series<'_>) {
    let bounds = bounds();
    each_class(snapshot, |labels, of| histogram(labels, (&of.durations, of.duration_us), &bounds, to));
}

/// Adds a histogram for each program.
fn each_program(snapshot: &Snapshot, to: &mut Series<'_>, of: fn(&ProgramSnapshot) -> &DurationsSnapshot) {
    let bounds = bounds();
    for program in &snapshot.programs {
        let DurationsSnapshot { durations, duration_us } = of(program);
        histogram(&program.labels(), (durations, *duration_us), &bounds, to);
    }
}

/// The upper bounds of the classes, in seconds.
fn bounds() -> Vec<String> {
    DURATION_BOUNDS_US.iter().map(|us| seconds(*us).to_string()).collect()
}

fn histogram(
    labels: &[(&str, &str)],
    (durations, duration_us): (&[u64], u64),
    bounds: &[String],
    to: &mut Series<'_>,
) {
    let mut below = 0;
    for (le, count) in bounds.iter().map(String::as_str).chain(["+Inf"]).zip(durations) {
        below += count;
        to.add_part("_bucket", &[labels, &[("le", le)]].concat(), below);
    }
    to.add_part("_count", labels, below);
    to.add_part("_sum", labels, seconds(duration_us));
}

/// Calls `add` for the responses of each site and class, with their labels.
fn each_class<'s>(snapshot: &'s Snapshot, mut add: impl FnMut(&[(&str, &'s str); 2], &ResponseClass)) {
    for site in &snapshot.sites {
        for class in &site.classes {
            add(&[("site", &site.site), ("status_class", &class.status)], class);
        }
    }
}

/// Adds a series for each device that has such a value.
fn each_device(snapshot: &Snapshot, to: &mut Series<'_>, value: fn(&DeviceSnapshot) -> Option<f64>) {
    for device in &snapshot.devices {
        if let Some(value) = value(device) {
            to.add(&[("mount", &device.mount), ("kind", &device.kind)], value);
        }
    }
}

/// What only devices with helpers have.
fn of_helpers(device: &DeviceSnapshot, count: u64) -> Option<f64> {
    (device.helpers_max > 0).then_some(count as f64)
}
