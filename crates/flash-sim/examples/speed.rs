//! How many requests a second the simulator answers: a site like WorldCup98's in the PIPELINED paper, 16 processors, 1,000
//! clients, every architecture.
//!
//! `cargo run --release -p flash-sim --example speed`

#![forbid(unsafe_code)]

use std::sync::Arc;
use std::time::Instant;

use flash_sim::{Architecture, Demand, Parameters, simulate};
use flash_traffic::sample::Sizes;
use flash_traffic::{References, Shape, Synthetic};

const REQUESTS: u32 = 1_000_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let sizes = Sizes { ln_mean: 8.37, ln_sd: 1.43, bytes_total: Some(158_000_000) };
    let shape = Shape {
        folder: "worldcup98".into(),
        files: 13_236,
        sizes,
        exponent: 1.54,
        references: References::Independent,
    };
    let popularity = (1..=shape.files).map(|rank| f64::from(rank).powf(-shape.exponent)).collect();
    let workload = Arc::new(Synthetic::new(&shape, 1)?);
    let demand = Demand { workload, popularity: Some(popularity), follow: None };
    for architecture in Architecture::ALL.into_iter().chain(Architecture::LATER) {
        let mut parameters = Parameters { architecture, ..Parameters::default() };
        parameters.machine.processors = 16;
        parameters.machine.memory_mb = 110.0;
        parameters.run.measured_requests = REQUESTS.try_into()?;
        let begin = Instant::now();
        let outcome = simulate(&parameters, &demand)?;
        let answered = 1.1 * f64::from(REQUESTS);
        println!(
            "{:9}  {:5.2} million requests a second, {:5.2} events each; simulated {:6.0}/s",
            architecture.name(),
            answered / 1e6 / begin.elapsed().as_secs_f64(),
            outcome.events_per_request,
            outcome.requests_per_s,
        );
    }
    Ok(())
}
