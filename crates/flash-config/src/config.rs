//! What a file sets: its settings as the flags would give them.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Range;
use std::path::PathBuf;

use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use crate::key::ROOT;
use crate::kind::{Named, name_of};
use crate::{
    File, Files, Host, Key, Keys, Kind, Location, PlaceName, Problem, Stands, document, include, key, secret,
};

/// The file, understood. It never changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    pub settings: Vec<Setting>,
    /// In the order of the file. None if the file is of one site.
    pub sites: Vec<Site>,
    /// Places of all sites, until each site has them.
    places: Vec<Place>,
    /// The first key of the file that announces sites.
    announced: Option<Location>,
}

/// A site with names of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    pub hosts: Vec<Host>,
    pub settings: Vec<Setting>,
    pub places: Vec<Place>,
    /// Its name in the file.
    pub place: Location,
}

/// A part of a site's names, with settings of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub name: PlaceName,
    pub settings: Vec<Setting>,
    /// Its name in the file.
    pub place: Location,
    /// It is a place of all sites, which its site does not name.
    pub is_shared: bool,
}

/// The table of places of all sites.
const PLACE: &str = "place";
/// The table of sites, and the key of a site's further names.
const SITE: &str = "site";
const NAMES: &str = "names";
/// The key of patterns of further files.
const INCLUDE: &str = "include";

/// One key with its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The key's name, whichever of its names the file has.
    pub key: String,
    /// One for each time that the flag would be given. None for a switch that is off.
    pub values: Vec<Value>,
    /// The key in the file.
    pub place: Location,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    /// In the form of the flag. `None` for a switch that is on.
    pub text: Option<String>,
    /// The value in the file.
    pub place: Location,
    /// The folder that it names.
    folder: Option<PathBuf>,
}

impl Setting {
    /// A setting that a value of another one implies, at the place of that value.
    pub fn implied(key: &str, text: Option<String>, by: &Value) -> Setting {
        let folder = text.as_ref().filter(|_| key == ROOT).map(PathBuf::from);
        let value = Value { text, place: by.place.clone(), folder };
        Setting { key: key.into(), values: vec![value], place: by.place.clone() }
    }
}

impl Config {
    /// The settings that are right, and everything that is wrong. Reads the files that the first one includes.
    pub fn parse(files: &mut Files, keys: &Keys) -> (Config, Vec<Problem>) {
        let (mut config, mut hosts) = (Config::default(), HashMap::new());
        let mut include = Vec::new();
        let mut problems = read(files.get(0), 0, keys, &mut hosts, |reader, table| {
            include = reader.server(table, &mut config);
        });
        for (pattern, place) in include {
            let folder = files.first().absolute(&pattern);
            let found = include::files(&folder, files).unwrap_or_else(|why| {
                problems.push(Problem::at(place, format!("cannot include {pattern}"), why));
                Vec::new()
            });
            for file in found {
                let number = files.add(file);
                problems.extend(read(files.get(number), number, keys, &mut hosts, |reader, table| {
                    reader.included(table, &mut config);
                }));
            }
        }
        problems.extend(config.share_places());
        if let (Some(root), false) = (config.setting(ROOT), config.sites.is_empty()) {
            let (place, label) = (root.place.clone(), "each site has its own".to_owned());
            problems.push(Problem::at(place, "`root` stands in a site here".into(), label));
        }
        (config, problems)
    }

    /// Gives each site the places of all sites. What a site sets in a place of the same name wins.
    fn share_places(&mut self) -> Option<Problem> {
        let places = std::mem::take(&mut self.places);
        if let (Some(place), true) = (places.first(), self.sites.is_empty()) {
            let message = "a place needs a site".to_owned();
            return Some(Problem::at(
                place.place.clone(),
                message,
                "write [site.\"*\"] for all hosts".into(),
            ));
        }
        for site in &mut self.sites {
            for shared in &places {
                match site.places.iter_mut().find(|own| own.name == shared.name) {
                    None => site.places.push(Place { is_shared: true, ..shared.clone() }),
                    Some(own) => {
                        let is_set = |key: &str| own.settings.iter().any(|own| own.key == key);
                        let added = shared.settings.iter().filter(|shared| !is_set(&shared.key));
                        let added: Vec<_> = added.cloned().collect();
                        own.settings.extend(added);
                    }
                }
            }
        }
        None
    }

