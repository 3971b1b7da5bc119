//! The names of figures and what they mean: `requests_per_second`, `latency_p99_ms`, and of a class of requests
//! `hot.latency_p99_ms`.

/// A figure or a distribution in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Described {
    pub words: String,
    /// Empty for a plain count.
    pub unit: &'static str,
    pub better: Better,
}

/// Which way is up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    More,
    Less,
}

use Better::{Less, More};

const FIGURES: [(&str, &str, &str, Better); 36] = [
    ("requests_per_second", "requests", "/s", More),
    ("megabits_per_second", "bandwidth", "Mb/s", More),
    ("latency_mean_ms", "response time, mean", "ms", Less),
    ("latency_p50_ms", "response time, median", "ms", Less),
    ("latency_p90_ms", "response time, 90 %", "ms", Less),
    ("latency_p95_ms", "response time, 95 %", "ms", Less),
    ("latency_p99_ms", "response time, 99 %", "ms", Less),
    ("latency_p999_ms", "response time, 99.9 %", "ms", Less),
    ("latency_max_ms", "response time, longest", "ms", Less),
    ("requests", "requests", "", More),
    ("errors", "errors", "", Less),
    ("unanswered_percent", "requests without an answer at the end", "%", Less),
    ("processor_us_per_request", "processor time per request", "µs", Less),
    ("server_us_per_request", "processor time of the server alone per request", "µs", Less),
    ("php_us_per_request", "processor time of php-fpm per request", "µs", Less),
    ("disk_reads_per_request", "reads of the disk per request", "", Less),
    ("optimal_reads_per_request", "reads of the disk per request, knowing the future", "", Less),
    ("conforming_clients", "clients that keep their bit rate", "", More),
    ("cache_hit_rate", "look-ups that caches answered, as a part of all", "", More),
    ("loop_blocks", "sleeps of event loops outside their wait", "", Less),
    ("blocks_per_request", "sleeps of event loops per request", "", Less),
    ("blocked_us_per_request", "sleep of event loops per request", "µs", Less),
    ("helper_jobs", "jobs of helpers", "", Less),
    ("ready_events_mean", "ready events per turn, mean", "", Less),
    ("ready_events_p50", "ready events per turn, median", "", Less),
    ("service_inversion", "service inversion", "", Less),
    ("runnable_mean", "runnable threads of the server, mean", "", Less),
    ("runnable_p90", "runnable threads of the server, 90 %", "", Less),
    ("memory_mb", "memory of the server", "MB", Less),
    ("stolen_percent", "processor time that the hypervisor took", "%", Less),
    ("clients_busy_percent", "time in which the busiest thread of clients had something to do", "%", Less),
    ("clients_late_p99_ms", "delay of the clients before they sent, 99 %", "ms", Less),
    ("bytes_per_connection", "memory per connection", "B", Less),
    ("latency_ms", "response time", "ms", Less),
    ("ready_events", "ready events per turn", "", Less),
    ("runnable", "runnable threads of the server", "", Less),
];

/// What a figure is called, its unit, and whether more of it is better. None for a name that means nothing.
pub fn describe(name: &str) -> Option<Described> {
    let (class, figure) = match name.split_once('.') {
        Some((class, figure)) => (Some(class), figure),
        None => (None, name),
    };
    let &(_, words, unit, better) = FIGURES.iter().find(|(known, ..)| *known == figure)?;
    let words = class.map_or_else(|| words.to_owned(), |class| format!("{class}: {words}"));
    Some(Described { words, unit, better })
}

impl Described {
    /// `bandwidth, Mb/s`, fit for an axis.
    pub fn label(&self) -> String {
        match self.unit {
            "" => self.words.clone(),
            "/s" => format!("{} per second", self.words),
            unit => format!("{}, {unit}", self.words),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_stands_before_its_figure() {
        assert_eq!(describe("hot.latency_p99_ms").unwrap().label(), "hot: response time, 99 %, ms");
        assert_eq!(describe("requests_per_second").unwrap().label(), "requests per second");
        assert_eq!(describe("latency"), None);
    }
}
