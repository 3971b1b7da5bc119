//! Why the server cannot start, in words that help.

use std::fmt;
use std::io::{self, ErrorKind};
use std::path::Path;

pub(crate) use flash_cli::Failure;

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
        ErrorKind::Unsupported => {
            format!(
                "the system lacks a call for it, or its container refuses it: try --system-calls portable ({error})"
            )
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
