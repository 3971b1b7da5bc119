//! The table on a terminal while a watch goes on: refreshed twice a second, with keys to sort, filter and leave.

use std::cmp::Reverse;
use std::io;
use std::time::{Duration, Instant};

use ratatui::DefaultTerminal;
use ratatui::Frame;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Style, Stylize};
use ratatui::text::Line;
use ratatui::widgets::{Cell, Row as TableRow, Table};

use crate::advice::advice;
use crate::block::ThreadTotals;
use crate::error::Error;
use crate::summary::{Row, Summary};
use crate::text::{length, loops};
use crate::watch::Watch;

const REFRESH: Duration = Duration::from_millis(500);

/// The table, which has the terminal until it is dropped.
pub struct Live {
    terminal: DefaultTerminal,
    head: String,
    view: View,
    drawn: Option<Instant>,
}

/// What is shown, as keys have set it.
#[derive(Default)]
struct View {
    order: Order,
    filter: String,
    /// The filter is being typed.
    typing: bool,
    /// Also threads that have no loop.
    all_threads: bool,
    /// Lines that have been scrolled over.
    above: usize,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Order {
    #[default]
    Share,
    Count,
    P50,
    P99,
    Max,
    Path,
}

impl Order {
    const KEYS: [(char, Order); 6] = [
        ('s', Order::Share),
        ('c', Order::Count),
        ('5', Order::P50),
        ('9', Order::P99),
        ('m', Order::Max),
        ('p', Order::Path),
    ];

    fn sort(self, rows: &mut [Row]) {
        match self {
            Order::Share => rows.sort_by_key(|row| Reverse(row.weight.us)),
            Order::Count => rows.sort_by_key(|row| Reverse(row.weight.count)),
            Order::P50 => rows.sort_by_key(|row| Reverse(row.p50_us)),
            Order::P99 => rows.sort_by_key(|row| Reverse(row.p99_us)),
            Order::Max => rows.sort_by_key(|row| Reverse(row.max_us)),
            Order::Path => rows.sort_by(|a, b| a.path.cmp(&b.path)),
        }
    }
}

impl Live {
    /// Takes the terminal.
    ///
    /// # Errors
    /// If it is none.
    pub fn open(head: &str) -> Result<Live, Error> {
        let terminal = ratatui::try_init().map_err(failed)?;
        Ok(Live { terminal, head: head.to_owned(), view: View::default(), drawn: None })
    }

