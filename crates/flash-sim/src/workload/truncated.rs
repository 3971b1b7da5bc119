//! The beginning of a workload, kept: as many requests as their files fit into a data set of a given size. This is how Flash
//! varies the data set of its Figures 9 and 10, and the PIPELINED paper after it.

use std::sync::Arc;

use flash_traffic::{Ask, Catalogue, FileId, Part, Sequence, Workload};

/// Recorded requests. Their sequence ends; a caller that needs more begins again.
#[derive(Debug)]
pub(crate) struct Beginning {
    catalogue: Arc<Catalogue>,
    files: Arc<[FileId]>,
}

/// Takes requests from the first on, at most `requests_max` of them, until the next one's file would make the data set
/// larger than `bytes_max`.
pub(crate) fn beginning(whole: &dyn Workload, seed: u64, requests_max: u64, bytes_max: u64) -> Beginning {
    let catalogue = whole.catalogue();
    let mut kept = Catalogue { files: Vec::new(), classes: catalogue.classes.clone() };
    let mut numbers: Vec<Option<FileId>> = vec![None; catalogue.files.len()];
    let mut files = Vec::new();
    let mut bytes = 0;
    let mut sequence = whole.sequence(Part::WHOLE, seed);
    for _ in 0..requests_max {
        let Some(ask) = sequence.next() else { break };
        let number = &mut numbers[ask.file as usize];
        let number = match *number {
            Some(number) => number,
            None => {
                let file = &catalogue.files[ask.file as usize];
                bytes += file.bytes.unwrap_or(0);
                if bytes > bytes_max {
                    break;
                }
                kept.files.push(file.clone());
                *number.insert(kept.files.len() as FileId - 1)
            }
        };
        files.push(number);
    }
    Beginning { catalogue: Arc::new(kept), files: files.into() }
}

impl Workload for Beginning {
    fn catalogue(&self) -> &Arc<Catalogue> {
        &self.catalogue
    }

    fn sequence(&self, part: Part, _seed: u64) -> Box<dyn Sequence> {
        Box::new(Lines { files: Arc::clone(&self.files), next: part.index as usize, step: part.of as usize })
    }
}

struct Lines {
    files: Arc<[FileId]>,
    next: usize,
    step: usize,
}

impl Sequence for Lines {
    fn next(&mut self) -> Option<Ask> {
        let file = *self.files.get(self.next)?;
        self.next += self.step;
        Some(Ask::of(file))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{PaperTrace, Synthetic};

    #[test]
    fn a_data_set_is_filled_and_not_passed() {
        let trace = PaperTrace::named("clarknet").unwrap();
        let whole = Synthetic::new(&trace.synthetic(), 1).unwrap();
        for bytes_max in [20_000_000, 90_000_000] {
            let kept = beginning(&whole, 1, u64::MAX, bytes_max);
            let bytes: u64 = kept.catalogue.files.iter().map(|file| file.bytes.unwrap()).sum();
            assert!(bytes <= bytes_max && bytes > bytes_max / 20 * 19, "{bytes} of {bytes_max}");
            let mut asks = kept.sequence(Part::WHOLE, 9);
            let mut originals = whole.sequence(Part::WHOLE, 1);
            let mut count = 0;
            while let Some(ask) = asks.next() {
                let original = originals.next().unwrap().file;
                assert_eq!(
                    kept.catalogue.files[ask.file as usize],
                    whole.catalogue().files[original as usize]
                );
                count += 1;
            }
            assert_eq!(count, kept.files.len());
        }
        assert_eq!(beginning(&whole, 1, 10, u64::MAX).files.len(), 10);
    }

    #[test]
    fn parts_share_the_lines() {
        let kept = Beginning { catalogue: Arc::default(), files: (0..5).collect() };
        let of = |index| {
            let mut lines = kept.sequence(Part { index, of: 2 }, 0);
            std::iter::from_fn(move || lines.next()).map(|ask| ask.file).collect::<Vec<_>>()
        };
        assert_eq!((of(0), of(1)), (vec![0, 2, 4], vec![1, 3]));
    }
}
