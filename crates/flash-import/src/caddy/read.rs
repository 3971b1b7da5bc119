//! The syntax of Caddyfiles: lines of words, blocks, snippets and what is imported. What a directive means is not known here.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::directive::{Directive, Include};
use crate::note::{Error, Source};

/// Blocks in blocks, and files in files.
const DEPTH_MAX: usize = 64;
/// Lines that are imported, as often as that happens, and the imports themselves.
const LINES_MAX: usize = 1 << 20;
/// Bytes of their words, likewise.
const BYTES_MAX: usize = 64 << 20;
/// The names of what stands at the outermost level.
pub(super) const GLOBAL: &str = "global options";
pub(super) const SITE: &str = "site";

/// Stands before what came from [`with_defaults`].
const DEFAULT: char = '\u{1}';

#[derive(Clone, Debug)]
struct Line {
    file: Arc<Path>,
    number: usize,
    words: Vec<Word>,
}

#[derive(Clone, Debug)]
struct Word {
    text: String,
    is_quoted: bool,
}

/// Reads a file with all that it imports: the global options, and the sites with their addresses as words.
///
/// # Errors
/// The first error, with its file and line.
pub(super) fn file(path: &Path, text: &str, include: Include<'_>) -> Result<Vec<Directive>, Error> {
    let folder = path.parent().unwrap_or(Path::new("")).to_owned();
    let mut reading = Reading {
        folder,
        include,
        snippets: HashMap::new(),
        lines: Vec::new(),
        lines_left: LINES_MAX,
        bytes_left: BYTES_MAX,
    };
    let lines = lines(path, &with_defaults(text))?;
    reading.expand(lines, 0, 0)?;
    sites(&reading.lines)
}

impl Line {
    fn is(&self, text: &str) -> bool {
        matches!(&self.words[..], [word] if word.is(text))
    }

    fn opens(&self) -> bool {
        self.words.last().is_some_and(|word| word.is("{"))
    }

    fn error(&self, why: &str) -> Error {
        Error { file: Arc::clone(&self.file), line: self.number, why: why.into() }
    }

    fn has_defaults(&self) -> bool {
        self.words.iter().any(|word| word.text.contains(DEFAULT))
    }

    fn source(&self) -> Source {
        let text = self.words.iter().map(Word::plain).collect::<Vec<_>>().join(" ");
        Source { file: Arc::clone(&self.file), line: self.number, text: text.replace(char::is_control, " ") }
    }
}

impl Word {
    fn plain(&self) -> String {
        self.text.replace(DEFAULT, "")
    }

    fn is(&self, text: &str) -> bool {
        !self.is_quoted && self.text == text
    }
}

/// With the values that variables of the environment have if they are not set: `{$NAME:value}`.
fn with_defaults(text: &str) -> String {
    let mut parts = text.split("{$");
    let mut all = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once('}').and_then(|(name, rest)| Some((name.split_once(':')?.1, rest))) {
            Some((value, rest)) if !value.contains('\n') => {
                all.push(DEFAULT);
                all.extend([value, rest]);
            }
            _ => all.extend(["{$", part]),
        }
    }
    all
}

/// The words of each line. A text in quotes may have several lines, and a backslash at the end of a line joins the next one to it.
fn lines(path: &Path, text: &str) -> Result<Vec<Line>, Error> {
    let file: Arc<Path> = path.into();
    let (mut all, mut words, mut number, mut first) = (Vec::new(), Vec::new(), 1, 1);
    let mut rest = text.strip_prefix('\u{feff}').unwrap_or(text);
    while let Some(c) = rest.chars().next() {
        let after = &rest[c.len_utf8()..];
        match c {
            '\n' => {
                if !words.is_empty() {
                    all.push(Line {
                        file: Arc::clone(&file),
                        number: first,
                        words: std::mem::take(&mut words),
                    });
                }
                (number, rest) = (number + 1, after);
                first = number;
            }
            c if c.is_whitespace() => rest = after,
            '\\' if after.starts_with('\n') || after.starts_with("\r\n") => {
                (number, rest) =
                    (number + 1, after.trim_start_matches('\r').strip_prefix('\n').unwrap_or(after));
            }
            '#' => rest = rest.find('\n').map_or("", |end| &rest[end..]),
            '"' | '`' => {
                let error = |why: &str| Error { file: Arc::clone(&file), line: number, why: why.into() };
                let (text, end) = quoted(after, c).ok_or_else(|| error("the text in quotes does not end"))?;
                number += after[..end].matches('\n').count();
                words.push(Word { text, is_quoted: true });
                rest = &after[end..];
            }
            _ => {
                let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
                words.push(Word { text: rest[..end].into(), is_quoted: false });
                rest = &rest[end..];
            }
        }
    }
    if !words.is_empty() {
        all.push(Line { file, number: first, words });
    }
    Ok(all)
}

