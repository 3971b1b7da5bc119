//! Why a job has no result, and the status for that.

use flash_http::status::Status;

/// Why a job has no result. No failure says anything about the file, so no failure is cached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// No helper, descriptor or memory is free. Worth a retry. Answered with 503.
    Overloaded,
    /// The memory for listings is used up. Answered with 503.
    OverBudget,
    /// It took longer than the deadline. Answered with 503.
    TimedOut,
    /// The device has not answered other jobs. Answered with 503, at once.
    DeviceDown,
    /// The disk reports an error. Answered with 500.
    Broken,
    /// The file has vanished since its folder was read. Answered with 404.
    NotFound,
    /// The folder of the site is gone, or may not be opened. Answered with 503, because search engines forget what is 404.
    RootGone,
    /// The folder for temporary files has no space left. Answered with 507.
    Full,
}

impl Failure {
    pub fn status(self) -> Status {
        match self {
            Self::Overloaded | Self::OverBudget | Self::TimedOut | Self::DeviceDown | Self::RootGone => {
                Status::SERVICE_UNAVAILABLE
            }
            Self::Broken => Status::INTERNAL_SERVER_ERROR,
            Self::NotFound => Status::NOT_FOUND,
            Self::Full => Status::INSUFFICIENT_STORAGE,
        }
    }
}
