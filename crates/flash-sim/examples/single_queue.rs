//! How fast the engine is on the smallest model there is: one server, one line, M/M/1 at a load of 0.9. benches/single_queue.py
//! is the same in SimPy.
//!
//!     cargo run --release -p flash-sim --example single_queue

#![forbid(unsafe_code)]

use std::time::Instant;

use flash_sim::engine::{Events, Links, Station, Time};
use rand::{RngExt, SeedableRng};

#[derive(Clone, Copy)]
enum Happening {
    Arrival,
    Departure,
}

fn main() {
    const CUSTOMERS: u64 = 5_000_000;
    const PLACES: u32 = 4096;
    let mut random = rand::rngs::Xoshiro256PlusPlus::seed_from_u64(1);
    let mut exponential = |mean_ns: f64| (-(1.0 - random.random::<f64>()).ln() * mean_ns) as Time;
    let begun = Instant::now();
    let (mut events, mut station, mut links) =
        (Events::with_capacity(4), Station::new(1), Links::new(PLACES as usize));
    let (mut happened, mut arrivals) = (0_u64, 0_u32);
    events.after(0, Happening::Arrival);
    while station.served() < CUSTOMERS {
        happened += 1;
        match events.advance().expect("an arrival is always to come") {
            Happening::Arrival => {
                events.after(exponential(10_000.0), Happening::Arrival);
                // A line is never as long as there are places, so that the number is free again.
                if station.arrive(&mut links, arrivals % PLACES, events.now()) {
                    events.after(exponential(9_000.0), Happening::Departure);
                }
                arrivals += 1;
            }
            Happening::Departure => {
                if station.depart(&mut links, events.now()).is_some() {
                    events.after(exponential(9_000.0), Happening::Departure);
                }
            }
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    // Theory: 9 us x 0.9 / 0.1.
    println!("mean wait {:.1} us, theory 81.0", station.wait_mean() / 1e3);
    println!("{:.2} million events a second", happened as f64 / seconds / 1e6);
}
