//! What the multiplexer needs of a server, and what it tells it. It knows neither addresses nor counts.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use flash_core::upstream::UpstreamSession;

/// The server at the other end of connections.
pub(crate) trait Origin: Send + Sync {
    fn scheme(&self) -> &'static str;

    /// Makes one more connection. Its result is the multiplexer's. Never waits.
    fn connect(self: Arc<Self>);

    /// From now on, so many connections take requests.
    fn set_open(&self, connections: usize);

    /// A connection ends, because the server has done something wrong.
    fn report(&self, why: &str);
}

/// A connection that was made.
pub(crate) type Made = (OwnedFd, Option<Box<dyn UpstreamSession>>);
