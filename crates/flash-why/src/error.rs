//! What goes wrong, in one line that says what would help.

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The command line is wrong.
    #[error("{0}")]
    Usage(String),
    /// The watch failed.
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

impl Error {
    pub(crate) fn run(message: impl Into<String>) -> Error {
        Error::Run(message.into())
    }
}
