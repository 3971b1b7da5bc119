//! `--config FILE`, `flash check` and `flash schema`: the configuration file becomes words of a command line.
//!
//! A key of the file is a flag of the same name. The words of the file come first, and leave out what the command line says
//! itself. So the parser of flags reads both, and flags win. [`flash_config`] knows the form of the file. A reload reads the
//! command line and the file again.

use std::cell::RefCell;
use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::ArgMatches;
use clap::parser::ValueSource;
use flash_config::{Config, Files, Keys, Open, PlaceName as Name, Problem, Setting, Site, Stands};
use flash_core::printable::printable_lines;
use flash_core::site::places::{PlaceName, PlaceNames};
use flash_trust::Purpose;

use crate::failure::Failure;
use crate::flags::{self, Command, Flags, OfFile, RulesOfFile, Serve, SiteOfFile};
use crate::serve::{self, Again, Check, Fault, Findings, Reader};
use crate::start_folder::absolute;

use inherit::names_of;
use keys::{ACME, PROXY, ROOT, TLS, UPSTREAM, id};

mod directives;
mod in_place;
mod inherit;
mod keys;
mod private_places;

/// A file that was read, and what it sets.
struct Loaded {
    files: Files,
    config: Config,
}

/// Reads the command line of this process with what another process has found in the file.
fn read_in_place(of_file: &[u8]) -> Result<Box<Serve>, String> {
    let flags = Flags::read_with_file(std::env::args_os(), |path, _| {
        let why = || Failure::Run(format!("what was read in {} makes no sense", path.display()));
        in_place::decode(of_file).ok_or_else(why)
    });
    match flags.map(|flags| flags.command) {
        Ok(Some(Command::Serve(flags))) => Ok(flags),
        Ok(_) => Err("the command line is no longer one of flash serve".into()),
        Err(failure) => Err(failure.to_string()),
    }
}

/// How a server reads its configuration again.
pub(crate) const READER: Reader = Reader { again: read_again, in_place: read_in_place };

/// Reads a command line, and the file that it names. Prints the errors of the file.
pub(crate) fn read(words: impl IntoIterator<Item = OsString>) -> Result<Flags, Failure> {
    Flags::read_with_file(words, |path, given| of_file(path, given, open_to_serve, &print))
}

/// The flags of `flash serve` with this file, for commands that only look at them.
pub(crate) fn look(path: &Path) -> Result<Box<Serve>, Failure> {
    let words = ["flash".into(), "serve".into(), "--config".into(), path.into()];
    let flags = Flags::read_with_file(words, |path, given| of_file(path, given, open_to_look, &print))?;
    match flags.command {
        Some(Command::Serve(flags)) => Ok(flags),
        _ => unreachable!("these words are those of flash serve"),
    }
}

/// The same of a file with problems, as far as they leave something to look at.
fn look_past_problems(path: &Path) -> Option<Box<Serve>> {
    let words = ["flash".into(), "serve".into(), "--config".into(), path.into()];
    let flags = Flags::read_with_file(words, |path, _| {
        let keys = keys::of_flags();
        let (loaded, _) = load(path, open_to_look, &keys)?;
        match loaded.config.without_root(&keys) {
            None => Ok(flags_of(&keys, &loaded)),
            Some(problem) => Err(Failure::Usage(problem.message)),
        }
    });
    match flags.ok()?.command {
        Some(Command::Serve(flags)) => Some(flags),
        _ => None,
    }
}

fn open_to_serve(path: &Path) -> io::Result<File> {
    flash_trust::open_configuration(path, Purpose::Serve)
}

fn open_to_look(path: &Path) -> io::Result<File> {
    flash_trust::open_configuration(path, Purpose::Look)
}

