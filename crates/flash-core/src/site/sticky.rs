//! Sessions that stay with a server: the cookie that names it.
//!
//! The request path knows the cookie's value as its client has sent it. [`StickySessions`] knows the key that it is signed with, and
//! `flash-upstream` whether that server is well.

use std::fmt::Debug;
use std::sync::Arc;

/// The sessions of an upstream.
pub trait StickySessions: Debug + Send + Sync {
    /// The cookie's name.
    fn name(&self) -> &[u8];

    /// The server that a cookie's value names. `None` if the value is forged or old, or that server is gone.
    fn session(&self, value: &[u8], now_s: u64) -> Option<StickySession>;

    /// The value of a `Set-Cookie` that names this server of the upstream.
    fn set_cookie(&self, server: usize, is_tls: bool, now_s: u64) -> Option<Vec<u8>>;
}

/// What a cookie says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StickySession {
    /// The position of the server in its upstream.
    pub server: usize,
    /// So much of its life is over that it is set anew.
    pub is_due: bool,
}

/// The session of a request, and those of its route.
#[derive(Clone, Debug)]
pub(crate) struct StickyRequest {
    pub(crate) sessions: Arc<dyn StickySessions>,
    pub(crate) asked: Option<StickySession>,
    pub(crate) is_tls: bool,
}

impl StickyRequest {
    /// The cookie that its client gets, if this server answers.
    pub(crate) fn set_cookie(&self, server: usize, now_s: u64) -> Option<Vec<u8>> {
        let stays = self.asked.is_some_and(|asked| asked.server == server && !asked.is_due);
        if stays { None } else { self.sessions.set_cookie(server, self.is_tls, now_s) }
    }
}
