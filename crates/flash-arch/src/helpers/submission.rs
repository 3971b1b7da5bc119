//! A job that is submitted to helpers, where its result goes, and why it may be refused.

use std::sync::Arc;
use std::time::Instant;

use flash_core::ExchangeId;
use flash_core::job::{Failure, Find, Job, Outcome};

use super::queue::{ClientNetwork, Lane};
use crate::completion_queue::{Completion, CompletionQueue};

pub(super) struct Submission {
    pub(super) job: Job,
    pub(super) waiter: Option<Waiter>,
    pub(super) came: Instant,
}

/// Where a job's result goes.
pub(crate) struct Waiter {
    pub(crate) completions: Arc<CompletionQueue>,
    pub(crate) token: u64,
    pub(crate) exchange: ExchangeId,
    pub(crate) client: ClientNetwork,
}

/// Why a job was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SubmitError {
    /// Too many jobs wait.
    Full,
    /// The device is marked down.
    DeviceDown,
}

impl Submission {
    /// The lane in which the job waits.
    pub(super) fn lane(&self) -> Lane {
        match &self.job {
            Job::Find(Find { known: Some(_), .. }) => Lane::Looks,
            _ => Lane::Client(self.waiter.as_ref().map_or_else(Default::default, |waiter| waiter.client)),
        }
    }
}

impl Waiter {
    pub(crate) fn tell(self, outcome: Outcome) {
        self.completions.push(self.token, Completion::Done(self.exchange, outcome));
    }
}

impl SubmitError {
    pub(crate) fn failure(self) -> Failure {
        match self {
            Self::Full => Failure::Overloaded,
            Self::DeviceDown => Failure::DeviceDown,
        }
    }
}
