//! Listening to a client that has been answered before it had sent everything.
//!
//! Its answer would be lost: a close with bytes unread makes the kernel reset the connection (RFC 9112 §9.6), and a reset stream is a
//! failure for many clients of HTTP/2 (RFC 9113 §8.1). So what the client sends is read and dropped, for as long as it goes on
//! within these bounds. Its silence is a [deadline](super::deadline).

/// What a client may still send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Linger {
    bytes_left: u64,
    until_ms: u64,
}

/// nginx's `lingering_time`.
const LINGER_MS_MAX: u64 = 30_000;
/// What a network of 250 Mbit/s carries in that time.
const LINGER_BYTES_MAX: u64 = 1 << 30;

impl Linger {
    pub(crate) fn begin(now_ms: u64) -> Self {
        Self { bytes_left: LINGER_BYTES_MAX, until_ms: now_ms.saturating_add(LINGER_MS_MAX) }
    }

    /// The client has sent this much.
    pub(crate) fn dropped(&mut self, bytes: usize) {
        self.bytes_left = self.bytes_left.saturating_sub(bytes as u64);
    }

    /// When it ends in any case.
    pub(crate) fn until_ms(&self) -> u64 {
        self.until_ms
    }

    /// Whether the client has sent enough.
    pub(crate) fn is_over(&self, now_ms: u64) -> bool {
        self.bytes_left == 0 || now_ms >= self.until_ms
    }
}
