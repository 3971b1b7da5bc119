//! Why there is no report.

/// What was asked for cannot be done.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// What was asked for makes no sense.
    #[error("{0}")]
    Usage(String),
    /// It made sense, but cannot be done here and now.
    #[error("{0}")]
    Run(String),
}
