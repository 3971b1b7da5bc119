//! Reading the configuration again, for a reload. The parser of flags and files is not known here.

use super::check::check_again;
use super::named_files::ReadNamed;
use super::site_plan::Fault;
use super::unchangeable;
use crate::flags;

/// How the command line and its file are read again, for a reload.
#[derive(Clone, Copy)]
pub(crate) struct Reader {
    /// Reads them, and has the flags checked. The error is everything that is wrong.
    pub(crate) again: fn(&Check<'_>) -> Result<Again, String>,
    /// Reads the command line, with what another process has read in the file.
    pub(crate) in_place: fn(&[u8]) -> Result<Box<flags::Serve>, String>,
}

/// Finds what is wrong with flags.
pub(crate) type Check<'a> = dyn Fn(&flags::Serve) -> Vec<Fault> + 'a;

/// What was read again.
pub(crate) struct Again {
    pub(crate) flags: Box<flags::Serve>,
    /// What the file says, for a process that may not read it.
    pub(crate) of_file: Vec<u8>,
}

impl Reader {
    /// Reads the command line and its file again, and checks them. `present` are the flags that serve now, `named` opens what
    /// they name, and `more` finds what else is wrong.
    pub(super) fn read(
        self,
        present: &flags::Serve,
        named: ReadNamed<'_>,
        more: &Check<'_>,
    ) -> Result<Again, String> {
        (self.again)(&|flags| {
            let kept = unchangeable::changed(present, flags);
            match kept.is_empty() {
                true => check_again(flags, named).into_iter().chain(more(flags)).collect(),
                false => kept,
            }
        })
    }
}
