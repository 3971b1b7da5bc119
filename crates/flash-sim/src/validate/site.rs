//! The sites that are served and simulated: the same files, asked for by the same law.

use std::sync::Arc;

use flash_traffic::sample::{Sizes, Zipf};
use flash_traffic::{Ask, Catalogue, FileId, Part, References, Sequence, Shape, Synthetic, Workload};

const MEAN_FILE_BYTES: u32 = 50_000;
const LN_SIZE_SD: f64 = 1.0;
const ZIPF_EXPONENT: f64 = 0.8;
/// Of files and of requests.
pub(super) const SEED: u64 = 1;

/// A site, in a folder of its own.
pub(super) struct Site {
    pub data_set_mb: u32,
    pub workload: Arc<Synthetic>,
}

impl Site {
    pub(super) fn new(data_set_mb: u32) -> Site {
        let bytes = data_set_mb * 1_000_000;
        let shape = Shape {
            folder: format!("{data_set_mb}-mb"),
            files: bytes / MEAN_FILE_BYTES,
            // Scaled to the data set, only the spread of the distribution is left.
            sizes: Sizes { ln_mean: 8.0, ln_sd: LN_SIZE_SD, bytes_total: Some(bytes.into()) },
            exponent: ZIPF_EXPONENT,
            references: References::Independent,
        };
        let workload = Synthetic::new(&shape, SEED).expect("there are such sites");
        Site { data_set_mb, workload: Arc::new(workload) }
    }

    /// Each file's share of the requests, up to a factor.
    pub(super) fn popularity(&self) -> Arc<[f64]> {
        let files = self.workload.catalogue().files.len() as u32;
        let zipf = Zipf::new(files, ZIPF_EXPONENT).expect("the site was made with it");
        (0..files).map(|rank| zipf.weight(rank)).collect()
    }

    /// The most popular files that have so many bytes together, the least popular first. After reading them a cache holds
    /// nearly the files that it would hold after a long time.
    pub(super) fn sweep(&self, bytes: u64) -> Sweep {
        let catalogue = self.workload.catalogue().clone();
        let mut left = bytes;
        let fits = |file: &&flash_traffic::File| {
            let bytes = file.bytes.unwrap_or(0);
            let fits = bytes <= left;
            left = left.saturating_sub(bytes);
            fits
        };
        let files = catalogue.files.iter().take_while(fits).count() as FileId;
        Sweep { catalogue, files }
    }
}

/// Files in the reverse order of their popularity, once.
pub(super) struct Sweep {
    catalogue: Arc<Catalogue>,
    pub files: FileId,
}

impl Workload for Sweep {
    fn catalogue(&self) -> &Arc<Catalogue> {
        &self.catalogue
    }

    fn sequence(&self, part: Part, _seed: u64) -> Box<dyn Sequence> {
        Box::new(Down { left: self.files.saturating_sub(part.index), step: part.of })
    }
}

struct Down {
    left: FileId,
    step: FileId,
}

impl Sequence for Down {
    fn next(&mut self) -> Option<Ask> {
        let file = self.left.checked_sub(1)?;
        self.left = self.left.saturating_sub(self.step);
        Some(Ask::of(file))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sweep_goes_down_to_the_most_popular_file() {
        let site = Site::new(40);
        let of = |sweep: &Sweep, index, of| -> Vec<FileId> {
            let mut sequence = sweep.sequence(Part { index, of }, 1);
            std::iter::from_fn(|| sequence.next()).map(|ask| ask.file).collect()
        };
        let whole = site.sweep(u64::MAX);
        assert_eq!(of(&whole, 0, 1), (0..800).rev().collect::<Vec<_>>());
        let mut both = [of(&whole, 0, 2), of(&whole, 1, 2)].concat();
        both.sort_unstable();
        assert_eq!(both, (0..800).collect::<Vec<_>>());
        let half = site.sweep(20_000_000);
        let files = &site.workload.catalogue().files;
        let bytes: u64 = files[..half.files as usize].iter().filter_map(|file| file.bytes).sum();
        assert!(bytes <= 20_000_000 && bytes > 15_000_000, "{bytes}");
    }

    #[test]
    fn a_site_weighs_what_it_should() {
        let site = Site::new(150);
        let files = &site.workload.catalogue().files;
        assert_eq!(files.iter().filter_map(|file| file.bytes).sum::<u64>(), 150_000_000);
        assert_eq!(site.popularity().len(), files.len());
    }
}
