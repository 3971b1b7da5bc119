//! Why the disk side has no result, and the status that says so.

use flash_http::status::Status;

/// Why a job has no result. None of these says anything about the file, so none is kept in a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// No helper, no descriptor, no memory: worth trying again. Answered with 503.
    Overloaded,
    /// The memory for listings is used up. Answered with 503.
    OverBudget,
    /// It took longer than the deadline. Answered with 503.
    TimedOut,
    /// Its device has not answered others. Answered with 503, at once.
    DeviceDown,
    /// The disk said no. Answered with 500.
    Broken,
    /// It is gone since its folder was looked at. Answered with 404.
    NotFound,
    /// There is no room for what was to be written. Answered with 507.
    Full,
}

impl Failure {
    pub fn status(self) -> Status {
        match self {
            Self::Overloaded | Self::OverBudget | Self::TimedOut | Self::DeviceDown => {
                Status::SERVICE_UNAVAILABLE
            }
            Self::Broken => Status::INTERNAL_SERVER_ERROR,
            Self::NotFound => Status::NOT_FOUND,
            Self::Full => Status::INSUFFICIENT_STORAGE,
        }
    }
}
