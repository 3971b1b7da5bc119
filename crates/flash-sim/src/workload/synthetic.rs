//! A site with lognormal sizes, Zipf popularity and independent requests.
//!
//! Requests are drawn one by one and never stored. So a trace of any length uses memory only for its files. If a mean response
//! is given, sizes are assigned to ranks so that the mean is right. A file's size does not depend on its rank otherwise.

use std::sync::Arc;

use flash_traffic::sample::{Generator, SizeError, Sizes, Zipf, generator};
use flash_traffic::{Ask, Catalogue, File, Part, Sequence, Workload};
use rand::RngExt;
use rand::seq::SliceRandom;

/// What such a site is made from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct SyntheticFiles {
    pub(crate) files: u32,
    pub(crate) sizes: Sizes,
    /// The file of rank r is asked for in proportion to r to the power of minus this.
    pub(crate) zipf_exponent: f64,
    /// What a reply weighs on average, within one per cent. None leaves it to chance.
    pub(crate) mean_reply_bytes: Option<f64>,
}

/// Why there can be no such site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SyntheticError {
    #[error("a site needs at least one file, and an exponent of Zipf's law from 0 to 100")]
    Popularity,
    #[error("{0}")]
    Sizes(SizeError),
    #[error("sizes cannot be dealt out so that the mean reply has that weight")]
    MeanReply,
}

/// The site, with the order of its requests.
#[derive(Debug)]
pub(crate) struct Synthetic {
    catalogue: Arc<Catalogue>,
    popularity: Zipf,
}

impl Synthetic {
    /// Makes the site. The same seed makes the same one. Files are in the order of their ranks.
    pub(crate) fn new(shape: &SyntheticFiles, seed: u64) -> Result<Synthetic, SyntheticError> {
        let popularity = Zipf::new(shape.files, shape.zipf_exponent).ok_or(SyntheticError::Popularity)?;
        let mut random = generator(seed, SIZES);
        let mut sizes = shape.sizes.draw(shape.files, &mut random).map_err(SyntheticError::Sizes)?;
        sizes.shuffle(&mut random);
        if let Some(target) = shape.mean_reply_bytes {
            deal(&mut sizes, &popularity, target, &mut random)?;
        }
        let file = |(rank, bytes): (usize, u64)| File {
            target: format!("/{rank}").into(),
            bytes: Some(bytes),
            class: 0,
            program: false,
        };
        let files = sizes.into_iter().enumerate().map(file).collect();
        let catalogue = Arc::new(Catalogue { files, classes: vec!["synthetic".into()] });
        Ok(Synthetic { catalogue, popularity })
    }

    /// Each file's share of the requests, in proportion to the first one's.
    pub(crate) fn popularity(&self) -> Arc<[f64]> {
        (0..self.popularity.ranks()).map(|rank| self.popularity.weight(rank)).collect()
    }

    /// What a reply weighs on average.
    #[cfg(test)]
    pub(crate) fn mean_reply_bytes(&self) -> f64 {
        let sizes = self.catalogue.files.iter().map(|file| file.bytes.unwrap_or(0));
        mean_reply(sizes, &self.popularity)
    }
}

impl Workload for Synthetic {
    fn catalogue(&self) -> &Arc<Catalogue> {
        &self.catalogue
    }

    fn sequence(&self, part: Part, seed: u64) -> Box<dyn Sequence> {
        let random = generator(seed, REQUESTS + u64::from(part.index));
        Box::new(Draws { popularity: self.popularity.clone(), random })
    }
}

/// Independent references without an end.
struct Draws {
    popularity: Zipf,
    random: Generator,
}

impl Sequence for Draws {
    fn next(&mut self) -> Option<Ask> {
        Some(Ask::of(self.popularity.draw(&mut self.random)))
    }
}

// What random numbers are drawn for: streams of their own.
const SIZES: u64 = 0;
/// And as many after it as there are parts.
const REQUESTS: u64 = 1;

fn mean_reply(sizes: impl Iterator<Item = u64>, popularity: &Zipf) -> f64 {
    let (mut bytes, mut weights) = (0.0, 0.0);
    for (size, rank) in sizes.zip(0..) {
        bytes += size as f64 * popularity.weight(rank);
        weights += popularity.weight(rank);
    }
    bytes / weights
}

/// Exchanges sizes between ranks until the mean response is within one per cent of the target.
///
/// Each pair is a popular rank and any rank, whatever their sizes. So this is a random walk over all assignments of sizes to
/// ranks. It stops at the first one with the right mean, and prefers no size for a rank.
fn deal(
    sizes: &mut [u64],
    popularity: &Zipf,
    target: f64,
    random: &mut Generator,
) -> Result<(), SyntheticError> {
    const EXCHANGES_MAX: u32 = 10_000_000;
    let all_weights: f64 = (0..popularity.ranks()).map(|rank| popularity.weight(rank)).sum();
    let mut mean = mean_reply(sizes.iter().copied(), popularity);
    for _ in 0..EXCHANGES_MAX {
        if (mean - target).abs() <= 0.01 * target {
            return Ok(());
        }
        let (a, b) = (popularity.draw(random), random.random_range(0..popularity.ranks()));
        let (size_a, size_b) = (sizes[a as usize] as f64, sizes[b as usize] as f64);
        mean += (popularity.weight(a) - popularity.weight(b)) * (size_b - size_a) / all_weights;
        sizes.swap(a as usize, b as usize);
    }
    Err(SyntheticError::MeanReply)
}

#[cfg(test)]
mod tests;
