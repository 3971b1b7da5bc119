//! Where the logs go, and how their lines look.

use std::ffi::OsString;

use clap::ValueEnum;
use clap::builder::PossibleValue;
use flash_core::record::trace;
use flash_observe::{Destination, ErrorFormat, Field, Format, LogDaemon, Severity};

/// The value of `--access-log`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LogTo {
    Off,
    To(Destination),
}

impl LogTo {
    /// A file that is really called `off` is reached as `./off`.
    pub(crate) fn parse(text: OsString) -> Result<LogTo, String> {
        match text.as_encoded_bytes() {
            b"off" => Ok(LogTo::Off),
            b"-" => Ok(LogTo::To(Destination::Stdout)),
            _ => file_or_daemon(text, Severity::Info).map(LogTo::To),
        }
    }

    pub(crate) fn destination(&self) -> Option<Destination> {
        match self {
            LogTo::Off => None,
            LogTo::To(destination) => Some(destination.clone()),
        }
    }
}

/// The value of `--error-log`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ErrorLogTo(pub(crate) Destination);

impl ErrorLogTo {
    pub(crate) fn parse(text: OsString) -> Result<ErrorLogTo, String> {
        file_or_daemon(text, Severity::Warning).map(ErrorLogTo)
    }
}

fn file_or_daemon(text: OsString, severity: Severity) -> Result<Destination, String> {
    match text.to_str().filter(|text| LogDaemon::is_named_by(text)) {
        Some(daemon) => LogDaemon::parse(daemon, severity).map(Destination::Daemon),
        None => Ok(Destination::Path(text.into())),
    }
}

/// The value of `--trace-context`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TraceContext {
    /// Programs get the client's traceparent as it is
    PassThrough,
    /// Flash has a span of its own in each trace, which its access log names
    Participate,
    /// The same, and a request without a valid traceparent begins a trace
    Always,
}

impl From<TraceContext> for trace::TraceContext {
    fn from(context: TraceContext) -> Self {
        match context {
            TraceContext::PassThrough => Self::PassThrough,
            TraceContext::Participate => Self::Participate,
            TraceContext::Always => Self::Always,
        }
    }
}

/// The value of `--log-format`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// Apache's combined format, which every log analyser reads
    Combined,
    /// The same behind the host and its port, as Apache's vhost_combined
    VhostCombined,
    /// One JSON object a line
    Json,
    /// Status, request, size and time, for a person
    Short,
}

impl From<LogFormat> for Format {
    fn from(format: LogFormat) -> Format {
        match format {
            LogFormat::Combined => Format::Combined,
            LogFormat::VhostCombined => Format::VhostCombined,
            LogFormat::Json => Format::json(),
            LogFormat::Short => Format::Short,
        }
    }
}

/// The value of `--error-log-format`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ErrorLogFormat {
    /// For people, and for fail2ban
    Text,
    /// One JSON object a line
    Json,
}

impl From<ErrorLogFormat> for ErrorFormat {
    fn from(format: ErrorLogFormat) -> ErrorFormat {
        match format {
            ErrorLogFormat::Text => ErrorFormat::Text,
            ErrorLogFormat::Json => ErrorFormat::Json,
        }
    }
}

/// A value of `--log-fields`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogField(pub(crate) Field);

impl ValueEnum for LogField {
    fn value_variants<'a>() -> &'a [Self] {
        const ALL: [LogField; Field::ALL.len()] = {
            let mut all = [LogField(Field::Time); Field::ALL.len()];
            let mut at = 0;
            while at < all.len() {
                all[at] = LogField(Field::ALL[at]);
                at += 1;
            }
            all
        };
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.0.name()).help(self.0.meaning()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_of_logs_has_all_fields() {
        let page =
            std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/logs.md")).unwrap();
        for field in Field::ALL {
            let row = format!("| `{}` | {} |", field.name(), field.meaning());
            assert!(page.contains(&row), "{row}");
        }
    }
}
