//! Why there is no report.

/// The load cannot run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The flags make no sense.
    #[error("{0}")]
    Usage(String),
    /// The flags make sense, but the run failed.
    #[error("{0}")]
    Run(String),
}

impl From<Error> for flash_cli::Failure {
    fn from(error: Error) -> flash_cli::Failure {
        match error {
            Error::Usage(what) => flash_cli::Failure::Usage(what),
            Error::Run(what) => flash_cli::Failure::Run(what),
        }
    }
}