    /// What a file lacks that leads to no folder. The flag's default is the folder that the server was started in, which may be `/`
    /// and which nobody has asked for.
    pub fn without_root(&self, keys: &Keys) -> Option<Problem> {
        let answers = |setting: &Setting| keys.get(&setting.key).is_some_and(|key| key.answers);
        let is_led =
            |setting: &Setting| setting.key == ROOT || answers(setting) && !setting.values.is_empty();
        if !self.sites.is_empty() || self.settings.iter().any(is_led) {
            return None;
        }
        let message = "there is no site, and no `root`";
        Some(match &self.announced {
            Some(place) => Problem::at(place.clone(), message.into(), "no site came of this".into()),
            None => Problem::of_file(format!("{message}: write `root = \"FOLDER\"`")),
        })
    }

    /// What the disk lacks: folders.
    pub fn check(&self) -> Vec<Problem> {
        let sites = self.sites.iter();
        let tables = sites.flat_map(|site| {
            [&site.settings].into_iter().chain(site.places.iter().map(|place| &place.settings))
        });
        let values = [&self.settings].into_iter().chain(tables).flatten().flat_map(|setting| &setting.values);
        let missing = |value: &Value| {
            let folder = value.folder.as_ref()?;
            let why = match std::fs::metadata(folder) {
                Ok(found) if found.is_dir() => return None,
                Ok(_) => "it is not a folder".to_owned(),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                    "there is no such folder".into()
                }
                Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
                    "this user may not look there (permission denied)".into()
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
    /// The file's number.
    number: usize,
    keys: &'a Keys,
    problems: Vec<Problem>,
    /// The hosts of all sites so far, each with its site and where it stands.
    hosts: &'a mut HashMap<Host, String>,
}

/// Reads one file. Returns what is wrong with it.
fn read(
    file: &File,
    number: usize,
    keys: &Keys,
    hosts: &mut HashMap<Host, String>,
    mut tables: impl FnMut(&mut Reader<'_>, &DeTable<'_>),
) -> Vec<Problem> {
    let (table, syntax) = document::parse(file, number);
    let mut reader = Reader { file, number, keys, problems: Vec::new(), hosts };
    tables(&mut reader, table.get_ref());
    document::without_consequences(file, syntax, reader.problems)
}

type Pair<'t, 'v> = (&'t Spanned<DeString<'v>>, &'t Spanned<DeValue<'v>>);

/// In the order of the file.
fn in_order<'t, 'v>(table: &'t DeTable<'v>) -> Vec<Pair<'t, 'v>> {
    let mut pairs: Vec<_> = table.iter().collect();
    pairs.sort_by_key(|(name, _)| name.span().start);
    pairs
}

impl Reader<'_> {
    /// The settings of the server, and its sites. Returns the patterns of files to be included.
    fn server(&mut self, table: &DeTable<'_>, config: &mut Config) -> Vec<(String, Location)> {
        let (include, pairs): (Vec<_>, Vec<_>) =
            in_order(table).into_iter().partition(|(name, _)| name.get_ref() == INCLUDE);
        let (sites, pairs): (Vec<_>, Vec<_>) =
            pairs.into_iter().partition(|(name, _)| name.get_ref() == SITE);
        let (places, pairs): (Vec<_>, Vec<_>) =
            pairs.into_iter().partition(|(name, _)| name.get_ref() == PLACE);
        places.into_iter().for_each(|(_, places)| config.places = self.places_of_all(places));
        config.settings = self.settings(pairs, Stands::Server);
        config.announced = include.iter().chain(&sites).map(|(name, _)| self.location(name.span())).next();
        sites.into_iter().for_each(|(_, sites)| self.sites(sites, config));
        include
            .into_iter()
            .flat_map(|(_, patterns)| self.texts(INCLUDE, "patterns of files", patterns))
            .collect()
    }

    /// The sites of an included file. It may set nothing else.
    fn included(&mut self, table: &DeTable<'_>, config: &mut Config) {
        for (name, value) in in_order(table) {
            match name.get_ref() == SITE {
                true => self.sites(value, config),
                false => {
                    let message = format!("`{}` stands in an included file", name.get_ref().escape_debug());
                    self.problem(name.span(), message, "an included file may define sites only".into());
                }
            }
        }
    }

    fn sites(&mut self, sites: &Spanned<DeValue<'_>>, config: &mut Config) {
        match sites.get_ref() {
            DeValue::Table(table) => {
                let sites = in_order(table).into_iter();
                config.sites.extend(sites.filter_map(|(name, site)| self.site(name, site)));
            }
            other => {
                let label = format!("this is {}", name_of(other));
                let message = "`site` takes a table for each site, such as [site.\"example.org\"]";
                self.problem(sites.span(), message.into(), label);
            }
        }
    }

    fn places_of_all(&mut self, places: &Spanned<DeValue<'_>>) -> Vec<Place> {
        let DeValue::Table(table) = places.get_ref() else {
            let label = format!("this is {}", name_of(places.get_ref()));
            let message = "`place` takes a table for each place of all sites, such as [place.\"/shared\"]";
            self.problem(places.span(), message.into(), label);
            return Vec::new();
        };
        let (places, wrong): (Vec<_>, Vec<_>) =
            in_order(table).into_iter().partition(|(name, _)| PlaceName::is_meant(name.get_ref()));
        for (name, _) in wrong {
            let message = format!("`{}` is no place", name.get_ref().escape_debug());
            self.problem(name.span(), message, "a place begins with a slash, as \"/docs\" does".into());
        }
        self.places(places)
    }

    /// A text, or a list of them.
    fn texts(&mut self, key: &str, what: &str, value: &Spanned<DeValue<'_>>) -> Vec<(String, Location)> {
        let values = match value.get_ref() {
            DeValue::Array(values) => values.iter().collect(),
            _ => vec![value],
        };
        let mut texts = Vec::new();
        for value in values {
            match value.get_ref() {
                DeValue::String(text) => texts.push((text.to_string(), self.location(value.span()))),
                other => {
                    let label = format!("this is {}", name_of(other));
                    self.problem(value.span(), format!("`{key}` takes {what} in quotes"), label);
                }
            }
        }
        texts
    }

    fn site(&mut self, name: &Spanned<DeString<'_>>, site: &Spanned<DeValue<'_>>) -> Option<Site> {
        let DeValue::Table(table) = site.get_ref() else {
            let label = format!("this is {}", name_of(site.get_ref()));
            let message = "a site is a table with its host's name, such as [site.\"www.example.org\"]";
            self.problem(site.span(), message.into(), label);
            return None;
        };
        let (names, pairs): (Vec<_>, Vec<_>) =
            in_order(table).into_iter().partition(|(name, _)| name.get_ref() == NAMES);
        let own = name.get_ref();
        let mut hosts: Vec<Host> = self.host(own, own, name.span()).into_iter().collect();
        for (_, value) in names {
            for (text, place) in self.texts(NAMES, "hosts", value) {
                hosts.extend(self.host(own, &text, place.bytes));
            }
        }
        let (places, pairs): (Vec<_>, Vec<_>) =
            pairs.into_iter().partition(|(name, _)| PlaceName::is_meant(name.get_ref()));
        let settings = self.settings(pairs, Stands::Site);
        let places = self.places(places);
        let is_set = |settings: &[Setting], key: &Key| {
            settings.iter().any(|setting| setting.key == key.name && !setting.values.is_empty())
        };
        let answers = |settings: &[Setting]| self.keys.iter().any(|key| key.answers && is_set(settings, key));
        let has = |settings: &[Setting], name: &str| settings.iter().any(|setting| setting.key == name);
        let has_root = table.iter().any(|(key, _)| key.get_ref() == ROOT);
        if !has_root && !answers(&settings) {
            self.problem(name.span(), "a site needs its `root`".into(), "its folder is not said".into());
        } else if !has_root && !self.keys.iter().any(|key| key.answers_below && is_set(&settings, key)) {
            let lacks = |place: &&Place| !has(&place.settings, ROOT) && !answers(&place.settings);
            let lacking: Vec<_> = places.iter().filter(lacks).map(|place| place.place.clone()).collect();
            for place in lacking {
                let message = "a place needs its `root` where its site has none".into();
                self.problem(place.bytes, message, "its folder is not said".into());
            }
        }
        Some(Site { hosts, settings, places, place: self.location(name.span()) })
    }

    fn places(&mut self, pairs: Vec<Pair<'_, '_>>) -> Vec<Place> {
        let mut places: Vec<Place> = Vec::new();
        for (name, place) in pairs {
            let (text, span) = (name.get_ref(), name.span());
            let DeValue::Table(table) = place.get_ref() else {
                let label = format!("this is {}", name_of(place.get_ref()));
                self.problem(place.span(), "a place is a table, such as { list = true }".into(), label);
                continue;
            };
            let name = match PlaceName::parse(text) {
                Ok(known) if places.iter().any(|place| place.name == known) => {
                    let message = format!("two places with the name {}", text.escape_debug());
                    self.problem(span, message, "the site has it already".into());
                    continue;
                }
                Ok(known) => known,
                Err(why) => {
                    self.problem(span, format!("`{}` is no place", text.escape_debug()), why);
                    continue;
                }
            };
            let settings = self.settings(in_order(table), Stands::Place);
            places.push(Place { name, settings, place: self.location(span), is_shared: false });
        }
        places
    }

    /// A host of this site, which no other name has.
    fn host(&mut self, site: &str, text: &str, place: Range<usize>) -> Option<Host> {
        match text.parse::<Host>() {
            Ok(host) => match self.hosts.entry(host.clone()) {
                Entry::Vacant(entry) => {
                    entry.insert(format!("[site.\"{site}\"] at {}", self.file.line(place.start)));
                    return Some(host);
                }
                Entry::Occupied(entry) => {
                    let label = format!("{} has it already", entry.get());
                    self.problem(place, format!("two sites with the name {text}"), label);
                }
            },
            Err(why) => self.problem(place, format!("`{}` is no host", text.escape_debug()), why),
        }
        None
    }

    fn settings(&mut self, pairs: Vec<Pair<'_, '_>>, stands: Stands) -> Vec<Setting> {
        let mut settings: Vec<Setting> = Vec::new();
        for (name, value) in pairs {
            let (keys, place) = (self.keys, name.span());
            let Some(key) = keys.get(name.get_ref()) else {
                let advice = match value.get_ref() {
                    _ if PlaceName::is_meant(name.get_ref()) => {
                        "a place stands in a [site], beside its keys".into()
                    }
                    DeValue::Table(_) if stands == Stands::Site => {
                        "a place begins with a slash, as \"/docs\" does, or is the end of names, as \"*.css\" is".into()
                    }
                    _ => keys.advice(name.get_ref()),
                };
                self.problem(place, format!("unknown key `{}`", name.get_ref().escape_debug()), advice);
                continue;
            };
            if key.stands < stands {
                let (holds_for, advice) = match key.stands {
                    Stands::Server => ("the whole server", "write it above the first [site]"),
                    Stands::Site | Stands::Place => ("a whole site", "write it above the places of its site"),
                };
                self.problem(place, format!("`{}` holds for {holds_for}", key.name), advice.into());
                continue;
            }
            let is_taken_back = stands != Stands::Server && key.takes_back(value.get_ref());
            let conflicts =
                |set: &&Setting| !is_taken_back && !set.values.is_empty() && key.conflicts.contains(&set.key);
            let other = settings.iter().find(|set| set.key == key.name || conflicts(set));
            if let Some(other) = other {
                let message = format!("`{}` and `{}` cannot both be set", other.key, name.get_ref());
                self.problem(place, message, format!("`{}` is set already", other.key));
                continue;
            }
            let values = if is_taken_back { Vec::new() } else { self.values(key, value) };
            settings.push(Setting { key: key.name.clone(), values, place: self.location(place) });
        }
        settings
    }

    fn values(&mut self, key: &Key, value: &Spanned<DeValue<'_>>) -> Vec<Value> {
        match (&key.kind, value.get_ref()) {
            (Kind::SwitchOr { words, .. }, DeValue::String(text))
                if words.iter().any(|word| word == text) =>
            {
                vec![Value { text: Some(text.to_string()), place: self.location(value.span()), folder: None }]
            }
            (Kind::SwitchOr { names, .. }, DeValue::Table(table)) => {
                self.files(key, names, table, value.span())
            }
            (Kind::SwitchOr { names, .. }, DeValue::Array(tables)) => {
                let mut values = Vec::new();
                for table in tables {
                    match table.get_ref() {
                        DeValue::Table(pairs) => values.extend(self.files(key, names, pairs, table.span())),
                        other => self.wrong_form(key, &key.kind, other, table.span()),
                    }
                }
                values
            }
            (Kind::Switch | Kind::SwitchOr { .. }, DeValue::Boolean(true)) => {
                vec![Value { text: None, place: self.location(value.span()), folder: None }]
            }
            (Kind::Switch | Kind::SwitchOr { .. }, DeValue::Boolean(false)) => Vec::new(),
            (Kind::Table { separator, value: kind, is_list }, DeValue::Table(pairs)) => {
                let mut values = Vec::new();
                for (name, value) in in_order(pairs) {
                    let before = format!("{}{separator}", name.get_ref());
                    values.extend(self.list(key, kind, *is_list, &before, value));
                }
                values
            }
            (Kind::Names(names), DeValue::Table(pairs)) => self.names(key, names, pairs, value.span()),
            (Kind::Tables(names), DeValue::Table(tables)) => {
                let tables = in_order(tables).into_iter();
                tables.filter_map(|(name, table)| self.table(key, names, name, table)).collect()
            }
            (kind, _) => self.list(key, kind, key.takes_list(), "", value),
        }
    }

    /// The values of each name.
    fn names(&mut self, key: &Key, names: &[Named], table: &DeTable<'_>, place: Range<usize>) -> Vec<Value> {
        let (mut values, before) = (Vec::new(), self.problems.len());
        for (name, value) in in_order(table) {
            let Some(named) = self.named(key, names, name) else { continue };
            values.extend(self.list(key, &named.kind, named.is_list, &format!("{}=", named.name), value));
        }
        // Without a value the key would not be set, and without a word.
        if values.is_empty() && self.problems.len() == before {
            self.problem(
                place,
                format!("`{}` takes {}", key.name, key.kind.expected()),
                "it says nothing".into(),
            );
        }
        values
    }

    /// What this name stands for.
    fn named<'n>(
        &mut self,
        key: &Key,
        names: &'n [Named],
        name: &Spanned<DeString<'_>>,
    ) -> Option<&'n Named> {
        let found = names.iter().find(|named| named.name == name.get_ref());
        if found.is_none() {
            let message = format!("unknown key `{}` in `{}`", name.get_ref().escape_debug(), key.name);
            let known = key::nearest(name.get_ref(), names.iter().map(|named| named.name));
            let all = || names.iter().map(|named| named.name).collect::<Vec<_>>().join(", ");
            let advice =
                known.map_or_else(|| format!("it has {}", all()), |known| format!("did you mean `{known}`?"));
            self.problem(name.span(), message, advice);
        }
        found
    }

    /// One of several tables.
    fn table(
        &mut self,
        key: &Key,
        names: &[Named],
        name: &Spanned<DeString<'_>>,
        table: &Spanned<DeValue<'_>>,
    ) -> Option<Value> {
        let DeValue::Table(pairs) = table.get_ref() else {
            self.wrong_form(key, &key.kind, table.get_ref(), table.span());
            return None;
        };
        let before = self.problems.len();
        let mut words = vec![name.get_ref().to_string()];
        for (field, value) in in_order(pairs) {
            if let Some(named) = self.named(key, names, field) {
                words.extend(self.words(key, named, value));
            }
        }
        if self.problems.len() > before {
            return None;
        }
        match self.valid(key, "", words.join(" ")) {
            Ok(text) => Some(Value { text: Some(text), place: self.location(name.span()), folder: None }),
            Err(why) => {
                self.problem(name.span(), format!("a wrong value of `{}`", key.name), why);
                None
            }
        }
    }

    /// The words of a pair: one, or one for each table in it.
    fn words(&mut self, key: &Key, named: &Named, value: &Spanned<DeValue<'_>>) -> Vec<String> {
        let name = named.name;
        match (&named.kind, value.get_ref()) {
            (Kind::Tables(names), DeValue::Table(tables)) => {
                let mut words = Vec::new();
                for (own, table) in in_order(tables) {
                    let DeValue::Table(pairs) = table.get_ref() else {
                        self.wrong_form(key, &named.kind, table.get_ref(), table.span());
                        continue;
                    };
                    let parts = self.parts(key, names, pairs);
                    words.push([vec![format!("{name}={}", own.get_ref())], parts].concat().join(","));
                }
                words
            }
            (Kind::Tables(_), _) => {
                let texts = self.texts(name, "names", value).into_iter();
                texts.map(|(text, _)| format!("{name}={text}")).collect()
            }
            (Kind::Names(names), DeValue::Table(pairs)) => {
                vec![format!("{name}={}", self.parts(key, names, pairs).join(","))]
            }
            (kind, _) => self.part(kind, name, value).into_iter().collect(),
        }
    }

    fn parts(&mut self, key: &Key, names: &[Named], pairs: &DeTable<'_>) -> Vec<String> {
        let mut parts = Vec::new();
        for (name, value) in in_order(pairs) {
            if let Some(named) = self.named(key, names, name) {
                parts.extend(self.part(&named.kind, named.name, value));
            }
        }
        parts
    }

    /// `name=value`, or the name of a switch that is on.
    fn part(&mut self, kind: &Kind, name: &str, value: &Spanned<DeValue<'_>>) -> Option<String> {
        match (kind, value.get_ref()) {
            (Kind::Switch, DeValue::Boolean(is_on)) => is_on.then(|| name.to_owned()),
            (kind, value_of) => match kind.text(value_of, self.file) {
                Some(text) if !text.contains([' ', ',']) => Some(format!("{name}={text}")),
                Some(_) => {
                    self.problem(
                        value.span(),
                        format!("a wrong value of `{name}`"),
                        "it has a space or a comma".into(),
                    );
                    None
                }
                None => {
                    let label = format!("this is {}", name_of(value_of));
                    self.problem(value.span(), format!("`{name}` takes {}", kind.expected()), label);
                    None
                }
            },
        }
    }

    /// A file for each of these names.
    fn files(&mut self, key: &Key, names: &[String], table: &DeTable<'_>, place: Range<usize>) -> Vec<Value> {
        let mut values = Vec::new();
        for (name, value) in in_order(table) {
            match names.iter().any(|known| known == name.get_ref()) {
                true => {
                    let before = format!("{}=", name.get_ref());
                    values.extend(self.value(key, &Kind::File, &before, value));
                }
                false => {
                    let name_text = name.get_ref().escape_debug();
                    let message = format!("unknown key `{name_text}` in `{}`", key.name);
                    self.problem(name.span(), message, format!("it has {}", names.join(" and ")));
                }
            }
        }
        for missing in names.iter().filter(|known| !table.iter().any(|(name, _)| name.get_ref() == *known)) {
            self.problem(
                place.clone(),
                format!("`{}` needs its `{missing}`", key.name),
                "it is not said".into(),
            );
        }
        values
    }

    fn wrong_form(&mut self, key: &Key, kind: &Kind, value: &DeValue<'_>, place: Range<usize>) {
        let label = format!("this is {}", name_of(value));
        self.problem(place, format!("`{}` takes {}", key.name, kind.expected()), label);
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
        if let (Kind::Text, DeValue::Table(table)) = (kind, value.get_ref()) {
            return match secret::read(table, self.file).and_then(|text| self.valid(key, before, text)) {
                Ok(text) => {
                    Some(Value { text: Some(text), place: self.location(value.span()), folder: None })
                }
                Err(why) => {
                    self.problem(value.span(), format!("no secret for `{}`", key.name), why);
                    None
                }
            };
        }
        let Some(text) = kind.text(value.get_ref(), self.file) else {
            self.wrong_form(key, kind, value.get_ref(), value.span());
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
        let text = match self.valid(key, before, text) {
            Ok(text) => text,
            Err(why) => {
                self.problem(value.span(), format!("a wrong value of `{}`", key.name), why);
                return None;
            }
        };
        Some(Value { text: Some(text), place: self.location(value.span()), folder })
    }

    /// The text in the flag's form, if it is a right one.
    fn valid(&self, key: &Key, before: &str, text: String) -> Result<String, String> {
        let text = format!("{before}{text}");
        // What a switch may be besides is checked by its form.
        if matches!(key.kind, Kind::SwitchOr { .. }) {
            return Ok(text);
        }
        (key.validate)(&text).map(|()| text)
    }

    fn location(&self, bytes: Range<usize>) -> Location {
        Location { file: self.number, bytes }
    }

    fn problem(&mut self, place: Range<usize>, message: String, label: String) {
        let place = self.location(place);
        self.problems.push(Problem::at(place, message, label));
    }
}

#[cfg(test)]
mod tests;
