//! What a program complains about, as lines, and only so many of them, however it comes.

/// A longer line is cut.
const LINE_BYTES_MAX: usize = 1 << 10;
/// What one request's program writes after that nobody reads.
const BYTES_MAX: u64 = 64 << 10;

#[derive(Debug, Default)]
pub(crate) struct Lines {
    /// The last line, as far as it has come.
    line: Vec<u8>,
    heard_bytes: u64,
}

impl Lines {
    pub(crate) fn take(&mut self, bytes: &[u8], say: impl Fn(&[u8])) {
        let room = BYTES_MAX.saturating_sub(self.heard_bytes).min(bytes.len() as u64) as usize;
        self.heard_bytes += bytes.len() as u64;
        for piece in bytes[..room].split_inclusive(|&byte| byte == b'\n') {
            let text = piece.strip_suffix(b"\n").unwrap_or(piece);
            let rest = LINE_BYTES_MAX.saturating_sub(self.line.len());
            self.line.extend_from_slice(&text[..text.len().min(rest)]);
            if text.len() < piece.len() {
                let line = std::mem::take(&mut self.line);
                say(line.strip_suffix(b"\r").unwrap_or(&line));
            }
        }
    }

    /// The last line may lack its end.
    pub(crate) fn end(&mut self, say: impl Fn(&[u8])) {
        if !self.line.is_empty() {
            say(&std::mem::take(&mut self.line));
        }
        if let Some(more) = self.heard_bytes.checked_sub(BYTES_MAX).filter(|&more| more > 0) {
            say(format!("({more} bytes more, not kept)").as_bytes());
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
        let say = |line: &[u8]| said.borrow_mut().push(String::from_utf8_lossy(line).into_owned());
        let mut lines = Lines::default();
        pieces.iter().for_each(|piece| lines.take(piece, say));
        lines.end(say);
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
