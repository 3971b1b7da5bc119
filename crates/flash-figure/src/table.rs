//! The same data for programs: CSV and JSON.

use std::fmt::Write as _;

use crate::{Across, Axis, Figure, Kind};

impl Figure {
    /// A line for each point (RFC 4180), the columns named after the axes. A missing value is empty.
    pub fn csv(&self) -> String {
        let across = match &self.x {
            Across::Axis(axis) => column(axis),
            Across::Groups(_) => "group".to_owned(),
        };
        let mut out = format!("series,kind,{},{},low,high\n", field(&across), field(&column(&self.y)));
        for series in &self.series {
            let kind = match series.kind {
                Kind::Measured => "measured",
                Kind::Reference => "reference",
            };
            for point in &series.points {
                let x = match &self.x {
                    Across::Axis(_) => number(point.x),
                    Across::Groups(groups) => group(groups, point.x).map(field).unwrap_or_default(),
                };
                let (low, high) = point.spread.unzip();
                let [y, low, high] =
                    [Some(point.y), low, high].map(|value| value.map(number).unwrap_or_default());
                writeln!(out, "{},{kind},{x},{y},{low},{high}", field(&series.name))
                    .expect("a String takes everything");
            }
        }
        out
    }

    /// The figure as it is: its names, its axes, and its series with their points. A value that is not a number is `null`.
    pub fn json(&self) -> String {
        serde_json::to_string_pretty(self).expect("a figure has no maps and no foreign types") + "\n"
    }
}

/// The group that a point of bars belongs to.
pub(crate) fn group(groups: &[String], x: f64) -> Option<&str> {
    let at = (x >= 0.0 && x.fract() == 0.0).then_some(x as usize)?;
    groups.get(at).map(String::as_str)
}

pub(crate) fn column(axis: &Axis) -> String {
    match axis.unit.as_str() {
        "" => axis.label.clone(),
        unit => format!("{} ({unit})", axis.label),
    }
}

fn number(value: f64) -> String {
    if value.is_finite() { value.to_string() } else { String::new() }
}

fn field(text: &str) -> String {
    if text.contains(['"', ',', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}
