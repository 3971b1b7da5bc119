//! What metrics cost a loop: nanoseconds per turn, and per call that is watched.
//!
//! `cargo run --release -p flash-observe --example metrics_cost`

#![forbid(unsafe_code)]

use std::hint::black_box;
use std::time::Instant;

use flash_observe::metrics::{Metrics, MetricsMemory};
use flash_observe::{Destination, ErrorLog, Limits};

const TURNS: u32 = 2_000_000;

fn main() -> std::io::Result<()> {
    let totals = Metrics::new(MetricsMemory::for_loops(1)?.into());
    let metrics = totals.loop_metrics(ErrorLog::open(Destination::Stderr, Limits::default())?);
    // A loop reads the clock in any case.
    let bare = nanoseconds(|| {
        black_box(Instant::now());
    });
    let turn = nanoseconds(|| {
        let turn = metrics.begin(black_box(1), Instant::now());
        metrics.end(black_box(turn));
    });
    let watched = nanoseconds(|| metrics.watch_blocking(|| (), || ("nothing", Vec::new())));
    println!("a turn: {:.0} ns more than without metrics", turn - bare);
    println!("a watched call: {watched:.0} ns");
    Ok(())
}

fn nanoseconds(mut what: impl FnMut()) -> f64 {
    let start = Instant::now();
    (0..TURNS).for_each(|_| what());
    start.elapsed().as_nanos() as f64 / f64::from(TURNS)
}
