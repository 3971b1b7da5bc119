//! What a certificate authority asks, to see that a host is this server's (ACME, RFC 8555 §8).
//!
//! Another process asks the authority for certificates, and says what is pending. Only that is answered, before any rule of a site.

use std::fmt;

use flash_http::head::{Body, RequestHead, Target};

/// The challenges that are pending. Loops ask, so no answer may wait.
pub trait Challenges: Send + Sync + fmt::Debug {
    /// The key authorization of this token, for HTTP-01 (RFC 8555 §8.3).
    fn of_token(&self, token: &[u8]) -> Option<Vec<u8>>;

    /// The key authorization of this host, for TLS-ALPN-01 (RFC 8737).
    fn of_host(&self, host: &str) -> Option<Vec<u8>>;
}

const PREFIX: &[u8] = b"/.well-known/acme-challenge/";

/// The key authorization that a request asks for.
pub(crate) fn asked(head: &RequestHead<'_>, challenges: &dyn Challenges) -> Option<Vec<u8>> {
    let Target::Origin { path, .. } = head.target else { return None };
    let is_plain = head.method.is_retrieval() && matches!(head.body, Body::None);
    challenges.of_token(path.strip_prefix(PREFIX).filter(|_| is_plain)?)
}
