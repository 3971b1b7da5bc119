//! Parked connections: those that wait within a stage for their sockets or for a helper, and their deadlines.

use std::mem;
use std::os::fd::OwnedFd;

use flash_core::server::Settings;
use flash_core::{Connection, Evictable, ExchangeId};

use crate::connections::permit::ConnectionPermit;
use crate::connections::transport::Transport;
use crate::connections::victims::{self, Victims};
use crate::fair_queue::ClientNetwork;
use crate::poller::Registered;
use crate::timer_wheel::{Timers, WheelSlots};

/// A connection and its socket. It is in one place at a time: with a stage, parked, or in a queue.
pub(super) struct Slot {
    pub(super) connection: Connection,
    pub(super) transport: Transport,
    pub(super) socket: OwnedFd,
    /// The connection's number in its pool, and a generation.
    pub(super) token: u64,
    /// The streams to the upstreams of its exchanges.
    pub(super) streams: Vec<Stream>,
    /// Whether the epoll of *send data* watches its socket.
    pub(super) registered: bool,
    /// `None` once the connection has given way to a new one.
    pub(super) permit: Option<ConnectionPermit>,
}

/// A stream to the upstream of an exchange, and what it is watched for.
pub(super) struct Stream {
    pub(super) exchange: ExchangeId,
    pub(super) stream: OwnedFd,
    pub(super) registered: Registered,
}

/// The token of a connection that has no number yet.
pub(super) const NEW: u64 = u64::MAX;

impl Slot {
    pub(super) fn new(
        connection: Connection,
        transport: Transport,
        socket: OwnedFd,
        permit: ConnectionPermit,
    ) -> Self {
        let (token, streams, permit) = (NEW, Vec::new(), Some(permit));
        Self { connection, transport, socket, token, streams, registered: false, permit }
    }

    /// One of its streams has had an event. The event does not say which, so each stream is tried.
    pub(super) fn streams_ready(&mut self) {
        self.streams.iter().for_each(|stream| self.connection.upstream_ready(stream.exchange));
    }

    pub(super) fn add_stream(&mut self, exchange: ExchangeId, stream: Option<OwnedFd>) {
        self.streams.extend(stream.map(|stream| Stream { exchange, stream, registered: Registered::No }));
    }

    pub(super) fn number(&self) -> usize {
        self.token as u32 as usize
    }
}

/// A parking slot for each connection number. Only the last entry of a slot in the timer wheel counts.
pub(super) struct ParkedConnections {
    places: Vec<ParkingSlot>,
    parked_count: usize,
    timers: Timers,
    victims: Victims,
    oldest_handshakes: Victims,
}

struct ParkingSlot {
    connection_slot: Option<Box<Slot>>,
    wheel_slots: WheelSlots,
}

impl ParkedConnections {
    pub(super) fn new(now_ms: u64) -> Self {
        Self {
            places: Vec::new(),
            parked_count: 0,
            timers: Timers::new(now_ms),
            victims: Victims::default(),
            oldest_handshakes: Victims::default(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.parked_count == 0
    }

    pub(super) fn park(&mut self, slot: Box<Slot>) {
        let number = slot.number();
        if number >= self.places.len() {
            self.places.resize_with(number + 1, || ParkingSlot {
                connection_slot: None,
                wheel_slots: WheelSlots::NOWHERE,
            });
        }
        let place = &mut self.places[number];
        self.timers.set(number as u64, &slot.connection, &mut place.wheel_slots);
        place.connection_slot = Some(slot);
        self.parked_count += 1;
    }

    /// Takes out the connection with this token, if it is parked here.
    pub(super) fn take(&mut self, token: u64) -> Option<Box<Slot>> {
        let place = self.places.get_mut(token as u32 as usize)?;
        let connection_slot = place.connection_slot.take_if(|slot| slot.token == token)?;
        self.parked_count -= 1;
        Some(connection_slot)
    }

    /// Takes out the connection that goes first when a new one needs its place.
    pub(super) fn take_victim(&mut self, settings: &Settings, now_ms: u64) -> Option<(Evictable, Box<Slot>)> {
        let mut victims = mem::take(&mut self.victims);
        let evictable = |Slot { connection, transport, socket, .. }: &Slot| {
            victims::evictable(connection, transport, socket, now_ms, settings)
        };
        let found = self.find(&mut victims, now_ms, evictable);
        self.victims = victims;
        let (evicted, token) = found?;
        Some((evicted, self.take(token)?))
    }

    /// Takes out a connection whose handshake has waited for its client for longest.
    pub(super) fn take_oldest_handshake(&mut self, now_ms: u64) -> Option<Box<Slot>> {
        let mut oldest_handshakes = mem::take(&mut self.oldest_handshakes);
        let since = |slot: &Slot| slot.transport.unfinished_since_ms().map(Evictable::Unfinished);
        let found = self.find(&mut oldest_handshakes, now_ms, since);
        self.oldest_handshakes = oldest_handshakes;
        self.take(found?.1)
    }

    fn find(
        &self,
        victims: &mut Victims,
        now_ms: u64,
        evictable: impl Fn(&Slot) -> Option<Evictable>,
    ) -> Option<(Evictable, u64)> {
        let parked = self.places.iter().filter_map(|place| place.connection_slot.as_deref());
        let all = parked.map(|slot| (evictable(slot), ClientNetwork::of(slot.connection.peer()), slot.token));
        victims.find(now_ms, all, |token| {
            let slot = self.places.get(token as u32 as usize)?.connection_slot.as_deref()?;
            evictable(slot).filter(|_| slot.token == token)
        })
    }

    /// The tokens of connections whose deadline may have passed, or whose clients' rates may allow more. Says which it is: true for a
    /// deadline.
    pub(super) fn due(&mut self, now_ms: u64) -> Vec<(u64, bool)> {
        let mut due = Vec::new();
        while let Some((tick, numbers)) = self.timers.take_due(now_ms) {
            for number in numbers {
                let place = &mut self.places[number as usize];
                if let Some(is_deadline) = place.wheel_slots.leave(tick) {
                    due.extend(place.connection_slot.as_ref().map(|slot| (slot.token, is_deadline)));
                }
            }
        }
        due
    }

    pub(super) fn tokens(&self) -> Vec<u64> {
        self.places.iter().filter_map(|place| Some(place.connection_slot.as_ref()?.token)).collect()
    }

    /// How long no connection is due; `None` is for ever.
    pub(super) fn wait_ms(&self, now_ms: u64) -> Option<u64> {
        self.timers.wait_ms(now_ms)
    }
}
