//! Simulates connections that open, close and move their deadlines, from a seed. The wheel reports each connection at its
//! deadline. It never mistakes one connection's place for another's, even if a slot is reused many times.

use slab::Slab;

use super::*;
use crate::testing::{Random, each_seed};

#[test]
fn nobody_is_forgotten_and_nobody_is_mistaken_for_another() {
    each_seed(1..20, |seed| Simulation::new(seed).run(3_000));
}

struct Simulation {
    random: Random,
    now_ms: u64,
    timers: TimerWheel,
    slots: Slab<Slot>,
    generation: u64,
    looks: usize,
}

struct Slot {
    generation: u64,
    deadline_ms: u64,
    wheel_slot: WheelSlot,
    came_ms: u64,
    /// When its deadline was moved last.
    set_ms: u64,
    looks: u64,
}

/// Few slots, used again and again.
const SLOTS_MAX: usize = 30;

impl Simulation {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let now_ms = random.within(0..1_000_000);
        Self { random, now_ms, timers: TimerWheel::new(now_ms), slots: Slab::new(), generation: 0, looks: 0 }
    }

    fn run(mut self, steps: usize) {
        for _ in 0..steps {
            match self.random.within(0..10) {
                0..=2 if self.slots.len() < SLOTS_MAX => self.come(),
                0..=6 => self.move_deadline(),
                _ => self.go(),
            }
            self.now_ms += match self.random.within(0..20) {
                0 => self.random.within(0..200_000),
                1..=9 => 0,
                // A loop without other events sleeps until somebody is due.
                10..=14 => self.timers.wait_ms(self.now_ms).unwrap_or(0),
                _ => self.random.within(0..400),
            };
            self.expire();
            self.check();
        }
        assert!(self.looks > steps / 20, "hardly anybody was ever due");
    }

    /// Seconds mostly; sometimes what is over already, or further away than the wheel reaches.
    fn deadline_ms(&mut self) -> u64 {
        match self.random.within(0..20) {
            0 => self.now_ms.saturating_sub(self.random.within(0..1_000)),
            1 => self.now_ms + self.random.within(0..1_000_000),
            _ => self.now_ms + self.random.within(0..60_000),
        }
    }

    fn come(&mut self) {
        self.generation += 1;
        let (generation, deadline_ms, wheel_slot) = (self.generation, self.deadline_ms(), WheelSlot::NOWHERE);
        let (came_ms, set_ms, looks) = (self.now_ms, self.now_ms, 0);
        let index = self.slots.insert(Slot { generation, deadline_ms, wheel_slot, came_ms, set_ms, looks });
        self.set(index);
    }

    fn move_deadline(&mut self) {
        let Some(index) = self.any() else { return };
        let deadline_ms = self.deadline_ms();
        let slot = &mut self.slots[index];
        (slot.deadline_ms, slot.set_ms) = (deadline_ms, self.now_ms);
        self.set(index);
    }

    fn go(&mut self) {
        if let Some(index) = self.any() {
            self.slots.remove(index);
        }
    }

    fn any(&mut self) -> Option<usize> {
        let indexes: Vec<usize> = self.slots.iter().map(|(index, _)| index).collect();
        (!indexes.is_empty()).then(|| *self.random.pick(&indexes))
    }

    fn set(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        self.timers.set(slot.generation << 32 | index as u64, slot.deadline_ms, &mut slot.wheel_slot);
    }

    /// As the loops do it.
    fn expire(&mut self) {
        while let Some((tick, tokens)) = self.timers.take_due(self.now_ms) {
            for token in tokens {
                let (generation, index) = (token >> 32, token as u32 as usize);
                let Some(slot) = self.slots.get_mut(index).filter(|slot| slot.generation == generation)
                else {
                    continue;
                };
                if slot.wheel_slot != tick {
                    continue;
                }
                slot.wheel_slot = WheelSlot::NOWHERE;
                slot.looks += 1;
                self.looks += 1;
                if slot.deadline_ms <= self.now_ms {
                    self.slots.remove(index);
                } else {
                    self.set(index);
                }
            }
        }
    }

    fn check(&self) {
        let wait_ms = self.timers.wait_ms(self.now_ms);
        for (_, slot) in &self.slots {
            let Slot { deadline_ms, came_ms, set_ms, looks, .. } = *slot;
            assert!(slot.wheel_slot != WheelSlot::NOWHERE, "it will never be looked at");
            let latest_ms = deadline_ms.max(set_ms) + TICK_MS;
            assert!(self.now_ms < latest_ms, "it is {}, and {deadline_ms} was its time", self.now_ms);
            let wakes_ms = self.now_ms + wait_ms.expect("somebody has a deadline");
            assert!(wakes_ms <= latest_ms, "it would be late");
            assert!(looks <= (self.now_ms - came_ms) / TICK_MS + 1, "it is looked at again and again");
        }
    }
}
