//! DIR: as it was given, so that a deploy is seen that makes it another folder, and as it was at the start.

use std::cell::Cell;
use std::io;
use std::path::{Path, PathBuf};

use flash_disk::{Opened, open_root};

use crate::failure::{Failure, cannot};
use crate::start_folder::absolute;

#[derive(Clone)]
pub(super) struct Dir {
    /// Absolute, and with its symbolic links.
    given: PathBuf,
    /// Where it led to at the start.
    pub(super) real_path: PathBuf,
    /// The user that the server has become cannot go where `given` goes.
    is_out_of_reach: Cell<bool>,
}

impl Dir {
    pub(super) fn new(given: &Path) -> io::Result<Self> {
        let given = std::path::absolute(absolute(given))?;
        let real_path = given.canonicalize()?;
        Ok(Self { given, real_path, is_out_of_reach: Cell::new(false) })
    }

    /// The folder after a reload. In a sandbox this process cannot look where it leads, and another one opens it.
    pub(super) fn again(&self, given: &Path, in_sandbox: bool) -> Result<Self, Failure> {
        let failed = |error| cannot(format_args!("serve {}", given.display()), &error);
        if !in_sandbox && !self.is_out_of_reach.get() {
            return Self::new(given).map_err(failed);
        }
        match std::path::absolute(absolute(given)).map_err(failed)? {
            given if given == self.given => Ok(self.clone()),
            given if in_sandbox => Ok(Self { real_path: given.clone(), given, ..self.clone() }),
            given => Self::new(&given).map_err(failed),
        }
    }

    /// The path that is looked at again.
    pub(super) fn path(&self) -> &Path {
        if self.is_out_of_reach.get() { &self.real_path } else { &self.given }
    }

    /// Opens what it leads to now.
    pub(super) fn open(&self) -> io::Result<Opened> {
        match open_root(self.path()) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                let opened = open_root(&self.real_path)?;
                self.is_out_of_reach.set(true);
                Ok(opened)
            }
            opened => opened,
        }
    }

    /// What the operator should know.
    pub(super) fn warning(&self) -> Option<String> {
        let (given, real_path) = (self.given.display(), self.real_path.display());
        self.is_out_of_reach.get().then(|| {
            format!(
                "this user cannot follow {given}: if it leads elsewhere later, {real_path} is served until a restart"
            )
        })
    }
}
