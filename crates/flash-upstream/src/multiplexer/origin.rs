//! What the multiplexer needs of a server, and what it tells it. It knows neither addresses nor counts.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use flash_core::upstream::UpstreamSession;

/// The server at the other end of connections.
pub(crate) trait Origin: Send + Sync {
    fn scheme(&self) -> &'static str;

    /// How long a connection may take: to be made, and then until the server has said what it allows.
    fn connect_time(&self) -> Duration;

    /// Makes one more connection, if that may be tried now. Its result is the multiplexer's. Never waits.
    fn connect(self: Arc<Self>);

    /// From now on, so many connections take requests, at once or when they have room.
    fn set_open(&self, connections: usize);

    /// A connection gets its first request.
    fn is_served(&self);

    /// A connection was of no use to those that wait.
    fn is_useless(&self, why: &str);

    /// A connection ends, because the server has done something wrong.
    fn report(&self, why: &str);
}

/// A connection that was made.
pub(crate) type Made = (OwnedFd, Option<Box<dyn UpstreamSession>>);
