//! The machine as a whole: the time of a single request, the laws of many requests, and the caches.

mod caches;
mod content;
mod laws;
mod unloaded;

use std::sync::Arc;

use flash_traffic::{Ask, Catalogue, File, Part, Sequence, Workload};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

use crate::{Architecture, Demand, Outcome, Parameters, simulate};

/// The paper's, and what came later.
fn servers() -> impl Iterator<Item = Architecture> {
    Architecture::ALL.into_iter().chain(Architecture::LATER)
}

/// Files of given sizes, asked for in proportion to given shares, each time anew.
struct Independent {
    catalogue: Arc<Catalogue>,
    /// Up to each file, so that a binary search draws one.
    sums: Arc<[f64]>,
}

struct Draws {
    sums: Arc<[f64]>,
    random: Xoshiro256PlusPlus,
}

impl Workload for Independent {
    fn catalogue(&self) -> &Arc<Catalogue> {
        &self.catalogue
    }

    fn sequence(&self, _: Part, seed: u64) -> Box<dyn Sequence> {
        Box::new(Draws { sums: self.sums.clone(), random: Xoshiro256PlusPlus::seed_from_u64(seed) })
    }
}

impl Sequence for Draws {
    fn next(&mut self) -> Option<Ask> {
        let draw = self.random.random::<f64>() * self.sums.last()?;
        let file = self.sums.partition_point(|&sum| sum <= draw) as u32;
        Some(Ask { closes: true, ..Ask::of(file) })
    }
}

/// A demand for files of these sizes, by Zipf's law in their order.
fn zipf(bytes: impl IntoIterator<Item = u64>, exponent: f64) -> Demand {
    let file = |bytes| File { target: "/".into(), bytes: Some(bytes), class: 0, program: false };
    let files: Vec<File> = bytes.into_iter().map(file).collect();
    let shares: Arc<[f64]> = (1..=files.len()).map(|rank| (rank as f64).powf(-exponent)).collect();
    let sums = shares.iter().scan(0.0, |sum, share| {
        *sum += share;
        Some(*sum)
    });
    let sums = sums.collect();
    let catalogue = Arc::new(Catalogue { files, classes: vec!["all".into()] });
    Demand { workload: Arc::new(Independent { catalogue, sums }), popularity: Some(shares), follow: None }
}

/// Sizes from 1 to 200 KB in no order, 15 KB on average.
fn sizes(files: u64) -> impl Iterator<Item = u64> {
    (0..files).map(|file| match file * 7919 % 20 {
        0 => 200_000,
        class => 1000 + class * 450,
    })
}

fn parameters(architecture: Architecture, processors: u32, clients: u32) -> Parameters {
    let mut parameters = Parameters { architecture, ..Parameters::default() };
    parameters.machine.processors = processors;
    parameters.run.clients = clients;
    parameters.run.measured_requests = 5000.try_into().expect("it is not 0");
    parameters
}

fn outcome(parameters: &Parameters, demand: &Demand) -> Outcome {
    simulate(parameters, demand).expect("the parameters are sound")
}
