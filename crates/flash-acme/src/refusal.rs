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
    /// The authority's server has no address. A sandbox has its look-ups by files that others may have replaced.
    NoAddress,
    /// It does not answer, and would not for another certificate either.
    Unreachable,
    /// The process that runs `acme-dns` is gone. The next one of this process has its own.
    HookEnded,
    /// Nothing was refused: this server ends.
    ServerEnded,
    /// The same: another server asks now.
    LeaseLost,
    Other,
}

/// How the standard library says so.
const LOOK_UP_FAILED: &str = "failed to lookup address information";
/// RFC 8555 §6.7.
const ERRORS: &str = "urn:ietf:params:acme:error:";

impl Refusal {
    pub(crate) fn new(why: impl fmt::Display) -> Self {
        Self { why: why.to_string(), retry_after_s: None, kind: Kind::Other }
    }

    pub(crate) fn server_ended() -> Self {
        Self { kind: Kind::ServerEnded, ..Self::new("the server has ended") }
    }

    pub(crate) fn no_address() -> Self {
        Self { kind: Kind::NoAddress, ..Self::new("the authority's server has no address") }
    }

    pub(crate) fn hook_ended() -> Self {
        Self { kind: Kind::HookEnded, ..Self::new("the process that runs acme-dns has ended") }
    }

    pub(crate) fn lease_lost() -> Self {
        Self { kind: Kind::LeaseLost, ..Self::new("another server asks") }
    }

    pub(crate) fn of(error: &Error, retry_after_s: Option<u64>) -> Self {
        let Error::Api(problem) = error else {
            let why = format_args!("cannot ask the authority: {error}");
            return Self { kind: kind_of(error), ..Self::new(why) };
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

/// Of what is no answer.
fn kind_of(error: &Error) -> Kind {
    let Error::Other(other) = error else { return Kind::Other };
    match other.downcast_ref::<ureq::Error>() {
        Some(ureq::Error::HostNotFound) => Kind::NoAddress,
        Some(ureq::Error::Io(error)) if error.to_string().starts_with(LOOK_UP_FAILED) => Kind::NoAddress,
        Some(_) => Kind::Unreachable,
        None => Kind::Other,
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
