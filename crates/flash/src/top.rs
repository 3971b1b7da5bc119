//! `flash top`: the status page of a running server on a terminal, shown again each second.
//!
//! The server makes the text, for the width of the terminal. Here what is still wider is cut, and scrolled.

mod screen;

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use self::screen::{Key, Screen};
use crate::administer;
use crate::failure::Failure;
use crate::flags::Top;

const EVERY: Duration = Duration::from_secs(1);
/// How far a key moves the page sideways.
const COLUMNS_AT_ONCE: usize = 20;

/// Shows the page until `q` is pressed.
///
/// # Errors
/// If the server cannot be asked at the beginning, or the terminal fails.
pub(crate) fn run(flags: &Top) -> Result<(), Failure> {
    if flags.once || !io::stdout().is_terminal() {
        return flash_cli::print(administer::get(&flags.to, "/status.txt")?.as_bytes());
    }
    let failed = |error: io::Error| Failure::Run(format!("cannot write to the terminal: {error}"));
    let mut screen = Screen::open().map_err(failed)?;
    let mut page = administer::get(&flags.to, &path_for(screen.size().0))?;
    let (mut top, mut left, mut lost) = (0, 0_usize, None);
    loop {
        let next = Instant::now() + EVERY;
        loop {
            let (columns, rows) = screen.size();
            let frame =
                Frame { page: &page, lost: lost.map(|since: Instant| since.elapsed()), columns, rows };
            top = top.min(frame.top_max());
            left = left.min(frame.left_max());
            screen.show(&frame.lines(top, left)).map_err(failed)?;
            let pause = next.saturating_duration_since(Instant::now());
            let page_rows = rows.saturating_sub(2).max(1);
            match screen.key(pause).map_err(failed)? {
                Some(Key::Quit) => return Ok(()),
                Some(Key::Up) => top = top.saturating_sub(1),
                Some(Key::Down) => top += 1,
                Some(Key::Left) => left = left.saturating_sub(COLUMNS_AT_ONCE),
                Some(Key::Right) => left += COLUMNS_AT_ONCE,
                Some(Key::PageUp) => top = top.saturating_sub(page_rows),
                Some(Key::PageDown) => top += page_rows,
                Some(Key::Home) => (top, left) = (0, 0),
                Some(Key::Other) => {}
                None => break,
            }
        }
        match administer::get(&flags.to, &path_for(screen.size().0)) {
            Ok(latest) => (page, lost) = (latest, None),
            Err(_) => _ = lost.get_or_insert_with(Instant::now),
        }
    }
}

fn path_for(columns: usize) -> String {
    format!("/status.txt?columns={columns}")
}

/// What is on the terminal at one moment.
struct Frame<'a> {
    page: &'a str,
    /// How long the server has not answered.
    lost: Option<Duration>,
    columns: usize,
    rows: usize,
}

impl Frame<'_> {
    /// Rows for the page. The last row of the terminal has the keys.
    fn page_rows(&self) -> usize {
        self.rows.saturating_sub(1).max(1)
    }

    /// The last line that may be the first one shown.
    fn top_max(&self) -> usize {
        self.page.lines().count().saturating_sub(self.page_rows())
    }

    /// The last column that may be the first one shown.
    fn left_max(&self) -> usize {
        let longest = self.page.lines().map(|line| line.chars().count()).max().unwrap_or_default();
        longest.saturating_sub(self.columns)
    }

    /// The lines from this one and this column on, each cut to the terminal, with what stands out marked.
    fn lines(&self, top: usize, left: usize) -> Vec<String> {
        let cut = |line: &str| line.chars().take(self.columns).collect::<String>();
        let shown = |line: &str| cut(&line.chars().skip(left).collect::<String>());
        let page = self.page.lines().skip(top).take(self.page_rows());
        let mut lines: Vec<String> = page.map(|line| marked(&shown(line))).collect();
        lines.resize(self.page_rows(), String::new());
        lines.push(match self.lost {
            Some(since) => {
                format!("{RED}{}{PLAIN}", cut(&format!("not connected for {} s   q quits", since.as_secs())))
            }
            None => format!("{FAINT}{}{PLAIN}", cut("q quits   arrows scroll")),
        });
        lines
    }
}

const BOLD: &str = "\x1b[1m";
const FAINT: &str = "\x1b[2m";
const RED: &str = "\x1b[1;31m";
const PLAIN: &str = "\x1b[0m";

/// A line with its heading in bold, or with what is sick in red. A sick figure has a sign before it, too.
fn marked(line: &str) -> String {
    if !line.is_empty() && !line.contains(|char: char| char.is_lowercase() || char.is_ascii_digit()) {
        return format!("{BOLD}{line}{PLAIN}");
    }
    let sick = line.find("! ").filter(|at| *at == 0 || line[..*at].ends_with("  "));
    let Some(begin) = sick else { return line.to_owned() };
    let end = line[begin..].find("  ").map_or(line.len(), |length| begin + length);
    format!("{}{RED}{}{PLAIN}{}", &line[..begin], &line[begin..end], &line[end..])
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "SUMMARY\nState  serving\n\nDEVICES\nMount  State   Jobs\n/a     ! down  files\n";

    fn frame(columns: usize, rows: usize) -> Frame<'static> {
        Frame { page: PAGE, lost: None, columns, rows }
    }

    #[test]
    fn what_is_sick_stands_out() {
        assert_eq!(marked("/a     ! down  files"), "/a     \x1b[1;31m! down\x1b[0m  files");
        assert_eq!(marked("hello! you"), "hello! you");
        assert_eq!(marked("DEVICES"), "\x1b[1mDEVICES\x1b[0m");
    }

    #[test]
    fn a_small_terminal_gets_a_part() {
        let frame = frame(6, 4);
        assert_eq!(frame.top_max(), 3);
        let lines = frame.lines(3, 0);
        assert_eq!(lines.len(), 4);
        assert!(lines[1].contains("Mount ") && !lines[1].contains("State"), "{lines:?}");
        assert_eq!((frame.left_max(), &*frame.lines(3, 7)[1]), (14, "State "), "the rest is beside it");
    }

    #[test]
    fn a_large_terminal_is_filled() {
        assert_eq!((frame(80, 24).lines(0, 0).len(), frame(80, 24).left_max()), (24, 0));
        let lost = Frame { lost: Some(Duration::from_secs(3)), ..frame(80, 24) };
        assert!(lost.lines(0, 0)[23].contains("not connected for 3 s"));
    }
}
