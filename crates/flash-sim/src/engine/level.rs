//! A number that changes over time, and its mean.

use super::time::Time;

/// A count of whatever is somewhere now, with its integral over time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Level {
    value: u64,
    area: u64,
    changed: Time,
    since: Time,
}

impl Level {
    pub fn value(&self) -> u64 {
        self.value
    }

    pub fn add(&mut self, amount: u64, now: Time) {
        self.pass(now);
        self.value += amount;
    }

    pub fn remove(&mut self, amount: u64, now: Time) {
        self.pass(now);
        self.value -= amount;
    }

    /// Forgets the past, not the value.
    pub fn reset(&mut self, now: Time) {
        *self = Level { value: self.value, area: 0, changed: now, since: now };
    }

    /// Since the last reset, in value × nanoseconds: room for a thousand over half a year.
    pub fn area(&self, now: Time) -> u64 {
        self.area + self.value * (now - self.changed)
    }

    /// Over the time since the last reset; 0 where none has passed.
    pub fn mean(&self, now: Time) -> f64 {
        match now - self.since {
            0 => 0.0,
            time => self.area(now) as f64 / time as f64,
        }
    }

    fn pass(&mut self, now: Time) {
        self.area += self.value * (now - self.changed);
        self.changed = now;
    }
}
