//! Queues against the formulas of queueing theory, and what lines and levels count.

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

use super::*;

const CUSTOMERS: u64 = 2_000_000;
/// So many at most are in the system at once; more would be a queue that grows without end.
const ROOM: usize = 10_000;

#[derive(Clone, Copy)]
enum Happening {
    Arrival,
    Departure,
}

enum Service {
    Exponential,
    Constant,
}

/// An open queue: arrivals at random, `servers` servers, a mean service of 1 ms. Returns the mean wait in the line, in ms, and
/// the part of their time that servers are busy.
fn queue(servers: u64, load: f64, service: &Service) -> (f64, f64) {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let mut exponential = |mean_ms: f64| from_ms(-mean_ms * (1.0 - random.random::<f64>()).ln());
    let between_ms = 1.0 / (load * servers as f64);
    let mut events = Events::with_capacity(ROOM);
    let mut links = Links::new(ROOM);
    let mut station = Station::new(servers);
    let mut next = 0;
    events.after(exponential(between_ms), Happening::Arrival);
    while station.served() < CUSTOMERS {
        let begins = match events.advance().expect("there is always a next arrival") {
            Happening::Arrival => {
                events.after(exponential(between_ms), Happening::Arrival);
                next = (next + 1) % ROOM as u32;
                station.arrive(&mut links, next, events.now())
            }
            Happening::Departure => station.depart(&mut links, events.now()).is_some(),
        };
        if begins {
            let time = match service {
                Service::Exponential => exponential(1.0),
                Service::Constant => from_ms(1.0),
            };
            events.after(time, Happening::Departure);
        }
    }
    assert!(station.line().obeys_little(&links, events.now()));
    (station.wait_mean() / 1e6, station.utilisation(events.now()))
}

fn within_one_percent(ours: f64, theirs: f64) {
    assert!((ours / theirs - 1.0).abs() < 0.01, "{ours} is more than 1 % from {theirs}");
}

#[test]
fn a_markovian_queue_waits_as_theory_says() {
    for load in [0.3, 0.6] {
        let (wait, busy) = queue(1, load, &Service::Exponential);
        within_one_percent(wait, load / (1.0 - load));
        within_one_percent(busy, load);
    }
}

#[test]
fn a_queue_with_constant_service_waits_half_as_long() {
    for load in [0.3, 0.7] {
        let (wait, busy) = queue(1, load, &Service::Constant);
        within_one_percent(wait, load / (1.0 - load) / 2.0);
        within_one_percent(busy, load);
    }
}

#[test]
fn a_queue_with_several_servers_waits_as_erlang_says() {
    for (servers, load) in [(2, 0.6), (4, 0.6)] {
        let (wait, busy) = queue(servers, load, &Service::Exponential);
        // Erlang C, by Erlang B's recursion.
        let offered = load * servers as f64;
        let blocked = (1..=servers).fold(1.0, |b, n| offered * b / (n as f64 + offered * b));
        let waits = blocked / (1.0 - load * (1.0 - blocked));
        within_one_percent(wait, waits / (servers as f64 - offered));
        within_one_percent(busy, load);
    }
}

#[test]
fn events_of_one_moment_keep_their_order() {
    let mut events = Events::with_capacity(4);
    for (delay, name) in [(5, 'c'), (3, 'a'), (5, 'd'), (3, 'b')] {
        events.after(delay, name);
    }
    let mut order = String::new();
    while let Some(name) = events.advance() {
        order.push(name);
        if name == 'b' {
            events.after(1, 'x');
            events.after(2, 'y');
        }
    }
    assert_eq!((order.as_str(), events.now(), events.announced()), ("abxcdy", 5, 6));
}

#[test]
fn a_line_counts_lengths_and_waits() {
    let mut links = Links::new(3);
    let mut line = WaitQueue::default();
    line.push(&mut links, 2, 10);
    line.push(&mut links, 0, 20);
    assert_eq!(line.pop(&mut links, 30), Some(2));
    assert!(line.obeys_little(&links, 35));
    line.reset(40);
    line.push(&mut links, 1, 45);
    assert_eq!(line.pop(&mut links, 50), Some(0));
    assert_eq!(line.pop(&mut links, 60), Some(1));
    assert_eq!(line.pop(&mut links, 60), None);
    // Since the reset: one waited from 40 to 50, one from 45 to 60.
    assert_eq!((line.left(), line.waited(), line.area(60)), (2, 25, 25));
    assert!((line.length_mean(65) - 1.0).abs() < 1e-12);
    assert!(line.obeys_little(&links, 65) && line.is_empty());
}
