//! Work that a loop defers until all that is ready has been answered from the caches.

use flash_core::ExchangeId;
use flash_core::job::{Job, Outcome};
use flash_core::upstream::Opened;

use crate::connection_permit::WaitingConnection;

/// What takes long, by connection: it waits until all that is ready has been answered from the caches, so that little
/// requests do not wait for what others' large or cold files cost.
pub(super) enum Deferred {
    Job(u64, ExchangeId, Job),
    Completed(u64, ExchangeId, Outcome),
    Opened(u64, ExchangeId, Opened),
    WaitingConnection(WaitingConnection),
    /// Its program may have said something. However much that is, others come first.
    Heard(u64),
    /// It had its share of a turn and could go on at once.
    Others(u64),
}
