//! Parked connections of mt and mp: those that wait for their clients, and hold no thread and no process meanwhile.
//!
//! Each has a token and a deadline. What makes a parked connection ready is not known here.

use std::mem;

use flash_core::Evictable;

use crate::connections::victims::Victims;
use crate::fair_queue::ClientNetwork;
use crate::timer_wheel::{TimerWheel, WheelSlot};

pub(crate) struct Parked<C> {
    places: Vec<ParkingSlot<C>>,
    /// The numbers of places without a connection.
    vacant: Vec<u32>,
    timers: TimerWheel,
    victims: Victims,
    oldest_handshakes: Victims,
}

struct ParkingSlot<C> {
    connection: Option<C>,
    /// How many connections have been in this place.
    generation: u32,
    deadline_ms: u64,
    /// Outlives the connection. So a place that is used often has no more than one entry in the wheel.
    wheel_slot: WheelSlot,
}

fn split(token: u64) -> (u32, usize) {
    ((token >> 32) as u32, token as u32 as usize)
}

impl<C> Parked<C> {
    pub(crate) fn new(now_ms: u64) -> Self {
        Self {
            places: Vec::new(),
            vacant: Vec::new(),
            timers: TimerWheel::new(now_ms),
            victims: Victims::default(),
            oldest_handshakes: Victims::default(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len() - self.vacant.len()
    }

    /// Parks a connection, and returns its token.
    pub(crate) fn park(&mut self, connection: C, deadline_ms: u64) -> u64 {
        let number = self.vacant.pop().unwrap_or_else(|| {
            self.places.push(ParkingSlot {
                connection: None,
                generation: 0,
                deadline_ms: 0,
                wheel_slot: WheelSlot::NOWHERE,
            });
            (self.places.len() - 1) as u32
        });
        let place = &mut self.places[number as usize];
        // Listeners have tokens of the generation 0.
        place.generation = (place.generation % (u32::MAX - 1)) + 1;
        place.connection = Some(connection);
        place.deadline_ms = deadline_ms;
        self.timers.set(number.into(), deadline_ms, &mut place.wheel_slot);
        u64::from(place.generation) << 32 | u64::from(number)
    }

    /// The connection with this token, if it is still parked.
    pub(crate) fn get(&self, token: u64) -> Option<&C> {
        let (generation, number) = split(token);
        self.places.get(number).filter(|place| place.generation == generation)?.connection.as_ref()
    }

    /// Takes out the connection with this token, if it is still parked.
    pub(crate) fn take(&mut self, token: u64) -> Option<C> {
        let (generation, number) = split(token);
        let place = self.places.get_mut(number).filter(|place| place.generation == generation)?;
        let connection = place.connection.take()?;
        self.vacant.push(number as u32);
        Some(connection)
    }

    /// Takes out the connection that goes first when a new one needs its place. `look` says whether a connection may be closed, and of
    /// which client it is.
    pub(crate) fn take_victim(
        &mut self,
        now_ms: u64,
        look: impl Fn(&C) -> (Option<Evictable>, ClientNetwork),
    ) -> Option<C> {
        let mut victims = mem::take(&mut self.victims);
        let found = self.find(&mut victims, now_ms, look);
        self.victims = victims;
        self.take(found?)
    }

    /// Takes out a connection whose handshake is the oldest. `look` says since when it has not been finished.
    pub(crate) fn take_oldest_handshake(
        &mut self,
        now_ms: u64,
        look: impl Fn(&C) -> (Option<Evictable>, ClientNetwork),
    ) -> Option<C> {
        let mut oldest_handshakes = mem::take(&mut self.oldest_handshakes);
        let found = self.find(&mut oldest_handshakes, now_ms, look);
        self.oldest_handshakes = oldest_handshakes;
        self.take(found?)
    }

    fn find(
        &self,
        victims: &mut Victims,
        now_ms: u64,
        look: impl Fn(&C) -> (Option<Evictable>, ClientNetwork),
    ) -> Option<u64> {
        let all = self.tokens().filter_map(|token| {
            let (evictable, client) = look(self.get(token)?);
            Some((evictable, client, token))
        });
        let found = victims.find(now_ms, all, |token| look(self.get(token)?).0);
        found.map(|(_, token)| token)
    }

    /// The tokens of connections whose deadline has passed. Each is returned once.
    pub(crate) fn due(&mut self, now_ms: u64) -> Vec<u64> {
        let mut due = Vec::new();
        while let Some((tick, numbers)) = self.timers.take_due(now_ms) {
            for number in numbers {
                let place = &mut self.places[number as usize];
                if place.wheel_slot != tick {
                    continue;
                }
                place.wheel_slot = WheelSlot::NOWHERE;
                if place.connection.is_none() {
                    continue;
                }
                match place.deadline_ms <= now_ms {
                    true => due.push(u64::from(place.generation) << 32 | number),
                    false => self.timers.set(number, place.deadline_ms, &mut place.wheel_slot),
                }
            }
        }
        due
    }

    pub(crate) fn tokens(&self) -> impl Iterator<Item = u64> {
        let parked = self.places.iter().enumerate().filter(|(_, place)| place.connection.is_some());
        parked.map(|(number, place)| u64::from(place.generation) << 32 | number as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_of_one_connection_though_its_place_is_used_again() {
        let mut parked = Parked::new(0);
        let first = parked.park('a', 1_000);
        assert_eq!((parked.take(first), parked.take(first)), (Some('a'), None));
        let second = parked.park('b', 1_000);
        assert_eq!(first as u32, second as u32, "it is the same place");
        assert_eq!((parked.get(first), parked.get(second), parked.len()), (None, Some(&'b'), 1));
    }

    #[test]
    fn the_due_are_those_whose_own_deadline_has_passed() {
        let mut parked = Parked::new(0);
        let first = parked.park('a', 1_000);
        parked.take(first);
        // The place is in the wheel for its first connection's deadline.
        let second = parked.park('b', 60_000);
        let third = parked.park('c', 2_000);
        assert_eq!(parked.due(10_000), [third]);
        assert!(parked.due(20_000).is_empty(), "each once");
        assert_eq!(parked.due(61_000), [second]);
    }

    #[test]
    fn a_place_that_is_used_often_takes_no_more_of_the_wheel() {
        let mut parked = Parked::new(0);
        for now_ms in 0..10_000 {
            let token = parked.park('a', now_ms + 60_000);
            assert_eq!(parked.take(token), Some('a'));
        }
        let entries: usize =
            std::iter::from_fn(|| parked.timers.take_due(100_000)).map(|(_, all)| all.len()).sum();
        assert_eq!(entries, 1);
    }

    #[test]
    fn the_longest_idle_is_taken_and_one_that_is_busy_is_not() {
        let mut parked = Parked::new(0);
        for since in [Some(30), None, Some(10), Some(20)] {
            parked.park(since, 1_000);
        }
        let mut next = || {
            parked.take_victim(100, |since: &Option<u64>| {
                (since.map(Evictable::Idle), ClientNetwork::default())
            })
        };
        assert_eq!([next(), next(), next()], [Some(Some(10)), Some(Some(20)), Some(Some(30))]);
        assert_eq!((next(), parked.len()), (None, 1));
    }
}
