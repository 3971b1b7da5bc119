//! The id of a request that clients and programs get to see in `X-Request-Id`, if the site says so.
//!
//! It is Flash's own, unless a trusted proxy has sent one. Then the log has that one, too.

use flash_http::head::RequestHead;

use crate::connection::transport::TransportInfo;
use crate::record::request_id::{FIELD, LoggedId, RequestId};
use crate::server::Server;
use crate::site::Site;

/// The longest id that a proxy may bring.
const GIVEN_BYTES_MAX: usize = 128;

#[derive(Clone, Copy, Debug)]
pub(crate) enum PassedId<'h> {
    Own(RequestId, [u8; 32]),
    Given(&'h [u8]),
}

impl<'h> PassedId<'h> {
    #[inline]
    pub(crate) fn of(
        site: &Site,
        transport: &TransportInfo,
        head: &RequestHead<'h>,
        id: RequestId,
        server: &Server,
    ) -> Option<Self> {
        site.settings.request_id.then(|| match given(transport, head, server) {
            Some(given) => Self::Given(given),
            None => Self::Own(id, id.digits()),
        })
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Own(_, digits) => digits,
            Self::Given(given) => given,
        }
    }

    pub(crate) fn logged(self) -> LoggedId {
        match self {
            Self::Own(id, _) => LoggedId::Own(id),
            Self::Given(given) => LoggedId::Given(given.into()),
        }
    }
}

/// The only id in a request of a proxy that is trusted.
fn given<'h>(transport: &TransportInfo, head: &RequestHead<'h>, server: &Server) -> Option<&'h [u8]> {
    let proxies = &server.settings.trusted_proxies;
    if proxies.is_empty() || !proxies.trust(transport.peer) {
        return None;
    }
    let mut all = head.fields.filter(|(name, _)| name.eq_ignore_ascii_case(FIELD)).map(|(_, value)| value);
    let (first, second) = (all.next()?, all.next());
    let is_right = (1..=GIVEN_BYTES_MAX).contains(&first.len()) && first.iter().all(|byte| is_of_id(*byte));
    (second.is_none() && is_right).then_some(first)
}

/// Letters, digits, and marks that need no escape in a log, in a URL or in a shell.
const fn is_of_id(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b':' | b'+' | b'/' | b'=' | b'@')
}
