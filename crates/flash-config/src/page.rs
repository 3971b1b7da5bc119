//! The page of all keys, in Markdown.

use std::fmt::Write;

use crate::{Key, Keys, Kind, Stands};

/// A table for each heading of the help.
pub fn page(keys: &Keys) -> String {
    let mut page = String::new();
    let mut heading = "";
    for key in keys.iter() {
        if key.heading != heading {
            heading = &key.heading;
            let _ = write!(
                page,
                "\n## {heading}\n\n| key | meaning | value | default | where | example |\n|---|---|---|---|---|---|\n"
            );
        }
        let _ = writeln!(page, "{}", row(key));
    }
    page
}

fn row(key: &Key) -> String {
    let cell = |text: &str| text.replace('|', "\\|");
    let default = match (&key.kind, &key.default) {
        (Kind::Switch | Kind::SwitchOr { .. }, _) => "`false`".into(),
        (_, Some(default)) if default.parse::<u64>().is_ok() => format!("`{default}`"),
        (_, Some(default)) => format!("`\"{default}\"`"),
        (_, None) => String::new(),
    };
    let names: Vec<String> =
        [&key.name].into_iter().chain(&key.aliases).map(|name| format!("`{name}`")).collect();
    let stands = match key.stands {
        Stands::Server => "server",
        Stands::Site => "server, site",
        Stands::Place => "server, site, place",
    };
    let example = format!("`{}`", key.example);
    let cells = [&names.join(", "), &key.help, &takes(key), &default, stands, &example];
    cells.iter().fold(String::from("|"), |row, text| format!("{row} {} |", cell(text)))
}

/// So many choices are words of a sentence. More are one piece of code.
const WORDS_APART_MAX: usize = 12;

/// What the file takes, where the key stands.
fn takes(key: &Key) -> String {
    let one = match &key.kind {
        Kind::Choice(words) if words.len() <= WORDS_APART_MAX => {
            let words: Vec<String> = words.iter().map(|word| format!("`\"{word}\"`")).collect();
            format!("one of {}", words.join(", "))
        }
        Kind::Choice(words) => {
            let words: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
            format!("one of `{}`", words.join(", "))
        }
        kind => kind.expected(),
    };
    match key.takes_list() {
        true => format!("{one}, or a list of them"),
        false => one,
    }
}
