//! What was seen of a server, as named figures.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use flash_load::{Latency, Report};
use flash_rig::{Memory, Metrics};

use super::clients::Seen;
use super::site::Answers;
use crate::record::Figures;

/// Puts everything together. `answers` says which ones are right; where memory is short, none at all may be what there is
/// to find out.
#[expect(clippy::too_many_lines, reason = "a list of figures")]
pub(super) fn of(
    seen: &Seen,
    memory: &Memory,
    metrics: Option<&Metrics>,
    answers: Answers,
    is_short_of_memory: bool,
) -> Result<Figures> {
    let report = &seen.report;
    let mut all = Figures::default();
    errors(&mut all, report, answers);
    let answered = match answers {
        Answers::Files => report.requests,
        Answers::NotFound => report.statuses.get(&404).copied().unwrap_or_default(),
    };
    let is_silent = all.errors.keys().all(|kind| matches!(kind.as_str(), "connect" | "timeout" | "reset"));
    if answered == 0 && is_silent && is_short_of_memory {
        return Ok(nothing("no_answer"));
    }
    if answered == 0 {
        bail!("no request was answered as it should be: {:?}", report.errors);
    }
    let mut put = |name: &str, value: f64| _ = all.figures.insert(name.to_owned(), value);
    put("requests", answered as f64);
    put("requests_per_second", answered as f64 / report.seconds);
    put("unanswered", report.unanswered as f64);
    put("unanswered_percent", report.unanswered_percent);
    put("megabits_per_second", report.megabits_per_second);
    if seen.answers > 0 {
        if let Some(reads) = seen.disk_reads {
            put("disk_reads_per_request", reads as f64 / seen.answers as f64);
        }
        let mut each = |name: &str, ns: u64| put(name, ns as f64 / 1e3 / seen.answers as f64);
        each("processor_us_per_request", seen.used.cpu_ns);
        each("server_us_per_request", seen.used.cpu_ns.saturating_sub(seen.used.ended_children_ns));
        if let Some(php) = &seen.used_by_php {
            each("php_us_per_request", php.cpu_ns);
        }
        if let Some(blocked) = &seen.blocked {
            put("blocked_us_per_request", blocked.us as f64 / seen.answers as f64);
            put("blocks_per_request", blocked.count as f64 / seen.answers as f64);
            for (cause, count) in &blocked.by_cause {
                put(&format!("{cause}.blocks_per_request"), *count as f64 / seen.answers as f64);
            }
        }
    }
    if let Some(clients) = report.conforming_clients {
        put("conforming_clients", f64::from(clients));
    }
    put("stolen_percent", seen.stolen_percent);
    put("clients_busy_percent", report.clients_busy_percent);
    put("clients_late_p99_ms", report.lateness_us.p99 / 1e3);
    put("memory_mb", memory.pss_bytes as f64 / 1e6);
    if let Some(inversion) = report.service_inversion {
        put("service_inversion", inversion);
    }
    if report.classes.len() > 1 {
        for (name, class) in &report.classes {
            let prefix = format!("{name}.");
            put(&format!("{prefix}requests_per_second"), class.requests_per_second);
            put(&format!("{prefix}megabits_per_second"), class.megabits_per_second);
            let waits = &class.latency_us;
            let part = waits.unanswered as f64 / waits.count.max(1) as f64;
            put(&format!("{prefix}unanswered_percent"), 100.0 * part);
        }
    }
    latency(&mut all, "", &report.latency_us);
    for (name, class) in report.classes.iter().filter(|_| report.classes.len() > 1) {
        latency(&mut all, &format!("{name}."), &class.latency_us);
    }
    all.invalid = report.invalid;
    let mut put = |name: &str, value: f64| _ = all.figures.insert(name.to_owned(), value);
    if let Some(metrics) = metrics {
        for name in ["loop_blocks", "helper_jobs"] {
            if let Some(count) = metrics.count(name) {
                put(name, count as f64);
            }
        }
        let ready: Vec<(f64, u64)> =
            metrics.ready().into_iter().map(|(least, n)| (least as f64, n)).collect();
        distribution(&mut all, "ready_events", ready, middle);
    }
    if let Some(runnable) = &seen.runnable {
        distribution(&mut all, "runnable", runnable.samples(), |value| value);
    }
    waits(&mut all, report);
    Ok(all)
}

