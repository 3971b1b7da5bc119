//! A kernel stack in words: its cause, and the functions where the thread slept.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::BufReader;

use flash_sleep::{Cause, Stack, function_names};

/// `page-cache read in filemap_get_pages < filemap_read < vfs_read`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Explanation {
    cause: Cause,
    /// The innermost ones that say something.
    functions: String,
}

/// The names of functions that were needed so far.
#[derive(Debug, Default)]
pub(super) struct KernelNames(BTreeMap<u64, Option<String>>);

const FUNCTIONS_SHOWN: usize = 3;

impl KernelNames {
    /// Explains stacks, each in its turn. Reads the kernel's names if some are new.
    pub(super) fn explain<'a>(&mut self, stacks: impl IntoIterator<Item = &'a [u64]>) -> Vec<Explanation> {
        let stacks: Vec<&[u64]> = stacks.into_iter().collect();
        self.learn(stacks.iter().copied().flatten().copied());
        stacks.into_iter().map(|stack| self.explanation(stack)).collect()
    }

    fn learn(&mut self, addresses: impl Iterator<Item = u64>) {
        let mut new: Vec<u64> = addresses.filter(|address| !self.0.contains_key(address)).collect();
        new.sort_unstable();
        new.dedup();
        if new.is_empty() {
            return;
        }
        let names = File::open("/proc/kallsyms").and_then(|file| function_names(BufReader::new(file), &new));
        let mut names = names.unwrap_or_default();
        self.0.extend(new.into_iter().map(|address| (address, names.remove(&address))));
    }

    fn explanation(&self, stack: &[u64]) -> Explanation {
        let name = |address| self.0.get(address).and_then(Option::as_deref);
        let stack =
            Stack::new(stack.iter().map(|address| name(address).unwrap_or("a function without a name")));
        let functions: Vec<&str> = stack.place().iter().take(FUNCTIONS_SHOWN).copied().collect();
        Explanation { cause: stack.cause(None), functions: functions.join(" < ") }
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in {}", self.cause, self.functions)
    }
}
