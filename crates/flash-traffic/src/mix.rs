//! Several workloads over one catalogue, each a class of its own: a hot set and a cold one, say.

use std::fmt;
use std::sync::Arc;

use rand_distr::Distribution;
use rand_distr::weighted::WeightedAliasIndex;

use crate::sample::{Generator, generator, mix};
use crate::workload::{Ask, Catalogue, File, FileId, Part, Sequence, Workload};

/// A workload within a mix.
#[derive(Clone)]
pub struct Ingredient {
    /// The name of the class that all its files are in, whatever classes it has itself.
    pub class: String,
    /// Its share of the requests, in proportion to the others'.
    pub weight: f64,
    /// What is asked for.
    pub workload: Arc<dyn Workload>,
}

/// Workloads asked for together, by weight, or each [alone](Mix::only) at a pace of its own.
#[derive(Clone, Debug)]
pub struct Mix {
    catalogue: Arc<Catalogue>,
    among: Vec<Only>,
    weights: Arc<WeightedAliasIndex<f64>>,
}

/// One ingredient of a mix: it alone is asked for, under the numbers of the whole catalogue.
#[derive(Clone)]
pub struct Only {
    catalogue: Arc<Catalogue>,
    workload: Arc<dyn Workload>,
    /// Where its own files begin.
    first: FileId,
}

/// Why there is no such mix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MixError {
    /// No ingredient, or weights that are negative, no numbers, or all 0.
    #[error("a mix needs workloads whose weights are not negative and not all 0")]
    Weights,
    /// More than files or classes have numbers for.
    #[error("a mix has fewer than 2^32 files and at most 2^16 classes")]
    TooLarge,
}

impl Mix {
    /// Joins the catalogues, one after the other.
    pub fn new(ingredients: Vec<Ingredient>) -> Result<Self, MixError> {
        let weights = ingredients.iter().map(|ingredient| ingredient.weight).collect();
        let weights = WeightedAliasIndex::new(weights).map_err(|_| MixError::Weights)?;
        let mut joined = Catalogue::default();
        let mut among = Vec::new();
        for ingredient in ingredients {
            let class = u16::try_from(joined.classes.len()).map_err(|_| MixError::TooLarge)?;
            let first = FileId::try_from(joined.files.len()).map_err(|_| MixError::TooLarge)?;
            let files = &ingredient.workload.catalogue().files;
            joined.files.extend(files.iter().map(|file| File { class, ..file.clone() }));
            joined.classes.push(ingredient.class);
            among.push((first, ingredient.workload));
        }
        FileId::try_from(joined.files.len()).map_err(|_| MixError::TooLarge)?;
        let catalogue = Arc::new(joined);
        let only = |(first, workload)| Only { catalogue: Arc::clone(&catalogue), workload, first };
        let among = among.into_iter().map(only).collect();
        Ok(Self { catalogue, among, weights: Arc::new(weights) })
    }

    /// `hot_share` of the requests, from 0 to 1, go to the one and the rest to the other, in the classes `hot` and `cold`.
    pub fn hot_and_cold(
        hot: Arc<dyn Workload>,
        cold: Arc<dyn Workload>,
        hot_share: f64,
    ) -> Result<Self, MixError> {
        Self::new(vec![
            Ingredient { class: "hot".into(), weight: hot_share, workload: hot },
            Ingredient { class: "cold".into(), weight: 1.0 - hot_share, workload: cold },
        ])
    }

    /// The ingredient of this class alone.
    pub fn only(&self, class: &str) -> Option<Only> {
        let place = self.catalogue.classes.iter().position(|known| known == class)?;
        self.among.get(place).cloned()
    }
}

impl Workload for Mix {
    fn catalogue(&self) -> &Arc<Catalogue> {
        &self.catalogue
    }

    /// It ends when one of its workloads does.
    fn sequence(&self, part: Part, seed: u64) -> Box<dyn Sequence> {
        let among = (0..).zip(&self.among).map(|(nth, only)| only.sequence(part, mix(seed) ^ nth)).collect();
        let random = generator(seed, part.index.into());
        Box::new(Mixed { among, weights: Arc::clone(&self.weights), random })
    }
}

impl Workload for Only {
    fn catalogue(&self) -> &Arc<Catalogue> {
        &self.catalogue
    }

    fn sequence(&self, part: Part, seed: u64) -> Box<dyn Sequence> {
        Box::new(Moved { of: self.workload.sequence(part, seed), first: self.first })
    }
}

struct Mixed {
    among: Vec<Box<dyn Sequence>>,
    weights: Arc<WeightedAliasIndex<f64>>,
    random: Generator,
}

impl Sequence for Mixed {
    fn next(&mut self) -> Option<Ask> {
        self.among[self.weights.sample(&mut self.random)].next()
    }
}

struct Moved {
    of: Box<dyn Sequence>,
    first: FileId,
}

impl Sequence for Moved {
    fn next(&mut self) -> Option<Ask> {
        self.of.next().map(|ask| Ask { file: self.first + ask.file, ..ask })
    }
}

impl fmt::Debug for Only {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_struct("Only").field("first", &self.first).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Listed;
    use crate::testing::{asks, targets};

    fn hot_and_cold(share: f64) -> Result<Mix, MixError> {
        Mix::hot_and_cold(Arc::new(Listed::one(1_024)), Arc::new(Listed::sweep(&[1, 2, 3])), share)
    }

    #[test]
    fn hot_and_cold_are_told_apart() {
        let mix = hot_and_cold(0.25).unwrap();
        assert_eq!(mix.catalogue().classes, ["hot", "cold"]);
        assert_eq!(mix.catalogue().files.iter().map(|file| file.class).collect::<Vec<_>>(), [0, 1, 1, 1]);
        let asks = asks(&mix, Part::WHOLE, 10_000);
        let hot = asks.iter().filter(|ask| ask.file == 0).count();
        assert!((2_350..2_650).contains(&hot), "{hot}");
        let cold: Vec<FileId> = asks.iter().map(|ask| ask.file).filter(|file| *file > 0).take(4).collect();
        assert_eq!(cold, [1, 2, 3, 1]);
    }

    #[test]
    fn each_can_be_had_alone() {
        let mix = hot_and_cold(0.25).unwrap();
        let (hot, cold) = (mix.only("hot").unwrap(), mix.only("cold").unwrap());
        assert!(mix.only("warm").is_none());
        assert!(Arc::ptr_eq(hot.catalogue(), cold.catalogue()));
        assert_eq!(targets(&hot, Part::WHOLE, 2), ["/one/1024.bin", "/one/1024.bin"]);
        assert_eq!(targets(&cold, Part { index: 1, of: 2 }, 2), ["/sweep/2.bin", "/sweep/1.bin"]);
    }

    #[test]
    fn shares_must_be_shares() {
        for share in [-0.1, 1.1, f64::NAN] {
            assert_eq!(hot_and_cold(share).unwrap_err(), MixError::Weights, "{share}");
        }
        assert_eq!(Mix::new(Vec::new()).unwrap_err(), MixError::Weights);
    }
}
