//! Log-ins: which users may have what a site or a place protects (RFC 7617).
//!
//! The request path knows names and passwords only as a client has sent them. [`Users`] knows those that are right. A check of a
//! password takes a tenth of a second of a processor. So no loop does it: a request waits for its [`Check`] as for a job.

use std::fmt::Debug;

use flash_http::basic::Credentials;

/// The users of a site or a place.
pub trait Users: Debug + Send + Sync {
    /// The value of `WWW-Authenticate`.
    fn challenge(&self) -> &[u8];

    /// What is known of these credentials at once. Does not wait, and allocates nothing if they are right.
    fn ask(&self, credentials: &Credentials, now_ms: u64) -> Known;
}

/// What is known of credentials.
#[derive(Debug)]
pub enum Known {
    /// They were found right a moment ago.
    Right,
    Unchecked(Box<dyn Check>),
}

/// A check of credentials. It costs the same whether there is a user of that name or not.
pub trait Check: Debug + Send {
    /// Checks with equal keys have equal results.
    fn key(&self) -> CheckKey;

    /// Whether the credentials are right. Takes a processor for long, and remembers a success.
    fn run(&self, now_ms: u64) -> bool;
}

pub type CheckKey = [u8; 32];
