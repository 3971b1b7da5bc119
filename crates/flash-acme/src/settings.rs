//! What the operator has said of the authority and of certificates.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Whom the process asks, and how.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The URL of the authority's directory.
    pub directory: String,
    /// The roots that the authority's own certificate is verified by, as PEM. Without it, those of the system.
    pub roots: Option<PathBuf>,
    pub email: Option<String>,
    /// What kind of certificate the authority issues, if it has several (draft-ietf-acme-profiles).
    pub profile: Option<String>,
    /// Where all of this is kept.
    pub folder: PathBuf,
    pub key: KeyKind,
    /// The program that sets records of DNS, and the one that removes them, if it is another one.
    pub hooks: Vec<PathBuf>,
    /// A file with the number of an account elsewhere and its key (RFC 8555 §7.3.4).
    pub account_binding: Option<PathBuf>,
    /// Whether clients without TLS are answered at all.
    pub has_plain_listener: bool,
}

/// The kind of key that certificates have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum KeyKind {
    /// P-256.
    Ecdsa,
    /// 2,048 bits.
    Rsa,
}
