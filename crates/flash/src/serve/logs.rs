//! The logs, opened while the server still has all its rights. What is written to them is not known here.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use flash_arch::HelperKind;
use flash_observe::{Destination, LogSink};

use crate::failure::{Failure, cannot};
use crate::flags;

pub(super) struct Logs {
    error: LogSink,
    access: Option<LogSink>,
    /// Those that are opened again after a rotation.
    pub(super) paths: Vec<PathBuf>,
}

impl Logs {
    pub(super) fn open(flags: &flags::Serve) -> Result<Self, Failure> {
        let mut paths = Vec::new();
        let mut open = |to: Destination| {
            if let Destination::Path(path) = &to {
                paths.push(path.clone());
            }
            let place = to.to_string();
            LogSink::open(to).map_err(|error| cannot(format_args!("write a log to {place}"), &error))
        };
        let error = open(flags.error_log.clone().map_or(Destination::Stderr, Destination::Path))?;
        let access = flags.access_log.destination().map(open).transpose()?;
        Ok(Self { error, access, paths })
    }

    /// For one process.
    pub(super) fn error(&self, helper_kind: &HelperKind) -> io::Result<LogSink> {
        again(&self.error, helper_kind)
    }

    pub(super) fn access(&self, helper_kind: &HelperKind) -> io::Result<Option<LogSink>> {
        self.access.as_ref().map(|output| again(output, helper_kind)).transpose()
    }
}

/// With helper processes it is one of them that opens it again: the server may not be able to.
fn again(output: &LogSink, helper_kind: &HelperKind) -> io::Result<LogSink> {
    let output = output.again()?;
    Ok(match helper_kind {
        HelperKind::Threads => output,
        HelperKind::Processes(fork_server) => {
            let fork_server = Arc::clone(fork_server);
            output.reopened_by(Arc::new(move |path| fork_server.open_log(path)))
        }
    })
}
