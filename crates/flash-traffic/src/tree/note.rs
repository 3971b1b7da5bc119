//! The note beside a made site: from which seed its bytes are, and what for.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::site_error::SiteError;

/// The parameters and the seed that a site was made from. With the seed, a client can check every byte of every response.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// See [`Content`](crate::content::Content).
    pub seed: u64,
    /// For people's eyes.
    pub workload: String,
    /// How many files the workload has; those of a workload before it may be there too.
    pub files: u64,
    /// What they weigh.
    pub bytes: u64,
    /// Whether all of them are there.
    pub complete: bool,
}

impl Note {
    /// That of a folder, if it has one.
    pub fn read(folder: &Path) -> Result<Option<Self>, SiteError> {
        // Without `..` and links the note lies beside the folder itself.
        let path = note_path(&folder.canonicalize().unwrap_or_else(|_| folder.into()));
        match fs::read(&path) {
            Ok(text) => {
                serde_json::from_slice(&text).map(Some).map_err(|source| SiteError::Note { path, source })
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(SiteError::Write { path, source }),
        }
    }

    /// Written beside and moved into place, so that there is always a whole one.
    pub(super) fn write(&self, folder: &Path) -> Result<(), SiteError> {
        let path = note_path(folder);
        let fresh = path.with_extension("json.new");
        let mut text = serde_json::to_vec_pretty(self).expect("numbers and strings are JSON");
        text.push(b'\n');
        let written = fs::write(&fresh, text).and_then(|()| fs::rename(&fresh, &path));
        written.map_err(|source| SiteError::Write { path, source })
    }
}

/// Where the note of a folder lies: `site.flash-site.json` for `site`.
pub fn note_path(folder: &Path) -> PathBuf {
    let mut name: OsString = folder.as_os_str().into();
    name.push(".flash-site.json");
    name.into()
}
