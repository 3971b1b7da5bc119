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

impl Error {
    pub(crate) fn run(message: impl Into<String>) -> Error {
        Error::Run(message.into())
    }
}
