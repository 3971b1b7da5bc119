//! `/metrics`: a [`Snapshot`] as OpenMetrics text 1.0.
//!
//! Labels come from the configuration alone: names of sites, loops and mounts. So no request can add a series.

use std::fmt::{self, Write};

use flash_core::printable::is_printable;

use self::Kind::{Counter, Gauge, Histogram, Info, Summary};
use super::snapshot::{DURATION_BOUNDS_US, DeviceSnapshot, LoopSnapshot, ProgramSnapshot, Snapshot};

pub(super) const MEDIA: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Counter,
    Gauge,
    Histogram,
    Summary,
    Info,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Counter => "counter",
            Gauge => "gauge",
            Histogram => "histogram",
            Summary => "summary",
            Info => "info",
        }
    }
}

/// The text so far.
struct Text(String);

impl Text {
    /// Begins a family of series. Its unit is the last word of its name, if that is one.
    fn family(&mut self, name: &str, kind: Kind, help: &str) {
        let unit = ["seconds", "bytes"].into_iter().find(|unit| name.ends_with(unit));
        self.line(format_args!("# TYPE {name} {}", kind.name()));
        if let Some(unit) = unit {
            self.line(format_args!("# UNIT {name} {unit}"));
        }
        self.line(format_args!("# HELP {name} {help}"));
    }

    fn line(&mut self, line: fmt::Arguments<'_>) {
        writeln!(self.0, "{line}").expect("memory takes it");
    }

    fn series(&mut self, name: &str, labels: &[(&str, &str)], value: impl fmt::Display) {
        self.0.push_str(name);
        for (number, (label, text)) in labels.iter().enumerate() {
            self.0.push(if number == 0 { '{' } else { ',' });
            self.0.push_str(label);
            self.0.push_str("=\"");
            for character in text.chars() {
                match character {
                    '\\' => self.0.push_str("\\\\"),
                    '"' => self.0.push_str("\\\""),
                    '\n' => self.0.push_str("\\n"),
                    hidden if !is_printable(hidden) => {
                        self.0.push('\\');
                        self.0.extend(hidden.escape_default());
                    }
                    other => self.0.push(other),
                }
            }
            self.0.push('"');
        }
        if !labels.is_empty() {
            self.0.push('}');
        }
        self.line(format_args!(" {value}"));
    }

    /// A family with one series.
    fn gauge(&mut self, name: &str, help: &str, value: impl fmt::Display) {
        self.family(name, Gauge, help);
        self.series(name, &[], value);
    }

    fn counter(&mut self, name: &str, help: &str, value: impl fmt::Display) {
        self.family(name, Counter, help);
        self.series(&format!("{name}_total"), &[], value);
    }

    /// A family with a series for each label's value.
    fn counters<V: fmt::Display>(&mut self, name: &str, help: &str, label: &str, values: &[(&str, V)]) {
        self.family(name, Counter, help);
        let series = format!("{name}_total");
        values.iter().for_each(|(text, value)| self.series(&series, &[(label, text)], value));
    }
}

/// The whole text.
pub(super) fn text(snapshot: &Snapshot) -> String {
    let mut text = Text(String::new());
    responses(&mut text, snapshot);
    connections(&mut text, snapshot);
    loops(&mut text, snapshot);
    helpers(&mut text, snapshot);
    of_programs(&mut text, snapshot);
    others(&mut text, snapshot);
    text.line(format_args!("# EOF"));
    text.0
}

fn responses(text: &mut Text, Snapshot { sites, active_requests, totals, .. }: &Snapshot) {
    let name = "http_server_request_duration_seconds";
    text.family(name, Histogram, "Time from a request's head to the last byte of its response.");
    let (bucket, count, sum) = (format!("{name}_bucket"), format!("{name}_count"), format!("{name}_sum"));
    let bounds: Vec<String> = DURATION_BOUNDS_US.iter().map(|us| seconds(*us).to_string()).collect();
    let all = || sites.iter().flat_map(|of| of.classes.iter().map(|class| (&*of.site, class)));
    for (site, class) in all() {
        let mut below = 0;
        let les = bounds.iter().map(String::as_str).chain(["+Inf"]);
        for (le, responses) in les.zip(&class.durations) {
            below += responses;
            text.series(&bucket, &[("site", site), ("status_class", &class.status), ("le", le)], below);
        }
        let labels = [("site", site), ("status_class", &*class.status)];
        text.series(&count, &labels, class.count);
        text.series(&sum, &labels, seconds(class.duration_us));
    }
    let name = "http_server_response_body_size_bytes";
    text.family(name, Summary, "Body bytes of responses that the kernel took.");
    let (count, sum) = (format!("{name}_count"), format!("{name}_sum"));
    for (site, class) in all() {
        let labels = [("site", site), ("status_class", &*class.status)];
        text.series(&count, &labels, class.count);
        text.series(&sum, &labels, class.body_bytes);
    }
    let name = "flash_responses_cut";
    text.family(name, Counter, "Responses that ended before their last byte left.");
    let series = format!("{name}_total");
    for (site, class) in all() {
        text.series(&series, &[("site", site), ("status_class", &class.status)], class.cut);
    }
    text.gauge("http_server_active_requests", "Requests whose response has not ended.", active_requests);
    text.counter(
        "flash_requests_limited",
        "Requests refused because their client made too many.",
        totals.limited,
    );
    text.counter("flash_sent_bytes", "Bytes that sockets took, heads among them.", totals.sent_bytes);
    text.counter("flash_send_wait_seconds", "Time that output waited for sockets.", seconds(totals.send_us));
}

