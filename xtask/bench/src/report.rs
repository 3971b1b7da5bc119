//! Tables, bars, and the same as JSON.

use serde_json::{Value, json};

/// A promise with a number.
pub(crate) struct Bar {
    name: String,
    relation: Relation,
    limit: f64,
    value: Option<f64>,
}

#[derive(Clone, Copy)]
enum Relation {
    AtMost,
    Below,
    AtLeast,
}

impl Bar {
    pub(crate) fn at_most(name: String, limit: f64, value: Option<f64>) -> Bar {
        Bar { name, relation: Relation::AtMost, limit, value }
    }

    pub(crate) fn below(name: String, limit: f64, value: Option<f64>) -> Bar {
        Bar { name, relation: Relation::Below, limit, value }
    }

    pub(crate) fn at_least(name: String, limit: f64, value: Option<f64>) -> Bar {
        Bar { name, relation: Relation::AtLeast, limit, value }
    }

    /// Whether it holds; none when there was nothing to measure.
    fn holds(&self) -> Option<bool> {
        self.value.map(|value| match self.relation {
            Relation::AtMost => value <= self.limit,
            Relation::Below => value < self.limit,
            Relation::AtLeast => value >= self.limit,
        })
    }

    fn line(&self) -> String {
        let relation = match self.relation {
            Relation::AtMost => "≤",
            Relation::Below => "<",
            Relation::AtLeast => "≥",
        };
        let limit = number(self.limit);
        match (self.holds(), self.value) {
            (Some(holds), Some(value)) => {
                let word = if holds { "PASS" } else { "FAIL" };
                let apart = number((value - self.limit).abs());
                let apart = if holds { format!("{apart} to spare") } else { format!("missed by {apart}") };
                format!("{word}  {:42} {:>8} {relation} {limit:<6} {apart}", self.name, number(value))
            }
            _ => format!("----  {:42} not measured", self.name),
        }
    }

    fn json(&self) -> Value {
        json!({ "name": self.name, "limit": self.limit, "value": self.value, "holds": self.holds() })
    }
}

/// Prints every bar; true when none is missed.
pub(crate) fn print_bars(bars: &[Bar]) -> bool {
    if bars.is_empty() {
        return true;
    }
    println!("\nBars");
    for bar in bars {
        println!("{}", bar.line());
    }
    bars.iter().all(|bar| bar.holds() != Some(false))
}

pub(crate) fn bars_json(bars: &[Bar]) -> Value {
    bars.iter().map(Bar::json).collect()
}

/// Prints rows of equal length, the first of them a heading, with columns as wide as they need.
pub(crate) fn print_table(title: &str, rows: &[Vec<String>]) {
    println!("\n{title}");
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    for row in rows {
        let mut line = format!("{:<1$}", row[0], widths[0]);
        for (cell, width) in row.iter().zip(&widths).skip(1) {
            line += &format!("  {cell:>width$}");
        }
        println!("{line}");
    }
}

/// Three significant digits or so.
pub(crate) fn number(value: f64) -> String {
    match value.abs() {
        0.0 => "0".into(),
        size if size < 10.0 => format!("{value:.2}"),
        size if size < 100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_hold_or_not() {
        let holds = |bar: Bar| bar.holds();
        assert_eq!(holds(Bar::at_most("a".into(), 1.12, Some(1.12))), Some(true));
        assert_eq!(holds(Bar::below("b".into(), 1.0, Some(1.0))), Some(false));
        assert_eq!(holds(Bar::at_least("c".into(), 0.97, Some(0.96))), Some(false));
        assert_eq!(holds(Bar::below("d".into(), 1.0, None)), None);
        assert!(print_bars(&[Bar::below("d".into(), 1.0, None)]));
        assert!(!print_bars(&[Bar::below("b".into(), 1.0, Some(2.0))]));
        assert!(Bar::at_most("a".into(), 1.0, Some(1.25)).line().contains("missed by 0.25"));
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!([3.761, 43.04, 552.3, 0.0].map(number), ["3.76", "43.0", "552", "0"]);
    }
}
