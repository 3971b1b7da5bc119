//! Sites that were never there: files of lognormal sizes, asked for by Zipf's law, by an LRU stack, or in turn.

use std::sync::Arc;

use rand::seq::SliceRandom;

use crate::round_robin::RoundRobin;
use crate::sample::{Distances, Generator, LruStack, SizeError, Sizes, Zipf, generator, mix};
use crate::workload::{Ask, Catalogue, File, FileId, Part, Sequence, Workload};

/// About how many files share a folder.
const FOLDER_FILES: u32 = 500;

/// The draws from a site's seed, each from a stream of its own.
const SIZES: u64 = 0;
const ORDER: u64 = 1;

/// The parameters of a site.
#[derive(Clone, Debug, PartialEq)]
pub struct Shape {
    /// Which folder all of it lies in, so that several sites can be served side by side; without slashes.
    pub folder: String,
    /// How many files there are.
    pub files: u32,
    /// How large they are, whatever their popularity.
    pub sizes: Sizes,
    /// The exponent of Zipf's law: how much more popular popular files are.
    pub exponent: f64,
    /// What makes a file the next one.
    pub references: References,
}

/// How requests depend on those before.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum References {
    /// Not at all.
    Independent,
    /// By their distance in an LRU stack that begins as popularity would have it. Each part has a stack of its own, so one
    /// part alone has exactly these distances.
    LruStack(Distances),
    /// Every file once in a random order, and then again in the same order. An LRU cache smaller than the site gets no hits.
    RoundRobin,
}

/// A site, and how it is asked for. Files are in the order of their popularity, the most popular first.
#[derive(Clone, Debug)]
pub struct Synthetic {
    catalogue: Arc<Catalogue>,
    choice: Choice,
}

#[derive(Clone, Debug)]
enum Choice {
    Independent(Zipf),
    Stack(LruStack),
    RoundRobin(Arc<[FileId]>),
}

/// Why there is no such site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShapeError {
    /// There are no files, or the exponent is none.
    #[error("a site needs at least one file, and an exponent of Zipf's law from 0 to 100")]
    Zipf,
    /// See [`LruStack::new`].
    #[error("an LRU stack needs distances (mean and deviation of ln) of which some lie within the site")]
    Distances,
    /// See [`SizeError`].
    #[error(transparent)]
    Sizes(#[from] SizeError),
}

impl Synthetic {
    /// The same seed makes the same files, and the same order where it is drawn once.
    pub fn new(shape: &Shape, seed: u64) -> Result<Self, ShapeError> {
        let zipf = Zipf::new(shape.files, shape.exponent).ok_or(ShapeError::Zipf)?;
        let sizes = shape.sizes.draw(shape.files, &mut generator(seed, SIZES))?;
        let mut random = generator(seed, ORDER);
        let choice = match shape.references {
            References::Independent => Choice::Independent(zipf),
            References::LruStack(distances) => {
                Choice::Stack(LruStack::new(&zipf, distances, &mut random).ok_or(ShapeError::Distances)?)
            }
            References::RoundRobin => {
                let mut order: Vec<FileId> = (0..shape.files).collect();
                order.shuffle(&mut random);
                Choice::RoundRobin(order.into())
            }
        };
        let folders = u64::from(shape.files.div_ceil(FOLDER_FILES));
        let above = if shape.folder.is_empty() { String::new() } else { format!("/{}", shape.folder) };
        let file = |(rank, bytes): (FileId, u64)| {
            // Popular files lie all over the site, as they do on real ones.
            let folder = mix(u64::from(rank)) % folders;
            let target = format!("{above}/{folder:04}/{rank:06}.html").into();
            File { target, bytes: Some(bytes), class: 0, program: false }
        };
        let files = (0..).zip(sizes).map(file).collect();
        Ok(Self { catalogue: Arc::new(Catalogue { files, classes: vec!["files".into()] }), choice })
    }
}

impl Workload for Synthetic {
    fn catalogue(&self) -> &Arc<Catalogue> {
        &self.catalogue
    }

    fn sequence(&self, part: Part, seed: u64) -> Box<dyn Sequence> {
        let random = generator(seed, part.index.into());
        match &self.choice {
            Choice::Independent(zipf) => Box::new(Independent { zipf: zipf.clone(), random }),
            Choice::Stack(stack) => Box::new(Stacked { stack: stack.clone(), random }),
            Choice::RoundRobin(order) => Box::new(RoundRobin::new(order, part)),
        }
    }
}

struct Independent {
    zipf: Zipf,
    random: Generator,
}

