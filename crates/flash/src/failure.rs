//! Why the command ends without having done what it was asked: one line, and an exit code.

use std::fmt;
use std::io::{self, ErrorKind};
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

/// What could not be done, and why in words that help.
pub(crate) fn cannot(what: fmt::Arguments<'_>, error: &io::Error) -> Failure {
    let why = match error.kind() {
        ErrorKind::NotFound => "there is no such folder".into(),
        ErrorKind::NotADirectory => "it is not a folder".into(),
        ErrorKind::AddrInUse => "another program listens there".into(),
        ErrorKind::AddrNotAvailable => "this machine does not have that address".into(),
        ErrorKind::PermissionDenied => {
            "permission denied (ports below 1024 and foreign folders need rights)".into()
        }
        _ => error.to_string(),
    };
    Failure::Run(format!("cannot {what}: {why}"))
}
