//! An order that has begun. It is kept until its certificate is, so that the next process goes on with it.

use serde::{Deserialize, Serialize};

use crate::settings::KeyKind;

#[derive(Serialize, Deserialize)]
pub(crate) struct Begun {
    pub(crate) url: String,
    /// The certificate's, as PEM.
    pub(crate) key: String,
    pub(crate) asked: Asked,
    /// How often the authority has refused to go on with it.
    pub(crate) failures: u32,
}

/// What was asked of whom.
#[derive(PartialEq, Serialize, Deserialize)]
pub(crate) struct Asked {
    pub(crate) hosts: Vec<String>,
    pub(crate) directory: String,
    pub(crate) profile: Option<String>,
    pub(crate) key: KeyKind,
}
