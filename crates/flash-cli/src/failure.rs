//! Why a program ends without having done what it was asked: one line, and an exit code.

use std::fmt;
use std::io;
use std::path::Path;
use std::process::ExitCode;

/// What went wrong, as it follows `flash load: ` on standard error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The command line, or a file that it names, makes no sense; exit code 2.
    Usage(String),
    /// It made sense but cannot be done here and now: a missing folder, a taken port; exit code 1.
    Run(String),
    /// SIGINT ended the work; exit code 130, as shells say it.
    Interrupted,
}

impl Failure {
    /// A file that the system refused: `cannot read /srv/x: No such file or directory`.
    pub fn io(verb: &str, path: &Path, error: &io::Error) -> Failure {
        Failure::Run(format!("cannot {verb} {}: {error}", path.display()))
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Failure::Usage(_) => 2,
            Failure::Run(_) => 1,
            Failure::Interrupted => 130,
        })
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Usage(what) | Failure::Run(what) => f.write_str(what),
            Failure::Interrupted => f.write_str("interrupted"),
        }
    }
}

impl std::error::Error for Failure {}

/// A chain of what was being done, on one line. A failure in it stays what it is.
impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Failure {
        error.downcast().unwrap_or_else(|error| Failure::Run(format!("{error:#}")))
    }
}
