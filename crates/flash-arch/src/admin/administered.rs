//! What an administrator can ask of a server, and have it do.

use std::path::PathBuf;

use flash_process::UpgradeRequest;

use super::history::Sample;
use super::snapshot::{SiteSnapshot, Snapshot};
use crate::service::reply::Reply;

/// A server, as its administrator sees it. No call waits for what the server does in its own time.
pub(crate) trait Administered {
    /// What it knows of itself now.
    fn snapshot(&self) -> Snapshot;

    /// The few counters that the history keeps of each second, whether anybody watches or not. So they cost next to nothing: no lock
    /// that others wait for, and no text.
    fn sample(&self) -> Sample;

    /// The responses of each site that has had any since the last call. The history asks for them a few times in a minute.
    fn changed_sites(&self) -> Vec<SiteSnapshot>;

    fn is_draining(&self) -> bool;

    /// Begins to reload. The reply is the number of the configuration that serves then, or everything that is wrong.
    fn reload(&mut self, reply: Reply);

    /// Finds out whether a reload of this file would succeed, if it is the server's. The reply is everything that is wrong.
    fn check(&mut self, file: PathBuf, reply: Reply);

    /// Has the logs opened again. The reply says which could not be.
    fn reopen_logs(&mut self, reply: Reply);

    /// Logs what has been done so far.
    fn log_counters(&mut self);

    /// Has another process take this server's place. The reply is its number, or why this one goes on.
    fn upgrade(&mut self, request: UpgradeRequest, reply: Reply);
}
