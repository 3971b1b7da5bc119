//! --fallback and --spa: the file or program that answers for paths without a file.
//!
//! What is wrong with them is said at the start. A deploy may still take the file away; requests then get 404.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use flash_core::path::SitePath;
use flash_core::site::fallback::{Answers, Fallback};

use super::denied;
use super::programs::Programs;
use crate::failure::Failure;
use crate::flags;

/// The site's fallback.
pub(super) fn of(flags: &flags::Serve, programs: &Programs) -> Option<Fallback> {
    if flags.falls_back_to_proxy() {
        let except = denied::backups(flags, programs).chain(flags.programs.no_programs.iter().cloned());
        return Some(Fallback::of_route().except(except.collect()).spares_users(flags.user_dirs));
    }
    let (_, path, answers) = given(flags)?;
    // Where no program runs, the fallback is none either.
    let spared = if programs.answer(path) { &flags.programs.no_programs[..] } else { &[] };
    let except = denied::backups(flags, programs).chain(spared.iter().cloned()).collect();
    Some(Fallback::new(path.clone(), answers).except(except).spares_users(flags.user_dirs))
}

/// Finds fault with the flag of the site in `dir`.
pub(super) fn check(flags: &flags::Serve, programs: &Programs, dir: &Path) -> Result<(), Failure> {
    let Some((flag, path, _)) = given(flags).filter(|_| !flags.falls_back_to_proxy()) else { return Ok(()) };
    let shown = String::from_utf8_lossy(path.as_bytes());
    let wrong =
        |what: String| Err(Failure::Usage(format!("{flag} {shown}: {what} (see flash serve --help)")));
    if denied::paths(flags, programs).cover(path) {
        return wrong("this name is denied".into());
    }
    if path.is_hidden() && !flags.dotfiles {
        return wrong("names that begin with a dot need --dotfiles".into());
    }
    // Without a program, each client would get its source.
    if path.as_bytes().ends_with(b".php") && !programs.answer(path) {
        return wrong("no program answers there; --fastcgi .php=ADDR passes it to php-fpm".into());
    }
    let stripped = flags.rules.strip_prefix.as_ref().and_then(|prefix| {
        path.as_bytes().strip_prefix(prefix.as_bytes()).filter(|name| name.starts_with(b"/"))
    });
    let Some(file) = programs.file_of(path, dir, stripped.unwrap_or(path.as_bytes())) else { return Ok(()) };
    let folder = file.parent().unwrap_or(dir).display();
    match fs::metadata(&file) {
        Ok(found) if found.is_file() => {}
        Ok(_) => return wrong(format!("it is no file in {folder}")),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return wrong(format!("there is no such file in {}", dir.display()));
        }
        Err(error) => return wrong(format!("cannot read it: {error}")),
    }
    Ok(())
}

/// The key of the configuration file that sets it.
pub(super) fn key(flags: &flags::Serve) -> &'static str {
    if flags.spa.is_some() { "spa" } else { "fallback" }
}

/// The flag that was given, its path, and the requests that it is for.
fn given(flags: &flags::Serve) -> Option<(&'static str, &SitePath<'static>, Answers)> {
    let fallback = flags.fallback.as_ref().map(|path| ("--fallback", path, Answers::All));
    fallback.or_else(|| flags.spa.as_ref().map(|path| ("--spa", path, Answers::Pages)))
}
