//! What becomes of the fields of a response of an HTTP server, for the client of one request.

use std::borrow::Cow;

use flash_http::Scheme;
use flash_http::head::Head;

use crate::clock::Now;
use crate::connection::transport::TransportInfo;
use crate::site::proxy_rules::ProxyRules;
use crate::site::sticky::StickyRequest;

/// A field's name and its value.
type Changed<'h> = (&'h [u8], Cow<'h, [u8]>);

/// What is known before the response is there.
#[derive(Clone, Debug, Default)]
pub(crate) struct ResponseChanges {
    /// The session of the request, if those of its route stay with their servers.
    sticky: Option<StickyRequest>,
    /// Values of `Set-Cookie` that Flash adds.
    cookies: Vec<Vec<u8>>,
}

impl ResponseChanges {
    /// By the rules of the request's route.
    pub(super) fn new(rules: &ProxyRules, head: &Head<'_>, client: &TransportInfo, now: &Now) -> Self {
        let is_tls = client.scheme == Scheme::Https;
        let sticky = rules.sticky(head, is_tls, now.unix_seconds() as u64);
        Self { sticky, cookies: Vec::new() }
    }

    /// The server that its session stays with.
    pub(super) fn server(&self) -> Option<usize> {
        Some(self.sticky.as_ref()?.asked?.server)
    }

    /// This server of the route answers.
    pub(super) fn answered_by(&mut self, server: usize, now_s: u64) {
        self.cookies = self.sticky.iter().filter_map(|sticky| sticky.set_cookie(server, now_s)).collect();
    }

    /// The fields that the client gets of these.
    pub(super) fn of<'h>(
        &'h self,
        fields: impl Iterator<Item = (&'h [u8], &'h [u8])>,
    ) -> impl Iterator<Item = Changed<'h>> {
        let cookies = self.cookies.iter().map(|cookie| (&b"Set-Cookie"[..], Cow::Borrowed(&cookie[..])));
        fields.map(|(name, value)| (name, Cow::Borrowed(value))).chain(cookies)
    }
}
