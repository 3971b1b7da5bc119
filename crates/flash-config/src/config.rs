//! What a file sets: its settings as the flags would give them.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Range;
use std::path::PathBuf;

use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use crate::kind::name_of;
use crate::{File, Host, Key, Keys, Kind, Problem, document, key};

/// The file, understood. It never changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    pub settings: Vec<Setting>,
    /// In the order of the file. None if the file is of one site.
    pub sites: Vec<Site>,
}

/// A site with names of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    pub hosts: Vec<Host>,
    pub settings: Vec<Setting>,
}

/// The table of sites, and the key of a site's further names.
const SITE: &str = "site";
const NAMES: &str = "names";
const ROOT: &str = "root";

/// One key with its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The key's name, whichever of its names the file has.
    pub key: String,
    /// One for each time that the flag would be given. None for a switch that is off.
    pub values: Vec<Value>,
    /// The key in the file.
    pub place: Range<usize>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    /// In the form of the flag. `None` for a switch that is on.
    pub text: Option<String>,
    /// The value in the file.
    pub place: Range<usize>,
    /// The folder that it names.
    folder: Option<PathBuf>,
}

impl Config {
    /// The settings that are right, and everything that is wrong.
    pub fn parse(file: &File, keys: &Keys) -> (Config, Vec<Problem>) {
        let (table, syntax) = document::parse(file);
        let mut reader = Reader { file, keys, problems: Vec::new(), hosts: HashMap::new() };
        let (settings, sites) = reader.server(table.get_ref());
        let problems = document::without_consequences(file, syntax, reader.problems);
        (Config { settings, sites }, problems)
    }

    /// What the disk lacks: folders.
    pub fn check(&self) -> Vec<Problem> {
        let of_sites = self.sites.iter().flat_map(|site| &site.settings);
        let values = self.settings.iter().chain(of_sites).flat_map(|setting| &setting.values);
        let missing = |value: &Value| {
            let folder = value.folder.as_ref()?;
            let why = match std::fs::metadata(folder) {
                Ok(found) if found.is_dir() => return None,
                Ok(_) => "it is not a folder".to_owned(),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                    "there is no such folder".into()
                }
                Err(error) => error.to_string(),
            };
            Some(Problem::at(value.place.clone(), format!("cannot use {}", folder.display()), why))
        };
        values.filter_map(missing).collect()
    }

    pub fn setting(&self, key: &str) -> Option<&Setting> {
        self.settings.iter().find(|setting| setting.key == key)
    }
}

struct Reader<'a> {
    file: &'a File,
    keys: &'a Keys,
    problems: Vec<Problem>,
    /// The hosts of all sites so far, each with the name of its site.
    hosts: HashMap<Host, String>,
}

type Pair<'t, 'v> = (&'t Spanned<DeString<'v>>, &'t Spanned<DeValue<'v>>);

/// In the order of the file.
fn in_order<'t, 'v>(table: &'t DeTable<'v>) -> Vec<Pair<'t, 'v>> {
    let mut pairs: Vec<_> = table.iter().collect();
    pairs.sort_by_key(|(name, _)| name.span().start);
    pairs
}

