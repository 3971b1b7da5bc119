//! What the paper shows.

use std::str::FromStr;

/// What the paper shows and we show again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exhibit {
    Table(u8),
    Figure(u8),
}

pub(super) const EXHIBITS: [Exhibit; 9] = [
    Exhibit::Table(1),
    Exhibit::Table(4),
    Exhibit::Table(5),
    Exhibit::Figure(2),
    Exhibit::Figure(3),
    Exhibit::Figure(5),
    Exhibit::Figure(6),
    Exhibit::Figure(7),
    Exhibit::Figure(8),
];

impl Exhibit {
    /// Whether there are runs behind it, rather than formulas.
    pub(super) fn is_simulated(self) -> bool {
        matches!(self, Exhibit::Table(5) | Exhibit::Figure(5..=8))
    }
}

impl FromStr for Exhibit {
    type Err = String;

    fn from_str(text: &str) -> Result<Exhibit, String> {
        let exhibit = match text.strip_prefix("table") {
            Some(number) => number.parse().map(Exhibit::Table),
            None => text.strip_prefix("figure").unwrap_or(text).parse().map(Exhibit::Figure),
        };
        let known = exhibit.ok().filter(|exhibit| EXHIBITS.contains(exhibit));
        known.ok_or_else(|| "expected table1, table4, table5, 2, 3, 5, 6, 7 or 8".into())
    }
}
