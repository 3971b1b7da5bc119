//! Rules that can have no effect: of a place to which no request leads, and redirections without end.

use flash_core::path::SitePath;
use flash_core::site::SiteSettings;
use flash_core::site::places::{PlaceName, PlaceNames};

use crate::failure::Failure;
use crate::flags;

/// Finds fault with the rules of the place, or of the site itself. Returns the key that it is about.
pub(super) fn check(
    flags: &flags::Serve,
    settings: &SiteSettings,
    names: &PlaceNames,
    name: PlaceName<'_>,
) -> Result<(), (&'static str, Failure)> {
    // One of its paths.
    let of_parts = || [name.prefix.unwrap_or_default(), b"/x", name.suffix.unwrap_or_default()].concat();
    let sample = name.exact.map_or_else(of_parts, <[u8]>::to_vec);
    let Some(sample) = SitePath::of_decoded(&sample) else { return Ok(()) };
    let wrong = |key, what: &str| Err((key, Failure::Usage(what.into())));
    if let Some(redirect) = &settings.redirect {
        let location = redirect.fill(&sample, None).unwrap_or_default();
        let path = location.split(|&byte| byte == b'?').next().unwrap_or_default();
        let next = SitePath::parse(path).ok();
        return match next.is_some_and(|next| names.of(&next) == names.of(&sample)) {
            true => wrong("redirect", "the redirection leads to itself"),
            false => Ok(()),
        };
    }
    if settings.gone || name == PlaceName::default() {
        return Ok(());
    }
    if settings.deny.cover(&sample) {
        return wrong("deny", "the place can never be reached: its paths are denied");
    }
    let is_program = !flags.programs.fastcgi.is_empty();
    match sample.is_hidden() && !settings.dotfiles && !is_program {
        true => wrong(
            "dotfiles",
            "the place can never be reached: a name that begins with a dot needs `dotfiles`",
        ),
        false => Ok(()),
    }
}
