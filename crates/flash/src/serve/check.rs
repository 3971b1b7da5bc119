//! What `flash serve` finds wrong before it listens, all of it at once, for `flash check`.

use super::dir::Dir;
use super::log_numbers::LogNumbers;
use super::named_files::{ReadNamed, Secrets};
use super::programs::runnable::Runnable;
use super::site_plan::{Fault, Known};
use super::{
    access, acme_process, certificates, cgi_user, links, listeners, named_files, no_effect, privileges,
    shares, site_plan, unsupported,
};
use crate::failure::{Failure, cannot};
use crate::flags;

/// What `flash check` finds.
pub(crate) struct Findings {
    pub(crate) errors: Vec<Fault>,
    /// What a server says at its start, and serves all the same.
    pub(crate) warnings: Vec<Fault>,
    /// What the server would ask of others.
    pub(crate) notes: Vec<String>,
}

/// All findings, each with the key that it is about. It starts, opens and changes nothing.
pub(crate) fn check(flags: &flags::Serve) -> Findings {
    let (errors, warnings) = certificates::check(flags);
    let of_authority = acme_process::check_files(flags).err().map(|failure| fault("acme-ca", failure));
    let errors = errors.into_iter().map(of_certificate).chain(of_authority);
    let errors = errors.chain(check_again(flags, (&named_files::open, Secrets::Read)));
    let warnings = warnings.into_iter().map(of_certificate).chain(self::warnings(flags));
    Findings { errors: errors.collect(), warnings: warnings.collect(), notes: certificates::would_ask(flags) }
}

/// What is not right, and hinders no server.
pub(super) fn warnings(flags: &flags::Serve) -> impl Iterator<Item = Fault> {
    let unreachable = certificates::unreachable(flags).map(|failure| fault("listen", failure));
    let readable = certificates::readable_by_programs(flags).map(|failure| fault("cgi-user", failure));
    no_effect::check(flags).chain(links::check(flags)).chain(unreachable).chain(readable)
}

/// What is wrong with a certificate, at its key.
pub(super) fn of_certificate((site, failure): certificates::Wrong) -> Fault {
    Fault { key: "tls", site: site.map(|position| (position, None)), failure }
}

/// The same for a reload, without the certificates, which may be readable for another process only. `named` opens what the flags name.
pub(super) fn check_again(flags: &flags::Serve, named: ReadNamed<'_>) -> Vec<Fault> {
    let checks = [
        ("helpers", privileges::check(flags)),
        ("user", privileges::check_user(flags)),
        ("cgi-user", cgi_user::identity(flags).map(drop)),
        ("listen", listeners::check(flags)),
        ("threads-max", shares::check_counts(flags)),
    ];
    let of_tls = certificates::check_listeners(flags).err().map(|(key, failure)| fault(key, failure));
    let of_server =
        checks.into_iter().filter_map(|(key, checked)| Some(fault(key, checked.err()?))).chain(of_tls);
    let (dir, of_dir) = match Dir::new(&flags.dir) {
        Ok(dir) => (dir.real_path, None),
        Err(error) => {
            let failure = cannot(format_args!("serve {}", flags.dir.display()), &error);
            (flags.dir.clone(), Some(fault("root", failure)))
        }
    };
    let of_sites = match access::successes() {
        Ok(successes) => {
            let read = (named, None);
            let known = Known { successes: &successes, log_numbers: &LogNumbers::default() };
            site_plan::all(flags, &dir, known, Runnable::new(), read).err().unwrap_or_default()
        }
        Err(failure) => vec![fault("auth", failure)],
    };
    unsupported::check(flags).chain(of_server).chain(of_dir).chain(of_sites).collect()
}

fn fault(key: &'static str, failure: Failure) -> Fault {
    Fault { key, site: None, failure }
}
