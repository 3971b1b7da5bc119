//! The outcome of what a server does in its own time, for the administrator who has asked for it, and what goes to the thread that
//! reloads.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use flash_os::waker::Waker;

/// A number, such as that of the new configuration, or everything that is wrong.
pub(crate) type Outcome = Result<u64, String>;

pub(crate) const STOPPING: &str = "the server is stopping";

/// Where the outcome goes. If it is dropped, the server has no time for the request any more.
pub(crate) struct Reply {
    sender: Option<Sender<Outcome>>,
    waker: Arc<Waker>,
}

/// What the thread that reloads is asked for.
pub(crate) enum ReloadRequest {
    /// Without a reply, the error log tells the outcome.
    Reload(Option<Reply>),
    /// Whether a reload of this file would succeed.
    Check(PathBuf, Reply),
}

impl Reply {
    /// Wakes when the outcome is there.
    pub(crate) fn new(waker: &Arc<Waker>) -> (Self, Receiver<Outcome>) {
        let (sender, outcome) = channel();
        (Self { sender: Some(sender), waker: Arc::clone(waker) }, outcome)
    }

    pub(crate) fn send(self, outcome: Outcome) {
        // The administrator may have left.
        self.sender.iter().for_each(|sender| _ = sender.send(outcome.clone()));
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        // Whoever is woken sees the outcome, or that there is none.
        drop(self.sender.take());
        self.waker.wake();
    }
}
