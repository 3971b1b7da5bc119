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