impl Reader<'_> {
    /// The settings of the server, and its sites.
    fn server(&mut self, table: &DeTable<'_>) -> (Vec<Setting>, Vec<Site>) {
        let (sites, pairs): (Vec<_>, Vec<_>) =
            in_order(table).into_iter().partition(|(name, _)| name.get_ref() == SITE);
        let settings = self.settings(pairs, |_| true);
        let Some((_, sites)) = sites.first() else { return (settings, Vec::new()) };
        let DeValue::Table(table) = sites.get_ref() else {
            let label = format!("this is {}", name_of(sites.get_ref()));
            self.problem(
                sites.span(),
                "`site` takes a table for each site, such as [site.\"example.org\"]".into(),
                label,
            );
            return (settings, Vec::new());
        };
        if let Some(root) = settings.iter().find(|setting| setting.key == ROOT) {
            let label = "each site has its own".to_owned();
            self.problem(root.place.clone(), "`root` stands in a site here".into(), label);
        }
        let sites = in_order(table).into_iter().filter_map(|(name, site)| self.site(name, site)).collect();
        (settings, sites)
    }

    fn site(&mut self, name: &Spanned<DeString<'_>>, site: &Spanned<DeValue<'_>>) -> Option<Site> {
        let DeValue::Table(table) = site.get_ref() else {
            let label = format!("this is {}", name_of(site.get_ref()));
            self.problem(site.span(), "a site is a table".into(), label);
            return None;
        };
        let (names, pairs): (Vec<_>, Vec<_>) =
            in_order(table).into_iter().partition(|(name, _)| name.get_ref() == NAMES);
        let own = name.get_ref();
        let mut hosts: Vec<Host> = self.host(own, own, name.span()).into_iter().collect();
        for value in names.iter().flat_map(|(_, names)| match names.get_ref() {
            DeValue::Array(names) => names.iter().collect(),
            _ => vec![*names],
        }) {
            match value.get_ref() {
                DeValue::String(text) => hosts.extend(self.host(own, text, value.span())),
                other => {
                    let label = format!("this is {}", name_of(other));
                    self.problem(value.span(), "`names` takes hosts in quotes".into(), label);
                }
            }
        }
        let settings = self.settings(pairs, |key| key.in_site);
        if !table.iter().any(|(key, _)| key.get_ref() == ROOT) {
            self.problem(name.span(), "a site needs its `root`".into(), "its folder is not said".into());
        }
        Some(Site { hosts, settings })
    }

    /// A host of this site, which no other name has.
    fn host(&mut self, site: &str, text: &str, place: Range<usize>) -> Option<Host> {
        match Host::parse(text) {
            Ok(host) => match self.hosts.entry(host.clone()) {
                Entry::Vacant(entry) => {
                    entry.insert(site.to_owned());
                    return Some(host);
                }
                Entry::Occupied(entry) => {
                    let label = format!("[site.\"{}\"] has it already", entry.get());
                    self.problem(place, format!("two sites with the name {text}"), label);
                }
            },
            Err(why) => self.problem(place, format!("`{}` is no host", text.escape_debug()), why),
        }
        None
    }

    fn settings(&mut self, pairs: Vec<Pair<'_, '_>>, may_stand: impl Fn(&Key) -> bool) -> Vec<Setting> {
        let mut settings: Vec<Setting> = Vec::new();
        for (name, value) in pairs {
            let (keys, place) = (self.keys, name.span());
            let Some(key) = keys.get(name.get_ref()) else {
                let advice = keys.advice(name.get_ref());
                self.problem(place, format!("unknown key `{}`", name.get_ref().escape_debug()), advice);
                continue;
            };
            if !may_stand(key) {
                let message = format!("`{}` holds for the whole server", key.name);
                self.problem(place, message, "write it above the first [site]".into());
                continue;
            }
            let other = settings.iter().find(|set| set.key == key.name || key.conflicts.contains(&set.key));
            if let Some(other) = other {
                let message = format!("`{}` and `{}` cannot both be set", other.key, name.get_ref());
                self.problem(place, message, format!("`{}` is set already", other.key));
                continue;
            }
            let values = self.values(key, value);
            settings.push(Setting { key: key.name.clone(), values, place });
        }
        settings
    }

    fn values(&mut self, key: &Key, value: &Spanned<DeValue<'_>>) -> Vec<Value> {
        match (&key.kind, value.get_ref()) {
            (Kind::Switch, DeValue::Boolean(true)) => {
                vec![Value { text: None, place: value.span(), folder: None }]
            }
            (Kind::Switch, DeValue::Boolean(false)) => Vec::new(),
            (Kind::Table { separator, value: kind, is_list }, DeValue::Table(pairs)) => {
                let mut values = Vec::new();
                for (name, value) in in_order(pairs) {
                    let before = format!("{}{separator}", name.get_ref());
                    values.extend(self.list(key, kind, *is_list, &before, value));
                }
                values
            }
            (kind, _) => self.list(key, kind, key.is_list, "", value),
        }
    }

    /// One value, or several in a list where that is possible.
    fn list(
        &mut self,
        key: &Key,
        kind: &Kind,
        is_list: bool,
        before: &str,
        value: &Spanned<DeValue<'_>>,
    ) -> Vec<Value> {
        match value.get_ref() {
            DeValue::Array(values) if is_list => {
                values.iter().filter_map(|value| self.value(key, kind, before, value)).collect()
            }
            _ => self.value(key, kind, before, value).into_iter().collect(),
        }
    }

    fn value(&mut self, key: &Key, kind: &Kind, before: &str, value: &Spanned<DeValue<'_>>) -> Option<Value> {
        let Some(text) = kind.text(value.get_ref(), self.file) else {
            let (name, label) = (&key.name, format!("this is {}", name_of(value.get_ref())));
            self.problem(value.span(), format!("`{name}` takes {}", kind.expected()), label);
            return None;
        };
        if let Kind::Choice(words) = kind
            && !words.contains(&text)
        {
            let label = key::nearest(&text, words.iter().map(String::as_str))
                .map_or_else(String::new, |word| format!("did you mean \"{word}\"?"));
            self.problem(value.span(), format!("`{}` takes {}", key.name, kind.expected()), label);
            return None;
        }
        let folder = (*kind == Kind::Folder).then(|| PathBuf::from(&text));
        let text = format!("{before}{text}");
        if let Err(why) = (key.validate)(&text) {
            self.problem(value.span(), format!("a wrong value of `{}`", key.name), why);
            return None;
        }
        Some(Value { text: Some(text), place: value.span(), folder })
    }

    fn problem(&mut self, place: Range<usize>, message: String, label: String) {
        self.problems.push(Problem::at(place, message, label));
    }
}

#[cfg(test)]
mod tests;
