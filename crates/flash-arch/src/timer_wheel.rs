//! Timer wheels: when many connections are to have their turns, to a precision of a tick.

use flash_core::Connection;

/// The deadlines' precision, in milliseconds.
const TICK_MS: u64 = 250;
/// That of responses whose clients have rates.
const PACE_TICK_MS: u64 = 10;
/// One round of the wheel of deadlines is 128 seconds. A later one goes to the last tick, and is put in again from there.
const TICKS: usize = 512;

/// When connections are to have their turns: at their deadlines, or when their clients' rates allow more.
#[derive(Debug)]
pub(crate) struct Timers {
    deadlines: TimerWheel<TICK_MS>,
    paces: TimerWheel<PACE_TICK_MS>,
}

/// Where a connection is in the two wheels.
#[derive(Debug)]
pub(crate) struct WheelSlots {
    deadline: WheelSlot,
    pace: WheelSlot,
}

/// A connection whose time has come, if it is still where it was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    Deadline(WheelSlot),
    Pace(WheelSlot),
}

impl WheelSlots {
    pub(crate) const NOWHERE: Self = Self { deadline: WheelSlot::NOWHERE, pace: WheelSlot::NOWHERE };

    /// Takes the connection out, if its last entry is this one. Returns whether its deadline is due.
    pub(crate) fn leave(&mut self, due: Due) -> Option<bool> {
        let (slot, tick, is_deadline) = match due {
            Due::Deadline(tick) => (&mut self.deadline, tick, true),
            Due::Pace(tick) => (&mut self.pace, tick, false),
        };
        (*slot == tick).then(|| {
            *slot = WheelSlot::NOWHERE;
            is_deadline
        })
    }
}

impl Timers {
    pub(crate) fn new(now_ms: u64) -> Self {
        Self { deadlines: TimerWheel::new(now_ms), paces: TimerWheel::new(now_ms) }
    }

    /// Puts the connection in as it is now.
    #[inline]
    pub(crate) fn set(&mut self, token: u64, connection: &Connection, slots: &mut WheelSlots) {
        self.deadlines.set(token, connection.deadline_ms(), &mut slots.deadline);
        if let Some(until_ms) = connection.paced_until_ms() {
            self.paces.set(token, until_ms, &mut slots.pace);
        }
    }

    /// How long no connection is due; `None` is for ever.
    pub(crate) fn wait_ms(&self, now_ms: u64) -> Option<u64> {
        self.deadlines.wait_ms(now_ms).into_iter().chain(self.paces.wait_ms(now_ms)).min()
    }

    /// Takes out a tick that is due, and the connections in it.
    pub(crate) fn take_due(&mut self, now_ms: u64) -> Option<(Due, Vec<u64>)> {
        let paces = self.paces.take_due(now_ms).map(|(tick, tokens)| (Due::Pace(tick), tokens));
        paces.or_else(|| {
            let (tick, tokens) = self.deadlines.take_due(now_ms)?;
            Some((Due::Deadline(tick), tokens))
        })
    }
}

/// Only the last entry of a connection counts. If its deadline moves later, the wheel stays as it is. When the tick
/// comes, the connection is asked for its deadline and put in again.
#[derive(Debug)]
pub(crate) struct TimerWheel<const TICK: u64 = TICK_MS> {
    /// Empty until the first connection comes.
    wheel: Vec<Vec<u64>>,
    /// The first tick that was not taken out yet.
    next: u64,
    /// No tick before this one has an entry.
    earliest: u64,
}

/// A connection's slot in the wheel: a tick, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WheelSlot(u64);

impl WheelSlot {
    pub(crate) const NOWHERE: Self = Self(u64::MAX);
}

impl<const TICK: u64> TimerWheel<TICK> {
    pub(crate) fn new(now_ms: u64) -> Self {
        Self { wheel: Vec::new(), next: now_ms / TICK, earliest: u64::MAX }
    }

