//! Splits what a program writes to its standard error into lines, and limits their number and length.

/// A longer line is cut.
const LINE_BYTES_MAX: usize = 1 << 10;
/// Bytes beyond this many, from one request's program, are counted and dropped.
const BYTES_MAX: u64 = 64 << 10;

#[derive(Debug, Default)]
pub struct LineLimiter {
    /// The last line, as far as it has come.
    line: Vec<u8>,
    seen_bytes: u64,
}

impl LineLimiter {
    pub fn push(&mut self, bytes: &[u8], emit: impl Fn(&[u8])) {
        let left = BYTES_MAX.saturating_sub(self.seen_bytes).min(bytes.len() as u64) as usize;
        self.seen_bytes += bytes.len() as u64;
        for piece in bytes[..left].split_inclusive(|&byte| byte == b'\n') {
            let text = piece.strip_suffix(b"\n").unwrap_or(piece);
            let rest = LINE_BYTES_MAX.saturating_sub(self.line.len());
            self.line.extend_from_slice(&text[..text.len().min(rest)]);
            if text.len() < piece.len() {
                let line = std::mem::take(&mut self.line);
                emit(line.strip_suffix(b"\r").unwrap_or(&line));
            }
        }
    }

    /// The last line may lack its end.
    pub fn end(&mut self, emit: impl Fn(&[u8])) {
        if !self.line.is_empty() {
            emit(&std::mem::take(&mut self.line));
        }
        if let Some(more) = self.seen_bytes.checked_sub(BYTES_MAX).filter(|&more| more > 0) {
            emit(format!("({more} bytes more, not kept)").as_bytes());
        }
    }
}

/// What holds for lines whichever way they come.
#[cfg(test)]
pub(crate) mod tests {
    use std::cell::RefCell;

    use super::*;

    pub(crate) fn come_one_by_one(heard: impl Fn(&[&[u8]]) -> Vec<String>) {
        assert_eq!(heard(&[b"one\ntwo", b" and\r\n", b"\nlast"]), ["one", "two and", "", "last"]);
        assert_eq!(heard(&[]), [""; 0]);
    }

    pub(crate) fn are_cut_and_counted(heard: impl Fn(&[&[u8]]) -> Vec<String>) {
        assert_eq!(heard(&[&[b'x'; 3000], b"y\nz\n"]), ["x".repeat(LINE_BYTES_MAX), "z".into()]);
        let lines = heard(&[&[b'\n'; 60_000], &[b'\n'; 60_000]]);
        assert_eq!(lines.len() as u64, BYTES_MAX + 1);
        assert_eq!(lines.last().unwrap(), "(54464 bytes more, not kept)");
    }

    fn heard(pieces: &[&[u8]]) -> Vec<String> {
        let said = RefCell::new(Vec::new());
        let emit = |line: &[u8]| said.borrow_mut().push(String::from_utf8_lossy(line).into_owned());
        let mut lines = LineLimiter::default();
        pieces.iter().for_each(|piece| lines.push(piece, emit));
        lines.end(emit);
        said.into_inner()
    }

    #[test]
    fn lines_come_one_by_one_however_they_arrive() {
        come_one_by_one(heard);
    }

    #[test]
    fn long_lines_are_cut_and_floods_are_counted() {
        are_cut_and_counted(heard);
    }
}
