//! Writes families of OpenMetrics, and their series. Which there are is not known here.

use std::fmt::{self, Write};

use flash_core::printable::is_printable;
use flash_core::record::counters::{CounterSet, Counts, Kind, Row, Section};

/// The text so far.
#[derive(Default)]
pub(super) struct Text(String);

/// The series of a family.
pub(super) struct Series<'t> {
    text: &'t mut Text,
    row: &'t Row,
}

/// What has counters, by its labels.
pub(super) type Counted<'s, C> = Vec<(Vec<(&'s str, &'s str)>, &'s Counts<C>)>;

impl Text {
    /// Writes a family, if it has any series. Its unit is the last word of its name, if that is one.
    pub(super) fn family(&mut self, row: &Row, write: impl FnOnce(&mut Series<'_>)) {
        let (name, before) = (row.metric, self.0.len());
        self.line(format_args!("# TYPE {name} {}", kind_name(row.kind)));
        if let Some(unit) = ["seconds", "bytes"].into_iter().find(|unit| name.ends_with(unit)) {
            self.line(format_args!("# UNIT {name} {unit}"));
        }
        self.line(format_args!("# HELP {name} {}", row.help));
        let head = self.0.len();
        write(&mut Series { text: self, row });
        if self.0.len() == head {
            self.0.truncate(before);
        }
    }

    /// Writes the counters of a section that are a family each.
    pub(super) fn counters<C: CounterSet>(&mut self, section: Section, counted: &Counted<'_, C>) {
        for (what, row) in families_of::<C>(section) {
            self.family(row, |series| {
                counted.iter().for_each(|(labels, counts)| series.add_count(labels, row, counts.get(*what)));
            });
        }
    }

    /// The whole text.
    pub(super) fn end(mut self) -> String {
        self.line(format_args!("# EOF"));
        self.0
    }

    fn line(&mut self, line: fmt::Arguments<'_>) {
        writeln!(self.0, "{line}").expect("memory takes it");
    }
}

impl Series<'_> {
    /// Adds a series.
    pub(super) fn add(&mut self, labels: &[(&str, &str)], value: impl fmt::Display) {
        let suffix = match self.row.kind {
            Kind::Counter => "_total",
            Kind::Info => "_info",
            Kind::Gauge | Kind::Histogram | Kind::Summary => "",
        };
        self.add_part(suffix, labels, value);
    }

    /// Adds a series of a histogram or a summary.
    pub(super) fn add_part(&mut self, suffix: &str, labels: &[(&str, &str)], value: impl fmt::Display) {
        let text = &mut self.text.0;
        text.push_str(self.row.metric);
        text.push_str(suffix);
        for (number, (label, value)) in labels.iter().enumerate() {
            text.push(if number == 0 { '{' } else { ',' });
            text.push_str(label);
            text.push_str("=\"");
            for character in value.chars() {
                match character {
                    '\\' => text.push_str("\\\\"),
                    '"' => text.push_str("\\\""),
                    '\n' => text.push_str("\\n"),
                    hidden if !is_printable(hidden) => {
                        text.push('\\');
                        text.extend(hidden.escape_default());
                    }
                    other => text.push(other),
                }
            }
            text.push('"');
        }
        if !labels.is_empty() {
            text.push('}');
        }
        self.text.line(format_args!(" {value}"));
    }

    /// Adds a count. Those of microseconds become seconds.
    fn add_count(&mut self, labels: &[(&str, &str)], row: &Row, count: u64) {
        match row.name.ends_with("_us") {
            true => self.add(labels, seconds(count)),
            false => self.add(labels, count),
        }
    }

    /// Adds the counters that are this family, each under its value of the label.
    pub(super) fn add_labelled<C: CounterSet>(&mut self, label: &str, counts: &Counts<C>) {
        let metric = self.row.metric;
        for (row, count) in counts.told().filter(|(row, _)| row.metric == metric) {
            self.add_count(&[(label, row.label)], row, count);
        }
    }
}

/// The counters of a section that are a family each.
pub(super) fn families_of<C: CounterSet>(section: Section) -> impl Iterator<Item = &'static (C, Row)> {
    let is_family = |row: &Row| !row.metric.is_empty() && row.label.is_empty();
    C::ROWS.iter().filter(move |(_, row)| row.section == section && is_family(row))
}

pub(super) fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Counter => "counter",
        Kind::Gauge => "gauge",
        Kind::Histogram => "histogram",
        Kind::Summary => "summary",
        Kind::Info => "info",
    }
}

pub(super) fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}
