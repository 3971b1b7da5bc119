//! What the fork helper may run, for all sites: folders of scripts, and commands of applications. Each has a number.
//!
//! The fork helper has it from its start. So a reload finds there what its sites need, and adds nothing.

use std::collections::HashMap;
use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use flash_process::{Command, Folder, Limit, Resource, Setup, descriptor_limit};

use crate::failure::Failure;
use crate::flags;
use crate::start_folder::start_folder;

/// What a program gets between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(2);

#[derive(Clone, Debug)]
pub(in crate::serve) struct Runnable {
    folders: Vec<Folder>,
    /// Their paths. `None` until the first site needs them.
    paths: Option<Arc<[PathBuf]>>,
    commands: Vec<Command>,
    descriptors: Option<Limit>,
    /// The real paths of what was written. A server in its sandbox finds them here.
    real_paths: HashMap<PathBuf, PathBuf>,
    /// Whether the fork helper has it.
    is_fixed: bool,
}

impl Runnable {
    /// Nothing so far. Programs get the limit of descriptors that this process has now.
    pub(in crate::serve) fn new() -> Self {
        let descriptors = descriptor_limit();
        let (folders, commands, real_paths) = Default::default();
        Self { folders, paths: None, commands, descriptors, real_paths, is_fixed: false }
    }

    /// The same for a reload.
    pub(in crate::serve) fn fixed(&self) -> Self {
        Self { is_fixed: true, ..self.clone() }
    }

    /// Follows the links of a path.
    pub(super) fn real_path(&mut self, path: &Path) -> io::Result<PathBuf> {
        match (path.canonicalize(), self.real_paths.get(path)) {
            (Ok(real), _) => {
                self.real_paths.insert(path.into(), real.clone());
                Ok(real)
            }
            (Err(error), Some(known)) if error.kind() == io::ErrorKind::PermissionDenied => Ok(known.clone()),
            (error, _) => error,
        }
    }

    /// The folders of scripts, by their numbers.
    pub(super) fn folders(&mut self) -> Arc<[PathBuf]> {
        let paths = || self.folders.iter().map(|folder| folder.path.clone()).collect();
        Arc::clone(self.paths.get_or_insert_with(paths))
    }

    /// The number of a folder. Adds it, if that is possible.
    pub(super) fn folder(&mut self, folder: Folder) -> Result<u16, Failure> {
        let (what, known) = (format!("the programs in {}", folder.path.display()), self.folders.len());
        let number = number(&mut self.folders, folder, self.is_fixed, &what)?;
        if self.folders.len() > known {
            self.paths = None;
        }
        Ok(number)
    }

    /// The number of a command. Adds it, if that is possible.
    pub(super) fn command(&mut self, command: Command, name: &str) -> Result<u16, Failure> {
        number(&mut self.commands, command, self.is_fixed, name)
    }

    /// For the start of the fork helper, if there is need of one.
    pub(in crate::serve) fn setup(&self, flags: &flags::Programs) -> Option<Setup> {
        if self.folders.is_empty() && self.commands.is_empty() {
            return None;
        }
        let limit = |resource, value: u64| Limit { resource, soft: value, hard: value };
        let memory = flags.cgi_memory.map(|bytes| limit(Resource::MemoryBytes, bytes));
        // A part of a second is a whole one, or there would be none.
        let cpu =
            flags.cgi_cpu.map(|time| limit(Resource::CpuSeconds, time.as_millis().div_ceil(1000) as u64));
        Some(Setup {
            folders: self.folders.clone(),
            commands: self.commands.clone(),
            commands_folder: CString::new(start_folder().as_os_str().as_bytes()).ok(),
            running_max: flags.cgi_max,
            queue_max: flags.cgi_queue_max,
            queue_wait: queue_wait(flags),
            grace: GRACE,
            limits: memory.into_iter().chain(cpu).chain(self.descriptors).collect(),
            nice: flags.program_nice.into(),
        })
    }
}

fn number<T: PartialEq>(all: &mut Vec<T>, one: T, is_fixed: bool, what: &str) -> Result<u16, Failure> {
    let known = all.iter().position(|known| *known == one);
    if known.is_none() && is_fixed {
        return Err(Failure::Run(format!("only `flash upgrade` or a restart lets the server run {what}")));
    }
    let place = known.unwrap_or(all.len());
    let number = u16::try_from(place).map_err(|_| {
        Failure::Usage(format!("there may be {} programs and folders of them", usize::from(u16::MAX) + 1))
    })?;
    if known.is_none() {
        all.push(one);
    }
    Ok(number)
}

/// Half of what a request has until its program is to say something: sooner than that it shall hear that it waits in
/// vain.
pub(super) fn queue_wait(flags: &flags::Programs) -> Duration {
    flags.program_deadline / 2
}
