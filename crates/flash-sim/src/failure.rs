//! Why the command ends without having done what it was asked: one line, and an exit code.

use std::path::Path;
use std::process::ExitCode;

/// What went wrong, as it follows `flash-sim: ` on standard error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Failure {
    /// What was asked for makes no sense, on the command line or in a file; exit code 2.
    #[error("{0}")]
    Usage(String),
    /// It made sense but cannot be done here and now; exit code 1.
    #[error("{0}")]
    Run(String),
}

impl Failure {
    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Failure::Usage(_) => ExitCode::from(2),
            Failure::Run(_) => ExitCode::from(1),
        }
    }

    /// A file or folder that the system refused.
    pub(crate) fn at(path: &Path, error: &std::io::Error) -> Failure {
        Failure::Run(format!("{}: {error}", path.display()))
    }
}

/// What the rig says is a chain of what was being done.
impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Failure {
        Failure::Run(format!("{error:#}"))
    }
}