fn connections(text: &mut Text, snapshot: &Snapshot) {
    let Snapshot { open_connections, connections_max, totals, tls, .. } = snapshot;
    if let Some(open) = open_connections {
        text.gauge("flash_connections", "Open connections.", open);
        text.gauge("flash_connections_max", "Connections that may be open at once.", connections_max);
    }
    text.counter("flash_connections_accepted", "Connections that were accepted.", totals.connections);
    text.counter("flash_connections_shed", "Connections that were turned away.", totals.shed);
    text.counter("flash_connections_evicted", "Connections that gave way to new ones.", totals.evicted);
    let handshakes =
        [("full", tls.full), ("resumed", tls.resumed), ("failed", tls.failed), ("shed", tls.shed)];
    text.counters("flash_tls_handshakes", "TLS handshakes, by their result.", "result", &handshakes);
    text.counter("flash_logins", "Checks of passwords.", totals.logins);
    text.counter("flash_logins_refused", "Log-ins refused because too many waited.", totals.logins_refused);
}

fn loops(text: &mut Text, Snapshot { loops, block_causes, .. }: &Snapshot) {
    let of = |what: fn(&LoopSnapshot) -> f64| -> Vec<(&str, f64)> {
        loops.iter().map(|of| (&*of.name, what(of))).collect()
    };
    let (turns, busy) = (of(|of| of.turns as f64), of(|of| seconds(of.busy_us)));
    let (blocks, faults) = (of(|of| of.blocks as f64), of(|of| of.major_faults as f64));
    text.counters("flash_loop_turns", "Times that a loop's wait returned.", "loop", &turns);
    text.counters("flash_loop_busy_seconds", "Time of a loop outside its wait.", "loop", &busy);
    text.counters("flash_loop_blocks", "Sleeps of a loop outside its wait.", "loop", &blocks);
    text.counters("flash_loop_major_faults", "Pages of the program read from the disk.", "loop", &faults);
    let name = "flash_loop_longest_turn_seconds";
    text.family(name, Gauge, "The longest time between two waits of a loop since its start.");
    for (of, us) in of(|of| seconds(of.longest_turn_us)) {
        text.series(name, &[("loop", of)], us);
    }
    let sleeps: Vec<_> = block_causes.iter().map(|of| (&*of.cause, of.sleeps)).collect();
    let times: Vec<_> = block_causes.iter().map(|of| (&*of.cause, seconds(of.sleep_us))).collect();
    text.counters("flash_blocks", "Sleeps of all loops, by their cause.", "cause", &sleeps);
    text.counters("flash_block_seconds", "Time of these sleeps.", "cause", &times);
}

/// What only devices with helpers have.
fn of_helpers(device: &DeviceSnapshot, count: u64) -> Option<f64> {
    (device.helpers_max > 0).then_some(count as f64)
}

fn helpers(text: &mut Text, Snapshot { devices, totals, .. }: &Snapshot) {
    type Of = fn(&DeviceSnapshot) -> Option<f64>;
    let families: [(&str, &str, Of); 7] = [
        ("flash_device_healthy", "Whether jobs pass: 1, or 0 while the device is marked down.", |of| {
            of.healthy.map(|healthy| f64::from(u8::from(healthy)))
        }),
        ("flash_device_helpers", "Helpers of the device.", |of| of_helpers(of, of.helpers)),
        ("flash_device_helpers_max", "Helpers that the device may have.", |of| {
            of_helpers(of, of.helpers_max)
        }),
        ("flash_device_queue", "Jobs that wait for a helper.", |of| of_helpers(of, of.queued)),
        ("flash_device_queue_max", "Jobs that may wait.", |of| of_helpers(of, of.queue_max)),
        ("flash_device_jobs_in_flight", "Jobs that helpers work on.", |of| Some(of.in_flight as f64)),
        ("flash_device_oldest_job_seconds", "How long the oldest of these has lasted.", |of| {
            Some(seconds(of.oldest_us))
        }),
    ];
    for (name, help, of) in families {
        text.family(name, Gauge, help);
        for device in devices {
            if let Some(value) = of(device) {
                text.series(name, &[("mount", &device.mount), ("kind", &device.kind)], value);
            }
        }
    }
    let name = "flash_device_errors";
    text.family(name, Counter, "Jobs in which the device has failed, such as by EIO or ESTALE.");
    for device in devices.iter().filter(|device| device.helpers_max > 0) {
        let labels = [("mount", &*device.mount), ("kind", &device.kind)];
        text.series(&format!("{name}_total"), &labels, device.errors as f64);
    }
    text.counter("flash_helper_jobs", "Jobs that helpers did.", totals.helper_jobs);
    text.counter("flash_helper_jobs_joined", "Requests that waited for an equal job.", totals.joined);
    text.counter(
        "flash_helper_queue_full",
        "Jobs refused because the helpers' queue was full.",
        totals.queue_full,
    );
    let steps = [
        ("walk", seconds(totals.walk_us)),
        ("open", seconds(totals.open_us)),
        ("read", seconds(totals.read_us)),
        ("queue", seconds(totals.queue_us)),
        ("help", seconds(totals.help_us)),
    ];
    text.counters("flash_job_seconds", "Time that jobs took, once for each request.", "step", &steps);
}

