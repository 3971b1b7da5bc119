//! The logs, opened before the server gives up its rights, so that a failure ends the start. What is written to them is not known
//! here.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flash_arch::{Arch, HelperKind};
use flash_core::record::log_choice::LogNumber;
use flash_observe::{
    AccessLog, AccessLogs, Destination, ErrorLog, Format, Limits, LogSink, Opener, Writers, json_line,
};
use flash_process::{PrivilegedOpener, child};

use super::log_numbers::{access_log, is_preview};
use super::plan::Plan;
use super::privileges;
use crate::failure::{Failure, cannot};
use crate::flags::{self, ErrorLogFormat, LogFormat};

pub(super) struct Logs {
    error: Log,
    /// Of the server and its sites.
    access: Vec<(LogNumber, Log)>,
    format: Format,
    /// Keeps the rights of the start, where the server gives them up.
    privileged_opener: Option<Arc<PrivilegedOpener>>,
    /// The parent of mp keeps the files for its workers. Another server's writer has the file that was opened: to open thousands anew with
    /// the rights of the start would take minutes.
    keeps_files: bool,
}

/// A log for the writers that will be made.
struct Log {
    destination: Destination,
    /// Open until it has its writer. If others are to come, a writer opens the path anew, or shares this file if it may not.
    file: RefCell<Option<LogSink>>,
}

/// Those that are opened again after a rotation.
pub(super) fn paths(plan: &Plan) -> Vec<PathBuf> {
    let access = plan.access_logs().into_iter().filter_map(|number| plan.log_numbers.destination(number));
    access.chain([error_log(&plan.flags)]).filter_map(path).collect()
}

/// The same, of flags that are no plan yet.
pub(super) fn named(flags: &flags::Serve) -> Vec<PathBuf> {
    let of_sites = flags.rules_of_sites().filter_map(|rules| access_log(&rules.flags));
    access_log(flags).into_iter().chain(of_sites).chain([error_log(flags)]).filter_map(path).collect()
}

impl Log {
    fn of(sink: LogSink) -> Self {
        Self { destination: sink.destination().clone(), file: RefCell::new(Some(sink)) }
    }

    /// For one more writer.
    fn sink(&self, opener: Option<Opener>, keeps_files: bool) -> io::Result<LogSink> {
        let mut file = self.file.borrow_mut();
        // Of a socket there will be no other in a sandbox.
        let is_kept = keeps_files || !matches!(self.destination, Destination::Path(_));
        match file.take_if(|_| !is_kept) {
            Some(own) => Ok(own.opened_again_by(opener)),
            None => match &*file {
                Some(file) => file.again(opener),
                None => LogSink::open_by(self.destination.clone(), opener),
            },
        }
    }

    /// The same log after a reload. A file that has its writer is not opened for that.
    fn next(&self, opener: Option<Opener>) -> io::Result<Self> {
        let file = self.file.borrow().as_ref().map(|file| file.again(opener)).transpose()?;
        Ok(Self { destination: self.destination.clone(), file: RefCell::new(file) })
    }
}

impl Logs {
    pub(super) fn open(plan: &Plan) -> Result<Self, Failure> {
        let user = plan.flags.user.clone();
        let opener: Opener =
            Arc::new(move |path| privileges::as_user_first(user.as_deref(), || flash_trust::open_log(path)));
        Self::of(plan, None, |to| LogSink::open_by(to.clone(), Some(Arc::clone(&opener))).map(Log::of))
    }

    fn of(
        plan: &Plan,
        privileged_opener: Option<Arc<PrivilegedOpener>>,
        open: impl Fn(&Destination) -> io::Result<Log>,
    ) -> Result<Self, Failure> {
        let open =
            |to: &Destination| open(to).map_err(|error| cannot(format_args!("write a log to {to}"), &error));
        let format = format(&plan.flags)?;
        let error = open(&error_log(&plan.flags))?;
        let access = plan.access_logs().into_iter().filter_map(|number| {
            let to = plan.log_numbers.destination(number)?;
            Some(open(&to).map(|log| (number, log)))
        });
        let access = access.collect::<Result<_, _>>()?;
        let keeps_files = matches!(plan.arch, Arch::Mp { .. });
        Ok(Self { error, access, format, privileged_opener, keeps_files })
    }

