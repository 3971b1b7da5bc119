//! What an administrator can ask of a server, and have it do.

use flash_process::UpgradeRequest;

use super::history::Sample;
use super::snapshot::{SiteSnapshot, Snapshot};

/// A server, as its administrator sees it.
pub(crate) trait Administered: Send + Sync {
    /// What it knows of itself now.
    fn snapshot(&self) -> Snapshot;

    /// The few counters that the history keeps of each second, whether anybody watches or not. So they cost next to nothing: no lock
    /// that others wait for, no text, and no question to another process.
    fn sample(&self) -> Sample;

    /// The responses of each site that has had any since the last call. The history asks for them a few times in a minute.
    fn changed_sites(&self) -> Vec<SiteSnapshot>;

    fn is_draining(&self) -> bool;

    /// Reloads. Returns the number of the configuration that serves then, or everything that is wrong.
    fn reload(&self) -> Result<u64, String>;

    /// Opens the logs again.
    fn reopen_logs(&self);

    /// Logs what has been done so far.
    fn log_counters(&self);

    /// Has another process take this server's place. Returns its number, or why this one goes on.
    fn upgrade(&self, request: UpgradeRequest) -> Result<u32, String>;
}
