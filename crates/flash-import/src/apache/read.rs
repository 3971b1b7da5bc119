//! The syntax of Apache's files: lines with words, and sections. What a directive means is not known here.
//!
//! The rules are those of Apache's `ap_getword_conf`: a line that ends in a backslash goes on, a comment has a line of its own, and a
//! backslash stands before a backslash, or before the quote of its word. `<IfModule>` and the like are read as if all modules were
//! there.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::directive::{Directive, Include};
use crate::note::{Error, Source};

/// Sections in sections, and files in files.
const DEPTH_MAX: usize = 64;
/// Of all files together.
const BYTES_MAX: usize = 64 << 20;
/// What Debian's `envvars` sets.
const VARIABLES: [(&str, &str); 6] = [
    ("APACHE_LOG_DIR", "/var/log/apache2"),
    ("APACHE_RUN_DIR", "/var/run/apache2"),
    ("APACHE_LOCK_DIR", "/var/lock/apache2"),
    ("APACHE_PID_FILE", "/var/run/apache2/apache2.pid"),
    ("APACHE_RUN_USER", "www-data"),
    ("APACHE_RUN_GROUP", "www-data"),
];

/// Reads a file with all that it includes. Names are relative to `ServerRoot`, or to the folder of the first file.
///
/// # Errors
/// The first error, with its file and line.
pub(super) fn file(path: &Path, text: &str, include: Include<'_>) -> Result<Vec<Directive>, Error> {
    let folder = path.parent().unwrap_or(Path::new("")).to_owned();
    let variables = VARIABLES.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
    let mut reading = Reading { folder, include, bytes: 0, variables };
    reading.file(path, text, 0)
}

struct Reading<'i> {
    folder: PathBuf,
    include: Include<'i>,
    bytes: usize,
    /// Those of `Define`.
    variables: HashMap<String, String>,
}

/// A section that is open.
struct Open {
    name: String,
    words: Vec<String>,
    source: Source,
    /// What came before it, outside.
    outside: Vec<Directive>,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// It is a directive.
    Section,
    /// Its lines count as if they stood outside.
    Held,
    /// Its lines do not count.
    Skipped,
}

impl Reading<'_> {
    fn file(&mut self, path: &Path, text: &str, depth: usize) -> Result<Vec<Directive>, Error> {
        let file: Arc<Path> = path.into();
        let error = |line: usize, why: &str| Error { file: Arc::clone(&file), line, why: why.into() };
        self.bytes += text.len();
        if self.bytes > BYTES_MAX {
            return Err(error(1, "the files are larger than 64M together"));
        }
        let mut open: Vec<Open> = Vec::new();
        let mut directives = Vec::new();
        for (line, text) in lines(text) {
            let text = self.filled(&text);
            let text = text.trim();
            if text.is_empty() || text.starts_with('#') {
                continue;
            }
            if depth + open.len() > DEPTH_MAX {
                return Err(error(line, "sections or included files are nested too deeply"));
            }
            let source = Source { file: Arc::clone(&file), line, text: text.into() };
            if let Some(name) = text.strip_prefix("</") {
                let name = name.trim_end().trim_end_matches('>').trim().to_ascii_lowercase();
                let Some(section) = open.pop().filter(|section| section.name == name) else {
                    return Err(error(line, &format!("there is no <{name}> that this would end")));
                };
                let inner = std::mem::replace(&mut directives, section.outside);
                match section.kind {
                    Kind::Section => directives.push(Directive::new(
                        section.name,
                        section.words,
                        Some(inner),
                        section.source,
                    )),
                    Kind::Held => directives.extend(inner),
                    Kind::Skipped => {}
                }
                continue;
            }
            let is_skipped = open.iter().any(|section| section.kind == Kind::Skipped);
            if let Some(inner) = text.strip_prefix('<') {
                let Some(inner) = inner.trim_end().strip_suffix('>') else {
                    return Err(error(line, "the section has no \">\" at its end"));
                };
                let (name, words) = words(inner).map_err(|why| error(line, why))?;
                let kind = if is_skipped { Kind::Skipped } else { self.kind(&name, &words) };
                let outside = std::mem::take(&mut directives);
                open.push(Open { name, words, source, outside, kind });
                continue;
            }
            if is_skipped {
                continue;
            }
            let (name, words) = words(text).map_err(|why| error(line, why))?;
            let of = Directive::new(name, words, None, source);
            self.directive(of, depth, &mut directives).map_err(|why| match why {
                Why::Here(why) => error(line, &why),
                Why::There(error) => error,
            })?;
        }
        match open.pop() {
            Some(section) => {
                Err(error(section.source.line, &format!("the section has no </{}> at its end", section.name)))
            }
            None => Ok(directives),
        }
    }

    fn directive(&mut self, of: Directive, depth: usize, directives: &mut Vec<Directive>) -> Result<(), Why> {
        match (&*of.name, &of.words[..]) {
            ("include" | "includeoptional", [pattern]) => {
                let path = self.folder.join(pattern);
                match (self.include)(&path) {
                    Ok(files) => {
                        for (path, text) in files {
                            directives.extend(self.file(&path, &text, depth + 1).map_err(Why::There)?);
                        }
                    }
                    Err(_) if of.name == "includeoptional" && !path.exists() => {}
                    Err(why) => return Err(Why::Here(why)),
                }
            }
            ("include" | "includeoptional", _) => return Err(Why::Here("Include takes one name".into())),
            ("define", [name, value @ ..]) => {
                self.variables.insert(name.clone(), value.first().cloned().unwrap_or_default());
            }
            ("undefine", [name]) => _ = self.variables.remove(name),
            ("serverroot", [folder]) => {
                self.folder = self.folder.join(folder);
                directives.push(of);
            }
            _ => directives.push(of),
        }
        Ok(())
    }

    fn kind(&self, name: &str, words: &[String]) -> Kind {
        let word = words.first().map_or("", String::as_str);
        let (is_not, plain) = word.strip_prefix('!').map_or((false, word), |plain| (true, plain));
        let holds = match name {
            "ifmodule" | "ifdirective" | "ifsection" => !is_not,
            "iffile" => self.folder.join(plain).exists() != is_not,
            "ifdefine" => self.variables.contains_key(plain) != is_not,
            // 2.4 is meant, whatever its last number.
            "ifversion" => !plain.starts_with('<') && !is_not,
            _ => return Kind::Section,
        };
        if holds { Kind::Held } else { Kind::Skipped }
    }

    /// With the values of `Define` in place of `${NAME}`.
    fn filled(&self, text: &str) -> String {
        let (mut all, mut rest) = (String::new(), text);
        while let Some((before, after)) = rest.split_once("${") {
            let value = after.split_once('}').and_then(|(name, end)| Some((self.variables.get(name)?, end)));
            all.push_str(before);
            match value {
                Some((value, end)) => {
                    all.push_str(value);
                    rest = end;
                }
                None => {
                    all.push_str("${");
                    rest = after;
                }
            }
        }
        all + rest
    }
}

