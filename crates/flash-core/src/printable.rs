//! Text of others where people read it: in logs, on terminals and on pages. Characters that a terminal obeys, and those that turn a line
//! around or are not seen, are written as their numbers.

use std::fmt::{self, Write};

/// Whether a character is seen, and nothing happens by it but that.
pub fn is_printable(c: char) -> bool {
    let is_format = matches!(
        c,
        '\u{ad}'
            | '\u{61c}'
            | '\u{180e}'
            // Of no width, and marks of a direction.
            | '\u{200b}'..='\u{200f}'
            // Separators of lines, and all that changes the direction.
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}'
    );
    !(is_format || c.is_control())
}

/// The text on one line, with such characters as Rust writes them: `\n`, `\u{9b}`.
pub fn printable(text: fmt::Arguments<'_>) -> String {
    let mut line = Line(String::new());
    // A value whose Display fails is cut short.
    let _ = line.write_fmt(text);
    line.0
}

/// The text in its lines, with a mark in place of each such character. So a mark below another stays there.
pub fn printable_lines(text: &str) -> String {
    text.chars().map(|c| if c == '\n' || is_printable(c) { c } else { char::REPLACEMENT_CHARACTER }).collect()
}

struct Line(String);

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for c in text.chars() {
            match is_printable(c) {
                true => self.0.push(c),
                false => self.0.extend(c.escape_default()),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_obeys_or_nobody_sees_is_a_number() {
        assert_eq!(
            printable(format_args!("/\u{e9} {} \u{1f600}\u{301}", "日本")),
            "/\u{e9} 日本 \u{1f600}\u{301}"
        );
        assert_eq!(printable_lines("a\n\u{1b}\u{9b}b"), "a\n\u{fffd}\u{fffd}b");
        assert_eq!(printable(format_args!("a\n\t\u{1b}[2J\u{7f}")), "a\\n\\t\\u{1b}[2J\\u{7f}");
        for c in ['\u{9b}', '\u{85}', '\u{202e}', '\u{2066}', '\u{200b}', '\u{2028}', '\u{feff}', '\u{e0041}']
        {
            assert_eq!(printable(format_args!("{c}")), format!("\\u{{{:x}}}", u32::from(c)));
        }
    }
}
