//! Requests to [reload](crate::reload), which a thread of its own takes.

use std::sync::mpsc::{Sender, SyncSender, sync_channel};

/// A request to reload.
pub(crate) struct ReloadRequest {
    /// Gets the number of the configuration, or why there is no other one. Without it, the error log does.
    pub(crate) reply: Option<SyncSender<Result<u64, String>>>,
}

/// Reloads, and returns the number of the configuration that serves then.
pub(crate) fn reload(requests: &Sender<ReloadRequest>) -> Result<u64, String> {
    const ENDED: &str = "the thread that reloads has ended";
    let (reply, done) = sync_channel(1);
    requests.send(ReloadRequest { reply: Some(reply) }).map_err(|_| ENDED)?;
    done.recv().map_err(|_| ENDED)?
}

/// Reloads, and has the error log say what came of it.
pub(crate) fn reload_and_log(requests: &Sender<ReloadRequest>) {
    // If the thread has ended, it has said why.
    let _ = requests.send(ReloadRequest { reply: None });
}
