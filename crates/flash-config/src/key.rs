//! The table of keys.

use toml::de::DeValue;

use crate::Kind;

/// The key of a folder.
pub(crate) const ROOT: &str = "root";

/// Says what is wrong with a value, in the flag's form.
pub type Validate = Box<dyn Fn(&str) -> Result<(), String> + Send + Sync>;

/// One setting: its name, its form, and what people are told about it.
pub struct Key {
    pub name: String,
    /// Other names for it.
    pub aliases: Vec<String>,
    pub kind: Kind,
    /// Takes a list of values, or one of them.
    pub is_list: bool,
    /// Whether a site with it answers without a folder.
    pub answers: bool,
    /// Whether the places of that site do so, too.
    pub answers_below: bool,
    /// The tables in which it may stand.
    pub stands: Stands,
    pub heading: String,
    pub help: String,
    /// In the flag's form.
    pub default: Option<String>,
    /// A line of the file that sets it.
    pub example: String,
    /// Keys that cannot be set beside it.
    pub conflicts: Vec<String>,
    pub validate: Validate,
}

/// The innermost table in which a key may stand. It may stand in those around it, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stands {
    Server,
    Site,
    Place,
}

/// All keys, in the order of the help.
pub struct Keys {
    keys: Vec<Key>,
    /// What to write instead of another server's name for a setting.
    instead: fn(&str) -> Option<&'static str>,
}

/// A name that shares less than this with a known one resembles none.
const SIMILARITY_MIN: f64 = 0.75;

impl Key {
    /// Whether this value says that a site or place does not inherit the key. A switch is just off then.
    pub(crate) fn takes_back(&self, value: &DeValue<'_>) -> bool {
        matches!(value, DeValue::Boolean(false)) && self.may_be_taken_back()
    }

    pub(crate) fn may_be_taken_back(&self) -> bool {
        let is_switch = matches!(self.kind, Kind::Switch | Kind::SwitchOr { .. });
        !is_switch && self.stands > Stands::Server && self.name != ROOT
    }

    /// Whether its value may be a list. A table has the lists in its pairs.
    pub(crate) fn takes_list(&self) -> bool {
        self.is_list && !matches!(self.kind, Kind::Table { .. } | Kind::Names(_) | Kind::Tables(_))
    }
}

impl Keys {
    pub fn new(keys: Vec<Key>, instead: fn(&str) -> Option<&'static str>) -> Keys {
        Keys { keys, instead }
    }

    pub fn iter(&self) -> impl Iterator<Item = &Key> {
        self.keys.iter()
    }

    pub fn get(&self, name: &str) -> Option<&Key> {
        self.iter().find(|key| key.name == name || key.aliases.iter().any(|alias| alias == name))
    }

    /// What an unknown name may mean.
    pub(crate) fn advice(&self, name: &str) -> String {
        // A flag's name, or an identifier's.
        let plain = name.trim_start_matches('-').replace('_', "-");
        let names = self.iter().flat_map(|key| [&key.name].into_iter().chain(&key.aliases));
        match (nearest(&plain, names.map(String::as_str)), (self.instead)(&plain)) {
            (Some(known), _) if self.get(&plain).is_some() => format!("write `{known}`"),
            (_, Some(instead)) => instead.into(),
            (Some(known), None) => format!("did you mean `{known}`?"),
            (None, None) => "there is no such key: docs/configuration.md has them all".into(),
        }
    }
}

/// The known name that a wrong one is most like, if it is like any.
#[must_use]
pub fn nearest<'n>(name: &str, known: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let scored = known.map(|known| (strsim::jaro_winkler(name, known), known));
    let best = scored.max_by(|(one, _), (other, _)| one.total_cmp(other));
    best.filter(|(score, _)| *score >= SIMILARITY_MIN).map(|(_, known)| known)
}
