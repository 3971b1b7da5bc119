//! What the ledger costs a loop: nanoseconds per turn, and per call that is watched.
//!
//! `cargo run --release -p flash-observe --example ledger_cost`

#![forbid(unsafe_code)]

use std::hint::black_box;
use std::time::Instant;

use flash_observe::ledger::Ledger;
use flash_observe::{Destination, ErrorLog, Limits};

const TURNS: u32 = 2_000_000;

fn main() -> std::io::Result<()> {
    let ledger = Ledger::default();
    let account = ledger.open_account(ErrorLog::open(Destination::Stderr, Limits::default())?);
    // A loop reads the clock in any case.
    let bare = nanoseconds(|| {
        black_box(Instant::now());
    });
    let turn = nanoseconds(|| {
        let turn = account.begin(black_box(1), Instant::now());
        account.end(black_box(turn));
    });
    let watched = nanoseconds(|| account.watch(|| (), || ("nothing", Vec::new())));
    println!("a turn: {:.0} ns more than without a ledger", turn - bare);
    println!("a watched call: {watched:.0} ns");
    Ok(())
}

fn nanoseconds(mut what: impl FnMut()) -> f64 {
    let start = Instant::now();
    (0..TURNS).for_each(|_| what());
    start.elapsed().as_nanos() as f64 / f64::from(TURNS)
}
