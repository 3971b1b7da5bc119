//! A kernel stack in words: its cause, and the functions where the thread slept.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::BufReader;

use flash_sleep::{Cause, Stack, function_names};

/// `page-cache read in filemap_get_pages < filemap_read < vfs_read`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Explanation {
    pub(crate) cause: Cause,
    /// The innermost ones that say something.
    pub(crate) functions: String,
}

/// Sleeps with one explanation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Total {
    pub(crate) explanation: Explanation,
    pub(crate) sleeps: u64,
    pub(crate) ns: u64,
}

/// The names of functions that were needed so far.
#[derive(Debug, Default)]
pub(super) struct KernelNames(BTreeMap<u64, Option<String>>);

const FUNCTIONS_SHOWN: usize = 3;

impl KernelNames {
    /// Reads the kernel's names, if some of these are new. It may take a tenth of a second.
    pub(super) fn learn(&mut self, addresses: impl Iterator<Item = u64>) {
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

    /// Why a thread slept with this stack, whose names are known.
    pub(super) fn cause(&self, stack: &[u64]) -> Cause {
        self.stack(stack).cause(None)
    }

    /// Whether the thread has ended, and sleeps for good.
    pub(super) fn is_end(&self, stack: &[u64]) -> bool {
        self.stack(stack).frames().contains(&"do_exit")
    }

    pub(super) fn explanation(&self, stack: &[u64]) -> Explanation {
        let stack = self.stack(stack);
        let functions: Vec<&str> = stack.place().iter().take(FUNCTIONS_SHOWN).copied().collect();
        Explanation { cause: stack.cause(None), functions: functions.join(" < ") }
    }

    fn stack(&self, addresses: &[u64]) -> Stack<'_> {
        let name = |address| self.0.get(address).and_then(Option::as_deref);
        Stack::new(addresses.iter().map(|address| name(address).unwrap_or("a function without a name")))
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in {}", self.cause, self.functions)
    }
}