/// Of a server that served nothing at all, because what it met with was too much for it.
pub(super) fn nothing(why: &str) -> Figures {
    let figures =
        ["requests", "requests_per_second", "megabits_per_second"].map(|name| (name.to_owned(), 0.0));
    let errors = [(why.to_owned(), 1)].into();
    Figures { figures: figures.into(), errors, ..Figures::default() }
}

/// Unwanted answers; where names are asked for that are not there, 404 is what is wanted.
fn errors(all: &mut Figures, report: &Report, answers: Answers) {
    all.errors = report.errors.clone();
    if answers == Answers::NotFound {
        all.errors.remove("status_4xx");
    }
    let sum: u64 = all.errors.values().sum();
    all.figures.insert("errors".into(), sum as f64);
}

/// Without answers there are no waits.
fn latency(all: &mut Figures, prefix: &str, latency: &Latency) {
    if latency.count == 0 {
        return;
    }
    let figures = [
        ("mean", latency.mean, 1.0),
        ("p50", latency.p50, 0.5),
        ("p90", latency.p90, 0.9),
        ("p95", latency.p95, 0.95),
        ("p99", latency.p99, 0.99),
        ("p999", latency.p999, 0.999),
        ("max", latency.max, 1.0),
    ];
    for (name, us, part) in figures {
        let name = format!("{prefix}latency_{name}_ms");
        if latency.is_bound(part) {
            all.at_least.insert(name.clone());
        }
        all.figures.insert(name, us / 1e3);
    }
}

/// The waits of each class and of all together.
fn waits(all: &mut Figures, report: &Report) {
    let mut sum: BTreeMap<u64, u64> = BTreeMap::new();
    for (name, class) in &report.classes {
        let of_class: Vec<_> = class.waits_us.iter().map(|(us, count)| (us / 1e3, *count)).collect();
        for (us, count) in &class.waits_us {
            *sum.entry((us * 1e3) as u64).or_default() += count;
        }
        if report.classes.len() > 1 && !of_class.is_empty() {
            all.distributions.insert(format!("{name}.latency_ms"), of_class);
        }
    }
    let sum: Vec<_> = sum.into_iter().map(|(ns, count)| (ns as f64 / 1e6, count)).collect();
    if !sum.is_empty() {
        all.distributions.insert("latency_ms".into(), sum);
    }
}

/// A distribution with its mean, median and 90 %. `stands_for` is the number that a value stands for in the mean.
fn distribution(all: &mut Figures, name: &str, values: Vec<(f64, u64)>, stands_for: fn(f64) -> f64) {
    let count: u64 = values.iter().map(|(_, count)| count).sum();
    if count == 0 {
        return;
    }
    let quantile = |part: f64| {
        let mut before = 0;
        let found = values.iter().find(|(_, here)| {
            before += here;
            before as f64 >= part * count as f64
        });
        found.map_or(f64::NAN, |(value, _)| *value)
    };
    let sum: f64 = values.iter().map(|(value, here)| stands_for(*value) * *here as f64).sum();
    all.figures.insert(format!("{name}_mean"), sum / count as f64);
    all.figures.insert(format!("{name}_p50"), quantile(0.5));
    all.figures.insert(format!("{name}_p90"), quantile(0.9));
    all.distributions.insert(name.to_owned(), values);
}

/// Flash counts ready events in classes that are named by their least: 0, 1, 2 to 3, 4 to 7 and so on.
fn middle(least: f64) -> f64 {
    if least < 2.0 { least } else { least * 1.5 - 0.5 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_served_nothing_has_a_rate_of_nothing_and_no_waits() {
        let figures = nothing("no_answer");
        assert_eq!(figures.figures["requests_per_second"], 0.0);
        assert!(!figures.figures.keys().any(|name| name.starts_with("latency")));
        assert_eq!(figures.errors["no_answer"], 1);
    }

    #[test]
    fn a_distribution_has_its_mean_and_quantiles() {
        let mut all = Figures::default();
        distribution(&mut all, "ready_events", vec![(1.0, 6), (2.0, 2), (4.0, 2)], middle);
        let figure = |name: &str| all.figures[&format!("ready_events_{name}")];
        assert_eq!((figure("p50"), figure("p90")), (1.0, 4.0));
        // 2 to 3 count as 2.5, 4 to 7 as 5.5.
        assert_eq!(figure("mean"), (6.0 + 5.0 + 11.0) / 10.0);
    }
}
