//! The value of `--field-rules`.

use std::path::PathBuf;

use super::field;

/// A field of requests, and the words that are looked for in it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FieldFile {
    pub(crate) field: String,
    pub(crate) words: FieldWords,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum FieldWords {
    /// The file that has them, one on each line.
    File(PathBuf),
    /// The lines themselves, each with its end, as a list in the configuration file gives them.
    Lines(String),
}

impl FieldFile {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let (name, file) = text.split_once('=').ok_or("write FIELD=FILE")?;
        let field = field::token(name)?.to_owned();
        if !field.starts_with(|first: char| first.is_ascii_alphabetic()) {
            return Err(format!("'{}' is the name of no field that clients send", name.escape_debug()));
        }
        match file.is_empty() {
            true => {
                Err("write the file of the words behind the field, as in User-Agent=/etc/flash/crawlers"
                    .into())
            }
            false if file.ends_with('\n') => Ok(Self { field, words: FieldWords::Lines(file.into()) }),
            false => Ok(Self { field, words: FieldWords::File(file.into()) }),
        }
    }
}
