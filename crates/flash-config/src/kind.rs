//! The form of a key's value.

use toml::de::{DeTable, DeValue};

use crate::file::File;
use crate::secret;

/// What a value looks like in the file. The same value as a flag is always text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `true` or `false`. As a flag it has no value.
    Switch,
    /// The same, or one of these words, or a table in its place, or a list of tables. Each table has a file for each of these names.
    SwitchOr {
        words: Vec<String>,
        names: Vec<String>,
    },
    /// A table of some of these names, or `"off"`. Each value of a name is one value: the name, `=`, and what it is.
    Names(Vec<Named>),
    /// A table of tables. Each of them is one value: its name, and a word for each of its pairs, as `weight=3`. Of a table in it, the word
    /// is `servers=NAME,weight=3`.
    Tables(Vec<Named>),
    /// `{ file = "/path" }` or `{ credential = "NAME" }`, whose content stays there. As a flag it is the path.
    SecretFile,
    Number,
    /// `4096` or `"64M"`.
    Bytes,
    /// `"10s"`, or `0`.
    Duration,
    /// One of these words.
    Choice(Vec<String>),
    Text,
    /// A folder, which must be there.
    Folder,
    /// A file.
    File,
    /// A file, or `off`.
    FileOrOff,
    /// A file, or a list of what are its lines, each with its newline.
    FileOrLines,
    /// A file, `-` or `off`.
    Log,
    /// As [`Kind::Log`], and never off.
    ErrorLog,
    /// An address, or `unix:` and a path.
    Address,
    /// A target, or a table of it and a status.
    Redirect,
    /// A table. Each of its pairs is one value: its name, the separator, its value.
    Table {
        separator: &'static str,
        value: Box<Kind>,
        is_list: bool,
    },
}

/// A name of [`Kind::Names`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    pub name: &'static str,
    pub kind: Kind,
    pub is_list: bool,
}

impl Kind {
    /// What to write, as it follows "takes".
    pub(crate) fn expected(&self) -> String {
        match self {
            Kind::Switch => "true or false".into(),
            Kind::SwitchOr { words, names } => {
                let words: String = words.iter().map(|word| format!(", \"{word}\"")).collect();
                format!("true or false{words}, or a table with {}, or a list of them", names.join(" and "))
            }
            Kind::Names(names) => {
                let names: Vec<&str> = names.iter().map(|named| named.name).collect();
                format!("a table with {}, or \"off\"", names.join(", "))
            }
            Kind::Tables(names) => {
                let names: Vec<&str> = names.iter().map(|named| named.name).collect();
                format!("a table of tables, each with {}", names.join(", "))
            }
            Kind::SecretFile => "{ file = \"/path\" } or { credential = \"NAME\" }".into(),
            Kind::Number => "a whole number".into(),
            Kind::Bytes => "a number of bytes, such as 4096 or \"64M\"".into(),
            Kind::Duration => "a time with its unit, such as \"10s\"".into(),
            Kind::Choice(words) => {
                let words: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
                format!("one of {}", words.join(", "))
            }
            Kind::Text => "a text in quotes".into(),
            Kind::Folder => "the path of a folder, in quotes".into(),
            Kind::File => "the path of a file, in quotes".into(),
            Kind::FileOrOff => "the path of a file, in quotes, or \"off\"".into(),
            Kind::FileOrLines => "the path of a file, in quotes, or a list of its lines".into(),
            Kind::Log => "the path of a file, \"syslog:…\", \"journald\", \"-\" or \"off\"".into(),
            Kind::ErrorLog => "the path of a file, \"syslog:…\" or \"journald\"".into(),
            Kind::Address => "an address in quotes".into(),
            Kind::Redirect => "a target in quotes, or a table such as { to = \"/new\", status = 301 }".into(),
            Kind::Table { .. } => "a table, such as { name = \"value\" }".into(),
        }
    }

    /// The flag's text for one value of the file. `None` if the value has another form. A switch and a table are not one value.
    pub(crate) fn text(&self, value: &DeValue<'_>, file: &File) -> Option<String> {
        let path = |text: &str| file.absolute(text).to_str().map(str::to_owned);
        match (self, value) {
            (Kind::Number | Kind::Bytes, DeValue::Integer(number)) if number.radix() == 10 => {
                Some(number.as_str().into())
            }
            // Only 0 needs no unit, and the flag says so.
            (Kind::Duration, DeValue::Integer(number)) => Some(number.as_str().into()),
            // A text of several lines names no file, and is no list of them.
            (Kind::FileOrLines, DeValue::String(text)) if text.contains('\n') => None,
            (Kind::Folder | Kind::File | Kind::FileOrLines, DeValue::String(text)) if !text.is_empty() => {
                path(text)
            }
            (Kind::FileOrLines, DeValue::Array(lines)) => lines
                .iter()
                .map(|line| match line.get_ref() {
                    DeValue::String(line) if !line.contains('\n') => Some(format!("{line}\n")),
                    _ => None,
                })
                .collect(),
            (Kind::SecretFile, DeValue::Table(table)) => {
                secret::path(table, file).ok()?.to_str().map(str::to_owned)
            }
            (Kind::Names(_), DeValue::String(text)) if text == "off" => Some(text.to_string()),
            (Kind::FileOrOff, DeValue::String(text)) if !matches!(&**text, "" | "off") => path(text),
            (Kind::FileOrOff, DeValue::String(text)) if !text.is_empty() => Some(text.to_string()),
            (Kind::Log | Kind::ErrorLog, DeValue::String(text)) if is_daemon(text) => Some(text.to_string()),
            (Kind::Log, DeValue::String(text)) if !matches!(&**text, "" | "-" | "off") => path(text),
            (Kind::ErrorLog, DeValue::String(text)) if !text.is_empty() => path(text),
            (Kind::Address, DeValue::String(text)) => match text.strip_prefix("unix:") {
                Some(rest) if !rest.is_empty() && !rest.starts_with(',') => {
                    path(rest).map(|path| format!("unix:{path}"))
                }
                _ => Some(text.to_string()),
            },
            (Kind::Redirect, DeValue::String(text)) if !text.contains(' ') => Some(text.to_string()),
            (Kind::Redirect, DeValue::Table(pairs)) => redirect(pairs),
            (
                Kind::Bytes | Kind::Duration | Kind::Choice(_) | Kind::Text | Kind::Log,
                DeValue::String(text),
            ) => Some(text.to_string()),
            _ => None,
        }
    }
}

/// Whether a log goes to a daemon and to no file.
fn is_daemon(text: &str) -> bool {
    let rest = text.strip_prefix("journald");
    text.starts_with("syslog:") || rest.is_some_and(|rest| matches!(rest.as_bytes(), [] | [b':' | b',', ..]))
}

/// `{ to = "/new", status = 301 }` as `301 /new`.
fn redirect(pairs: &DeTable<'_>) -> Option<String> {
    let (mut to, mut status) = (None, None);
    for (name, value) in pairs {
        match (&**name.get_ref(), value.get_ref()) {
            ("to", DeValue::String(text)) => to = Some(text),
            ("status", DeValue::Integer(number)) => status = Some(number.as_str()),
            _ => return None,
        }
    }
    Some(match status {
        Some(status) => format!("{status} {}", to?),
        None => to?.to_string(),
    })
}

/// What a value is, as it follows "this is".
pub(crate) fn name_of(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(text) if text.is_empty() => "an empty text",
        DeValue::String(_) => "a text",
        DeValue::Integer(_) => "a number",
        DeValue::Float(_) => "a number with a fraction",
        DeValue::Boolean(_) => "a switch",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}
