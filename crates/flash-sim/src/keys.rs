//! `flash sim keys`: every key of a parameter file, and the key that a wrong one may have meant.
//!
//! Keys, defaults and meanings are read off the types that the parser fills, so that the list cannot differ from it.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Serialize;
use serde_json::Value;
use toml::Table;

use flash_cli::Failure;

/// How alike two names are, from 0 to 1, for one to be meant by the other.
const ALIKE: f64 = 0.75;
/// A name of the same section is nearer by so much.
const SAME_SECTION: f64 = 0.1;

/// The width of the list.
const COLUMNS: usize = 100;

/// A setting.
#[derive(Debug)]
struct Key {
    /// `machine.disks[].access_ms`; `[]` is each of a list.
    path: String,
    /// Sentences.
    meaning: String,
    /// As TOML. None where the simulator chooses, or something else is set by default.
    default: Option<String>,
    /// The words that it takes, with what each means; none are any number or text.
    choices: Vec<(String, String)>,
}

/// The keys of a type that parameter files are read into.
pub(crate) struct Keys(Vec<Key>);

impl Keys {
    /// All keys, in the order of their names.
    pub(crate) fn of<T: JsonSchema + Serialize>(defaults: &T) -> Keys {
        let settings = SchemaSettings::default().with(|settings| settings.inline_subschemas = true);
        let schema = settings.into_generator().into_root_schema_for::<T>();
        let defaults = serde_json::to_value(defaults).expect("parameters have a written form");
        let mut keys = Vec::new();
        collect("", schema.as_value(), Some(&defaults), &mut keys);
        keys.sort_by(|a, b| a.path.cmp(&b.path));
        Keys(keys)
    }

    /// All keys for people, or those that contain `part`.
    pub(crate) fn list(&self, part: Option<&str>) -> Result<String, Failure> {
        let part = part.unwrap_or_default();
        let text: String = self.0.iter().filter(|key| key.path.contains(part)).map(Key::to_string).collect();
        match text.is_empty() {
            true => Err(Failure::Usage(format!("no key contains '{part}' (flash sim keys lists them all)"))),
            false => Ok(text),
        }
    }

    /// What to say of a key that the parser refused, if that is what its message is about.
    pub(crate) fn unknown(&self, table: &Table, message: &str) -> Option<String> {
        let refused = message.strip_prefix("unknown field `").or(message.strip_prefix("unknown variant `"))?;
        let (refused, _) = refused.split_once('`')?;
        let mut strangers = Vec::new();
        find_unknown("", table, &self.0, &mut strangers);
        let (stranger, is_section) = strangers.into_iter().find(|(path, _)| split(path).1 == refused)?;
        Some(match nearest(&stranger, is_section, &self.0) {
            Some(near) => format!("there is no key '{stranger}'; did you mean '{near}'?"),
            None => format!("there is no key '{stranger}' (flash sim keys lists them all)"),
        })
    }
}

/// The paths in a table that are none of a key or its sections, and whether they are sections.
fn find_unknown(section: &str, table: &Table, keys: &[Key], found: &mut Vec<(String, bool)>) {
    for (name, value) in table {
        let path = joined(section, name);
        let below = |prefix: &str| keys.iter().any(|key| key.path.starts_with(prefix));
        let is_section = value.is_table();
        if !below(&format!("{path}."))
            && !below(&format!("{path}[]"))
            && !keys.iter().any(|key| key.path == path)
        {
            found.push((path, is_section));
        } else if let Some(table) = value.as_table() {
            find_unknown(&path, table, keys, found);
        } else if let Some(list) = value.as_array() {
            let tables = list.iter().filter_map(|one| one.as_table());
            tables.for_each(|table| find_unknown(&format!("{path}[]"), table, keys, found));
        }
    }
}

/// The key, or the section, that is most like this one.
fn nearest(path: &str, is_section: bool, keys: &[Key]) -> Option<String> {
    let mut candidates: Vec<&str> = match is_section {
        true => keys.iter().map(|key| split(&key.path).0.trim_end_matches("[]")).collect(),
        false => keys.iter().map(|key| &*key.path).collect(),
    };
    candidates.sort_unstable();
    candidates.dedup();
    let (section, name) = split(path);
    let alike = |candidate: &str| {
        let (its_section, its_name) = split(candidate);
        let same = if section == its_section { SAME_SECTION } else { 0.0 };
        strsim::jaro_winkler(name, its_name) + same
    };
    let best = candidates.into_iter().max_by(|a, b| alike(a).total_cmp(&alike(b)))?;
    (alike(best) >= ALIKE).then(|| best.to_owned())
}

