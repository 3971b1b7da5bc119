//! What an architecture does not support: the keys that it refuses.
//!
//! New capabilities come to amped and uring, and to sped where it shares their loop. The other architectures stay as they are: a
//! key that one of them does not support gets an entry here. Other keys that it has no use for, such as `threads` for amped, stay
//! without effect.

use super::site_plan::Fault;
use crate::failure::Failure;
use crate::flags::{Arch, Helpers, Serve, Switch};

/// A key that some architectures refuse.
struct Unsupported {
    key: &'static str,
    by: &'static [Arch],
    is_asked_for: fn(&Serve) -> bool,
    /// Says what is refused, by which architectures, and what else to do.
    why: &'static str,
}

const UNSUPPORTED: [Unsupported; 3] = [
    Unsupported {
        key: "helpers",
        by: &[Arch::Sped, Arch::Pipelined, Arch::Mt, Arch::Mp],
        is_asked_for: |flags| flags.helpers == Helpers::Process,
        why: "--helpers process needs an architecture that has helpers: --arch amped or uring",
    },
    Unsupported {
        key: "early-data",
        by: &[Arch::Mp],
        is_asked_for: |flags| flags.early_data == Switch::On,
        why: "--early-data on does not work with --arch mp: a session is known to one process alone. Choose another --arch",
    },
    Unsupported {
        key: "proxy",
        by: &[Arch::Pipelined, Arch::Mt, Arch::Mp],
        is_asked_for: |flags| {
            let of_sites = flags.rules_of_sites().map(|rules| &*rules.flags);
            [flags].into_iter().chain(of_sites).any(|flags| !flags.programs.http.proxy.is_empty())
        },
        why: "--proxy needs an architecture with event loops: --arch amped, uring or sped",
    },
];

/// Finds the keys that the architecture refuses.
pub(super) fn check(flags: &Serve) -> impl Iterator<Item = Fault> {
    let is_refused = |one: &&Unsupported| one.by.contains(&flags.arch) && (one.is_asked_for)(flags);
    UNSUPPORTED.iter().filter(is_refused).map(|&Unsupported { key, why, .. }| {
        let failure = Failure::Usage(format!("{why} (see flash serve --help)"));
        Fault { key, site: None, failure }
    })
}
