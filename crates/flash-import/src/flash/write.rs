//! The file's text: the settings in one order, each with the line that it was made of as a comment.

use std::fmt::{self, Write};

use super::{Flash, Place, Setting, Settings, Site, Value};
use crate::note::Source;

/// The order in which people read them. All other keys follow.
const ORDER: [&str; 13] = [
    "listen",
    "user",
    "access-log",
    "log-format",
    "error-log",
    "tls",
    "https",
    "redirect",
    "gone",
    "root",
    "strip-prefix",
    "index",
    "servers",
];
/// Lines are no longer than this, with their comments.
const COLUMNS: usize = 120;

impl Site {
    /// All but its names.
    pub(crate) fn text_of_rules(&self) -> String {
        let mut text = String::new();
        write_site(&mut text, &Site { names: vec!["*".into()], ..self.clone() });
        text
    }
}

impl Flash {
    /// The file's text, without what comes above and below.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        table(&mut text, &self.server);
        for (name, upstream) in &self.upstreams {
            _ = writeln!(text, "\n[upstream.{}]", key(name));
            table(&mut text, upstream);
        }
        for site in &self.sites {
            write_site(&mut text, site);
        }
        text
    }
}

fn write_site(text: &mut String, Site { names, own, places, sources }: &Site) {
    text.push('\n');
    for source in sources {
        _ = writeln!(text, "# {}", cut(&at(source), COLUMNS));
    }
    let [first, more @ ..] = &names[..] else { return };
    _ = writeln!(text, "[site.{}]", quoted(first));
    if !more.is_empty() {
        _ = writeln!(text, "names = {}", Value::Texts(more.to_vec()));
    }
    table(text, own);
    for Place { name, settings, source } in places {
        text.push('\n');
        if let Some(source) = source {
            _ = writeln!(text, "# {}", cut(&at(source), COLUMNS));
        }
        _ = writeln!(text, "[site.{}.{}]", quoted(first), quoted(&name.text()));
        table(text, settings);
    }
}

fn table(text: &mut String, settings: &Settings) {
    let rank = |key: &str| ORDER.iter().position(|known| *known == key).unwrap_or(ORDER.len());
    let mut keys: Vec<_> = settings.iter().collect();
    keys.sort_by_key(|(key, _)| (rank(key), **key));
    for (key, Setting { value, source }) in keys {
        let mut line = format!("{key} = {value}");
        if let Some(source) = source {
            let comment = format!("# {}", at(source));
            match COLUMNS.checked_sub(line.len() + 2).filter(|room| *room >= comment.len().min(40)) {
                Some(room) => _ = write!(line, "  {}", cut(&comment, room)),
                None => line = format!("{}\n{line}", cut(&comment, COLUMNS)),
            }
        }
        text.push_str(&line);
        text.push('\n');
    }
}

fn at(Source { file, line, text }: &Source) -> String {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let text = text.strip_suffix(" {").unwrap_or(text);
    format!("{name}:{line}: {text}").chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

fn cut(text: &str, width: usize) -> String {
    match text.char_indices().nth(width) {
        Some(_) => text.chars().take(width.saturating_sub(1)).chain(['…']).collect(),
        None => text.into(),
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(on) => write!(f, "{on}"),
            Self::Number(number) => write!(f, "{number}"),
            Self::Text(text) => f.write_str(&quoted(text)),
            Self::Texts(texts) if texts.len() == 1 => f.write_str(&quoted(&texts[0])),
            Self::Texts(texts) => list(f, "[", "]", texts.iter().map(|text| quoted(text))),
            Self::Table(table) => {
                let pairs = table.iter().map(|(name, text)| format!("{} = {}", quoted(name), quoted(text)));
                list(f, "{ ", " }", pairs)
            }
            Self::Named(pairs) if pairs.is_empty() => f.write_str("{}"),
            Self::Named(pairs) => {
                list(f, "{ ", " }", pairs.iter().map(|(name, value)| format!("{name} = {value}")))
            }
            Self::Tables(tables) => {
                let pair = |(name, table): &(String, Vec<(&'static str, Self)>)| {
                    format!("{} = {}", quoted(name), Self::Named(table.clone()))
                };
                list(f, "{ ", " }", tables.iter().map(pair))
            }
            Self::Many(values) => list(f, "[", "]", values.iter().map(ToString::to_string)),
        }
    }
}

fn list(
    f: &mut fmt::Formatter<'_>,
    open: &str,
    close: &str,
    items: impl Iterator<Item = String>,
) -> fmt::Result {
    let items: Vec<String> = items.collect();
    let short = items.join(", ");
    if short.len() <= COLUMNS - 20 {
        return write!(f, "{open}{short}{close}");
    }
    writeln!(f, "{}", open.trim_end())?;
    items.iter().try_for_each(|item| writeln!(f, "    {item},"))?;
    f.write_str(close.trim_start())
}

fn key(name: &str) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !name.is_empty() && name.chars().all(is_bare) { name.to_owned() } else { quoted(name) }
}

/// A text in quotes, as TOML has it.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            c if c.is_control() => _ = write!(quoted, "\\u{:04x}", u32::from(c)),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
