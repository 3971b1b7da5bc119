//! Why the command ends without having done what it was asked: one line, and an exit code.

use std::fmt;
use std::io::{self, ErrorKind};
use std::path::Path;
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
        // Folders are opened through /proc.
        ErrorKind::NotFound if !Path::new("/proc/self/fd").exists() => {
            "Flash needs /proc, and it is not mounted".into()
        }
        ErrorKind::NotFound => "there is no such folder".into(),
        ErrorKind::NotADirectory => "it is not a folder".into(),
        ErrorKind::IsADirectory => "it is a folder".into(),
        ErrorKind::AddrInUse => "another program listens there".into(),
        ErrorKind::AddrNotAvailable => "this machine does not have that address".into(),
        ErrorKind::PermissionDenied => "this user may not (permission denied)".into(),
        ErrorKind::WouldBlock => {
            "no more threads or processes may be started (ulimit -u, pids.max of the cgroup, or TasksMax=)"
                .into()
        }
        _ => error.to_string(),
    };
    Failure::Run(format!("cannot {what}: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_says_what_to_do() {
        for (kind, why) in [
            (ErrorKind::NotFound, "cannot do it: there is no such folder"),
            (ErrorKind::PermissionDenied, "cannot do it: this user may not (permission denied)"),
            (
                ErrorKind::WouldBlock,
                "cannot do it: no more threads or processes may be started (ulimit -u, pids.max of the cgroup, or TasksMax=)",
            ),
        ] {
            assert_eq!(cannot(format_args!("do it"), &kind.into()).to_string(), why);
        }
    }
}