    /// Reads keys for so long and draws when it is time; whether a key asked for the end.
    ///
    /// # Errors
    /// If the terminal is gone.
    pub fn turn(&mut self, wait: Duration, summary: &Summary, watch: &mut Watch) -> Result<bool, Error> {
        if event::poll(wait).map_err(failed)? {
            if let Event::Key(key) = event::read().map_err(failed)?
                && key.kind != KeyEventKind::Release
                && self.view.press(key)
            {
                return Ok(true);
            }
            self.drawn = None;
        }
        if self.drawn.is_none_or(|drawn| drawn.elapsed() >= REFRESH) {
            self.drawn = Some(Instant::now());
            let (threads, seconds) = (watch.threads(), watch.watched_for().as_secs_f64());
            let (head, view) = (format!("{}, {seconds:.0} s", self.head), &self.view);
            self.terminal
                .draw(|frame| view.draw(frame, &head, summary, &threads, seconds))
                .map_err(failed)?;
        }
        Ok(false)
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

impl View {
    /// What a key does; whether it asks for the end.
    fn press(&mut self, key: KeyEvent) -> bool {
        if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
            return true;
        }
        if self.typing {
            match key.code {
                KeyCode::Enter => self.typing = false,
                KeyCode::Esc => {
                    self.typing = false;
                    self.filter.clear();
                }
                KeyCode::Backspace => {
                    self.filter.pop();
                }
                KeyCode::Char(letter) => self.filter.push(letter),
                _ => (),
            }
            return false;
        }
        match key.code {
            KeyCode::Char('q') => return true,
            KeyCode::Char('/') => self.typing = true,
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Char('a') => self.all_threads = !self.all_threads,
            KeyCode::Down => self.above += 1,
            KeyCode::Up => self.above = self.above.saturating_sub(1),
            KeyCode::PageDown => self.above += 20,
            KeyCode::PageUp => self.above = self.above.saturating_sub(20),
            KeyCode::Char(letter) => {
                if let Some((_, order)) = Order::KEYS.iter().find(|(key, _)| *key == letter) {
                    self.order = *order;
                    self.above = 0;
                }
            }
            _ => (),
        }
        false
    }

    /// A line has the filter's text anywhere.
    fn shows(&self, row: &Row) -> bool {
        let path = row.path.as_deref().unwrap_or_default();
        [&row.call, row.cause.name(), path].iter().any(|text| text.contains(&self.filter))
    }

    fn draw(&self, frame: &mut Frame, head: &str, summary: &Summary, threads: &[ThreadTotals], seconds: f64) {
        let loops = loops(threads);
        let all = self.all_threads || loops.is_empty();
        let shown = |thread: u32| all || loops.contains(&thread);
        let mut rows = summary.rows(&shown);
        let sentence = advice(&rows, summary.total(&shown), if all { 0 } else { loops.len() });
        rows.retain(|row| self.shows(row));
        self.order.sort(&mut rows);
        let count = if all { threads.len().max(1) } else { loops.len() };
        let [top, middle, below, keys] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Min(3),
            Constraint::Length(1),
            Constraint::Length(1),
        ])
        .areas(frame.area());
        let whose = if all { "all threads" } else { "loops" };
        frame.render_widget(
            Line::from(format!("{head}, {} loops; sleeps of {whose}", loops.len())).bold(),
            top,
        );
        frame.render_widget(self.table(&rows, seconds * count as f64), middle);
        frame.render_widget(Line::from(sentence), below);
        let line = match (self.typing, self.filter.is_empty()) {
            (true, _) => format!("filter: {}_", self.filter),
            (false, false) => format!("only with '{}' (Esc: all)", self.filter),
            (false, true) => {
                "sort: s share, c count, 5 p50, 9 p99, m max, p path   / filter   a all threads   q end"
                    .to_owned()
            }
        };
        frame.render_widget(Line::from(line).dim(), keys);
    }

    fn table(&self, rows: &[Row], seconds: f64) -> Table<'_> {
        let lines = rows.iter().skip(self.above.min(rows.len().saturating_sub(1))).map(|row| {
            TableRow::new([
                row.call.to_string(),
                row.cause.name().to_owned(),
                row.weight.count.to_string(),
                length(row.p50_us),
                length(row.p99_us),
                length(row.max_us),
                format!("{:.1} %", row.weight.us as f64 / 10_000.0 / seconds.max(1e-6)),
                row.ready.map_or_else(String::new, |ready| format!("{ready:.1}")),
                row.path.as_deref().unwrap_or_default().to_owned(),
            ])
        });
        let names = ["CALL", "CAUSE", "COUNT", "P50", "P99", "MAX", "SHARE", "READY", "PATH"];
        let sorted = match self.order {
            Order::Count => 2,
            Order::P50 => 3,
            Order::P99 => 4,
            Order::Max => 5,
            Order::Share => 6,
            Order::Path => 8,
        };
        let titles = names.iter().enumerate().map(|(at, name)| match at == sorted {
            true => Cell::from(name.underlined()),
            false => Cell::from(*name),
        });
        let widths =
            [16, 29, 8, 9, 9, 9, 8, 6].map(Constraint::Length).into_iter().chain([Constraint::Min(20)]);
        Table::new(lines, widths).header(TableRow::new(titles).style(Style::new().bold()))
    }
}

fn failed(error: io::Error) -> Error {
    Error::run(format!("the terminal: {error}"))
}

#[cfg(test)]
mod tests;
