//! The access log, the error log, metrics, and the recorder of loops' sleeps.
//!
//! Threads that answer requests put finished lines into a bounded buffer ([`spool`]) and continue. Threads that
//! serve all logs do every write that may wait. So a slow, full or stuck destination costs lines, and never delays a request.
//! Lost lines are counted and reported.
//!
//! This crate does not decide what is logged, and takes part in no response. No crate below `flash-arch` depends on it.
//!
//! Threads do not survive `fork`: a process of the *mp* architecture opens its logs after it was forked. Files
//! are opened for appending and written in whole lines, so that several processes may share one.

#![forbid(unsafe_code)]

mod access;
mod access_logs;
mod date;
mod error;
mod error_line;
mod format;
mod log_sink;
pub mod metrics;
mod rate_limit;
mod sleep_recorder;
mod spool;
mod writers;

pub use access::AccessLog;
pub use access_logs::AccessLogs;
pub use date::Utc;
pub use error::ErrorLog;
pub use error_line::{ErrorFormat, json_line};
pub use format::{Field, Format};
pub use log_sink::{Destination, LogDaemon, LogSink, Opener, Severity};
pub use rate_limit::RateLimit;
pub use sleep_recorder::{ConnectRecorder, record_sleeps, recorder_thread};
pub use spool::{Closed, Limits, OnReopened};
pub use writers::Writers;
