//! The logs, opened while the server still has all its rights. What is written to them is not known here.

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flash_arch::HelperKind;
use flash_observe::{Destination, Format, LogSink, Opener};
use flash_process::LogOpener;

use crate::failure::{Failure, cannot};
use crate::flags::{self, LogTo};

pub(super) struct Logs {
    error: LogSink,
    access: Option<LogSink>,
    pub(super) format: Format,
    /// Keeps the rights of the start, where the server gives them up.
    log_opener: Option<Arc<LogOpener>>,
}

/// Other destinations of the logs, where a reload has changed them.
pub(super) struct Sinks {
    pub(super) error: Option<LogSink>,
    pub(super) access: Option<LogSink>,
}

/// Those that are opened again after a rotation.
pub(super) fn paths(flags: &flags::Serve) -> Vec<PathBuf> {
    let access = match flags.access_log.as_ref().and_then(LogTo::destination) {
        Some(Destination::Path(path)) => Some(path),
        _ => None,
    };
    flags.error_log.clone().into_iter().chain(access).collect()
}

impl Logs {
    /// The log opener removes the names of `sockets` at the end, if there is one.
    pub(super) fn open(flags: &flags::Serve, sockets: &[PathBuf]) -> Result<Self, Failure> {
        let open = |to: Destination| {
            let place = to.to_string();
            LogSink::open(to).map_err(|error| cannot(format_args!("write a log to {place}"), &error))
        };
        let error = open(error_log(flags))?;
        let (to, format) = access_log(flags, io::stdout().is_terminal() && io::stderr().is_terminal());
        let access = to.map(open).transpose()?;
        let paths = paths(flags);
        let log_opener = match flags.user.is_some() && !(paths.is_empty() && sockets.is_empty()) {
            true => {
                let opener = LogOpener::start(&paths, sockets);
                Some(opener.map_err(|error| cannot(format_args!("start the log opener"), &error))?.into())
            }
            false => None,
        };
        Ok(Self { error, access, format, log_opener })
    }

    /// The logs after a reload.
    pub(super) fn next(
        &self,
        flags: &flags::Serve,
        helper_kind: &HelperKind,
    ) -> Result<(Self, Sinks), Failure> {
        let open = |to: &Destination| {
            LogSink::open_by(to.clone(), self.opener(helper_kind))
                .map_err(|error| cannot(format_args!("write a log to {to}"), &error))
        };
        // One for the log, and one for the log that begins where it was not written before.
        let other = |to: &Destination, before: Option<&LogSink>| match before {
            Some(before) if before.destination() != to => open(to).map(Some),
            _ => Ok(None),
        };
        let error = error_log(flags);
        let (access, format) = access_log(flags, io::stdout().is_terminal() && io::stderr().is_terminal());
        let sinks = Sinks {
            error: other(&error, Some(&self.error))?,
            access: access.as_ref().map_or(Ok(None), |access| other(access, self.access.as_ref()))?,
        };
        let (error, access) = (open(&error)?, access.as_ref().map(open).transpose()?);
        let log_opener = self.log_opener.clone();
        Ok((Self { error, access, format, log_opener }, sinks))
    }

    pub(super) fn has_access(&self) -> bool {
        self.access.is_some()
    }

    /// Removes the names of sockets that are shut, with the rights of the start, if there is one.
    pub(super) fn log_opener(&self) -> Option<Arc<LogOpener>> {
        self.log_opener.clone()
    }

    /// For one process.
    pub(super) fn error(&self, helper_kind: &HelperKind) -> io::Result<LogSink> {
        self.error.again(self.opener(helper_kind))
    }

    pub(super) fn access(&self, helper_kind: &HelperKind) -> io::Result<Option<LogSink>> {
        self.access.as_ref().map(|sink| sink.again(self.opener(helper_kind))).transpose()
    }

    /// The log opener has the rights of the start. If it fails, the server's user may still have rights that it lacks. Root
    /// cannot write to a folder of NFS, and follows no link that was made later. In a sandbox the supervisor process has that
    /// user's rights.
    fn opener(&self, helper_kind: &HelperKind) -> Option<Opener> {
        let as_user: Option<Opener> = match helper_kind {
            HelperKind::Threads => None,
            HelperKind::Processes(processes) => {
                let processes = Arc::clone(processes);
                Some(Arc::new(move |path| processes.open_log(path)))
            }
        };
        let Some(log_opener) = self.log_opener.clone() else { return as_user };
        let as_user =
            as_user.unwrap_or_else(|| Arc::new(|path: &Path| Destination::Path(path.into()).open()));
        Some(Arc::new(move |path| log_opener.open(path).or_else(|error| as_user(path).map_err(|_| error))))
    }
}

fn error_log(flags: &flags::Serve) -> Destination {
    flags.error_log.clone().map_or(Destination::Stderr, Destination::Path)
}

/// Where the access log goes and how it looks. Someone at a terminal previews a site, and sees each request.
fn access_log(flags: &flags::Serve, is_preview: bool) -> (Option<Destination>, Format) {
    let format = flags.log_format.map(Format::from);
    match &flags.access_log {
        Some(to) => (to.destination(), format.unwrap_or(Format::Combined)),
        None if is_preview => (Some(Destination::Stdout), format.unwrap_or(Format::Short)),
        None => (None, Format::Combined),
    }
}
