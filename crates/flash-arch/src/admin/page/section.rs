//! What the status page consists of: sections of figures, whatever they are shown as.
//!
//! A section knows nothing of HTML and of terminals. [`html`](super::html) and [`text`](super::text) show it.

/// What no figure is known of.
pub(super) const UNKNOWN: &str = "–";
/// Rows of a table.
const ROWS_MAX: usize = 50;

/// A part of the page, under a heading of its own.
pub(super) struct Section {
    /// Names the part in the page and in events.
    pub(super) id: &'static str,
    pub(super) title: &'static str,
    pub(super) parts: Vec<Part>,
}

pub(super) enum Part {
    Pairs(Vec<(&'static str, Cell)>),
    Figure(Figure),
    Table(Table),
    Note(String),
}

/// A series of one value for each second, the latest last.
pub(super) struct Figure {
    pub(super) title: &'static str,
    pub(super) values: Vec<u64>,
    /// Shows a value with its unit.
    pub(super) shown: fn(u64) -> String,
}

pub(super) struct Table {
    pub(super) caption: String,
    pub(super) columns: Vec<Column>,
    pub(super) rows: Vec<Vec<Cell>>,
}

#[derive(Clone, Copy)]
pub(super) struct Column {
    pub(super) title: &'static str,
    /// Numbers stand at the right.
    pub(super) is_number: bool,
}

/// A value, and whether an operator has to act.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cell {
    pub(super) text: String,
    pub(super) state: Condition,
}

/// Each state has a word or a sign beside its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Condition {
    Plain,
    Well,
    Sick,
}

impl Table {
    /// Columns whose titles begin with `#` are numbers.
    pub(super) fn new(caption: impl Into<String>, columns: &[&'static str], rows: Vec<Vec<Cell>>) -> Self {
        let column = |title: &&'static str| match title.strip_prefix('#') {
            Some(title) => Column { title, is_number: true },
            None => Column { title, is_number: false },
        };
        Self { caption: caption.into(), columns: columns.iter().map(column).collect(), rows }
    }
}

impl Cell {
    pub(super) fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), state: Condition::Plain }
    }

    pub(super) fn well(text: impl Into<String>) -> Self {
        Self { text: text.into(), state: Condition::Well }
    }

    pub(super) fn sick(text: impl Into<String>) -> Self {
        Self { text: text.into(), state: Condition::Sick }
    }
}

/// A table as the only part, and no part if it has no rows.
pub(super) fn of_rows(caption: &str, columns: &[&'static str], mut rows: Vec<Vec<Cell>>) -> Vec<Part> {
    let left_out = rows.len().saturating_sub(ROWS_MAX);
    rows.truncate(ROWS_MAX);
    let mut parts = Vec::new();
    if !rows.is_empty() {
        parts.push(Part::Table(Table::new(caption, columns, rows)));
    }
    if left_out > 0 {
        parts.push(Part::Note(format!("{left_out} more are in /status.json.")));
    }
    parts
}