impl Sequence for Independent {
    fn next(&mut self) -> Option<Ask> {
        Some(Ask::of(self.zipf.draw(&mut self.random)))
    }
}

struct Stacked {
    stack: LruStack,
    random: Generator,
}

impl Sequence for Stacked {
    fn next(&mut self) -> Option<Ask> {
        Some(Ask::of(self.stack.draw(&mut self.random)))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::statistics::TraceStatistics;
    use crate::testing::asks;

    fn shape(files: u32, bytes_total: u64, references: References) -> Shape {
        let sizes = Sizes { ln_mean: 8.0, ln_sd: 1.5, bytes_total: Some(bytes_total) };
        Shape { folder: "s".into(), files, sizes, exponent: 1.05, references }
    }

    #[test]
    fn a_site_has_its_files_and_bytes() {
        let site = Synthetic::new(&shape(28_864, 320_000_000, References::Independent), 1).unwrap();
        let files = &site.catalogue().files;
        assert_eq!(files.len(), 28_864);
        assert_eq!(files.iter().filter_map(|file| file.bytes).sum::<u64>(), 320_000_000);
        assert_eq!(files.iter().map(|file| &file.target).collect::<HashSet<_>>().len(), files.len());
        let folders: HashSet<_> = files.iter().map(|file| file.target.rsplit_once('/').unwrap().0).collect();
        assert_eq!(folders.len(), 58);
    }

    #[test]
    fn the_largest_site_is_soon_there() {
        let site = Synthetic::new(&shape(511_189, 4_800_000_000, References::Independent), 1).unwrap();
        assert_eq!(site.catalogue().files.iter().filter_map(|file| file.bytes).sum::<u64>(), 4_800_000_000);
    }

    #[test]
    fn seeds_and_parts_repeat_and_differ() {
        for references in [
            References::Independent,
            References::LruStack(Distances { ln_mean: 3.0, ln_sd: 1.0, share: 0.5 }),
        ] {
            let site = |seed| Synthetic::new(&shape(500, 900_000, references), seed).unwrap();
            assert_eq!(site(1).catalogue().files, site(1).catalogue().files);
            assert_ne!(site(1).catalogue().files, site(2).catalogue().files);
            let part = |index| asks(&site(1), Part { index, of: 2 }, 50);
            assert_eq!(part(0), part(0));
            assert_ne!(part(0), part(1));
        }
    }

    #[test]
    fn a_stack_keeps_distances_together_and_popular_files_popular() {
        let measured = |references| {
            let site = Synthetic::new(&shape(3_208, 192_100_000, references), 3).unwrap();
            let sizes: Vec<u64> = site.catalogue().files.iter().filter_map(|file| file.bytes).collect();
            let asked: Vec<FileId> = asks(&site, Part::WHOLE, 60_000).iter().map(|ask| ask.file).collect();
            let is = TraceStatistics::of(&sizes, &asked);
            (is.top_tenth_requests as f64 / is.requests as f64, is.ln_distance.sd)
        };
        let stack = |share| References::LruStack(Distances { ln_mean: 4.0, ln_sd: 1.6, share });
        // As many files as the NASA log has, of which the top tenth draws 0.87 at a deviation of 1.62.
        let (independent, half) = (measured(References::Independent), measured(stack(0.5)));
        assert!(independent.0 > 0.75 && independent.1 > 2.0, "{independent:?}");
        assert!(half.0 > 0.58 && half.1 < 1.85, "{half:?}");
        assert!(measured(stack(1.0)).0 < 0.4);
    }

    #[test]
    fn in_turn_means_every_file_once() {
        let site = Synthetic::new(&shape(40, 90_000, References::RoundRobin), 3).unwrap();
        let part = |index, of| -> Vec<FileId> {
            asks(&site, Part { index, of }, 20).iter().map(|ask| ask.file).collect()
        };
        let both = [part(0, 2), part(1, 2)].concat();
        assert_eq!(both.iter().collect::<HashSet<_>>().len(), 40);
        assert_ne!(part(0, 1), (0..20).collect::<Vec<_>>());
    }

    #[test]
    fn impossible_sites_are_refused() {
        let refused = |shape| Synthetic::new(&shape, 1).err();
        assert_eq!(refused(shape(0, 10, References::Independent)), Some(ShapeError::Zipf));
        assert_eq!(
            refused(shape(20, 10, References::RoundRobin)),
            Some(ShapeError::Sizes(SizeError::TotalBelowFiles))
        );
        let far = References::LruStack(Distances { ln_mean: 30.0, ln_sd: 1.0, share: 0.5 });
        assert_eq!(refused(shape(20, 90, far)), Some(ShapeError::Distances));
    }
}
