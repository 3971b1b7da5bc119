//! What a driver lends to every call of a connection.
//!
//! A context lives for one call. It holds no state of a connection or of an exchange.

use flash_http::head::RequestHead;

use crate::cache::local::LocalCache;
use crate::clock::Now;
use crate::connection::buffer_pool::BufferPool;
use crate::connection::transport::TransportInfo;
use crate::record::refusal::Refusal;
use crate::record::request_id::RequestIds;
pub use crate::record::tally::{Tally, UpstreamError};
use crate::server::Server;
use crate::site::Site;

/// What the driver lends to every call.
pub struct Context<'a> {
    pub server: &'a Server,
    pub now: &'a Now,
    /// The thread's own cache. `None` if different threads read a request, find its file and answer it: the connection goes
    /// to them with its jobs. Then each look-up is a job, which [`Server::look_up`] answers, and a connection that waits for a
    /// job does nothing else.
    pub local: Option<&'a mut LocalCache>,
    pub buffers: &'a mut BufferPool,
    pub tally: &'a mut Tally,
    pub ids: &'a mut RequestIds,
    pub drain: Drain,
}

impl Context<'_> {
    /// Notes for the error log that a request to this site was refused, to a log-in of this name.
    pub(crate) fn note_refusal(
        &self,
        refusal: Refusal,
        (head, transport): (&RequestHead<'_>, &TransportInfo),
        site: &Site,
        user: Option<&[u8]>,
    ) {
        let client = self.server.settings.trusted_proxies.client(transport, head.fields).peer;
        let of = (client, Some(site.counted_as));
        self.server.refusals.note(refusal, of, (user, head.target.raw_path()), self.now.ms());
    }

    /// Whether the connection goes to another thread with each job.
    pub(crate) fn goes_with_jobs(&self) -> bool {
        self.local.is_none()
    }
}

/// When connections of a server that stops come to their end. Requests under way are answered in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Drain {
    /// The server goes on.
    #[default]
    No,
    /// A successor accepts connections. Each one here gets the response to its next request, which says that it closes.
    AfterNextRequest,
    /// Each one that waits for a request is closed.
    AtOnce,
}

impl Drain {
    /// Whether the server stops.
    #[must_use]
    pub fn is_on(self) -> bool {
        self != Self::No
    }
}