/// Reads the command line of this process again, for a reload. `check` finds what is wrong with values that look right, each at its key.
///
/// # Errors
/// Everything that is wrong, as `flash check` prints it.
fn read_again(check: &Check<'_>) -> Result<Again, String> {
    let (errors, encoded) = (RefCell::new(String::new()), RefCell::new(Vec::new()));
    let flags = Flags::read_with_file(std::env::args_os(), |path, given| {
        let of_file = of_file(path, given, open_to_serve, &|text| errors.borrow_mut().push_str(text))?;
        encoded.replace(in_place::encode(&of_file));
        Ok(of_file)
    });
    let errors = errors.into_inner();
    let flags = match flags.map(|flags| flags.command) {
        Ok(Some(Command::Serve(flags))) => flags,
        Ok(_) => return Err("the command line is no longer one of flash serve".into()),
        Err(failure) => return Err(format!("{errors}{failure}")),
    };
    let wrong = check(&flags);
    if wrong.is_empty() {
        return Ok(Again { flags, of_file: encoded.into_inner() });
    }
    let Some(path) = &flags.config else {
        return Err(wrong.iter().map(|fault| fault.failure.to_string()).collect::<Vec<_>>().join("\n"));
    };
    let (Loaded { files, config }, _) =
        load(path, open_to_serve, &keys::of_flags()).map_err(|failure| failure.to_string())?;
    let mut problems: Vec<_> = wrong.iter().map(|fault| problem(&config, fault)).collect();
    problems.dedup();
    Err(format!("{}{}", report(&files, &problems), count(&files, &problems)))
}

/// The value of a key of the server, if the file has it. What else is in the file may be wrong.
pub(crate) fn value_of(path: &Path, key: &str) -> Result<Option<String>, Failure> {
    let (Loaded { config, .. }, _) = load(path, open_to_look, &keys::of_flags())?;
    Ok(config.setting(key).and_then(|setting| setting.values.first()?.text.clone()))
}

/// What a file adds to a command line, which clap has understood as `given`. `tell` takes its errors.
fn of_file(path: &Path, given: &ArgMatches, open: Open, tell: &dyn Fn(&str)) -> Result<OfFile, Failure> {
    let keys = keys::of_flags();
    let (Loaded { files, mut config }, mut problems) = load(path, open, &keys)?;
    leave_given(&keys, &mut config, given);
    let is_given = |id: &str| given.value_source(id) == Some(ValueSource::CommandLine);
    if problems.is_empty() && !is_given(&id(ROOT)) {
        problems.extend(config.without_root(&keys));
    }
    let (is_right, missing) = (problems.is_empty(), config.check());
    problems.extend(missing);
    if !problems.is_empty() {
        tell(&report(&files, &problems));
        let count = count(&files, &problems);
        // What is missing may come later, as a mount does.
        return Err(if is_right { Failure::Run(count) } else { Failure::Usage(count) });
    }
    if is_given(&id(ROOT)) && !config.sites.is_empty() {
        return Err(Failure::Usage(format!(
            "{} has sites, each with its root: leave DIR out",
            path.display()
        )));
    }
    Ok(flags_of(&keys, &Loaded { files, config }))
}

/// What the command line says itself is left out.
fn leave_given(keys: &Keys, config: &mut Config, given: &ArgMatches) {
    let is_given = |id: &str| given.value_source(id) == Some(ValueSource::CommandLine);
    let is_left = |setting: &Setting| !names_of(keys, setting).any(|name| is_given(&id(name)));
    config.settings.retain(is_left);
    for site in &mut config.sites {
        let places = site.places.iter_mut().map(|place| &mut place.settings);
        for settings in [&mut site.settings].into_iter().chain(places) {
            settings.retain(|setting| setting.key == ROOT || is_left(setting));
        }
    }
}

