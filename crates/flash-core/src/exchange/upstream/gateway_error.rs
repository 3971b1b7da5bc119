//! Why an exchange with an upstream fails, and which status the client gets.

use flash_http::status::Status;

use crate::job::Failure;
use crate::upstream::{OpenError, UpstreamFailure};

/// Why an exchange fails, and the status for a client that has received nothing yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GatewayError {
    pub(crate) status: Status,
    /// For the log. `None` if the client caused it, or if the component that refused has logged it.
    pub(crate) reason: Option<&'static str>,
    /// What the upstream has done wrong, if it is its fault.
    pub(crate) failure: Option<UpstreamFailure>,
}

impl GatewayError {
    /// Not by the upstream's fault, and logged elsewhere.
    pub(crate) fn with(status: Status) -> Self {
        Self { status, reason: None, failure: None }
    }

    pub(crate) fn of_program(reason: &'static str) -> Self {
        let failure = Some(UpstreamFailure::Broken);
        Self { status: Status::BAD_GATEWAY, reason: Some(reason), failure }
    }

    /// The program was silent for too long. If the client `has_ended` its side, that may have been less than a program has.
    pub(crate) fn of_silence(has_ended: bool) -> Self {
        let reason = (!has_ended).then_some("has been silent for too long");
        let failure = (!has_ended).then_some(UpstreamFailure::TimedOut);
        Self { status: Status::GATEWAY_TIMEOUT, reason, failure }
    }

    /// A request's body could not be stored, or not be read back.
    pub(crate) fn of_spool(failure: Failure) -> Self {
        let reason = match failure {
            // The component that refuses a job logs that.
            Failure::Overloaded | Failure::OverBudget | Failure::DeviceDown => None,
            Failure::TimedOut => {
                Some("cannot have its request's body: the folder for temporary files takes too long")
            }
            Failure::Full => Some("cannot have its request's body: the folder for temporary files is full"),
            Failure::Broken | Failure::NotFound | Failure::RootGone => {
                Some("cannot have its request's body: the folder for temporary files fails")
            }
        };
        Self { reason, ..Self::with(failure.status()) }
    }

    /// A part of a response was stored, and cannot be read back.
    pub(crate) fn of_stored_response() -> Self {
        let reason =
            "cannot be heard to the end: the folder for temporary files does not return its response";
        Self { reason: Some(reason), ..Self::with(Failure::Broken.status()) }
    }
}

impl From<OpenError> for GatewayError {
    fn from(refusal: OpenError) -> Self {
        Self::with(refusal.status())
    }
}
