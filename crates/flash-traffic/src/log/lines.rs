//! Lines of bounded length. A longer line is skipped without being stored.

use std::io::{self, BufRead};

use super::request::LINE_BYTES_MAX;

/// One line, without its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken<T> {
    Whole(T),
    TooLong,
}

pub(super) struct Lines<'a> {
    text: &'a mut dyn BufRead,
    line: Vec<u8>,
}

impl<'a> Lines<'a> {
    pub(super) fn new(text: &'a mut dyn BufRead) -> Self {
        Self { text, line: Vec::new() }
    }

    /// The next line; None at the end of the text, whose last line needs no end.
    pub(super) fn take(&mut self) -> io::Result<Option<Taken<&[u8]>>> {
        self.line.clear();
        let mut begun = false;
        let mut too_long = false;
        loop {
            let ahead = match self.text.fill_buf() {
                Ok(ahead) => ahead,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if ahead.is_empty() && !begun {
                return Ok(None);
            }
            begun = true;
            let end = ahead.iter().position(|&byte| byte == b'\n');
            let part = &ahead[..end.unwrap_or(ahead.len())];
            too_long |= self.line.len() + part.len() > LINE_BYTES_MAX;
            if !too_long {
                self.line.extend_from_slice(part);
            }
            let ended = end.is_some() || ahead.is_empty();
            let used = part.len() + usize::from(end.is_some());
            self.text.consume(used);
            if ended {
                break;
            }
        }
        let line = self.line.strip_suffix(b"\r").unwrap_or(&self.line);
        Ok(Some(if too_long { Taken::TooLong } else { Taken::Whole(line) }))
    }
}

impl<T> Taken<T> {
    pub(super) fn map<U>(self, change: impl FnOnce(T) -> U) -> Taken<U> {
        match self {
            Self::Whole(line) => Taken::Whole(change(line)),
            Self::TooLong => Taken::TooLong,
        }
    }

    pub(super) fn as_ref(&self) -> Taken<&T> {
        match self {
            Self::Whole(line) => Taken::Whole(line),
            Self::TooLong => Taken::TooLong,
        }
    }

    pub(super) fn whole(self) -> Option<T> {
        match self {
            Self::Whole(line) => Some(line),
            Self::TooLong => None,
        }
    }
}
