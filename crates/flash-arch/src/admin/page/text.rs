//! Sections as text: for terminals, and for `curl`.
//!
//! For a narrow terminal lines are wrapped, and the rows of a table that is wider become paragraphs without what is zero or unknown.

use std::fmt::Write as _;

use flash_core::printable::printable;

use super::figure;
use super::section::{Cell, Condition, Part, Section, Table, UNKNOWN};

/// All sections, one below the other.
pub(super) fn page(sections: &[Section], columns: usize) -> String {
    let mut text = String::new();
    for Section { title, parts, .. } in sections.iter().filter(|section| !section.parts.is_empty()) {
        let _ = writeln!(text, "{}{}", if text.is_empty() { "" } else { "\n" }, title.to_uppercase());
        for part in parts {
            write_part(part, columns, &mut text);
        }
    }
    text
}

fn write_part(part: &Part, columns: usize, text: &mut String) {
    match part {
        Part::Pairs(pairs) => {
            let width = pairs.iter().map(|(name, _)| name.chars().count()).max().unwrap_or_default();
            for (name, cell) in pairs {
                let words = shown(cell);
                let mut name = *name;
                for line in wrapped(words.split(' '), " ", columns.saturating_sub(width + 2)) {
                    let _ = writeln!(text, "{name:<width$}  {line}");
                    name = "";
                }
            }
        }
        Part::Figure(figure) => {
            let _ = writeln!(text, "{}", figure::line(figure, columns));
        }
        Part::Table(table) => write_table(table, columns, text),
        Part::Note(note) => {
            let note = printable(format_args!("{note}"));
            for line in wrapped(note.split(' '), " ", columns) {
                let _ = writeln!(text, "{line}");
            }
        }
    }
}

fn write_table(table: &Table, columns_max: usize, text: &mut String) {
    let Table { columns, rows, .. } = table;
    let cells: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(shown).collect()).collect();
    let width = |place: usize| {
        let title = columns[place].title.chars().count();
        let cells = cells.iter().filter_map(|row| Some(row.get(place)?.chars().count()));
        cells.chain([title]).max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..columns.len()).map(width).collect();
    // Two spaces follow each column but the last.
    if widths.iter().sum::<usize>() + 2 * columns.len().saturating_sub(1) > columns_max {
        return rows.iter().for_each(|row| write_paragraph(table, row, columns_max, text));
    }
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

/// A row below its first cell, each figure behind its title.
fn write_paragraph(Table { columns, .. }: &Table, row: &[Cell], columns_max: usize, text: &mut String) {
    let Some((first, rest)) = row.split_first() else { return };
    let _ = writeln!(text, "{}", cut(&shown(first), columns_max));
    let matters = |cell: &Cell| cell.state == Condition::Sick || !matches!(&*cell.text, "" | "0" | UNKNOWN);
    let figures = rest
        .iter()
        .zip(&columns[1..])
        .filter(|(cell, _)| matters(cell))
        .map(|(cell, column)| printable(format_args!("{}{} {}", sign(cell), column.title, cell.text)));
    let figures: Vec<String> = figures.collect();
    for line in wrapped(figures.iter().map(String::as_str), "  ", columns_max.saturating_sub(2)) {
        let _ = writeln!(text, "  {line}");
    }
}

/// Lines of as many parts as fit. A part that is longer than a line goes on in the next.
fn wrapped<'p>(parts: impl Iterator<Item = &'p str>, between: &str, columns: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for part in parts {
        match lines.last_mut() {
            Some(line) if width(line) + between.len() + width(part) <= columns => {
                line.push_str(between);
                line.push_str(part);
            }
            _ if width(part) <= columns => lines.push(part.to_owned()),
            _ => {
                let characters: Vec<char> = part.chars().collect();
                lines.extend(characters.chunks(columns.max(1)).map(String::from_iter));
            }
        }
    }
    lines
}

fn cut(line: &str, columns: usize) -> String {
    if width(line) <= columns {
        return line.to_owned();
    }
    line.chars().take(columns.saturating_sub(1)).chain(['…']).collect()
}

fn width(text: &str) -> usize {
    text.chars().count()
}

fn shown(cell: &Cell) -> String {
    printable(format_args!("{}{}", sign(cell), cell.text))
}

fn sign(cell: &Cell) -> &'static str {
    if cell.state == Condition::Sick { "! " } else { "" }
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
        let text =
            page(&[Section { id: "loops", title: "Loops", parts: vec![Part::Table(table)] }], usize::MAX);
        assert_eq!(text, "LOOPS\nLoop          Turns\nloop-0            1\n! \\u{1b}[2J  20,000\n");
    }

    #[test]
    fn what_is_longer_than_a_line_goes_on_in_the_next() {
        let table = |first: &str| {
            let row = [first, "0123456789abcdefghij", "1"].map(Cell::new);
            Part::Table(Table::new("Servers", &["Route", "Path", "#Busy"], vec![row.into()]))
        };
        let note = "one /0123456789abcdefghij two";
        let parts = vec![
            Part::Pairs(vec![("Fault", Cell::sick("0123456789abc")), ("None", Cell::new(""))]),
            table("/0123456789abcdef"),
            Part::Note(note.into()),
        ];
        let text = page(&[Section { id: "servers", title: "Servers", parts }], 12);
        let expected = "SERVERS\nFault  !\n       01234\n       56789\n       abc\nNone   \n\
                        /0123456789…\n  Path 01234\n  56789abcde\n  fghij\n  Busy 1\n\
                        one\n/0123456789a\nbcdefghij\ntwo\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_narrow_terminal_has_all_that_matters() {
        let row = |first: &str, health: Cell| {
            let figures = ["4", "0", "–", "1,234"].map(Cell::new);
            [Cell::new(first), health].into_iter().chain(figures).collect()
        };
        let rows = vec![row("/app", Cell::well("well")), row(&"/x".repeat(30), Cell::sick("failing"))];
        let columns = ["Route", "Health", "#Busy", "#Waiting", "#Kept", "#Requests"];
        let parts = vec![
            Part::Pairs(vec![
                ("State", Cell::new("serving")),
                ("Fault", Cell::sick("a b c d e f g h i j k l m n")),
            ]),
            Part::Table(Table::new("Servers", &columns, rows)),
            Part::Note("one two three four five six seven".into()),
        ];
        let text = page(&[Section { id: "servers", title: "Servers", parts }], 30);
        let expected = "SERVERS\nState  serving\nFault  ! a b c d e f g h i j k\n       l m n\n\
                        /app\n  Health well  Busy 4\n  Requests 1,234\n\
                        /x/x/x/x/x/x/x/x/x/x/x/x/x/x/…\n  ! Health failing  Busy 4\n  Requests 1,234\n\
                        one two three four five six\nseven\n";
        assert_eq!(text, expected);
    }
}