/// A text in quotes, and where it ends behind the first one. In double quotes a backslash stands before a quote.
fn quoted(text: &str, quote: char) -> Option<(String, usize)> {
    let (mut found, mut chars) = (String::new(), text.char_indices().peekable());
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' if quote == '"' && chars.peek().is_some_and(|(_, next)| *next == '"') => {
                found.push('"');
                chars.next();
            }
            c if c == quote => return Some((found, at + 1)),
            c => found.push(c),
        }
    }
    None
}

struct Reading<'i> {
    folder: PathBuf,
    include: Include<'i>,
    snippets: HashMap<String, Vec<Line>>,
    /// All that was read, with what is imported in its place.
    lines: Vec<Line>,
    lines_left: usize,
    bytes_left: usize,
}

impl Reading<'_> {
    /// `level` is in how many blocks the lines stand.
    fn expand(&mut self, lines: Vec<Line>, depth: usize, mut level: usize) -> Result<(), Error> {
        let mut lines = lines.into_iter();
        while let Some(line) = lines.next() {
            if depth > DEPTH_MAX {
                return Err(too_many(&line));
            }
            let name = line.words[0].text.strip_prefix('(').and_then(|name| name.strip_suffix(')'));
            if let (0, Some(name), true) = (level, name, line.opens()) {
                let body = body(&line, &mut lines)?;
                self.snippets.insert(name.into(), body);
            } else if line.words[0].is("import") {
                let imported = self.imported(&line)?;
                self.expand(imported, depth + 1, level)?;
            } else {
                level =
                    if line.is("}") { level.saturating_sub(1) } else { level + usize::from(line.opens()) };
                self.lines.push(line);
            }
        }
        Ok(())
    }

    fn imported(&mut self, line: &Line) -> Result<Vec<Line>, Error> {
        let (Some(name), false) = (line.words.get(1), line.opens()) else {
            return Err(line.error("import takes the name of a snippet or of files"));
        };
        let arguments: Vec<&str> = line.words[2..].iter().map(|word| word.text.as_str()).collect();
        let name = name.plain();
        if let Some(snippet) = self.snippets.get(&name) {
            let room = (&mut self.lines_left, &mut self.bytes_left);
            return filled(snippet, &arguments, room).ok_or_else(|| too_many(line));
        }
        let files = (self.include)(&self.folder.join(&name)).map_err(|why| line.error(&why))?;
        let read = files
            .iter()
            .map(|(path, text)| lines(path, &with_defaults(text)))
            .collect::<Result<Vec<_>, _>>()?;
        let room = (&mut self.lines_left, &mut self.bytes_left);
        filled(&read.concat(), &arguments, room).ok_or_else(|| too_many(line))
    }
}

/// The lines of a block that has just begun.
fn body(first: &Line, lines: &mut impl Iterator<Item = Line>) -> Result<Vec<Line>, Error> {
    let (mut body, mut depth) = (Vec::new(), 1);
    for line in lines {
        depth = if line.is("}") { depth - 1 } else { depth + usize::from(line.opens()) };
        if depth == 0 {
            return Ok(body);
        }
        body.push(line);
    }
    Err(first.error("the block has no \"}\" at its end"))
}

