//! Why the command ends without having done what it was asked: one line, and an exit code.

use std::fmt;
use std::process::ExitCode;

/// What went wrong, as it follows `flash: ` on standard error.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The command line makes no sense; exit code 2.
    Usage(String),
    /// It made sense but cannot be done here and now: a missing folder, a taken port; exit code 1.
    Run(String),
}

impl Failure {
    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Failure::Usage(_) => ExitCode::from(2),
            Failure::Run(_) => ExitCode::from(1),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Failure::Usage(what) | Failure::Run(what)) = self;
        f.write_str(what)
    }
}

impl std::error::Error for Failure {}
