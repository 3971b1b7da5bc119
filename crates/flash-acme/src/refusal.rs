//! Why an authority has issued no certificate.

use std::fmt;
use std::io;

use instant_acme::{Error, Problem};

#[derive(Debug)]
pub(crate) struct Refusal {
    /// In the authority's own words, if it has said anything.
    pub(crate) why: String,
    /// How long the authority asks to wait.
    pub(crate) retry_after_s: Option<u64>,
    pub(crate) kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It may be accepted right away the next time: the authority has forgotten its nonces.
    BadNonce,
    /// The authority does not know the account.
    NoAccount,
    /// The certificate to be replaced has been replaced, or is not known.
    CannotReplace,
    /// Nothing was refused: this server ends.
    ServerEnded,
    Other,
}

/// RFC 8555 §6.7.
const ERRORS: &str = "urn:ietf:params:acme:error:";

impl Refusal {
    pub(crate) fn new(why: impl fmt::Display) -> Self {
        Self { why: why.to_string(), retry_after_s: None, kind: Kind::Other }
    }

    pub(crate) fn server_ended() -> Self {
        Self { kind: Kind::ServerEnded, ..Self::new("the server has ended") }
    }

    pub(crate) fn of(error: &Error, retry_after_s: Option<u64>) -> Self {
        let Error::Api(problem) = error else {
            return Self::new(format_args!("cannot ask the authority: {error}"));
        };
        let kind = match problem.r#type.as_deref().and_then(|kind| kind.strip_prefix(ERRORS)) {
            Some("badNonce") => Kind::BadNonce,
            Some("accountDoesNotExist") => Kind::NoAccount,
            Some("alreadyReplaced") => Kind::CannotReplace,
            _ => Kind::Other,
        };
        Self { why: words_of(problem), retry_after_s, kind }
    }
}

/// What a problem says, with what it says of each host.
pub(crate) fn words_of(problem: &Problem) -> String {
    let kind = problem.r#type.as_deref().unwrap_or_default();
    let kind = kind.strip_prefix(ERRORS).unwrap_or(kind);
    let detail = problem.detail.as_deref().unwrap_or("no reason is given");
    let parts = problem.subproblems.iter().map(|part| format!("; {part}"));
    format!("{detail} ({kind}){}", parts.collect::<String>())
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        Self::new(error)
    }
}
