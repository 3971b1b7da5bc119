//! What the server says about itself: the access log, the error lines and metrics.
//!
//! Off the request's way. Threads that answer requests leave finished lines in a bounded buffer
//! ([`spool`]) and go on; a writer thread of the log's own does every write that may wait. A slow, full or
//! stuck destination therefore costs lines, which are counted and said, and never a request.
//!
//! It does not decide what is logged, takes part in no answer, and nothing below `flash-arch` knows it.
//!
//! Threads do not survive `fork`: a process of the *mp* architecture opens its logs after it was forked. Files
//! are opened for appending and written in whole lines, so that several processes may share one.

#![forbid(unsafe_code)]

mod access;
mod date;
mod error;
mod format;
mod log_sink;
pub mod metrics;
mod rate_limit;
mod spool;

pub use access::AccessLog;
pub use date::Utc;
pub use error::ErrorLog;
pub use format::Format;
pub use log_sink::{Destination, LogSink, Opener};
pub use rate_limit::RateLimit;
pub use spool::{Closed, Limits};
