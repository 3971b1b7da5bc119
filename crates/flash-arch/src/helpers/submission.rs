//! A job that is submitted to helpers, and why it may be refused.

use std::time::Instant;

use flash_core::job::{Failure, Find, Job};

use crate::completion_queue::Waiter;
use crate::fair_queue::Lane;

pub(super) struct Submission {
    pub(super) job: Job,
    pub(super) waiter: Option<Waiter>,
    pub(super) came: Instant,
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
            _ => Lane::Client(
                self.waiter.as_ref().map_or_else(Default::default, |waiter| waiter.client.widened()),
            ),
        }
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