/// The words of a file.
fn flags_of(keys: &Keys, Loaded { files, config }: &Loaded) -> OfFile {
    let (mut known_names, mut words) = (HashSet::new(), KnownWords::default());
    let mut site = |site: &Site| {
        let names = names_of_places(site);
        let names = known_names.get(&names).map(Arc::clone).unwrap_or_else(|| {
            let names = Arc::new(names);
            known_names.insert(Arc::clone(&names));
            names
        });
        let own_root = site.settings.iter().find(|setting| setting.key == ROOT).and_then(folder);
        let mut rules = |place| {
            let settings = inherit::settings(keys, &config.settings, site, &names, place);
            words.rules(&settings, own_root.as_ref())
        };
        SiteOfFile {
            hosts: site.hosts.iter().cloned().map(flags::host_name).collect(),
            own: rules(PlaceName::default()),
            places: names.pairs().map(&mut rules).collect(),
            names,
        }
    };
    OfFile {
        words: config.settings.iter().flat_map(as_words).collect(),
        sites: config.sites.iter().map(&mut site).collect(),
        environment: files.variables(),
        files: files.all().iter().map(|file| absolute(file.path())).collect(),
    }
}

/// The words of all sites and places so far. Most of many have equal ones, and share them.
#[derive(Default)]
struct KnownWords(HashSet<Arc<[OsString]>>);

impl KnownWords {
    /// Settings that hold for a site or a place become words, and a folder, which often is that of the site.
    fn rules(&mut self, settings: &[Setting], of_site: Option<&Arc<Path>>) -> RulesOfFile {
        let root = settings.iter().find(|setting| setting.key == ROOT).and_then(folder);
        let root = root.map(|root| of_site.filter(|of_site| **of_site == root).map_or(root, Arc::clone));
        let is_word = |setting: &&Setting| setting.key != ROOT;
        let of_files = settings.iter().filter(is_word).filter(|setting| keys::is_of_files(&setting.key));
        let of_files = self.shared(of_files.flat_map(as_words).collect());
        let words = self.shared(settings.iter().filter(is_word).flat_map(as_words).collect());
        RulesOfFile { root, words, of_files }
    }

    fn shared(&mut self, words: Vec<OsString>) -> Arc<[OsString]> {
        if let Some(known) = self.0.get(&words[..]) {
            return Arc::clone(known);
        }
        let words: Arc<[OsString]> = words.into();
        self.0.insert(Arc::clone(&words));
        words
    }
}

/// Where the places of a site are.
fn names_of_places(site: &Site) -> PlaceNames {
    let (mut exact, mut prefixes, mut suffixes) = (Vec::new(), Vec::new(), Vec::new());
    for place in &site.places {
        match &place.name {
            Name::Exact(path) => exact.push(path.as_bytes().into()),
            Name::Below(path) => prefixes.push(path.as_bytes().into()),
            Name::Ends(end) => suffixes.push(end.as_bytes().into()),
        }
    }
    PlaceNames::new(exact, prefixes, suffixes)
}

/// Without `.` in it: programs are told of it.
fn folder(root: &Setting) -> Option<Arc<Path>> {
    let folder = root.values.first()?.text.as_ref()?;
    Some(Path::new(folder).components().collect::<PathBuf>().into())
}

/// `flash check`. Warnings are no errors: a server with them starts.
pub(crate) fn check(path: &Path) -> Result<(), Failure> {
    let (Loaded { files, config }, mut problems) = load(path, open_to_look, &keys::of_flags())?;
    // A key that was not understood may be what a listener lacks, and folders that are missing are said here.
    let mut said = if problems.is_empty() { Vec::new() } else { serve::OF_LISTENERS.to_vec() };
    let missing = config.check();
    said.extend((!missing.is_empty()).then_some(ROOT));
    problems.extend(missing);
    let flags = if problems.is_empty() { Some(look(path)?) } else { look_past_problems(path) };
    let mut would_ask = Vec::new();
    if let Some(flags) = flags {
        let Findings { errors, warnings, notes } = serve::check(&flags);
        let errors = errors.iter().filter(|fault| !said.contains(&fault.key));
        problems.extend(errors.map(|fault| problem(&config, fault)));
        problems.extend(warnings.iter().map(|fault| problem(&config, fault).into_warning()));
        problems.extend(untrusted(&files));
        // Sites may share what is wrong.
        problems = problems.into_iter().fold(Vec::new(), |mut known, problem| {
            if !known.contains(&problem) {
                known.push(problem);
            }
            known
        });
        would_ask = notes;
    }
    if !problems.is_empty() {
        print(&report(&files, &problems));
    }
    let count = count(&files, &problems);
    match problems.iter().all(|problem| problem.is_warning) {
        true => {
            let notes: String = would_ask.into_iter().map(|note| note + "\n").collect();
            flash_cli::print(format!("{notes}{count}\n").as_bytes())
        }
        false => Err(Failure::Usage(count)),
    }
}

