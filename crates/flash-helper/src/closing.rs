//! Closing what askers have sent for nothing, and their connections, in which more may wait unread. What these descriptors are is
//! their senders' choice, and to close one may wait for as long as its sender likes.
//!
//! So each user has a thread for that, and one is for all who may not ask. Nobody waits for what another user has sent.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use flash_disk::Closer;

/// What is being closed of one user.
#[derive(Debug)]
pub(crate) struct Closing {
    closer: Closer,
    unclosed: Arc<AtomicUsize>,
}

/// For each user that may ask, and one for all others.
#[derive(Debug)]
pub(crate) struct Closings {
    of_users: HashMap<u32, Arc<Closing>>,
    of_others: Arc<Closing>,
}

/// Descriptors of a user that are not closed yet. Who sends one more is disconnected.
const UNCLOSED_MAX: usize = 256;

impl Closing {
    pub(crate) fn start() -> io::Result<Self> {
        Ok(Self { closer: Closer::start("refused")?, unclosed: Arc::default() })
    }

    /// Closes a descriptor later. Never waits.
    pub(crate) fn close(&self, descriptor: OwnedFd) {
        self.closer.close_counted(descriptor, &self.unclosed);
    }

    /// More are not closed yet than a user may have.
    pub(crate) fn is_too_much(&self) -> bool {
        self.unclosed.load(Ordering::Relaxed) > UNCLOSED_MAX
    }
}

impl Closings {
    pub(crate) fn start(users: &[u32]) -> io::Result<Self> {
        let of_users = users.iter().map(|user| Ok((*user, Arc::new(Closing::start()?))));
        Ok(Self { of_users: of_users.collect::<io::Result<_>>()?, of_others: Closing::start()?.into() })
    }

    pub(crate) fn of(&self, user: u32) -> &Arc<Closing> {
        self.of_users.get(&user).unwrap_or(&self.of_others)
    }
}
