//! Why a look-up failed: from the kernel's error to the job's failure.

use std::io;

use flash_core::job::Failure;
use flash_core::record::refusal::Refusal;
use rustix::io::Errno;

use crate::call_timer;

/// Why a look-up failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LookupError {
    /// The call must not wait, and the answer is not in memory.
    WouldBlock,
    Missing,
    /// The site's folder itself.
    RootGone,
    Forbidden(Refusal),
    /// No descriptor or memory is left. A retry may succeed.
    Busy,
    /// The name leads to a device that the call must not wait for.
    Elsewhere,
    Broken,
}

impl LookupError {
    pub(crate) fn of(error: Errno) -> Self {
        match error {
            Errno::AGAIN => Self::WouldBlock,
            Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG | Errno::LOOP | Errno::NXIO => Self::Missing,
            Errno::ACCESS | Errno::PERM => Self::Forbidden(Refusal::Permission),
            Errno::XDEV => Self::Forbidden(Refusal::LinkOutside),
            Errno::MFILE | Errno::NFILE | Errno::NOMEM => Self::Busy,
            // A filesystem refuses such a name, which says nothing of its device. Clients choose names.
            Errno::INVAL | Errno::ILSEQ => Self::Broken,
            error => {
                call_timer::failed(error);
                Self::Broken
            }
        }
    }

    /// The same about the folder of a site. What is wrong with it is not the client's doing.
    pub(crate) fn of_root(error: &io::Error) -> Self {
        match Self::of(Errno::from_io_error(error).unwrap_or(Errno::IO)) {
            Self::Busy => Self::Busy,
            _ => Self::RootGone,
        }
    }

    /// The failure of a job because of this error.
    pub(crate) fn failure(self) -> Failure {
        match self {
            Self::Missing | Self::Forbidden(_) => Failure::NotFound,
            Self::RootGone => Failure::RootGone,
            Self::WouldBlock | Self::Busy => Failure::Overloaded,
            Self::Broken | Self::Elsewhere => Failure::Broken,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_a_filesystem_refuses_is_no_fault_of_its_device() {
        let noted = |error| {
            let (kind, _, noted) = call_timer::measured(|| LookupError::of(error));
            assert_eq!(kind, LookupError::Broken, "{error}");
            noted
        };
        for error in [Errno::INVAL, Errno::ILSEQ] {
            assert_eq!(noted(error), None, "{error}");
        }
        for error in [Errno::IO, Errno::STALE, Errno::NOTCONN] {
            assert_eq!(noted(error), Some(error.raw_os_error()), "{error}");
        }
    }
}
