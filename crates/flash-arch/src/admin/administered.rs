//! What an administrator can ask of a server, and have it do.

use super::status::Status;

/// A server, as its administrator sees it.
pub(crate) trait Administered: Send + Sync {
    fn status(&self) -> Status;
    fn is_draining(&self) -> bool;

    /// Reloads. Returns the number of the configuration that serves then, or everything that is wrong.
    fn reload(&self) -> Result<u64, String>;

    /// Opens the logs again.
    fn reopen_logs(&self);
}
