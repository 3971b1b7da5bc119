//! What a file declares and uses, read from its words. Of Rust this knows `mod`, `use`, paths, braces and attributes for tests.

use std::collections::BTreeSet;

use super::super::source::Source;

/// A path that is imported or written out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Used {
    /// As it is meant from the file's own module: `["super", "pool", "Pool"]`. A `*` at its end is left out.
    pub(super) path: Vec<String>,
    /// The name that an import gives it here.
    pub(super) name: Option<String>,
    pub(super) place: String,
}

/// The modules that a file declares, and the paths in it.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// Those in other files.
    pub(super) modules: BTreeSet<String>,
    pub(super) used: Vec<Used>,
}

/// What braces enclose.
struct Scope {
    /// Whether it is a module.
    is_module: bool,
    /// Whether it is there for tests alone.
    is_test: bool,
}

type Word = (String, usize);

impl Names {
    pub(super) fn read(source: &Source) -> Names {
        let words = words(source);
        let mut reader =
            Reader { path: &source.path, words: &words, at: 0, scopes: Vec::new(), names: Names::default() };
        reader.read();
        reader.names
    }
}

/// Identifiers, `::`, and single characters, each with its line.
fn words(source: &Source) -> Vec<Word> {
    let mut words: Vec<Word> = Vec::new();
    for (number, line) in source.numbered() {
        let mut within = false;
        for c in line.bare.chars() {
            let is_name = c.is_alphanumeric() || c == '_';
            match words.last_mut() {
                Some((word, _)) if within && is_name => word.push(c),
                Some((word, _)) if c == ':' && word == ":" => word.push(c),
                _ if c.is_whitespace() => {}
                _ => words.push((c.to_string(), number)),
            }
            within = is_name;
        }
    }
    words
}

struct Reader<'a> {
    path: &'a str,
    words: &'a [Word],
    at: usize,
    scopes: Vec<Scope>,
    names: Names,
}

impl Reader<'_> {
    fn word(&self, ahead: usize) -> &str {
        self.words.get(self.at + ahead).map_or("", |(word, _)| word)
    }

    fn read(&mut self) {
        // Whether an attribute says that what follows is for tests.
        let mut for_tests = false;
        while self.at < self.words.len() {
            let is_test = for_tests || self.scopes.iter().any(|scope| scope.is_test);
            match self.word(0) {
                "#" if self.word(1) == "[" || self.word(1) == "!" => for_tests |= self.attribute(),
                "mod" if is_name(self.word(1)) && self.word(2) == ";" => {
                    if !is_test {
                        self.names.modules.insert(self.word(1).to_owned());
                    }
                    for_tests = false;
                    self.at += 3;
                }
                "mod" if is_name(self.word(1)) && self.word(2) == "{" => {
                    self.scopes.push(Scope { is_module: true, is_test });
                    for_tests = false;
                    self.at += 3;
                }
                "use" => {
                    self.at += 1;
                    let start = self.names.used.len();
                    self.tree(&[]);
                    if is_test {
                        self.names.used.truncate(start);
                    }
                    for_tests = false;
                }
                "{" => {
                    self.scopes.push(Scope { is_module: false, is_test });
                    for_tests = false;
                    self.at += 1;
                }
                "}" => {
                    self.scopes.pop();
                    self.at += 1;
                }
                ";" => {
                    for_tests = false;
                    self.at += 1;
                }
                word if is_name(word) && self.word(1) == "::" => self.path(is_test),
                _ => self.at += 1,
            }
        }
    }

    /// Skips an attribute: whether it is `#[test]`, or a `cfg` of tests.
    fn attribute(&mut self) -> bool {
        let mut depth = 0;
        let (mut is_test, mut is_not) = (false, false);
        loop {
            match self.word(0) {
                "[" => depth += 1,
                "]" => depth -= 1,
                "test" => is_test = true,
                "not" => is_not = true,
                _ => {}
            }
            let end = depth == 0 && self.word(0) == "]" || self.word(0).is_empty();
            self.at += 1;
            if end {
                return is_test && !is_not;
            }
        }
    }

    /// One branch of an import, up to the comma, brace or semicolon that ends it.
    fn tree(&mut self, before: &[String]) {
        let mut path = before.to_vec();
        let line = self.words.get(self.at).map_or(0, |(_, line)| *line);
        loop {
            match self.word(0) {
                "{" => {
                    self.at += 1;
                    while !matches!(self.word(0), "}" | "") {
                        self.tree(&path);
                        if self.word(0) == "," {
                            self.at += 1;
                        }
                    }
                    self.at += 1;
                    return;
                }
                "*" => {
                    self.at += 1;
                    self.add(path, None, line);
                    return;
                }
                "::" => self.at += 1,
                name if is_name(name) => {
                    path.push(name.to_owned());
                    self.at += 1;
                    if self.word(0) == "as" {
                        let name = self.word(1).to_owned();
                        self.at += 2;
                        self.add(path, Some(name), line);
                        return;
                    }
                    if self.word(0) != "::" {
                        let named = if name_is_self(&path) { path.iter().rev().nth(1) } else { path.last() };
                        let name = named.cloned();
                        self.add(path, name, line);
                        return;
                    }
                }
                _ => return,
            }
        }
    }

    /// A path among other code.
    fn path(&mut self, is_test: bool) {
        let line = self.words[self.at].1;
        // `pub(in crate::a)` uses nothing of it, and a field or a generic is no path's beginning.
        let before = |back: usize| self.at.checked_sub(back).map_or("", |at| &*self.words[at].0);
        let is_visibility = before(1) == "in" && before(2) == "(";
        let counts = !is_test && !is_visibility && before(1) != "::";
        let mut path = vec![self.word(0).to_owned()];
        self.at += 1;
        while self.word(0) == "::" && is_name(self.word(1)) {
            path.push(self.word(1).to_owned());
            self.at += 2;
        }
        if counts {
            self.add(path, None, line);
        }
    }

    /// Notes a path as it is meant outside the modules within this file, if it leads out of them.
    fn add(&mut self, mut path: Vec<String>, name: Option<String>, line: usize) {
        let mut depth = self.scopes.iter().filter(|scope| scope.is_module).count();
        while depth > 0 && path.first().is_some_and(|first| first == "super") {
            path.remove(0);
            depth -= 1;
        }
        let is_absolute = path.first().is_some_and(|first| first == "crate");
        if depth > 0 && !is_absolute || path.is_empty() {
            return;
        }
        let place = format!("{}:{line}", self.path);
        self.names.used.push(Used { path, name, place });
    }
}

fn is_name(word: &str) -> bool {
    word.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

fn name_is_self(path: &[String]) -> bool {
    path.last().is_some_and(|last| last == "self")
}
