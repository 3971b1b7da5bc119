//! Why a site cannot be made.

use std::io;
use std::path::PathBuf;

use crate::name::Refused;

/// Why a site cannot be made, or not to its end. What was made stays, and is kept the next time.
#[derive(Debug, thiserror::Error)]
pub enum SiteError {
    /// Such as a full disk or missing rights.
    #[error("{}: {source}", path.display())]
    Write {
        /// The file or folder that could not be made.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The folder has files that `make_site` did not write.
    #[error("{}: has files that were not made from a workload (there is no {})", folder.display(), note.display())]
    NotOurs {
        /// The folder.
        folder: PathBuf,
        /// What would say otherwise.
        note: PathBuf,
    },
    /// A note that is none.
    #[error("{}: {source}", path.display())]
    Note {
        /// The note.
        path: PathBuf,
        /// Where it is wrong.
        source: serde_json::Error,
    },
    /// A target that no file can have.
    #[error("{target}: {why}")]
    Name {
        /// The target.
        target: Box<str>,
        /// Why not.
        why: Refused,
    },
    /// Only the server knows the size.
    #[error("{target}: its size is not known, so it cannot be made")]
    UnknownSize {
        /// The target.
        target: Box<str>,
    },
    /// A program that answers requests could not be made of its source.
    #[error("{}: cc made no program of its source: {why}", path.display())]
    Compile {
        /// The program.
        path: PathBuf,
        /// The compiler's first words, or why there is none.
        why: String,
    },
    /// Two files of the catalogue have one place.
    #[error("{target}: another file of the workload lies there, with another size")]
    Twice {
        /// The later one.
        target: Box<str>,
    },
}
