//! Between the warm-up and the measured time. An open loop begins the measured time with an empty queue: what came due in the
//! warm-up is answered or dropped before. A cold server's backlog would else count as its wait long after the warm-up.

use std::time::{Duration, Instant};

use super::Player;
use crate::load::Until;

/// What is not answered then, although it was sent in the warm-up, is given up with its connection.
const SETTLE_MAX: Duration = Duration::from_secs(1);

impl Player<'_> {
    /// Between the warm-up and the measured time, open loops send nothing.
    pub(super) fn is_settling(&self, now: Instant) -> bool {
        !self.knows_begin && now >= self.course.warm
    }

    /// Begins the measured time once all threads have settled.
    pub(super) fn settle(&mut self, now: Instant) {
        if self.knows_begin {
            return;
        }
        if let Some(from) = self.course.measured_from() {
            self.knows_begin = true;
            // What was due behind the warm-up is due so much later.
            self.origin += from - self.course.warm;
            if let Until::Time(time) = self.load.until {
                self.end = Some(from + time);
            }
            self.next_due = Some(now.max(self.course.start));
        } else if now >= self.course.warm && !self.is_settled {
            self.drop_warm_up(now);
            if self.shards.iter().all(|shard| shard.is_closed_loop() || shard.under_way == 0) {
                self.has_settled(now);
            }
        }
    }

    /// Drops what is not sent, and in the end what is not answered.
    fn drop_warm_up(&mut self, now: Instant) {
        for shard in 0..self.shards.len() {
            while self.due(shard).is_some() {
                self.shards[shard].queue(now, &mut self.random);
            }
            while self.shards[shard].overdue(now, Duration::ZERO).is_some() {
                self.shards[shard].under_way -= 1;
            }
        }
        if now < self.course.warm + SETTLE_MAX {
            return;
        }
        for place in 0..self.connections.len() {
            let shard = self.connections[place].shard;
            if !self.shards[shard].is_closed_loop() && !self.connections[place].pending.is_empty() {
                self.shards[shard].under_way -= self.connections[place].pending.len();
                self.connections[place].pending.clear();
                self.close(place);
                self.go_on(place, now);
            }
        }
    }

    /// This thread keeps the others waiting no longer.
    pub(super) fn has_settled(&mut self, now: Instant) {
        if !std::mem::replace(&mut self.is_settled, true) {
            self.course.settled(now);
        }
    }
}