/// With what an import gives, if there is room for these lines and their bytes. The import is a line itself.
fn filled(
    lines: &[Line],
    arguments: &[&str],
    (lines_left, bytes_left): (&mut usize, &mut usize),
) -> Option<Vec<Line>> {
    *lines_left = lines_left.checked_sub(1 + lines.len())?;
    let gaps: Vec<(String, &str)> = arguments
        .iter()
        .enumerate()
        .flat_map(|(at, argument)| {
            [(format!("{{args[{at}]}}"), *argument), (format!("{{args.{at}}}"), *argument)]
        })
        .collect();
    let mut lines = lines.to_vec();
    for word in lines.iter_mut().flat_map(|line| &mut line.words) {
        *bytes_left = bytes_left.checked_sub(word.text.len())?;
        for (gap, argument) in &gaps {
            *bytes_left = bytes_left.checked_sub(word.text.matches(gap).count() * argument.len())?;
            word.text = word.text.replace(gap, argument);
        }
    }
    Some(lines)
}

fn too_many(line: &Line) -> Error {
    line.error("imports are nested too deeply, or there are too many")
}

/// The options, and the sites. A file without a block is one site.
fn sites(lines: &[Line]) -> Result<Vec<Directive>, Error> {
    let (mut all, mut at) = (Vec::new(), 0);
    if let Some(first) = lines.first().filter(|line| line.is("{")) {
        at = 1;
        let options = block(first, lines, &mut at, 1)?;
        all.push(Directive::new(GLOBAL.into(), Vec::new(), Some(options), first.source()));
    }
    while let Some(first) = lines.get(at) {
        if first.opens() && first.words[0].text.starts_with("&(") {
            // A route with a name, which `invoke` runs.
            all.push(directive(lines, &mut at, 1)?);
            continue;
        }
        let mut addresses: Vec<String> = Vec::new();
        // A comma at its end has the next line go on.
        loop {
            let line = lines.get(at).ok_or_else(|| first.error("an address is missing"))?;
            at += 1;
            let words = line.words.iter().filter(|word| !word.is("{"));
            addresses.extend(
                words
                    .flat_map(|word| word.text.split(','))
                    .map(|text| text.replace(DEFAULT, ""))
                    .filter(|text| !text.is_empty()),
            );
            if line.opens() || !line.words.last().is_some_and(|word| word.text.ends_with(',')) {
                break;
            }
        }
        if addresses.iter().any(|address| address == "}") || addresses.is_empty() {
            return Err(first.error("there is no block that \"}\" would end, or a site has no address"));
        }
        let inner = match lines[at - 1].opens() {
            true => block(first, lines, &mut at, 1)?,
            false => {
                let rest = rest(lines, &mut at)?;
                all.push(site(first, addresses, rest));
                break;
            }
        };
        all.push(site(first, addresses, inner));
    }
    Ok(all)
}

fn site(first: &Line, addresses: Vec<String>, block: Vec<Directive>) -> Directive {
    let has_defaults = first.has_defaults();
    Directive { has_defaults, ..Directive::new(SITE.into(), addresses, Some(block), first.source()) }
}

/// The directives of a site that has no braces.
fn rest(lines: &[Line], at: &mut usize) -> Result<Vec<Directive>, Error> {
    let mut all = Vec::new();
    while let Some(line) = lines.get(*at) {
        if line.is("}") {
            return Err(line.error("there is no block that \"}\" would end"));
        }
        all.push(directive(lines, at, 1)?);
    }
    Ok(all)
}

/// The directives up to the end of the block.
fn block(first: &Line, lines: &[Line], at: &mut usize, depth: usize) -> Result<Vec<Directive>, Error> {
    let mut all = Vec::new();
    while let Some(line) = lines.get(*at) {
        if line.is("}") {
            *at += 1;
            return Ok(all);
        }
        if depth > DEPTH_MAX {
            return Err(line.error("blocks are nested too deeply"));
        }
        all.push(directive(lines, at, depth)?);
    }
    Err(first.error("the block has no \"}\" at its end"))
}

