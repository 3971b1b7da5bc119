//! `--config FILE`, `flash check` and `flash schema`: the configuration file becomes words of a command line.
//!
//! A key of the file is a flag of the same name. The words of the file come first, and leave out what the command line says
//! itself. So the parser of flags reads both, and flags win. [`flash_config`] knows the form of the file.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::ArgMatches;
use clap::parser::ValueSource;
use flash_config::{Config, File, Host, Keys, Problem, Setting, Site};
use flash_core::hosts::HostName;

use crate::failure::Failure;
use crate::flags::{Command, Flags, OfFile, SiteOfFile};
use crate::serve;

use keys::{ROOT, id};

mod keys;

/// A file that was read, and what it sets.
struct Loaded {
    file: File,
    config: Config,
}

/// Reads a command line, and the file that it names.
pub(crate) fn read(words: impl IntoIterator<Item = OsString>) -> Result<Flags, Failure> {
    Flags::read_with_file(words, of_file)
}

/// What a file adds to a command line, which clap has understood as `given`.
fn of_file(path: &Path, given: &ArgMatches) -> Result<OfFile, Failure> {
    let keys = keys::of_flags();
    let (Loaded { file, mut config }, mut problems) = load(path, &keys)?;
    let is_given = |id: &str| given.value_source(id) == Some(ValueSource::CommandLine);
    let is_left = |setting: &Setting| !names_of(&keys, setting).any(|name| is_given(&id(name)));
    config.settings.retain(is_left);
    config
        .sites
        .iter_mut()
        .for_each(|site| site.settings.retain(|setting| setting.key == ROOT || is_left(setting)));
    let (is_right, missing) = (problems.is_empty(), config.check());
    problems.extend(missing);
    if !problems.is_empty() {
        let report = report(&file, &problems);
        // What is missing may come later, as a mount does.
        return Err(if is_right { Failure::Run(report) } else { Failure::Usage(report) });
    }
    if is_given(&id(ROOT)) && !config.sites.is_empty() {
        return Err(Failure::Usage(format!(
            "{} has sites, each with its root: leave DIR out",
            path.display()
        )));
    }
    let site = |site: &Site| SiteOfFile {
        hosts: site.hosts.iter().map(host).collect(),
        root: site.settings.iter().find(|setting| setting.key == ROOT).and_then(folder).unwrap_or_default(),
        words: words_of_site(&keys, &config.settings, site),
    };
    Ok(OfFile {
        words: config.settings.iter().flat_map(as_words).collect(),
        sites: config.sites.iter().map(site).collect(),
    })
}

/// The words of the server's settings that hold for a site, and of its own, but for its root.
fn words_of_site(keys: &Keys, server: &[Setting], site: &Site) -> Vec<OsString> {
    let own = |name: &String| site.settings.iter().any(|setting| setting.key == *name);
    let inherited = server.iter().filter(|setting| !names_of(keys, setting).any(own));
    let settings = inherited.chain(site.settings.iter().filter(|setting| setting.key != ROOT));
    settings.flat_map(as_words).collect()
}

/// A setting's key, and the keys that cannot be set beside it.
fn names_of<'k>(keys: &'k Keys, setting: &'k Setting) -> impl Iterator<Item = &'k String> {
    let conflicts = keys.get(&setting.key).map(|key| &key.conflicts[..]).unwrap_or_default();
    [&setting.key].into_iter().chain(conflicts)
}

fn folder(root: &Setting) -> Option<PathBuf> {
    root.values.first()?.text.clone().map(PathBuf::from)
}

fn host(host: &Host) -> HostName {
    match host {
        Host::Exact(name) => HostName::Exact(name.as_bytes().into()),
        Host::Below(name) => HostName::Below(name.as_bytes().into()),
        Host::Any => HostName::Any,
    }
}

/// `flash check`.
pub(crate) fn check(path: &Path) -> Result<(), Failure> {
    let (Loaded { file, config }, mut problems) = load(path, &keys::of_flags())?;
    problems.extend(config.check());
    if problems.is_empty() {
        let words = ["flash".into(), "serve".into(), "--config".into(), path.into()];
        let flags = match read(words)?.command {
            Some(Command::Serve(flags)) => flags,
            _ => unreachable!("these words are those of flash serve"),
        };
        problems = serve::check(&flags).into_iter().map(|(key, why)| at_key(&config, key, &why)).collect();
    }
    match problems.is_empty() {
        true => flash_cli::print(format!("{} has no errors\n", file.path().display()).as_bytes()),
        false => Err(Failure::Usage(report(&file, &problems))),
    }
}

/// `flash schema`.
pub(crate) fn print_schema() -> Result<(), Failure> {
    flash_cli::print(flash_config::schema(&keys::of_flags()).as_bytes())
}

fn load(path: &Path, keys: &Keys) -> Result<(Loaded, Vec<Problem>), Failure> {
    let file = File::read(path)
        .map_err(|error| Failure::Usage(format!("cannot read {}: {error}", path.display())))?;
    let (config, problems) = Config::parse(&file, keys);
    Ok((Loaded { file, config }, problems))
}

/// Prints each problem. Returns how many there are, for the last line.
fn report(file: &File, problems: &[Problem]) -> String {
    let path = file.path().display();
    let count = match problems.len() {
        1 => "an error".into(),
        count => format!("{count} errors"),
    };
    // Nobody is left to tell if standard error is gone.
    let _ = writeln!(io::stderr(), "{}", file.report(problems));
    format!("{path} has {count}")
}

/// What is wrong with a value that looks right, at the key that sets it.
fn at_key(config: &Config, key: &str, why: &Failure) -> Problem {
    match config.setting(key) {
        Some(setting) => Problem::at(setting.place.clone(), why.to_string(), String::new()),
        None => Problem::of_file(why.to_string()),
    }
}

fn as_words(setting: &Setting) -> impl Iterator<Item = OsString> {
    setting.values.iter().map(|value| match (&*setting.key, &value.text) {
        (ROOT, Some(folder)) => folder.into(),
        (key, Some(text)) => format!("--{key}={text}").into(),
        (key, None) => format!("--{key}").into(),
    })
}

#[cfg(test)]
mod tests;
