//! What `flash serve` finds wrong before it listens, all of it at once, for `flash check`.

use super::dir::Dir;
use super::programs::Programs;
use super::{fallback, privileges, response_extras, shares, site_plan};
use crate::failure::{Failure, cannot};
use crate::flags::{self, Helpers};

/// Each failure, with the key that it is about. It starts, opens and changes nothing.
pub(crate) fn check(flags: &flags::Serve) -> Vec<(&'static str, Failure)> {
    let dir =
        Dir::new(&flags.dir).map_err(|error| cannot(format_args!("serve {}", flags.dir.display()), &error));
    let checks = [
        ("helpers", privileges::check(flags)),
        ("site", sites(flags)),
        ("user", privileges::check_user(flags)),
        ("error-pages", response_extras::pages(flags).map(drop)),
        ("header", response_extras::check_fields(flags)),
        ("threads-max", shares::check_counts(flags)),
        match dir {
            Ok(dir) if !flags.sites.is_empty() => ("site", site_plan::all(flags, &dir.real_path).map(drop)),
            Ok(dir) => match Programs::prepare(flags, &dir.real_path, 0) {
                Ok(programs) => (fallback::key(flags), fallback::check(flags, &programs, &dir.real_path)),
                Err(failure) => ("app", Err(failure)),
            },
            Err(failure) => ("root", Err(failure)),
        },
    ];
    checks.into_iter().filter_map(|(key, checked)| Some((key, checked.err()?))).collect()
}

/// What works for a single site only.
pub(super) fn sites(flags: &flags::Serve) -> Result<(), Failure> {
    let programs = &flags.programs;
    let starts = !(programs.cgi.is_empty() && programs.cgi_direct.is_empty() && programs.app.is_empty());
    let why = match flags.sites.is_empty() {
        true => return Ok(()),
        false if flags.helpers == Helpers::Process => "--helpers process needs a single site",
        false if starts => {
            "--cgi, --cgi-direct and --app need a single site: a site of several can have --fastcgi"
        }
        false => return Ok(()),
    };
    Err(Failure::Usage(format!("{why} (see flash serve --help)")))
}
