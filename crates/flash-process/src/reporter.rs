//! Where processes and upstreams report to: lines of standard error, and what the operator should know.
//!
//! The callbacks run on any thread, event loops' too, so they may not block.

use std::fmt;

pub struct Reporter {
    /// Takes the name of a program or a request, and a line that was written to standard error for it.
    pub stderr_line: StderrLine,
    /// Takes a line for the error log.
    pub log: LogLine,
}

pub type StderrLine = Box<dyn Fn(&str, &[u8]) + Send + Sync>;
pub type LogLine = Box<dyn Fn(fmt::Arguments<'_>) + Send + Sync>;

impl Reporter {
    pub fn stderr_line(&self, name: &str, line: &[u8]) {
        (self.stderr_line)(name, line);
    }

    pub fn log(&self, what: fmt::Arguments<'_>) {
        (self.log)(what);
    }
}

impl fmt::Debug for Reporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reporter")
    }
}