fn directive(lines: &[Line], at: &mut usize, depth: usize) -> Result<Directive, Error> {
    let line = &lines[*at];
    *at += 1;
    let opens = line.opens();
    let words = &line.words[..line.words.len() - usize::from(opens)];
    let Some((name, words)) = words.split_first() else {
        return Err(line.error("a block has no name"));
    };
    let inner = if opens { Some(block(line, lines, at, depth + 1)?) } else { None };
    let words = words.iter().map(Word::plain).collect();
    let has_defaults = line.has_defaults();
    Ok(Directive { has_defaults, ..Directive::new(name.plain(), words, inner, line.source()) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directive::shown;

    fn read(text: &str) -> Result<String, String> {
        let include = |path: &Path| match path.ends_with("other") {
            true => Ok(vec![(path.to_owned(), "x {args[0]}".to_owned())]),
            false => Err("no such file".to_owned()),
        };
        file(Path::new("/etc/Caddyfile"), text, &include)
            .map(|found| shown(&found))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn blocks_and_words_are_read_as_caddy_reads_them() {
        for (text, expected) in [
            ("a.example\nfile_server", "1:site <a.example> { 2:file_server } "),
            (
                "a.example, b.example {\n# c\nroot * \"/a b\"\n}",
                "1:site <a.example> <b.example> { 3:root <*> </a b> } ",
            ),
            (
                "a.example,\nb.example {\nx\n}\nc {\n}",
                "1:site <a.example> <b.example> { 3:x } 5:site <c> { } ",
            ),
            (
                "{\nadmin off\n}\n:80 {\nx `a \"b\"` \"c \\\"d\\\" \\e\"\n}",
                "1:global options { 2:admin <off> } 4:site <:80> { 5:x <a \"b\"> <c \"d\" \\e> } ",
            ),
            ("a {\nx {\ny\n}\nz \\\n  w\n}", "1:site <a> { 2:x { 3:y } 5:z <w> } "),
            ("(s) {\nx {args[0]} {args.1}\n}\na {\nimport s 1 2\n}", "4:site <a> { 2:x <1> <2> } "),
            ("&(r) {\nx\n}\na {\n}", "1:&(r) { 2:x } 4:site <a> { } "),
            ("a {\nimport other 7\n}", "1:site <a> { 1:x <7> } "),
            ("a {\nx {$A:b}/{$C} {$D\n}", "1:site <a> { 2:x <b/{$C}> <{$D> } "),
            ("a {\nrespond \"b\nc\"\nx\n}", "1:site <a> { 2:respond <b\nc> 4:x } "),
        ] {
            assert_eq!(read(text).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn an_error_has_its_line() {
        for (text, expected) in [
            ("a {\nx", "1: the block has no \"}\" at its end"),
            ("a {\n}\n}", "3: there is no block that \"}\" would end, or a site has no address"),
            ("a {\nx \"b\n}", "2: the text in quotes does not end"),
            ("a {\nimport gone\n}", "2: no such file"),
            ("a {\nimport\n}", "2: import takes the name of a snippet or of files"),
            (
                "(s) {\nimport s\n}\na {\nimport s\n}",
                "2: imports are nested too deeply, or there are too many",
            ),
        ] {
            assert_eq!(read(text), Err(format!("/etc/Caddyfile:{expected}")), "{text:?}");
        }
        assert!(read(&"a {\n".repeat(10_000)).is_err());
    }

    #[test]
    fn imports_in_imports_have_a_limit() {
        // Each level imports the next one twice, or gives it its argument twice.
        for body in ["import s{next}\nimport s{next}", "import s{next} {args[0]}{args[0]}\nx {args[0]}"] {
            let level =
                |at: usize| format!("(s{at}) {{\n{}\n}}\n", body.replace("{next}", &(at + 1).to_string()));
            let levels: String = (0..40).map(level).collect();
            let text = format!("{levels}(s40) {{\n}}\na {{\nimport s0 abcdefgh\n}}");
            let error = read(&text).expect_err("it is too much");
            assert!(error.ends_with("imports are nested too deeply, or there are too many"), "{error}");
        }
    }
}
