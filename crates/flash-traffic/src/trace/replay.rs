//! A trace as a workload: its files under names that can be served, its requests in order, once or again and again.

use std::collections::btree_map::BTreeMap;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::Trace;
use crate::name::{self, Refused};
use crate::workload::{Ask, Catalogue, File, FileId, Part, Sequence, Workload};

/// How often a list of requests is gone through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passes {
    /// One time, and then it ends.
    Once,
    /// For ever.
    Looped,
}

/// Requests of a log, and when they came.
///
/// Logs tell whole seconds. The requests of one are spread evenly over it, and a request that was logged after a later one
/// comes together with that. Each pass begins one second after the last request of the one before.
#[derive(Clone, Debug)]
pub struct Replay {
    catalogue: Arc<Catalogue>,
    asks: Arc<[(FileId, Duration)]>,
    lasts: Duration,
    passes: Passes,
}

/// What names cost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// Files that became one with another, whose name leads to the same place: `/a/` and `/a/index.html`; `/a` too, if there
    /// is anything below it. The larger size is kept.
    pub merged: u64,
    /// Files that cannot be served, by reason.
    pub refused: BTreeMap<Refused, u64>,
    /// Requests for those.
    pub requests_refused: u64,
}

impl Trace {
    /// Gives each file a [name] that can be asked for and written below a folder.
    pub fn replay(&self, passes: Passes) -> (Replay, Told) {
        let mut told = Told::default();
        let (files, numbers) = self.named(&mut told);
        let mut asks = Vec::with_capacity(self.asked.len());
        for (&file, at) in self.asked.iter().zip(spread(&self.at_seconds)) {
            match numbers[file as usize] {
                Some(number) => asks.push((number, at)),
                None => told.requests_refused += 1,
            }
        }
        let classes = vec!["files".into()];
        let lasts = asks.last().map_or(Duration::ZERO, |(_, at)| *at) + Duration::from_secs(1);
        let catalogue = Arc::new(Catalogue { files, classes });
        (Replay { catalogue, asks: asks.into(), lasts, passes }, told)
    }

    /// The files as they are served, and which of them each file of the log is.
    fn named(&self, told: &mut Told) -> (Vec<File>, Vec<Option<FileId>>) {
        let names: Vec<_> = self.urls.iter().map(|url| Name::of(url)).collect();
        let folders: HashSet<&Path> =
            names.iter().flatten().flat_map(|name| name.path.ancestors().skip(1)).collect();
        let mut files: Vec<File> = Vec::new();
        let mut by_path: HashMap<PathBuf, FileId> = HashMap::new();
        let numbers = names.iter().zip(&self.sizes).map(|(name, &bytes)| {
            let name = match name.clone().and_then(|name| name.beside(&folders)) {
                Ok(name) => name,
                Err(why) => {
                    *told.refused.entry(why).or_default() += 1;
                    return None;
                }
            };
            if let Some(&number) = by_path.get(&name.path) {
                told.merged += 1;
                let known = &mut files[number as usize].bytes;
                *known = (*known).max(Some(bytes));
                return Some(number);
            }
            let number = files.len() as FileId;
            files.push(File { target: name.target, bytes: Some(bytes), class: 0, program: false });
            by_path.insert(name.path, number);
            Some(number)
        });
        let numbers = numbers.collect();
        (files, numbers)
    }
}

#[derive(Clone)]
struct Name {
    target: Box<str>,
    path: PathBuf,
}

impl Name {
    fn of(url: &[u8]) -> Result<Self, Refused> {
        let target = name::of_target(url)?;
        let path = name::path_of(&target)?;
        Ok(Self { target, path })
    }

    /// Where there is a folder of this name, the file is the one that stands for it.
    fn beside(self, folders: &HashSet<&Path>) -> Result<Self, Refused> {
        if !folders.contains(self.path.as_path()) {
            return Ok(self);
        }
        let within = Self::of(format!("{}/", self.target).as_bytes())?;
        if folders.contains(within.path.as_path()) { Err(Refused::FileAndFolder) } else { Ok(within) }
    }
}

/// Times from the first on, never going back, with those of one second spread over it.
fn spread(at_seconds: &[i64]) -> Vec<Duration> {
    let first = at_seconds.first().copied().unwrap_or_default();
    let mut latest = 0;
    let seconds: Vec<u64> = at_seconds
        .iter()
        .map(|at| {
            latest = latest.max(at.saturating_sub(first).unsigned_abs() * u64::from(*at > first));
            latest
        })
        .collect();
    let mut spread = Vec::with_capacity(seconds.len());
    for same in seconds.chunk_by(|one, other| one == other) {
        let share = Duration::from_secs(1) / u32::try_from(same.len()).unwrap_or(u32::MAX);
        spread.extend((0..).zip(same).map(|(nth, &second)| Duration::from_secs(second) + share * nth));
    }
    spread
}

impl Workload for Replay {
    fn catalogue(&self) -> &Arc<Catalogue> {
        &self.catalogue
    }

    /// There is nothing to draw: all seeds are alike.
    fn sequence(&self, part: Part, _seed: u64) -> Box<dyn Sequence> {
        Box::new(Replaying { of: self.clone(), next: u64::from(part.index), step: u64::from(part.of) })
    }
}

struct Replaying {
    of: Replay,
    /// Counted through all passes.
    next: u64,
    step: u64,
}

impl Sequence for Replaying {
    fn next(&mut self) -> Option<Ask> {
        let asks = &self.of.asks;
        let (pass, place) = (self.next.checked_div(asks.len() as u64)?, self.next % asks.len() as u64);
        if pass > 0 && self.of.passes == Passes::Once {
            return None;
        }
        self.next += self.step;
        let (file, at) = asks[place as usize];
        let before = self.of.lasts.saturating_mul(u32::try_from(pass).unwrap_or(u32::MAX));
        Some(Ask { at: Some(before.saturating_add(at)), ..Ask::of(file) })
    }
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{} files merged", self.merged)?;
        for (why, files) in &self.refused {
            write!(f, ", {files} left out ({why})")?;
        }
        if self.requests_refused > 0 {
            write!(f, "; {} requests for files left out", self.requests_refused)?;
        }
        Ok(())
    }
}
