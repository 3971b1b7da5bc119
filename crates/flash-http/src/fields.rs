//! The field lines of a head, for those who pass on what they do not understand.
//!
//! The lines have been checked before; here they are only taken apart again.

use crate::scan;

/// Names and values, in order. Names are as received; values come without the blanks around them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fields<'b> {
    lines: &'b [u8],
}

impl<'b> Fields<'b> {
    /// `lines` begins with a field line or the empty line, and is valid down to the empty line at least. Bytes after the empty
    /// line are not read. Lines may end in LF alone, as those of CGI programs do.
    pub const fn of_checked(lines: &'b [u8]) -> Fields<'b> {
        Fields { lines }
    }
}

impl<'b> Iterator for Fields<'b> {
    type Item = (&'b [u8], &'b [u8]);

    #[inline]
    fn next(&mut self) -> Option<(&'b [u8], &'b [u8])> {
        let end = memchr::memchr(b'\n', self.lines)?;
        let line = &self.lines[..end];
        // The empty line has no colon, and stays where it is.
        let name = scan::token_run(line);
        let value = line.get(name + 1..)?;
        if name == 0 {
            return None;
        }
        self.lines = &self.lines[end + 1..];
        Some((&line[..name], scan::trim(value.strip_suffix(b"\r").unwrap_or(value))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_to_the_empty_one() {
        let read = |lines: &'static str| {
            let fields = Fields::of_checked(lines.as_bytes());
            fields
                .map(|(name, value)| format!("{}={}", name.escape_ascii(), value.escape_ascii()))
                .collect::<Vec<_>>()
        };
        assert_eq!(read("A: 1 \r\nb:\r\nC-d: x: y\r\n\r\nE: no\r\n"), ["A=1", "b=", "C-d=x: y"]);
        assert_eq!(read("A:\t1\nB: 2\n\nE: no\n"), ["A=1", "B=2"]);
        assert!(read("\r\nE: no\r\n").is_empty() && read("\nE: no\n").is_empty() && read("").is_empty());
    }
}
