//! The terminal while `flash top` has it: no echo, no cursor, the screen of before kept. It is as it was when this is dropped.

use std::collections::VecDeque;
use std::io::{self, Read, Stdin, Stdout, Write};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGWINCH};

/// Another screen than the shell's, without a cursor and without wrapped lines.
const ENTER: &[u8] = b"\x1b[?1049h\x1b[?25l\x1b[?7l";
const LEAVE: &[u8] = b"\x1b[?7h\x1b[?25h\x1b[?1049l";
const USUAL_SIZE: (usize, usize) = (80, 24);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Quit,
    Up,
    Down,
    Left,
    Right,
    PageUp,
    PageDown,
    Home,
    Other,
}

pub(super) struct Screen {
    input: Stdin,
    output: Stdout,
    /// The terminal's modes of before, if keys come from a terminal.
    before: Option<Termios>,
    /// Keys that came together.
    keys: VecDeque<Key>,
    /// The beginning of a key whose end has not been read.
    part: Vec<u8>,
    /// A signal to end has come.
    ends: Arc<AtomicBool>,
}

impl Screen {
    pub(super) fn open() -> io::Result<Self> {
        let (input, mut output, ends) = (io::stdin(), io::stdout(), Arc::new(AtomicBool::new(false)));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, Arc::clone(&ends))?;
        }
        // It only ends the wait for a key, and the next frame has the new size.
        signal_hook::flag::register(SIGWINCH, Arc::default())?;
        let before = tcgetattr(&input).ok();
        if let Some(before) = &before {
            let mut modes = before.clone();
            modes.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG);
            tcsetattr(&input, OptionalActions::Now, &modes)?;
        }
        let screen =
            Self { input, output: io::stdout(), before, keys: VecDeque::new(), part: Vec::new(), ends };
        output.write_all(ENTER)?;
        output.flush()?;
        Ok(screen)
    }

    /// Columns and rows.
    pub(super) fn size(&self) -> (usize, usize) {
        match tcgetwinsize(&self.output) {
            Ok(size) if size.ws_col > 0 && size.ws_row > 0 => (size.ws_col.into(), size.ws_row.into()),
            _ => USUAL_SIZE,
        }
    }

    pub(super) fn show(&mut self, lines: &[String]) -> io::Result<()> {
        let mut bytes = b"\x1b[H".to_vec();
        for (place, line) in lines.iter().enumerate() {
            bytes.extend_from_slice(line.as_bytes());
            // What was behind the line before. No new line after the last one, or the terminal would scroll.
            bytes.extend_from_slice(if place + 1 < lines.len() { b"\x1b[K\r\n" } else { b"\x1b[K\x1b[J" });
        }
        self.output.write_all(&bytes)?;
        self.output.flush()
    }

    /// Waits for a key. `None` when the time is over, or the terminal has another size.
    pub(super) fn key(&mut self, timeout: Duration) -> io::Result<Option<Key>> {
        if self.ends.load(Ordering::Relaxed) {
            return Ok(Some(Key::Quit));
        }
        if let Some(key) = self.keys.pop_front() {
            return Ok(Some(key));
        }
        let timeout = Timespec::try_from(timeout).ok();
        let mut waited_for = [PollFd::from_borrowed_fd(self.input.as_fd(), PollFlags::IN)];
        // Without a terminal there are no keys.
        let waited_for = if self.before.is_some() { &mut waited_for[..] } else { &mut [] };
        match poll(waited_for, timeout.as_ref()) {
            Err(Errno::INTR) if self.ends.load(Ordering::Relaxed) => Ok(Some(Key::Quit)),
            Ok(0) | Err(Errno::INTR) => Ok(None),
            Ok(_) => {
                let mut bytes = [0; 64];
                let count = self.input.lock().read(&mut bytes)?;
                let mut read = std::mem::take(&mut self.part);
                read.extend_from_slice(&bytes[..count]);
                let whole = whole_bytes(&read, count == bytes.len());
                self.part = read.split_off(whole);
                self.keys = if count == 0 { VecDeque::from([Key::Quit]) } else { keys_of(&read) };
                Ok(Some(self.keys.pop_front().unwrap_or(Key::Other)))
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// How many of these bytes are whole keys. If `more` wait, an escape at the end begins one.
fn whole_bytes(bytes: &[u8], more: bool) -> usize {
    let Some(at) = bytes.iter().rposition(|byte| *byte == 0x1b) else { return bytes.len() };
    let is_part = match &bytes[at..] {
        [_] => more,
        [_, b'O'] => true,
        [_, b'[', parameters @ ..] => !parameters.iter().any(|byte| matches!(byte, 0x40..=0x7e)),
        _ => false,
    };
    if is_part { at } else { bytes.len() }
}

/// The keys of one read: several may have been pressed, or pasted.
fn keys_of(mut bytes: &[u8]) -> VecDeque<Key> {
    let mut keys = VecDeque::new();
    while !bytes.is_empty() {
        let (key, rest) = bytes.split_at(key_bytes(bytes));
        keys.push_back(key_of(key));
        bytes = rest;
    }
    keys
}

/// How long the first key is: a byte, or an escape sequence (ECMA-48 §5.4).
fn key_bytes(bytes: &[u8]) -> usize {
    match bytes {
        [0x1b, b'[', parameters @ ..] => {
            let last = parameters.iter().position(|byte| matches!(byte, 0x40..=0x7e));
            last.map_or(bytes.len(), |last| last + 3)
        }
        [0x1b, b'O', _, ..] => 3,
        _ => 1,
    }
}

fn key_of(bytes: &[u8]) -> Key {
    match bytes {
        [b'q' | b'Q' | 3 | 4] | [0x1b] => Key::Quit,
        b"k" | b"\x1b[A" | b"\x1bOA" => Key::Up,
        b"j" | b"\x1b[B" | b"\x1bOB" => Key::Down,
        b"l" | b"\x1b[C" | b"\x1bOC" => Key::Right,
        b"h" | b"\x1b[D" | b"\x1bOD" => Key::Left,
        b"\x1b[5~" => Key::PageUp,
        b" " | b"\x1b[6~" => Key::PageDown,
        b"g" | b"\x1b[H" | b"\x1b[1~" => Key::Home,
        _ => Key::Other,
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // Nothing is left to do if the terminal is gone.
        let _ = self.output.write_all(LEAVE).and_then(|()| self.output.flush());
        if let Some(before) = &self.before {
            let _ = tcsetattr(&self.input, OptionalActions::Now, before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(text: &str) -> Vec<Key> {
        keys_of(text.as_bytes()).into()
    }

    #[test]
    fn keys_and_what_they_mean() {
        for quits in ["q", "\x03", "\x1b"] {
            assert_eq!(keys(quits), [Key::Quit], "{quits:?}");
        }
        assert_eq!(["\x1b[A", "k"].map(keys), [[Key::Up]; 2]);
        assert_eq!((keys("\x1b[6~"), keys("x")), (vec![Key::PageDown], vec![Key::Other]));
    }

    /// The end of an arrow is no key of its own, and its beginning does not quit.
    #[test]
    fn a_key_that_a_read_has_cut_is_one() {
        for (bytes, more, whole) in [
            ("jj\x1b[", false, 2),
            ("j\x1b[1;5", false, 1),
            ("j\x1bO", false, 1),
            ("j\x1b", true, 1),
            ("j\x1b", false, 2),
            ("\x1b[A", true, 3),
            ("jq", true, 2),
        ] {
            assert_eq!(whole_bytes(bytes.as_bytes(), more), whole, "{bytes:?}");
        }
    }

    #[test]
    fn keys_that_come_together_are_several() {
        assert_eq!(keys("qq"), [Key::Quit; 2]);
        assert_eq!(keys("\x1b[B\x1b[B\x1bOAjq"), [Key::Down, Key::Down, Key::Up, Key::Down, Key::Quit]);
        assert_eq!(keys("\x1b[1;5Cxq"), [Key::Other, Key::Other, Key::Quit]);
        assert_eq!(keys("é")[..], [Key::Other; 2]);
    }
}
