//! The response on its way to a client that is behind: what is ready to be sent has a limit, and what follows is stored.

use super::spool_queue::SpoolQueue;
use super::{RESPONSE_BYTES, Stage, UpstreamExchange};

impl UpstreamExchange {
    /// How much more of the response there is room for. `waiting_bytes` have not been sent to the client. What follows the
    /// response's end is dropped.
    pub(super) fn room(&self, waiting_bytes: usize) -> usize {
        let Some(routes) = &self.routes else { return 0 };
        match &self.ahead {
            _ if self.reply.is_written() => usize::MAX,
            Some(ahead) => ahead.room(&routes.answers),
            None => self.front.bytes_max(RESPONSE_BYTES, &routes.answers).saturating_sub(waiting_bytes),
        }
    }

    /// Counts what has not been sent to the client. If the client is behind, what follows is stored.
    pub(crate) fn make_room(&mut self, waiting_bytes: usize) {
        let Some(routes) = self.routes.clone() else { return };
        self.front.count(waiting_bytes, &routes.answers);
        if matches!(self.stage, Stage::Running(_)) && self.room(waiting_bytes) == 0 {
            let ahead = self.ahead.get_or_insert_with(|| Box::new(SpoolQueue::new()));
            ahead.make_room(&routes.answers, Some(&routes.spool));
        }
    }

    /// Whether a part of the response is stored. All that follows is, too.
    pub(crate) fn stores_response(&self) -> bool {
        self.ahead.is_some()
    }

    /// Whether all that the client gets is on its way.
    pub(crate) fn is_whole(&self) -> bool {
        self.ahead.is_none() && self.reply.is_written()
    }

    /// The same, and nothing of the upstream is dropped any more.
    pub(crate) fn is_complete(&self) -> bool {
        self.is_whole() && (self.reply.is_complete() || matches!(self.stage, Stage::Over))
    }

    /// Whether the client can be sent all of it, whatever happens to the upstream.
    pub(super) fn is_safe(&self) -> bool {
        self.reply.is_written() && !self.ahead.as_ref().is_some_and(|ahead| ahead.is_lost())
    }

    /// Stores a part of the response, as it will be sent.
    pub(crate) fn store(&mut self, bytes: &[u8]) {
        if let (Some(ahead), Some(routes)) = (&mut self.ahead, &self.routes) {
            ahead.put(bytes, &routes.answers);
        }
    }

    /// The client has taken what was ready. Gives the next part to `send`, if it is in memory. If not, a job brings it.
    pub(crate) fn next_part(&mut self, send: impl FnOnce(&[u8])) {
        if let Some(ahead) = &mut self.ahead {
            ahead.give(RESPONSE_BYTES, send);
        }
        self.forget_empty();
    }

    /// Nothing is stored any more once the last part was given.
    pub(super) fn forget_empty(&mut self) {
        if self.ahead.as_ref().is_some_and(|ahead| ahead.is_empty()) {
            self.ahead = None;
        }
    }
}