    /// Has the logs opened again by that process, if there is one.
    pub(super) fn opened_again_by(self, privileged_opener: Option<Arc<PrivilegedOpener>>) -> Self {
        Self { privileged_opener, ..self }
    }

    /// The logs after a reload, and the sink of the error log if it has moved.
    pub(super) fn next(
        &self,
        plan: &Plan,
        helper_kind: &HelperKind,
    ) -> Result<(Self, Option<LogSink>), Failure> {
        let present: HashMap<_, _> = self.all().map(|log| (&log.destination, log)).collect();
        let open = |to: &Destination| {
            let opener = self.opener(helper_kind);
            // In a sandbox no socket can be made. The one that there is does as well.
            match present.get(to) {
                Some(same) => same.next(opener),
                None => LogSink::open_by(to.clone(), opener).map(Log::of),
            }
        };
        let logs = Self::of(plan, self.privileged_opener.clone(), open)?;
        let has_moved = logs.error.destination != self.error.destination;
        // One for the log, and one for the writer that there is.
        let sink = has_moved.then(|| logs.error(helper_kind)).transpose();
        let to = &logs.error.destination;
        let sink = sink.map_err(|error| cannot(format_args!("write a log to {to}"), &error))?;
        Ok((logs, sink))
    }

    /// Closes the files, which have their writers in this process. They would stay open after a rotation. A socket is kept,
    /// because no other can be made in a sandbox.
    pub(super) fn close(&self) {
        let files = self.all().filter(|log| matches!(log.destination, Destination::Path(_)));
        files.for_each(|log| _ = log.file.take());
    }

    fn all(&self) -> impl Iterator<Item = &Log> {
        [&self.error].into_iter().chain(self.access.iter().map(|(_, log)| log))
    }

    /// What has the rights of the start, if there is one.
    pub(super) fn privileged_opener(&self) -> Option<Arc<PrivilegedOpener>> {
        self.privileged_opener.clone()
    }

    /// For one process.
    pub(super) fn error(&self, helper_kind: &HelperKind) -> io::Result<LogSink> {
        self.error.sink(self.opener(helper_kind), self.keeps_files)
    }

    /// For one process: the logs that there are stay open.
    pub(super) fn access(
        &self,
        helper_kind: &HelperKind,
        present: &AccessLogs,
        errors: &ErrorLog,
    ) -> io::Result<AccessLogs> {
        let mut logs = AccessLogs::default();
        let writers = present.writers().cloned().map_or_else(|| Writers::new("log-writer"), Ok)?;
        for (number, log) in &self.access {
            let format = self.format.clone();
            let log = match present.get(*number) {
                Some(present) => present.with_format(format),
                None => {
                    let sink = log.sink(self.opener(helper_kind), self.keeps_files)?;
                    AccessLog::start(sink, format, Limits::default(), (errors.clone(), &writers))?
                }
            };
            logs.insert(*number, log);
        }
        Ok(logs)
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
                // It opens only logs that the configuration names.
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

/// Has lines that come before the error log is open, or from processes without one, look as that log, if they go to the same place.
pub(super) fn begin(flags: &flags::Serve) {
    if error_log(flags) == Destination::Stderr && flags.error_log_format == ErrorLogFormat::Json {
        child::log_as(json_line);
    }
}

fn path(destination: Destination) -> Option<PathBuf> {
    match destination {
        Destination::Path(path) => Some(path),
        Destination::Stdout | Destination::Stderr | Destination::Daemon(_) => None,
    }
}

/// How the lines of all access logs look.
fn format(flags: &flags::Serve) -> Result<Format, Failure> {
    let fields = flags.log_fields.iter().map(|field| field.0).collect::<Arc<[_]>>();
    match flags.log_format {
        Some(LogFormat::Json) | None if !fields.is_empty() => Ok(Format::Json(fields)),
        Some(LogFormat::Combined | LogFormat::VhostCombined | LogFormat::Short) if !fields.is_empty() => {
            Err(Failure::Usage("--log-fields needs --log-format json".into()))
        }
        Some(format) => Ok(format.into()),
        None if is_preview(flags) => Ok(Format::Short),
        None => Ok(Format::Combined),
    }
}
