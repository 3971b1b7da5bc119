//! How a line of the error log looks: as text, or as an object.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use flash_core::printable::printable;
use flash_core::record::refusal_log::Refused;

use crate::date::Utc;
use crate::format::json_text;
use crate::log_sink::{Destination, LogSink};

/// How error lines are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ErrorFormat {
    /// `flash: …`. A file's lines begin with the time; a terminal or a journal has its own.
    #[default]
    Text,
    /// An object on each line.
    Json,
}

/// The same, as far as it may change while lines are written.
#[derive(Clone, Debug, Default)]
pub(crate) struct LineStyle {
    is_dated: Arc<AtomicBool>,
    is_json: Arc<AtomicBool>,
    /// The lines go to standard error.
    is_stderr: Arc<AtomicBool>,
}

impl LineStyle {
    pub(crate) fn set_format(&self, format: ErrorFormat) {
        self.is_json.store(format == ErrorFormat::Json, Ordering::Relaxed);
    }

    pub(crate) fn is_json(&self) -> bool {
        self.is_json.load(Ordering::Relaxed)
    }

    pub(crate) fn is_stderr(&self) -> bool {
        self.is_stderr.load(Ordering::Relaxed)
    }

    /// The lines go to this sink.
    pub(crate) fn suit(&self, sink: &LogSink) {
        let destination = sink.destination();
        self.is_dated.store(matches!(destination, Destination::Path(_)), Ordering::Relaxed);
        self.is_stderr.store(matches!(destination, Destination::Stderr), Ordering::Relaxed);
    }
}

/// A line with its newline. What it says cannot leave it, nor speak to a terminal.
pub(crate) fn line(style: &LineStyle, what: fmt::Arguments<'_>) -> String {
    if style.is_json() {
        return json_line(what);
    }
    let what = printable(what);
    match style.is_dated.load(Ordering::Relaxed) {
        true => format!("{} flash: {what}\n", Utc::now().rfc3339()),
        false => format!("flash: {what}\n"),
    }
}

/// The line as an object.
pub fn json_line(what: fmt::Arguments<'_>) -> String {
    let mut line = json_begin();
    put_text(&mut line, "message", printable(what).as_bytes());
    String::from_utf8_lossy(&json_end(line)).into_owned()
}

pub(crate) fn refused_json(refused: &Refused<'_>, site: Option<&str>) -> Vec<u8> {
    let mut line = json_begin();
    put_text(&mut line, "client", refused.client.to_string().as_bytes());
    site.iter().for_each(|site| put_text(&mut line, "site", site.as_bytes()));
    refused.user.iter().for_each(|user| put_text(&mut line, "user", user));
    if !refused.path.is_empty() {
        put_text(&mut line, "path", refused.path);
    }
    let (status, message) = refused.reason.split_once(": ").unwrap_or(("", refused.reason));
    if let Ok(status) = status.parse::<u16>() {
        line.extend_from_slice(format!(",\"status\":{status}").as_bytes());
    }
    put_text(&mut line, "message", message.as_bytes());
    if refused.unsaid > 0 {
        line.extend_from_slice(format!(",\"more\":{}", refused.unsaid).as_bytes());
    }
    json_end(line)
}

fn json_begin() -> Vec<u8> {
    format!("{{\"time\":\"{}\"", Utc::now().rfc3339()).into_bytes()
}

fn put_text(line: &mut Vec<u8>, name: &str, text: &[u8]) {
    line.extend_from_slice(format!(",\"{name}\":\"").as_bytes());
    json_text(text, line);
    line.push(b'"');
}

fn json_end(mut line: Vec<u8>) -> Vec<u8> {
    line.extend_from_slice(b"}\n");
    line
}
