//! A report as a table (RFC 4180): the numbers of `--json`, each in a column that names its unit. The first row is the run,
//! and each class of requests has a row below it. The steps of a search or a sweep follow in the same way.

use crate::Invalid;
use crate::report::{ClassReport, Latency, Report};
use crate::tally::{Fault, STREAM_RESET};

/// What a row is about: a run, or one class of its requests.
struct Row<'a> {
    /// `run`, or `step` of a search or a sweep.
    kind: &'static str,
    report: &'a Report,
    class: Option<(&'a str, &'a ClassReport)>,
}

impl Report {
    /// The table. A cell is empty where a row has no such number: a class has no connections of its own.
    pub fn csv(&self) -> String {
        let mut writer = csv::Writer::from_writer(Vec::new());
        let steps = self.steps.iter().map(|step| ("step", step));
        for (kind, report) in std::iter::once(("run", self)).chain(steps) {
            let classes = report.classes.iter().map(|(name, class)| Some((name.as_str(), class)));
            for class in std::iter::once(None).chain(classes) {
                let cells = Row { kind, report, class }.cells();
                if kind == "run" && class.is_none() {
                    writer.write_record(cells.iter().map(|(column, _)| column)).expect("a Vec takes rows");
                }
                writer
                    .write_record(cells.iter().map(|(_, text)| text))
                    .expect("all rows have the same columns");
            }
        }
        let bytes = writer.into_inner().expect("a Vec takes everything");
        String::from_utf8(bytes).expect("it is made of strings")
    }
}

impl Row<'_> {
    /// Each column with its text. The columns are the same for every row.
    fn cells(&self) -> Vec<(String, String)> {
        let (report, class) = (self.report, self.class.map(|(_, class)| class));
        let conformance = report.conformance.as_ref().filter(|_| class.is_none());
        let mut cells = Cells(Vec::new());
        cells.add("row", Some(self.kind));
        cells.add("class", self.class.map(|(name, _)| name));
        cells.add("clients", report.clients);
        cells.add("level", report.level);
        cells.add("size_bytes", report.size_bytes);
        cells.add("seconds", Some(report.seconds));
        cells.add("requests", Some(class.map_or(report.requests, |class| class.requests)));
        let per_second = class.map_or(report.requests_per_second, |class| class.requests_per_second);
        cells.add("requests_per_second", Some(per_second));
        let megabits = class.map_or(report.megabits_per_second, |class| class.megabits_per_second);
        cells.add("megabits_per_second", Some(megabits));
        cells.add("body_bytes", Some(class.map_or(report.body_bytes, |class| class.body_bytes)));
        cells.latency("latency", Some(class.map_or(&report.latency_us, |class| &class.latency_us)));
        cells.add("errors_total", Some(class.map_or(report.errors_total, |class| class.errors)));
        for fault in Fault::ALL {
            let count = report.errors.get(fault.name()).copied().unwrap_or(0);
            cells.add(&format!("errors_{}", fault.name()), class.is_none().then_some(count));
        }
        let resets = report.errors.iter().filter(|(kind, _)| kind.starts_with(STREAM_RESET));
        let resets: u64 = resets.map(|(_, count)| count).sum();
        cells.add("errors_rst_stream", class.is_none().then_some(resets));
        // What follows is of the whole run.
        let whole = class.is_none().then_some(report);
        cells.add("received_bytes", whole.map(|run| run.received_bytes));
        cells.add("asked", whole.map(|run| run.asked));
        cells.add("unanswered", whole.map(|run| run.unanswered));
        cells.add("unanswered_percent", whole.map(|run| run.unanswered_percent));
        cells.add("queued", whole.map(|run| run.queued));
        cells.add("clients_busy_percent", whole.map(|run| run.clients_busy_percent));
        cells.add("invalid", whole.and_then(|run| run.invalid).map(Invalid::name));
        cells.add("connections", whole.map(|run| run.connections));
        cells.add("handshakes_full", whole.map(|run| run.handshakes_full));
        cells.add("handshakes_resumed", whole.map(|run| run.handshakes_resumed));
        cells.latency("handshake", whole.map(|run| &run.handshake_us));
        cells.add("retries", whole.map(|run| run.retries));
        cells.latency("lateness", whole.map(|run| &run.lateness_us));
        cells.add("service_inversion", whole.and_then(|run| run.service_inversion));
        cells.add("conformance_clients", conformance.map(|kept| kept.clients));
        cells.add("conformance_conforming", conformance.map(|kept| kept.conforming));
        for (which, rate) in [
            ("min", conformance.map(|kept| kept.bits_per_second_min as f64)),
            ("slowest", conformance.map(|kept| kept.bits_per_second_slowest)),
            ("median", conformance.map(|kept| kept.bits_per_second_median)),
            ("quickest", conformance.map(|kept| kept.bits_per_second_quickest)),
        ] {
            cells.add(&format!("conformance_bits_per_second_{which}"), rate);
        }
        cells.add("conforming_clients", whole.and_then(|run| run.conforming_clients));
        cells.add("capacity_requests_per_second", whole.and_then(|run| run.capacity_requests_per_second));
        cells.add("interrupted", whole.map(|run| run.interrupted));
        cells.add("load", Some(&report.load));
        cells.0
    }
}

