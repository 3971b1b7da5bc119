//! Files that change while they are served: replaced by a rename, grown, touched, deleted and made again. A thread for
//! each, its publisher, changes it and notes when in its [`History`].

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result};
use fastrand::Rng;
use flash_traffic::content::Content;

use super::history::{History, State};

/// The time that a touched file begins with.
const TOUCHED_FROM: i64 = 1_000_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChangePattern {
    /// A new file takes its name, around this size.
    Replaced { bytes: u64 },
    /// It grows from one size to the other; then a new one takes its name.
    Grows { from: u64, to: u64 },
    /// Its time of change moves by a second.
    Touched { bytes: u64 },
    /// It is deleted, and made again.
    ComesAndGoes { bytes: u64 },
}

const FILES: [(&str, ChangePattern); 14] = [
    ("replaced-300", ChangePattern::Replaced { bytes: 300 }),
    ("replaced-4k", ChangePattern::Replaced { bytes: 4 << 10 }),
    ("replaced-60k", ChangePattern::Replaced { bytes: 60_000 }),
    ("replaced-256k", ChangePattern::Replaced { bytes: 256 << 10 }),
    ("replaced-1m", ChangePattern::Replaced { bytes: 1 << 20 }),
    ("replaced-4m", ChangePattern::Replaced { bytes: 4 << 20 }),
    ("replaced-6m", ChangePattern::Replaced { bytes: 6 << 20 }),
    ("log-5m", ChangePattern::Grows { from: 5 << 20, to: 9 << 20 }),
    ("log-4m", ChangePattern::Grows { from: (4 << 20) + 1, to: 7 << 20 }),
    ("log-small", ChangePattern::Grows { from: 1_000, to: 600_000 }),
    ("touched-2k", ChangePattern::Touched { bytes: 2_000 }),
    ("touched-1m", ChangePattern::Touched { bytes: 1 << 20 }),
    ("comes-and-goes-1k", ChangePattern::ComesAndGoes { bytes: 1_000 }),
    ("comes-and-goes-300k", ChangePattern::ComesAndGoes { bytes: 300_000 }),
];

/// No file that changes is ever shorter.
pub(crate) const BYTES_MIN: u64 = 200;

pub(crate) struct Live {
    pub(crate) target: String,
    pub(crate) pattern: ChangePattern,
    path: PathBuf,
    history: Mutex<History>,
}

impl Live {
    /// Makes the first state of each file.
    pub(crate) fn make_all(folder: &Path) -> Result<Vec<Live>> {
        let make = |(name, pattern): (&str, ChangePattern)| {
            let history = Mutex::new(History::new(State::Absent, Instant::now()));
            let live = Live { target: format!("/live/{name}"), pattern, path: folder.join(name), history };
            live.appear(0, live.bytes_of(0))?;
            Ok(live)
        };
        FILES.into_iter().map(make).collect()
    }