/// What a server that another user starts reads, and one that root starts does not.
fn untrusted(files: &Files) -> impl Iterator<Item = Problem> {
    files.all().iter().filter_map(|file| {
        let why = open_to_serve(&absolute(file.path())).err()?;
        let place = file.path().display();
        let message = format!("a server that root starts does not read {place}: {why}");
        Some(Problem::of_file(message).into_warning())
    })
}

/// The settings of a file for explanations, each with its line.
pub(crate) struct Explained {
    keys: Keys,
    loaded: Loaded,
    pub(crate) flags: Arc<Serve>,
}

/// A name of the file or one of its keys, with its value and its line.
#[derive(PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) text: String,
    pub(crate) at: String,
}

impl Explained {
    /// # Errors
    /// The file is wrong, as [`check`] says.
    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        let flags = look(path)?;
        let keys = keys::of_flags();
        let (loaded, _) = load(path, open_to_look, &keys)?;
        Ok(Self { keys, loaded, flags: flags.into() })
    }

    /// The names of the site and of the parts of the place, and the rules that hold there.
    pub(crate) fn lines(&self, site: usize, pair: Option<usize>) -> (Vec<Line>, Vec<Line>) {
        let Loaded { files, config } = &self.loaded;
        let line = |text: String, location| Line { text, at: files.line(location) };
        let Some(site) = config.sites.get(site) else {
            let rules = config.settings.iter().filter(|setting| self.is_rule(setting));
            return (Vec::new(), rules.map(|rule| line(shown(rule), &rule.place)).collect());
        };
        let names = names_of_places(site);
        let name = pair.and_then(|pair| names.pairs().nth(pair)).unwrap_or_default();
        let places = inherit::places(site, name).into_iter().flatten();
        let host = site.hosts.first().map(|host| host.to_string()).unwrap_or_default();
        let named = places.map(|place| line(place.name.to_string(), &place.place));
        let named = [line(host, &site.place)].into_iter().chain(named).collect();
        let mut rules = inherit::settings(&self.keys, &config.settings, site, &names, name);
        rules.retain(|setting| self.is_rule(setting));
        keep_used_upstreams(&mut rules);
        // A table may have values of several places.
        let rules = rules.iter().map(|rule| line(shown(rule), &rule.place));
        (named, rules.collect())
    }

    fn is_rule(&self, setting: &Setting) -> bool {
        self.keys.get(&setting.key).is_some_and(|key| key.stands > Stands::Server)
    }
}

/// Of all upstreams, those alone that are asked there.
fn keep_used_upstreams(rules: &mut Vec<Setting>) {
    let proxy = rules.iter().filter(|setting| setting.key == PROXY).flat_map(|setting| &setting.values);
    let used: Vec<String> = proxy.filter_map(|value| value.text.clone()).collect();
    rules.retain_mut(|setting| {
        let is_used = |text: &str| used.iter().any(|name| text.split(' ').next() == Some(name));
        let is_upstreams = setting.key == UPSTREAM;
        setting.values.retain(|value| !is_upstreams || value.text.as_deref().is_some_and(is_used));
        !is_upstreams || !setting.values.is_empty()
    });
}