enum Why {
    Here(String),
    There(Error),
}

/// Lines with the number of their first, those that go on as one.
fn lines(text: &str) -> Vec<(usize, String)> {
    let mut all: Vec<(usize, String)> = Vec::new();
    let mut goes_on = false;
    for (number, line) in text.lines().enumerate() {
        let (line, more) = match line.strip_suffix('\\') {
            Some(line) => (line, true),
            None => (line, false),
        };
        match all.last_mut() {
            Some((_, before)) if goes_on => before.push_str(line),
            _ => all.push((number + 1, line.into())),
        }
        goes_on = more;
    }
    all
}

/// The name in small letters, and its words.
fn words(text: &str) -> Result<(String, Vec<String>), &'static str> {
    let mut words = Vec::new();
    let mut rest = text.trim();
    while let Some(first) = rest.chars().next() {
        let quote = Some(first).filter(|first| matches!(first, '"' | '\''));
        let mut chars = rest.char_indices().skip(usize::from(quote.is_some())).peekable();
        let (mut word, mut end) = (String::new(), None);
        while let Some((at, c)) = chars.next() {
            let next = chars.peek().map(|(_, next)| *next);
            match (c, quote) {
                ('\\', _) if next == Some('\\') || next.is_some() && next == quote => {
                    word.extend(next);
                    chars.next();
                }
                (c, Some(quote)) if c == quote => {
                    end = Some(at + 1);
                    break;
                }
                (c, None) if c.is_whitespace() => {
                    end = Some(at);
                    break;
                }
                _ => word.push(c),
            }
        }
        if quote.is_some() && end.is_none() {
            return Err("the text in quotes does not end");
        }
        words.push(word);
        rest = rest[end.unwrap_or(rest.len())..].trim_start();
    }
    match words.is_empty() {
        true => Err("the section has no name"),
        false => Ok((words.remove(0).to_ascii_lowercase(), words)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directive::shown;

    fn read(text: &str) -> Result<String, String> {
        let none = |path: &Path| match path.ends_with("other.conf") {
            true => Ok(vec![(path.to_owned(), "Listen 81".into())]),
            false => Err("no such file".into()),
        };
        let tree = file(Path::new("/etc/apache2/a.conf"), text, &none).map_err(|error| error.to_string())?;
        Ok(shown(&tree))
    }

    #[test]
    fn words_are_read_as_apache_reads_them() {
        for (text, expected) in [
            ("Listen 80", "1:listen <80> "),
            ("# a\n\n  Listen\t80 # b", "3:listen <80> <#> <b> "),
            ("A \\\n  b\nC", "1:a <b> 3:c "),
            (r#"A "b c" 'd "e"' "f \" \\ \." g\.h"#, r#"1:a <b c> <d "e"> <f " \ \.> <g\.h> "#),
            ("A %{HTTPS} \"\"", "1:a <%{HTTPS}> <> "),
            ("<VirtualHost *:80>\n A b\n</VirtualHost>", "1:virtualhost <*:80> { 2:a <b> } "),
            ("<IfModule x.c>\nA\n</IfModule>\n<IfModule !x.c>\nB\n<D>\n</D>\n</IfModule>\nC", "2:a 9:c "),
            ("<IfVersion < 2.4>\nA\n</IfVersion>\n<IfVersion >= 2.4>\nB\n</IfVersion>", "5:b "),
            ("Define x /srv\nA ${x}/b ${y}\n<IfDefine x>\nC\n</IfDefine>", "2:a </srv/b> <${y}> 4:c "),
            ("A\nInclude other.conf\nIncludeOptional gone.conf\nB", "1:a 1:listen <81> 4:b "),
        ] {
            assert_eq!(read(text).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn an_error_has_its_line() {
        for (text, expected) in [
            ("A\n<Directory />\nB", "2: the section has no </directory> at its end"),
            ("A\n</Directory>", "2: there is no <directory> that this would end"),
            ("<A>\n<B>\n</A>", "3: there is no <a> that this would end"),
            ("A \"b", "1: the text in quotes does not end"),
            ("<A", "1: the section has no \">\" at its end"),
            ("<>", "1: the section has no name"),
            ("\nInclude gone.conf", "2: no such file"),
        ] {
            assert_eq!(read(text), Err(format!("/etc/apache2/a.conf:{expected}")), "{text:?}");
        }
        assert!(read(&"<A>\n".repeat(10_000)).is_err());
    }
}