    pub(crate) fn history(&self) -> MutexGuard<'_, History> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn content(&self, version: u64) -> Content {
        Content::new(version, &self.target)
    }

    /// Whether 404 may be an answer.
    pub(crate) fn may_be_absent(&self) -> bool {
        matches!(self.pattern, ChangePattern::ComesAndGoes { .. })
    }

    /// Whether it is so large that it changes while it is sent.
    pub(crate) fn is_large(&self) -> bool {
        matches!(self.pattern, ChangePattern::Replaced { bytes } | ChangePattern::Grows { from: bytes, .. } if bytes >= 4 << 20)
    }

    /// How long until the next change.
    pub(crate) fn pause(&self, rng: &mut Rng) -> Duration {
        let (least, most) = match self.pattern {
            ChangePattern::Replaced { bytes } if bytes > 2 << 20 => (1_000, 8_000),
            ChangePattern::Replaced { .. } => (100, 4_000),
            ChangePattern::Grows { .. } => (20, 250),
            ChangePattern::Touched { .. } => (300, 5_000),
            // Longer than an answer may be old, or every answer would be right.
            ChangePattern::ComesAndGoes { .. } => (500, 8_000),
        };
        Duration::from_millis(rng.u64(least..most))
    }

    /// Changes it once.
    pub(crate) fn change(&self, rng: &mut Rng) -> Result<()> {
        let newest = self.history().newest();
        match (self.pattern, newest) {
            (ChangePattern::Grows { to, .. }, State::Present { version, bytes, .. }) if bytes < to => {
                self.grow(version, bytes, rng.u64(100..20_000))
            }
            (ChangePattern::Touched { bytes }, State::Present { modified, .. }) => {
                self.touch(bytes, modified.unwrap_or(TOUCHED_FROM) + 1)
            }
            (ChangePattern::ComesAndGoes { .. }, State::Present { .. }) => {
                self.note(State::Absent, || fs::remove_file(&self.path))
            }
            (_, State::Present { version, .. }) => self.appear(version + 1, self.bytes_of(version + 1)),
            // The versions of a file that comes and goes are counted in its absence too.
            (_, State::Absent) => {
                let version = self.history().versions().first().map_or(0, |version| version + 1);
                self.appear(version, self.bytes_of(version))
            }
        }
        .with_context(|| format!("changing {}", self.path.display()))
    }

    /// Each version has a length of its own, so that some lie on either side of a threshold.
    fn bytes_of(&self, version: u64) -> u64 {
        match self.pattern {
            ChangePattern::Replaced { bytes } => bytes - 6 + version % 13,
            ChangePattern::ComesAndGoes { bytes } => bytes + version % 13,
            ChangePattern::Grows { from, .. } => from,
            ChangePattern::Touched { bytes } => bytes,
        }
    }

    /// A new file takes the name.
    fn appear(&self, version: u64, bytes: u64) -> Result<()> {
        let new =
            self.path.with_file_name(format!(".{}", self.target.rsplit('/').next().unwrap_or_default()));
        let mut file = File::create(&new)?;
        file.write_all(&self.bytes(version, 0..bytes))?;
        let modified = matches!(self.pattern, ChangePattern::Touched { .. }).then_some(TOUCHED_FROM);
        if let Some(modified) = modified {
            file.set_modified(time(modified))?;
        }
        self.note(State::Present { version, bytes, modified }, || fs::rename(&new, &self.path))
    }

    fn grow(&self, version: u64, bytes: u64, more: u64) -> Result<()> {
        let mut file = File::options().append(true).open(&self.path)?;
        let piece = self.bytes(version, bytes..bytes + more);
        let longer = State::Present { version, bytes: bytes + more, modified: None };
        self.note(longer, || file.write_all(&piece))
    }

    fn touch(&self, bytes: u64, modified: i64) -> Result<()> {
        let file = File::options().write(true).open(&self.path)?;
        let state = State::Present { version: 0, bytes, modified: Some(modified) };
        self.note(state, || file.set_modified(time(modified)))
    }

    /// Makes a change between two looks at the clock. Nothing else is done between them.
    fn note(&self, to: State, change: impl FnOnce() -> std::io::Result<()>) -> Result<()> {
        self.history().begin(to, Instant::now());
        let changed = change();
        self.history().done(Instant::now());
        Ok(changed?)
    }

    fn bytes(&self, version: u64, range: std::ops::Range<u64>) -> Vec<u8> {
        let mut bytes = vec![0; (range.end - range.start) as usize];
        self.content(version).fill(range.start, &mut bytes);
        bytes
    }
}

fn time(seconds: i64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_what_its_history_says() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut rng = Rng::with_seed(1);
        for live in Live::make_all(folder.path()).expect("files") {
            for _ in 0..4 {
                match live.history().newest() {
                    State::Absent => assert!(!live.path.exists() && live.may_be_absent()),
                    State::Present { version, bytes, modified } => {
                        let found = fs::read(&live.path).expect("it is there");
                        assert_eq!(found.len() as u64, bytes);
                        assert_eq!(live.content(version).first_difference(0, &found), None);
                        assert!(bytes >= BYTES_MIN && modified.is_some() == live.target.contains("touched"));
                    }
                }
                let before = live.history().newest();
                live.change(&mut rng).expect("a change");
                assert_ne!(before, live.history().newest());
            }
        }
    }
}