/// The section and the name.
fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('.').unwrap_or(("", path))
}

fn joined(section: &str, name: &str) -> String {
    if section.is_empty() { name.to_owned() } else { format!("{section}.{name}") }
}

/// The keys at and below a place of the parser's schema.
fn collect(path: &str, schema: &Value, default: Option<&Value>, keys: &mut Vec<Key>) {
    let before = keys.len();
    for option in options(schema).chain([schema]) {
        for (name, below) in option["properties"].as_object().into_iter().flatten() {
            let first = keys.len();
            collect(&joined(path, name), below, default.and_then(|default| default.get(name)), keys);
            // A kind of workload is explained once, and not again for its only value.
            let unexplained = keys[first..].iter_mut().filter(|key| key.meaning.is_empty());
            unexplained.for_each(|key| key.meaning = sentences(option));
        }
    }
    if schema["items"].is_object() {
        let first = default.and_then(|default| default.get(0));
        collect(&format!("{path}[]"), &schema["items"], first, keys);
    }
    if keys.len() == before {
        keys.push(Key {
            path: path.to_owned(),
            meaning: sentences(schema),
            default: default.filter(|default| !default.is_null()).map(Value::to_string),
            choices: choices(schema),
        });
    }
}

/// What a value may be one of.
fn options(schema: &Value) -> impl Iterator<Item = &Value> {
    ["oneOf", "anyOf"].iter().filter_map(|list| schema[list].as_array()).flatten()
}

/// The words of an enumeration.
fn choices(schema: &Value) -> Vec<(String, String)> {
    let words = schema["enum"].as_array().into_iter().flatten().chain([&schema["const"]]);
    let words: Vec<&str> = words.filter_map(Value::as_str).collect();
    // Of several words together, none has a meaning of its own.
    let meaning = if words.len() == 1 { sentences(schema) } else { String::new() };
    let words = words.into_iter().map(|word| (word.to_owned(), meaning.clone()));
    words.chain(options(schema).flat_map(choices)).collect()
}

/// A doc comment on one line.
fn sentences(schema: &Value) -> String {
    let text = schema["description"].as_str().unwrap_or_default();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The unit of a quantity, which its name ends in.
fn unit(path: &str) -> Option<&'static str> {
    const UNITS: [(&str, &str); 9] = [
        ("_us_per_512_bytes", "µs"),
        ("_mbit_s", "Mbit/s"),
        ("_fraction", "0 to 1"),
        ("_bytes", "bytes"),
        ("_kb", "KB"),
        ("_mb", "MB"),
        ("_ms", "ms"),
        ("_us", "µs"),
        ("_sd", "of logarithms"),
    ];
    let of = |name: &str| UNITS.iter().find(|(ending, _)| name.ends_with(ending)).map(|(_, unit)| *unit);
    // What has a value for each architecture says it in the name of all.
    of(path).or_else(|| of(split(path).0))
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.default {
            Some(default) => write!(f, "{} = {default}", self.path)?,
            None => write!(f, "{} (unset)", self.path)?,
        }
        writeln!(f, "{}", unit(&self.path).map(|unit| format!("  [{unit}]")).unwrap_or_default())?;
        write_wrapped(f, &self.meaning, 4)?;
        for (word, meaning) in &self.choices {
            match meaning.is_empty() {
                true => write_wrapped(f, &format!("\"{word}\""), 6)?,
                false => write_wrapped(f, &format!("\"{word}\": {meaning}"), 6)?,
            }
        }
        Ok(())
    }
}

/// Indented lines of words.
fn write_wrapped(f: &mut std::fmt::Formatter<'_>, text: &str, indent: usize) -> std::fmt::Result {
    let mut line = String::new();
    for word in text.split(' ') {
        if !line.is_empty() && indent + line.chars().count() + 1 + word.chars().count() > COLUMNS {
            writeln!(f, "{:indent$}{line}", "")?;
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    writeln!(f, "{:indent$}{line}", "")
}

#[cfg(test)]
mod tests;
