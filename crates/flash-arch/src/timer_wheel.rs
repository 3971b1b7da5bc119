//! A timer wheel: the deadlines of many connections, to a precision of a tick.
//!
//! Only the last entry of a connection counts. If its deadline moves later, the wheel stays as it is. When the tick
//! comes, the connection is asked for its deadline and put in again.

/// The deadlines' precision, in milliseconds.
const TICK_MS: u64 = 250;
/// One round of the wheel is 128 seconds. A later deadline goes to the last tick, and is put in again from there.
const TICKS: usize = 512;

#[derive(Debug)]
pub(crate) struct TimerWheel {
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

impl TimerWheel {
    pub(crate) fn new(now_ms: u64) -> Self {
        Self { wheel: vec![Vec::new(); TICKS], next: now_ms / TICK_MS, earliest: u64::MAX }
    }

    /// Puts the connection in, so that it comes out at most a tick after its deadline.
    pub(crate) fn set(&mut self, token: u64, deadline_ms: u64, wheel_slot: &mut WheelSlot) {
        let tick = (deadline_ms / TICK_MS + 1).clamp(self.next, self.next + TICKS as u64 - 1);
        if tick < wheel_slot.0 {
            self.wheel[tick as usize % TICKS].push(token);
            self.earliest = self.earliest.min(tick);
            *wheel_slot = WheelSlot(tick);
        }
    }

    /// How long no connection is due; `None` is for ever.
    pub(crate) fn wait_ms(&self, now_ms: u64) -> Option<u64> {
        (self.earliest != u64::MAX).then(|| (self.earliest * TICK_MS).saturating_sub(now_ms))
    }

    /// Takes out a tick that is due: its number, and the connections in it. The caller skips a connection whose slot
    /// is another tick by now.
    pub(crate) fn take_due(&mut self, now_ms: u64) -> Option<(WheelSlot, Vec<u64>)> {
        let now = now_ms / TICK_MS;
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
        let mut timers = TimerWheel::new(0);
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