    /// Puts the connection in, so that it comes out at most a tick after its deadline.
    pub(crate) fn set(&mut self, token: u64, deadline_ms: u64, wheel_slot: &mut WheelSlot) {
        let tick = (deadline_ms / TICK + 1).clamp(self.next, self.next + TICKS as u64 - 1);
        if tick < wheel_slot.0 {
            if self.wheel.is_empty() {
                self.wheel.resize(TICKS, Vec::new());
            }
            self.wheel[tick as usize % TICKS].push(token);
            self.earliest = self.earliest.min(tick);
            *wheel_slot = WheelSlot(tick);
        }
    }

    /// How long no connection is due; `None` is for ever.
    pub(crate) fn wait_ms(&self, now_ms: u64) -> Option<u64> {
        (self.earliest != u64::MAX).then(|| (self.earliest * TICK).saturating_sub(now_ms))
    }

    /// Takes out a tick that is due: its number, and the connections in it. The caller skips a connection whose slot
    /// is another tick by now.
    pub(crate) fn take_due(&mut self, now_ms: u64) -> Option<(WheelSlot, Vec<u64>)> {
        let now = now_ms / TICK;
        if self.earliest > now {
            self.next = self.next.max(now);
            return None;
        }
        let tick = self.earliest;
        self.next = tick + 1;
        let tokens = std::mem::take(&mut self.wheel[tick as usize % TICKS]);
        let ahead =
            (self.next..self.next + TICKS as u64).find(|&tick| !self.wheel[tick as usize % TICKS].is_empty());
        self.earliest = ahead.unwrap_or(u64::MAX);
        Some((WheelSlot(tick), tokens))
    }
}

#[cfg(test)]
mod simulation;

#[cfg(test)]
mod tests {
    use super::*;

    fn due(timers: &mut TimerWheel, now_ms: u64) -> Vec<u64> {
        let mut all = Vec::new();
        while let Some((_, tokens)) = timers.take_due(now_ms) {
            all.extend(tokens);
        }
        all
    }

    #[test]
    fn due_within_a_tick_after_the_deadline() {
        let mut timers = TimerWheel::new(10_000);
        timers.set(1, 11_000, &mut WheelSlot::NOWHERE.clone());
        timers.set(2, 90_000, &mut WheelSlot::NOWHERE.clone());
        assert!(due(&mut timers, 11_000).is_empty());
        assert_eq!(due(&mut timers, 11_000 + TICK_MS), [1]);
        assert_eq!(timers.wait_ms(89_000), Some(1_250));
        assert_eq!(due(&mut timers, 500_000), [2]);
        assert_eq!(timers.wait_ms(500_000), None);
    }

    #[test]
    fn later_deadlines_touch_nothing_and_earlier_ones_come_first() {
        let mut timers = TimerWheel::<TICK_MS>::new(0);
        let mut wheel_slot = WheelSlot::NOWHERE;
        timers.set(1, 60_000, &mut wheel_slot);
        timers.set(1, 70_000, &mut wheel_slot);
        timers.set(1, 1_000, &mut wheel_slot);
        let (tick, tokens) = timers.take_due(2_000).unwrap();
        assert_eq!((tick, tokens), (wheel_slot, vec![1]));
        let (tick, _) = timers.take_due(61_000).unwrap();
        assert_ne!(tick, wheel_slot, "its first place no longer counts");
    }

    #[test]
    fn the_far_future_is_reached_in_rounds() {
        let mut timers = TimerWheel::new(0);
        timers.set(1, 10_000_000, &mut WheelSlot::NOWHERE.clone());
        assert_eq!(due(&mut timers, 128_000), [1]);
    }

    #[test]
    fn a_deadline_in_the_past_is_due_at_once() {
        let mut timers = TimerWheel::new(100_000);
        assert!(due(&mut timers, 200_000).is_empty());
        timers.set(1, 5, &mut WheelSlot::NOWHERE.clone());
        assert_eq!(due(&mut timers, 200_000), [1]);
    }
}