fn of_programs(text: &mut Text, Snapshot { programs, .. }: &Snapshot) {
    type Of = fn(&ProgramSnapshot) -> u64;
    let families: [(&str, Kind, &str, Of); 8] = [
        ("flash_program_processes", Gauge, "Processes of a route's programs.", |of| of.processes),
        ("flash_program_processes_max", Gauge, "Processes that an application may have.", |of| {
            of.processes_max
        }),
        ("flash_program_busy", Gauge, "Requests that a program answers.", |of| of.busy),
        ("flash_program_queue", Gauge, "Requests that wait for a process or a connection.", |of| of.queued),
        ("flash_program_kept_connections", Gauge, "Idle connections that are kept.", |of| of.kept),
        ("flash_program_starts", Counter, "Processes started, or connections made.", |of| of.started),
        ("flash_program_failures", Counter, "Processes that failed, or connections not made.", |of| {
            of.failed
        }),
        ("flash_program_refusals", Counter, "Requests refused before a program had them.", |of| of.refused),
    ];
    for (name, kind, help, of) in families {
        text.family(name, kind, help);
        let series = if kind == Counter { format!("{name}_total") } else { name.into() };
        for program in programs {
            let ProgramSnapshot { route, kind, program: what, .. } = program;
            text.series(&series, &[("route", route), ("kind", kind), ("program", what)], of(program));
        }
    }
}

fn others(text: &mut Text, snapshot: &Snapshot) {
    let Snapshot { cache, totals, workers, certificates, .. } = snapshot;
    text.counter("flash_cache_hits", "Look-ups that the caches answered.", cache.hits);
    text.counter("flash_cache_misses", "Look-ups that needed a job.", cache.misses);
    text.counter("flash_cache_evictions", "Entries that others replaced.", cache.evictions);
    text.gauge("flash_cache_entries", "Entries of the cache of paths.", cache.entries);
    text.gauge("flash_cache_used_bytes", "Memory of the entries.", cache.bytes);
    text.gauge("flash_cache_max_bytes", "Memory that they may have.", cache.bytes_max);
    let what = "Bytes of request bodies and of programs' responses that went to the file for them.";
    text.counter("flash_program_spooled_bytes", what, totals.spooled_bytes);
    let what = "Programs that were ended because their clients read too little.";
    text.counter("flash_programs_held", what, totals.programs_held);
    text.counter("flash_files_compressed", "Files that were compressed for the cache.", totals.compressed);
    text.counter("flash_panics", "Connections that an internal error ended.", totals.panics);
    let dropped = [("access", totals.access_log_dropped), ("error", totals.error_log_dropped)];
    text.counters("flash_log_lines_dropped", "Log lines that could not be written.", "log", &dropped);
    let name = "flash_certificate_not_after_seconds";
    text.family(name, Gauge, "When a certificate expires, in seconds since 1970.");
    for certificate in certificates {
        text.series(name, &[("names", &certificate.names)], certificate.not_after_unix_s);
    }
    if let Some(workers) = workers {
        text.gauge("flash_workers", "Processes that serve (mp).", workers.processes);
        text.gauge("flash_workers_busy", "Those that have a connection.", workers.busy);
    }
    text.gauge("flash_configuration_generation", "The number of the configuration.", snapshot.generation);
    let in_use = snapshot.generations_in_use.len();
    text.gauge("flash_configurations_in_use", "Configurations that requests hold.", in_use);
    text.gauge("flash_draining", "1 while the server drains.", u8::from(snapshot.draining));
    let started = snapshot.started_unix_ms as f64 / 1000.0;
    text.gauge("process_start_time_seconds", "When the server started, in seconds since 1970.", started);
    text.family("flash_build", Info, "What runs.");
    text.series("flash_build_info", &[("version", &snapshot.version)], 1);
}

fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}

#[cfg(test)]
mod tests;