struct Cells(Vec<(String, String)>);

impl Cells {
    fn add(&mut self, column: &str, value: Option<impl ToString>) {
        self.0.push((column.to_owned(), value.map(|value| value.to_string()).unwrap_or_default()));
    }

    /// Waits that did not happen have no times.
    fn latency(&mut self, what: &str, waits: Option<&Latency>) {
        self.add(&format!("{what}_count"), waits.map(|waits| waits.count));
        self.add(&format!("{what}_unanswered"), waits.map(|waits| waits.unanswered));
        let waits = waits.filter(|waits| waits.count > 0);
        for (name, us) in [
            ("mean", waits.map(|waits| waits.mean)),
            ("min", waits.map(|waits| waits.min)),
            ("p50", waits.map(|waits| waits.p50)),
            ("p90", waits.map(|waits| waits.p90)),
            ("p95", waits.map(|waits| waits.p95)),
            ("p99", waits.map(|waits| waits.p99)),
            ("p999", waits.map(|waits| waits.p999)),
            ("p9999", waits.map(|waits| waits.p9999)),
            ("max", waits.map(|waits| waits.max)),
        ] {
            self.add(&format!("{what}_{name}_us"), us);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Conformance;

    /// The rows, each as a map from column to text.
    fn rows(csv: &str) -> Vec<std::collections::HashMap<String, String>> {
        let mut reader = csv::Reader::from_reader(csv.as_bytes());
        reader.deserialize().map(|row| row.expect("a row of as many cells as the head")).collect()
    }

    #[test]
    fn every_number_of_the_json_has_a_column() {
        let report = Report {
            clients: Some(1),
            level: Some(0.5),
            size_bytes: Some(1024),
            conformance: Some(Conformance::default()),
            conforming_clients: Some(1),
            capacity_requests_per_second: Some(1.0),
            ..Report::default()
        };
        let json = serde_json::to_value(&report).expect("JSON");
        let row = rows(&report.csv()).remove(0);
        for (name, value) in json.as_object().expect("an object") {
            // statuses are as many as a server likes; errors and classes have columns and rows of their own.
            if ["statuses", "errors", "classes", "steps"].contains(&name.as_str()) {
                continue;
            }
            match value.as_object() {
                None => assert!(row.contains_key(name), "no column {name}"),
                Some(parts) => {
                    for part in parts.keys() {
                        let column = match name.strip_suffix("_us") {
                            Some(waits) if ["count", "unanswered"].contains(&&**part) => {
                                format!("{waits}_{part}")
                            }
                            Some(waits) => format!("{waits}_{part}_us"),
                            None => format!("{name}_{part}"),
                        };
                        assert!(row.contains_key(&column), "no column {column}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_run_its_classes_and_its_steps_are_rows() {
        let class = ClassReport { requests: 7, ..ClassReport::default() };
        let step = Report {
            level: Some(0.5),
            requests: 10,
            errors: [("timeout".to_owned(), 2)].into(),
            errors_total: 2,
            connections: 3,
            classes: [("a, \"b\"".to_owned(), class)].into(),
            ..Report::default()
        };
        let report = Report { requests: 20, steps: vec![step], ..Report::default() };
        let rows = rows(&report.csv());
        let what = |row: usize, names: [&str; 6]| names.map(|name| rows[row][name].clone());
        let names = ["row", "class", "level", "requests", "errors_timeout", "connections"];
        assert_eq!(what(0, names), ["run", "", "", "20", "0", "0"]);
        assert_eq!(what(1, names), ["step", "", "0.5", "10", "2", "3"]);
        assert_eq!(what(2, names), ["step", "a, \"b\"", "0.5", "7", "", ""]);
        assert_eq!((rows.len(), &*rows[0]["latency_p50_us"]), (3, ""));
    }
}
