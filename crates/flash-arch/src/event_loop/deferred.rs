//! Work that a loop defers until all ready events have had an answer from the caches.

use flash_core::ExchangeId;
use flash_core::job::{Job, Outcome};
use flash_core::upstream::Arriving;

use crate::connections::permit::WaitingConnection;

/// Work that takes long, each with its connection's token. Small requests thus never wait for the large or cold files
/// of others.
pub(super) enum Deferred {
    Job(u64, ExchangeId, Job),
    Completed(u64, ExchangeId, Outcome),
    Opened(u64, ExchangeId, Arriving),
    WaitingConnection(WaitingConnection),
    /// Its upstream may have sent bytes. Other connections come first.
    UpstreamReady(u64),
    /// It has had its share of a turn, and could go on at once.
    NextTurn(u64),
}
