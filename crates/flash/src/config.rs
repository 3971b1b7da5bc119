//! `--config FILE`, `flash check` and `flash schema`: the configuration file becomes words of a command line.
//!
//! A key of the file is a flag of the same name. The words of the file come first, and leave out what the command line says
//! itself. So the parser of flags reads both, and flags win. [`flash_config`] knows the form of the file.

use std::ffi::OsString;
use std::path::Path;

use clap::ArgMatches;
use clap::parser::ValueSource;
use flash_config::{Config, File, Keys, Problem, Setting};

use crate::failure::Failure;
use crate::flags::{Command, Flags};
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

/// The words that a file adds to a command line, which clap has understood as `given`.
fn of_file(path: &Path, given: &ArgMatches) -> Result<Vec<OsString>, Failure> {
    let keys = keys::of_flags();
    let (Loaded { file, mut config }, mut problems) = load(path, &keys)?;
    let is_given = |id: &str| given.value_source(id) == Some(ValueSource::CommandLine);
    config.settings.retain(|setting| {
        let conflicts = keys.get(&setting.key).map(|key| &key.conflicts[..]).unwrap_or_default();
        ![&setting.key].into_iter().chain(conflicts).any(|name| is_given(&id(name)))
    });
    let (is_right, missing) = (problems.is_empty(), config.check());
    problems.extend(missing);
    if !problems.is_empty() {
        let report = report(&file, &problems);
        // What is missing may come later, as a mount does.
        return Err(if is_right { Failure::Run(report) } else { Failure::Usage(report) });
    }
    Ok(config.settings.iter().flat_map(as_words).collect())
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

/// How many problems there are, and below that each of them.
fn report(file: &File, problems: &[Problem]) -> String {
    let path = file.path().display();
    let count = match problems.len() {
        1 => "an error".into(),
        count => format!("{count} errors"),
    };
    format!("{path} has {count}\n\n{}", file.report(problems).trim_end())
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
