//! The wait for the check of a log-in. It comes before the look-up, so that nobody learns what is there. If what the look-up finds
//! has other users, their check follows.

use std::sync::Arc;

use crate::clients::login::{Check, Users};
use crate::job::{Done, Failure};

#[derive(Debug)]
pub(crate) struct Login {
    /// Those that the credentials are compared with.
    users: Arc<dyn Users>,
    state: LoginState,
}

#[derive(Debug)]
enum LoginState {
    Wanted(Box<dyn Check>),
    Asked,
    Checked(LoginResult),
}

/// Whether the credentials are right, or why that is not known.
pub(crate) type LoginResult = Result<bool, Failure>;

impl Login {
    pub(crate) fn new(users: &Arc<dyn Users>, check: Box<dyn Check>) -> Self {
        Self { users: Arc::clone(users), state: LoginState::Wanted(check) }
    }

    /// The check, if it has not been handed out.
    pub(crate) fn ask(&mut self) -> Option<Box<dyn Check>> {
        match std::mem::replace(&mut self.state, LoginState::Asked) {
            LoginState::Wanted(check) => Some(check),
            other => {
                self.state = other;
                None
            }
        }
    }

    pub(crate) fn is_wanted(&self) -> bool {
        matches!(self.state, LoginState::Wanted(_))
    }

    pub(crate) fn awaits_check(&self) -> bool {
        matches!(self.state, LoginState::Asked)
    }

    pub(crate) fn take(&mut self, done: Done) {
        self.state = LoginState::Checked(match done {
            Done::Checked(is_right) => Ok(is_right),
            Done::Failed(failure) => Err(failure),
            _ => Err(Failure::Broken),
        });
    }

    /// The check has taken too long.
    pub(crate) fn is_late(&mut self) {
        self.state = LoginState::Checked(Err(Failure::TimedOut));
    }

    /// Those that the credentials were compared with, and the result.
    pub(crate) fn result(&self) -> Option<(&Arc<dyn Users>, LoginResult)> {
        match self.state {
            LoginState::Checked(result) => Some((&self.users, result)),
            LoginState::Wanted(_) | LoginState::Asked => None,
        }
    }
}
