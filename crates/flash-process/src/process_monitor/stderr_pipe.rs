//! A program's standard error: the read end of a pipe, watched for bytes.

use std::os::fd::OwnedFd;

use flash_os::poller::{Interest, Poller};
use rustix::io::Errno;

use crate::line_limiter::LineLimiter;

#[derive(Debug)]
pub(super) struct StderrPipe {
    pipe: OwnedFd,
    lines: LineLimiter,
    /// Whether there is an event when more has come.
    is_watched: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadOutcome {
    /// All there was.
    Drained,
    /// There may be much more.
    More,
    /// There will be no more.
    Eof,
}

impl StderrPipe {
    pub(super) fn new(pipe: OwnedFd) -> Self {
        Self { pipe, lines: LineLimiter::default(), is_watched: false }
    }

    /// Wants an event of that token when there is more.
    pub(super) fn watch(&mut self, poller: &Poller, token: u64) {
        // Without memory for it the pipe is read at the program's end.
        self.is_watched = poller.add(&self.pipe, token, Interest::INPUT).is_ok();
    }

    /// Wants none any more. Closing the pipe is not enough where a child has a copy that is about to become a program.
    pub(super) fn ignore(&mut self, poller: &Poller) {
        if std::mem::take(&mut self.is_watched) {
            let _ = poller.delete(&self.pipe);
        }
    }

    /// Reads what there is, up to as much as a pipe holds.
    pub(super) fn read(&mut self, buffer: &mut [u8], say: impl Fn(&[u8])) -> ReadOutcome {
        let length = buffer.len();
        match rustix::io::retry_on_intr(|| rustix::io::read(&self.pipe, &mut *buffer)) {
            Err(Errno::AGAIN) => ReadOutcome::Drained,
            Ok(0) | Err(_) => {
                self.end(say);
                ReadOutcome::Eof
            }
            Ok(count) => {
                self.lines.push(&buffer[..count], say);
                if count == length { ReadOutcome::More } else { ReadOutcome::Drained }
            }
        }
    }

    /// There will be no more.
    pub(super) fn end(&mut self, say: impl Fn(&[u8])) {
        self.lines.end(say);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use rustix::pipe::{PipeFlags, pipe_with};

    use super::*;
    use crate::line_limiter;

    fn heard(pieces: &[&[u8]]) -> Vec<String> {
        let (read, write) = pipe_with(PipeFlags::NONBLOCK).unwrap();
        let mut stderr = StderrPipe::new(read);
        let said = RefCell::new(Vec::new());
        let say = |line: &[u8]| said.borrow_mut().push(String::from_utf8_lossy(line).into_owned());
        let mut buffer = vec![0; 64 << 10];
        for piece in pieces {
            rustix::io::write(&write, piece).unwrap();
            stderr.read(&mut buffer, say);
        }
        drop(write);
        assert_eq!(stderr.read(&mut buffer, say), ReadOutcome::Eof);
        said.into_inner()
    }

    #[test]
    fn lines_come_one_by_one_however_they_are_written() {
        line_limiter::tests::come_one_by_one(heard);
    }

    #[test]
    fn long_lines_are_cut_and_floods_are_counted() {
        line_limiter::tests::are_cut_and_counted(heard);
    }
}
