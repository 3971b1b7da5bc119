//! The logs, opened before the server gives up its rights, so that a failure ends the start. What is written to them is not known
//! here.

use std::cell::RefCell;
use std::io::{self, ErrorKind, IsTerminal};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flash_arch::HelperKind;
use flash_observe::{Destination, Format, LogSink, Opener};
use flash_process::PrivilegedOpener;

use super::privileges;
use crate::failure::{Failure, cannot};
use crate::flags::{self, LogFormat, LogTo};

pub(super) struct Logs {
    error: Log,
    access: Option<Log>,
    pub(super) format: Format,
    /// Keeps the rights of the start, where the server gives them up.
    privileged_opener: Option<Arc<PrivilegedOpener>>,
}

/// A log for the writers that will be made.
struct Log {
    destination: Destination,
    /// Open until it has its writer, which opens the path anew, or shares this file if it may not.
    file: RefCell<Option<LogSink>>,
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
    let error = match error_log(flags) {
        Destination::Path(path) => Some(path),
        _ => None,
    };
    error.into_iter().chain(access).collect()
}

impl Log {
    fn of(sink: LogSink) -> Self {
        Self { destination: sink.destination().clone(), file: RefCell::new(Some(sink)) }
    }

    /// For one more writer.
    fn sink(&self, opener: Option<Opener>) -> io::Result<LogSink> {
        match &*self.file.borrow() {
            Some(file) => file.again(opener),
            None => LogSink::open_by(self.destination.clone(), opener),
        }
    }
}

impl Logs {
    pub(super) fn open(flags: &flags::Serve) -> Result<Self, Failure> {
        let user = flags.user.clone();
        let opener: Opener =
            Arc::new(move |path| privileges::as_user_first(user.as_deref(), || flash_trust::open_log(path)));
        let open = |to: Destination| {
            let place = to.to_string();
            LogSink::open_by(to, Some(Arc::clone(&opener)))
                .map_err(|error| cannot(format_args!("write a log to {place}"), &error))
        };
        let error = open(error_log(flags))?;
        let (to, format) = access_log(flags, io::stdout().is_terminal() && io::stderr().is_terminal())?;
        let access = to.map(open).transpose()?;
        Ok(Self { error: Log::of(error), access: access.map(Log::of), format, privileged_opener: None })
    }

    /// Has the logs opened again by that process, if there is one.
    pub(super) fn opened_again_by(self, privileged_opener: Option<Arc<PrivilegedOpener>>) -> Self {
        Self { privileged_opener, ..self }
    }

    /// The logs after a reload.
    pub(super) fn next(
        &self,
        flags: &flags::Serve,
        helper_kind: &HelperKind,
    ) -> Result<(Self, Sinks), Failure> {
        let open = |to: &Destination| {
            let present = [Some(&self.error), self.access.as_ref()];
            // In a sandbox no socket can be made. The one that there is does as well.
            let same = present.into_iter().flatten().find(|log| log.destination == *to);
            let opener = self.opener(helper_kind);
            match same {
                Some(same) => same.sink(opener),
                None => LogSink::open_by(to.clone(), opener),
            }
            .map_err(|error| cannot(format_args!("write a log to {to}"), &error))
        };
        // One for the log, and one for the log that begins where it was not written before.
        let other = |to: &Destination, before: Option<&Log>| match before {
            Some(before) if before.destination != *to => open(to).map(Some),
            _ => Ok(None),
        };
        let error = error_log(flags);
        let (access, format) = access_log(flags, io::stdout().is_terminal() && io::stderr().is_terminal())?;
        let sinks = Sinks {
            error: other(&error, Some(&self.error))?,
            access: access.as_ref().map_or(Ok(None), |access| other(access, self.access.as_ref()))?,
        };
        let (error, access) = (open(&error)?, access.as_ref().map(open).transpose()?);
        let privileged_opener = self.privileged_opener.clone();
        Ok((Self { error: Log::of(error), access: access.map(Log::of), format, privileged_opener }, sinks))
    }

    /// Closes the files, which have their writers in this process. They would stay open after a rotation. A socket is kept,
    /// because no other can be made in a sandbox.
    pub(super) fn close(&self) {
        let all = [Some(&self.error), self.access.as_ref()].into_iter().flatten();
        let files = all.filter(|log| matches!(log.destination, Destination::Path(_)));
        files.for_each(|log| _ = log.file.take());
    }

    pub(super) fn has_access(&self) -> bool {
        self.access.is_some()
    }

    /// What has the rights of the start, if there is one.
    pub(super) fn privileged_opener(&self) -> Option<Arc<PrivilegedOpener>> {
        self.privileged_opener.clone()
    }

    /// For one process.
    pub(super) fn error(&self, helper_kind: &HelperKind) -> io::Result<LogSink> {
        self.error.sink(self.opener(helper_kind))
    }

    pub(super) fn access(&self, helper_kind: &HelperKind) -> io::Result<Option<LogSink>> {
        self.access.as_ref().map(|log| log.sink(self.opener(helper_kind))).transpose()
    }

    /// The server's user opens a log if that user may. In a sandbox the supervisor process has that user's rights. Otherwise the
    /// privileged opener has those of the start.
    fn opener(&self, helper_kind: &HelperKind) -> Option<Opener> {
        let as_user: Option<Opener> = match helper_kind {
            HelperKind::Threads => None,
            HelperKind::Processes(processes) => {
                let processes = Arc::clone(processes);
                Some(Arc::new(move |path| processes.open_log(path)))
            }
        };
        let Some(privileged_opener) = self.privileged_opener.clone() else { return as_user };
        let as_user = as_user.unwrap_or_else(|| Arc::new(|path: &Path| flash_trust::open_log(path)));
        Some(Arc::new(move |path| {
            let with_rights = |error| match privileged_opener.open(path) {
                // It opens only the logs of the start.
                Err(unknown) if unknown.kind() == ErrorKind::NotFound => Err(error),
                opened => opened,
            };
            as_user(path).or_else(with_rights)
        }))
    }
}

fn error_log(flags: &flags::Serve) -> Destination {
    flags.error_log.as_ref().map_or(Destination::Stderr, |to| to.0.clone())
}

/// Where the access log goes and how it looks. Someone at a terminal previews a site, and sees each request.
fn access_log(flags: &flags::Serve, is_preview: bool) -> Result<(Option<Destination>, Format), Failure> {
    let fields = flags.log_fields.iter().map(|field| field.0).collect::<Arc<[_]>>();
    let format = match flags.log_format {
        Some(LogFormat::Json) | None if !fields.is_empty() => Some(Format::Json(fields)),
        Some(LogFormat::Combined | LogFormat::VhostCombined | LogFormat::Short) if !fields.is_empty() => {
            return Err(Failure::Usage("--log-fields needs --log-format json".into()));
        }
        format => format.map(Format::from),
    };
    Ok(match &flags.access_log {
        Some(to) => (to.destination(), format.unwrap_or(Format::Combined)),
        None if is_preview => (Some(Destination::Stdout), format.unwrap_or(Format::Short)),
        None => (None, Format::Combined),
    })
}
