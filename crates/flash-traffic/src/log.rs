//! Access logs of web servers, packed or plain, one line at a time. What is asked for is told as the log has it; which of
//! it makes a workload is the [trace](crate::trace)'s affair. Who asked is never read.

mod calendar;
mod format;
mod lines;
mod pack;
mod request;
#[cfg(test)]
mod tests;

use std::fmt;
use std::io::BufRead;
use std::path::Path;

pub use self::format::{Format, UnknownFormat};
use self::lines::{Lines, Taken};
pub use self::request::{LINE_BYTES_MAX, LogError, Request};

/// How many lines of a log are looked at to recognise its format.
const LINES_LOOKED_AT: usize = 50;

/// What became of a log's lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// All lines, those that follow included.
    pub lines: u64,
    /// Lines that are no request in the log's format.
    pub malformed: u64,
    /// Lines above [`LINE_BYTES_MAX`].
    pub overlong: u64,
    /// Where the first line of either kind stands: the log's name and its number, from 1.
    pub first_odd: Option<(String, u64)>,
    /// In which formats the log, or the logs of an archive, are written.
    pub formats: Vec<Format>,
    /// How many files of an archive are no logs.
    pub no_logs: u64,
}

/// Hands every request of a log to `each`, in the order of its lines. Of an archive it is every log's, one after the other;
/// the format of each is recognised from its first lines, unless it is given.
pub fn read(path: &Path, format: Option<Format>, each: &mut dyn FnMut(Request)) -> Result<Report, LogError> {
    let mut report = Report::default();
    pack::each_text(path, &mut |name, text| read_text(name, text, format, &mut report, each))?;
    if report.formats.is_empty() {
        return Err(LogError::Unrecognised { name: path.display().to_string() });
    }
    Ok(report)
}

fn read_text(
    name: &str,
    text: &mut dyn BufRead,
    format: Option<Format>,
    report: &mut Report,
    each: &mut dyn FnMut(Request),
) -> Result<(), LogError> {
    let failed = |source| LogError::Read { name: name.into(), source };
    let mut lines = Lines::new(text);
    let mut first = Vec::new();
    while first.len() < LINES_LOOKED_AT
        && let Some(taken) = lines.take().map_err(failed)?
    {
        first.push(taken.map(<[u8]>::to_vec));
    }
    let looked_at = first.iter().filter_map(|taken| taken.as_ref().whole()).map(Vec::as_slice);
    let Some(format) = format.or_else(|| Format::recognise(looked_at)) else {
        report.no_logs += 1;
        return Ok(());
    };
    if !report.formats.contains(&format) {
        report.formats.push(format);
    }
    let mut number = 0;
    let mut line = |taken: Taken<&[u8]>| {
        number += 1;
        report.lines += 1;
        match taken.whole() {
            None => report.overlong += 1,
            Some(line) => match format.parse(line) {
                Some(request) => return each(request),
                None => report.malformed += 1,
            },
        }
        report.first_odd.get_or_insert_with(|| (name.into(), number));
    };
    for taken in &first {
        line(taken.as_ref().map(Vec::as_slice));
    }
    while let Some(taken) = lines.take().map_err(failed)? {
        line(taken);
    }
    Ok(())
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{} lines", self.lines)?;
        for (count, what) in [(self.malformed, "malformed"), (self.overlong, "too long")] {
            if count > 0 {
                write!(f, ", {count} {what}")?;
            }
        }
        if let Some((name, number)) = &self.first_odd {
            write!(f, " (the first one is line {number} of {name})")?;
        }
        if self.no_logs > 0 {
            write!(f, "; {} other files are no logs", self.no_logs)?;
        }
        Ok(())
    }
}