/// A setting as `KEY = VALUES`.
fn shown(setting: &Setting) -> String {
    let texts = setting.values.iter().map(|value| value.text.as_deref().unwrap_or("true"));
    // A list that stands here has lines.
    let values: Vec<&str> = texts.flat_map(str::lines).collect();
    let values = if values.is_empty() { "false".to_owned() } else { values.join(", ") };
    format!("{} = {values}", setting.key)
}

/// `flash schema`.
pub(crate) fn print_schema() -> Result<(), Failure> {
    flash_cli::print(flash_config::schema(&keys::of_flags()).as_bytes())
}

fn load(path: &Path, open: Open, keys: &Keys) -> Result<(Loaded, Vec<Problem>), Failure> {
    let mut files = Files::read(path, &absolute(path), open)
        .map_err(|error| Failure::Usage(format!("cannot read {}: {error}", path.display())))?;
    let (mut config, mut problems) = Config::parse(&mut files, keys);
    problems.extend(private_places::add(&mut config));
    Ok((Loaded { files, config }, problems))
}

/// The errors with their lines. A part of the files may be of people whom nobody asked what a terminal obeys.
fn report(files: &Files, problems: &[Problem]) -> String {
    printable_lines(&files.report(problems))
}

/// Prints the errors of files.
fn print(report: &str) {
    // Nobody is left to tell if standard error is gone.
    let _ = writeln!(io::stderr(), "{report}");
}

/// How many errors and warnings there are, for the last line.
fn count(files: &Files, problems: &[Problem]) -> String {
    let warnings = problems.iter().filter(|problem| problem.is_warning).count();
    let named = |count, one: &str, what: &str| match count {
        1 => one.to_owned(),
        count => format!("{count} {what}s"),
    };
    let errors = match problems.len() - warnings {
        0 => "no errors".into(),
        errors => named(errors, "an error", "error"),
    };
    let and = if warnings == 0 {
        String::new()
    } else {
        format!(" and {}", named(warnings, "a warning", "warning"))
    };
    format!("{} has {errors}{and}", files.first().path().display())
}

/// What is wrong with a value that looks right: at the key that sets it, or at the site or place that inherits it.
fn problem(config: &Config, Fault { key, site, failure }: &Fault) -> Problem {
    let is_key = |setting: &&Setting| setting.key == *key;
    let at_name = || {
        let (site, place) = (*site)?;
        let (site, pair) = (config.sites.get(site)?, place);
        let names = names_of_places(site);
        let name = pair.and_then(|pair| names.pairs().nth(pair)).unwrap_or_default();
        let places = inherit::places(site, name).into_iter().rev().flatten();
        let of_key = places.clone().flat_map(|place| &place.settings).chain(&site.settings).find(is_key);
        let name = places.map(|place| &place.place).next().unwrap_or(&site.place);
        // A certificate is the same in all sites that inherit it.
        let of_all = || config.setting(key).filter(|_| *key == TLS);
        Some(of_key.or_else(of_all).map_or(name, |setting| &setting.place))
    };
    match at_name().or_else(|| config.setting(key).map(|setting| &setting.place)) {
        Some(place) => Problem::at(place.clone(), failure.to_string(), String::new()),
        None => Problem::of_file(failure.to_string()),
    }
}

fn as_words(setting: &Setting) -> impl Iterator<Item = OsString> {
    setting.values.iter().map(|value| match (&*setting.key, &value.text) {
        (ROOT, Some(folder)) => folder.into(),
        (TLS, Some(text)) if text == ACME => format!("--{ACME}={}", flags::HOSTS_OF_SITE).into(),
        // The certificate, or its key.
        (TLS, Some(text)) => format!("--{TLS}-{text}").into(),
        (key, Some(text)) => format!("--{key}={text}").into(),
        (key, None) => format!("--{key}").into(),
    })
}

#[cfg(test)]
mod tests;
