//! The wait for the check of a log-in. It comes before the look-up, so that nobody learns what is there.

use crate::job::{Done, Failure};
use crate::login::Check;

#[derive(Debug)]
pub(crate) enum Login {
    Wanted(Box<dyn Check>),
    Asked,
    Checked(LoginResult),
}

/// Whether the credentials are right, or why that is not known.
pub(crate) type LoginResult = Result<bool, Failure>;

impl Login {
    /// The check, if it has not been handed out.
    pub(crate) fn ask(&mut self) -> Option<Box<dyn Check>> {
        match std::mem::replace(self, Self::Asked) {
            Self::Wanted(check) => Some(check),
            other => {
                *self = other;
                None
            }
        }
    }

    pub(crate) fn is_wanted(&self) -> bool {
        matches!(self, Self::Wanted(_))
    }

    pub(crate) fn awaits_check(&self) -> bool {
        matches!(self, Self::Asked)
    }

    pub(crate) fn take(&mut self, done: Done) {
        *self = Self::Checked(match done {
            Done::Checked(is_right) => Ok(is_right),
            Done::Failed(failure) => Err(failure),
            _ => Err(Failure::Broken),
        });
    }

    /// The check has taken too long.
    pub(crate) fn is_late(&mut self) {
        *self = Self::Checked(Err(Failure::TimedOut));
    }

    pub(crate) fn result(&self) -> Option<LoginResult> {
        match self {
            Self::Checked(result) => Some(*result),
            Self::Wanted(_) | Self::Asked => None,
        }
    }
}
