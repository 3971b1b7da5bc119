//! A tree of many files of one size, which clients request with equal probability, and names that do not exist in it.

use std::sync::Arc;

use flash_traffic::{Ask, Catalogue, File, Part, Sequence, Workload};

/// Files in a folder.
const FOLDER_FILES: u32 = 100;

/// Requests for a tree's files, in no order.
pub(super) struct Tree {
    catalogue: Arc<Catalogue>,
}

impl Tree {
    /// So many files; `/t/17/1742.html` and the like.
    pub(super) fn new(files: u32, bytes: u64) -> Tree {
        let file = |number: u32| File {
            target: format!("/t/{}/{number}.html", number / FOLDER_FILES).into(),
            bytes: Some(bytes),
            class: 0,
            program: false,
        };
        Tree { catalogue: catalogue((0..files).map(file)) }
    }

    /// As many names below the folders of such a tree that are not there.
    pub(super) fn missing(files: u32) -> Tree {
        let file = |number: u32| File {
            target: format!("/t/{}/{number}.gone", number / FOLDER_FILES).into(),
            bytes: None,
            class: 0,
            program: false,
        };
        Tree { catalogue: catalogue((0..files).map(file)) }
    }
}

fn catalogue(files: impl Iterator<Item = File>) -> Arc<Catalogue> {
    Arc::new(Catalogue { files: files.collect(), classes: vec!["cold".into()] })
}

impl Workload for Tree {
    fn catalogue(&self) -> &Arc<Catalogue> {
        &self.catalogue
    }

    fn sequence(&self, part: Part, seed: u64) -> Box<dyn Sequence> {
        let files = self.catalogue.files.len() as u64;
        Box::new(Shuffled {
            files,
            next: u64::from(part.index),
            of: u64::from(part.of),
            step: step(files, seed),
        })
    }
}

/// Every file once before any file again. So a tree larger than the memory stays cold.
struct Shuffled {
    files: u64,
    next: u64,
    of: u64,
    step: u64,
}

impl Sequence for Shuffled {
    fn next(&mut self) -> Option<Ask> {
        let file = (self.next as u128 * self.step as u128 % self.files as u128) as u32;
        self.next += self.of;
        Some(Ask::of(file))
    }
}

/// A number coprime to `files`, near the golden section of it. So its multiples visit all files, and neighbours are far apart.
fn step(files: u64, seed: u64) -> u64 {
    let from = (files as f64 * 0.618_034) as u64 + seed % 1_000;
    (from.max(1)..).find(|step| gcd(*step, files) == 1).expect("a prime comes after any number")
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_file_is_asked_for_once_before_any_comes_again() {
        for (files, seed) in [(1, 0), (2, 7), (1000, 1999), (1001, 3)] {
            let tree = Tree::new(files, 10);
            let mut parts: Vec<_> = (0..2).map(|index| tree.sequence(Part { index, of: 2 }, seed)).collect();
            let mut seen = HashSet::new();
            for number in 0..files as usize {
                assert!(seen.insert(parts[number % 2].next().unwrap().file), "{files} files, seed {seed}");
            }
            assert_eq!(seen.len(), files as usize);
        }
    }

    #[test]
    fn missing_names_lie_in_the_tree_and_are_none_of_its_files() {
        let (tree, missing) = (Tree::new(250, 10), Tree::missing(250));
        let names = |tree: &Tree| -> Vec<String> {
            tree.catalogue.files.iter().map(|file| file.target.to_string()).collect()
        };
        let (files, gone) = (names(&tree), names(&missing));
        assert!(gone.iter().all(|name| !files.contains(name)));
        let folder = |name: &String| name.rsplit_once('/').unwrap().0.to_owned();
        assert!(gone.iter().zip(&files).all(|(gone, file)| folder(gone) == folder(file)));
    }
}
