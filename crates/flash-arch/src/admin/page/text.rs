//! Sections as text: for terminals, and for `curl`.

use std::fmt::Write as _;

use flash_core::printable::printable;

use super::figure;
use super::section::{Cell, Condition, Part, Section, Table};

/// All sections, one below the other.
pub(super) fn page(sections: &[Section]) -> String {
    let mut text = String::new();
    for Section { title, parts, .. } in sections.iter().filter(|section| !section.parts.is_empty()) {
        let _ = writeln!(text, "{}{}", if text.is_empty() { "" } else { "\n" }, title.to_uppercase());
        for part in parts {
            write_part(part, &mut text);
        }
    }
    text
}

fn write_part(part: &Part, text: &mut String) {
    match part {
        Part::Pairs(pairs) => {
            let width = pairs.iter().map(|(name, _)| name.chars().count()).max().unwrap_or_default();
            for (name, cell) in pairs {
                let _ = writeln!(text, "{name:<width$}  {}", shown(cell));
            }
        }
        Part::Figure(figure) => {
            let _ = writeln!(text, "{}", figure::line(figure));
        }
        Part::Table(table) => write_table(table, text),
        Part::Note(note) => {
            let _ = writeln!(text, "{}", printable(format_args!("{note}")));
        }
    }
}

fn write_table(Table { columns, rows, .. }: &Table, text: &mut String) {
    let cells: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(shown).collect()).collect();
    let width = |place: usize| {
        let title = columns[place].title.chars().count();
        let cells = cells.iter().filter_map(|row| Some(row.get(place)?.chars().count()));
        cells.chain([title]).max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..columns.len()).map(width).collect();
    let mut write_row = |cells: &mut dyn Iterator<Item = &str>| {
        let mut line = String::new();
        for ((cell, width), column) in cells.zip(&widths).zip(columns) {
            let _ = match column.is_number {
                true => write!(line, "{cell:>width$}  "),
                false => write!(line, "{cell:<width$}  "),
            };
        }
        let _ = writeln!(text, "{}", line.trim_end());
    };
    write_row(&mut columns.iter().map(|column| column.title));
    for row in &cells {
        write_row(&mut row.iter().map(String::as_str));
    }
}

fn shown(cell: &Cell) -> String {
    let sign = if cell.state == Condition::Sick { "! " } else { "" };
    printable(format_args!("{sign}{}", cell.text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_terminals_obey_nothing() {
        let rows = vec![
            vec![Cell::new("loop-0"), Cell::new("1")],
            vec![Cell::sick("\u{1b}[2J"), Cell::new("20,000")],
        ];
        let table = Table::new("Loops", &["Loop", "#Turns"], rows);
        let text = page(&[Section { id: "loops", title: "Loops", parts: vec![Part::Table(table)] }]);
        assert_eq!(text, "LOOPS\nLoop          Turns\nloop-0            1\n! \\u{1b}[2J  20,000\n");
    }
}
