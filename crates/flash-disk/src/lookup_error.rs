//! Why a look-up failed, from the kernel's error to the job's failure.

use flash_core::job::Failure;
use rustix::io::Errno;

/// Why a look led nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LookupError {
    /// Nobody may wait here, and an answer needs waiting.
    WouldBlock,
    Missing,
    Forbidden,
    /// Out of descriptors or memory: a matter of time.
    Busy,
    /// Here nobody waits for the device that the name leads to.
    Elsewhere,
    Broken,
}

impl LookupError {
    pub(crate) fn of(error: Errno) -> Self {
        match error {
            Errno::AGAIN => Self::WouldBlock,
            Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG | Errno::LOOP | Errno::NXIO => Self::Missing,
            Errno::ACCESS | Errno::PERM | Errno::XDEV => Self::Forbidden,
            Errno::MFILE | Errno::NFILE | Errno::NOMEM => Self::Busy,
            _ => Self::Broken,
        }
    }

    /// What a job says of it.
    pub(crate) fn failure(self) -> Failure {
        match self {
            Self::Missing | Self::Forbidden => Failure::NotFound,
            Self::WouldBlock | Self::Busy => Failure::Overloaded,
            Self::Broken | Self::Elsewhere => Failure::Broken,
        }
    }
}
