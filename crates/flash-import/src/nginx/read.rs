//! The syntax of nginx's files: directives with their words, blocks and lines. What a directive means is not known here.
//!
//! The rules are those of nginx's `ngx_conf_read_token`: a quote counts at the beginning of a word only, and a backslash stands
//! before a quote, a backslash and `t`, `r`, `n`; before anything else it is a part of the word, as in regular expressions.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::directive::{Directive, Include};
use crate::note::{Error, Source};

/// Blocks in blocks, and files in files.
const DEPTH_MAX: usize = 64;
/// Of all files together.
const BYTES_MAX: usize = 64 << 20;

/// Reads a file with all that it includes. Names are relative to the folder of the first file.
///
/// # Errors
/// The first error, with its file and line.
pub(crate) fn file(path: &Path, text: &str, include: Include<'_>) -> Result<Vec<Directive>, Error> {
    let folder = path.parent().unwrap_or(Path::new("")).to_owned();
    let mut reading = Reading { folder, include, bytes: 0 };
    reading.file(path, text, 0)
}

struct Reading<'i> {
    folder: PathBuf,
    include: Include<'i>,
    bytes: usize,
}

impl Reading<'_> {
    fn file(&mut self, path: &Path, text: &str, depth: usize) -> Result<Vec<Directive>, Error> {
        self.bytes += text.len();
        let mut words = Words { file: path.into(), rest: text, line: 1 };
        if self.bytes > BYTES_MAX {
            return Err(words.error(1, "the files are larger than 64M together"));
        }
        self.block(&mut words, depth, None)
    }

    /// Up to the end of the block that began at the line `begin`, or of the file.
    fn block(
        &mut self,
        words: &mut Words<'_>,
        depth: usize,
        begin: Option<usize>,
    ) -> Result<Vec<Directive>, Error> {
        let mut directives = Vec::new();
        if depth > DEPTH_MAX {
            return Err(words.error(words.line, "blocks or included files are nested too deeply"));
        }
        loop {
            match words.next()? {
                Token::End => match begin {
                    None => return Ok(directives),
                    Some(line) => return Err(words.error(line, "the block has no \"}\" at its end")),
                },
                Token::Close if begin.is_some() => return Ok(directives),
                Token::Close => return Err(words.error(words.line, "there is no block that \"}\" would end")),
                Token::Semicolon => return Err(words.error(words.line, "there is nothing before \";\"")),
                Token::Open => return Err(words.error(words.line, "there is nothing before \"{\"")),
                Token::Word(name) => self.directive(name, words, depth, &mut directives)?,
            }
        }
    }

    fn directive(
        &mut self,
        name: String,
        words: &mut Words<'_>,
        depth: usize,
        directives: &mut Vec<Directive>,
    ) -> Result<(), Error> {
        let line = words.line;
        let mut given = Vec::new();
        let block = loop {
            match words.next()? {
                Token::Word(word) => given.push(word),
                Token::Semicolon => break None,
                Token::Open if name.ends_with("_by_lua_block") => {
                    words.skip_block(line)?;
                    break Some(Vec::new());
                }
                Token::Open => break Some(self.block(words, depth + 1, Some(line))?),
                Token::Close | Token::End => {
                    return Err(words.error(line, &format!("\"{name}\" has no \";\" at its end")));
                }
            }
        };
        let text = [std::slice::from_ref(&name), &given[..]].concat().join(" ");
        let end = if block.is_some() { " {" } else { ";" };
        let source = Source { file: Arc::clone(&words.file), line, text: format!("{text}{end}") };
        match (&*name, &given[..], &block) {
            ("include", [pattern], None) => {
                let path = self.folder.join(pattern);
                let files = (self.include)(&path).map_err(|why| words.error(line, &why))?;
                for (path, text) in files {
                    directives.extend(self.file(&path, &text, depth + 1)?);
                }
            }
            ("include", ..) => return Err(words.error(line, "include takes one name")),
            _ => directives.push(Directive::new(name, given, block, source)),
        }
        Ok(())
    }
}

struct Words<'t> {
    file: Arc<Path>,
    rest: &'t str,
    /// Of the last token.
    line: usize,
}

#[derive(Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    Open,
    Close,
    Semicolon,
    End,
}

impl Words<'_> {
    fn error(&self, line: usize, why: &str) -> Error {
        Error { file: Arc::clone(&self.file), line, why: why.into() }
    }

    fn take(&mut self) -> Option<char> {
        let mut chars = self.rest.chars();
        let next = chars.next()?;
        self.rest = chars.as_str();
        self.line += usize::from(next == '\n');
        Some(next)
    }

    fn next(&mut self) -> Result<Token, Error> {
        loop {
            match self.rest.chars().next() {
                None => return Ok(Token::End),
                Some('#') => while self.take().is_some_and(|next| next != '\n') {},
                Some(c) if is_space(c) => _ = self.take(),
                Some(_) => break,
            }
        }
        let simple = match self.rest.as_bytes()[0] {
            b'{' => Token::Open,
            b'}' => Token::Close,
            b';' => Token::Semicolon,
            quote @ (b'"' | b'\'') => return self.quoted(char::from(quote)).map(Token::Word),
            _ => return self.bare().map(Token::Word),
        };
        self.take();
        Ok(simple)
    }

    fn quoted(&mut self, quote: char) -> Result<String, Error> {
        let line = self.line;
        self.take();
        let mut word = String::new();
        loop {
            match self.take() {
                None => return Err(self.error(line, "the text in quotes does not end")),
                Some('\\') => self.escape(&mut word),
                Some(c) if c == quote => break,
                Some(c) => word.push(c),
            }
        }
        match self.rest.chars().next() {
            Some(c) if !is_space(c) && !";{)".contains(c) => {
                Err(self.error(self.line, "there is no space after a text in quotes"))
            }
            _ => Ok(word),
        }
    }

    fn bare(&mut self) -> Result<String, Error> {
        let line = self.line;
        let mut word = String::new();
        while let Some(c) = self.rest.chars().next() {
            let is_name_of_variable = c == '{' && word.ends_with('$');
            if !is_name_of_variable && (is_space(c) || ";{".contains(c)) {
                return Ok(word);
            }
            self.take();
            match c {
                '\\' => self.escape(&mut word),
                _ => word.push(c),
            }
            if is_name_of_variable {
                while let Some(c) = self.take() {
                    word.push(c);
                    if c == '}' {
                        break;
                    }
                }
            }
        }
        Err(self.error(line, &format!("the file ends after \"{word}\"")))
    }

    fn escape(&mut self, word: &mut String) {
        match self.take() {
            Some('t') => word.push('\t'),
            Some('r') => word.push('\r'),
            Some('n') => word.push('\n'),
            Some(c @ ('"' | '\'' | '\\')) => word.push(c),
            Some(c) => word.extend(['\\', c]),
            None => word.push('\\'),
        }
    }

    /// A block in another language, with what it nests.
    fn skip_block(&mut self, begin: usize) -> Result<(), Error> {
        let mut depth = 1;
        while depth > 0 {
            match self.take() {
                None => return Err(self.error(begin, "the block has no \"}\" at its end")),
                Some('{') => depth += 1,
                Some('}') => depth -= 1,
                Some(_) => {}
            }
        }
        Ok(())
    }
}

fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directive::shown;
    use proptest::prelude::*;

    fn read(text: &str) -> Result<Vec<Directive>, String> {
        let none = |path: &Path| match path.ends_with("other.conf") {
            true => Ok(vec![(path.to_owned(), "gzip on;\n\nindex a b;".into())]),
            false => Err("no such file".into()),
        };
        file(Path::new("/etc/nginx/nginx.conf"), text, &none).map_err(|error| error.to_string())
    }

    #[test]
    fn words_are_read_as_nginx_reads_them() {
        for (text, expected) in [
            ("listen 80;", "1:listen <80> "),
            ("# a\n  listen\t80 # b; c\n  default_server;", "2:listen <80> <default_server> "),
            (r#"a "b c" 'd "e"' "f \" \\ \. \n";"#, "1:a <b c> <d \"e\"> <f \" \\ \\. \n> "),
            (r"location ~ \.(?:js|css)$ { }", "1:location <~> <\\.(?:js|css)$> { } "),
            (r"location ~ ^/a\{1\;x { }", "1:location <~> <^/a\\{1\\;x> { } "),
            ("a ${b}c;", "1:a <${b}c> "),
            ("a b\"c;", "1:a <b\"c> "),
            ("if ($a = \"b\") { return 404; }", "1:if <($a> <=> <b> <)> { 1:return <404> } "),
            ("http{server{listen 1;}}", "1:http { 1:server { 1:listen <1> } } "),
            ("a;include other.conf;b;", "1:a 1:gzip <on> 3:index <a> <b> 1:b "),
            ("x_by_lua_block { if a then { } end; }\nb;", "1:x_by_lua_block { } 2:b "),
        ] {
            assert_eq!(read(text).map(|found| shown(&found)).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn an_error_has_its_line() {
        for (text, expected) in [
            ("a;\nb", "/etc/nginx/nginx.conf:2: the file ends after \"b\""),
            ("a {\nb;\n", "/etc/nginx/nginx.conf:1: the block has no \"}\" at its end"),
            ("a;\n}", "/etc/nginx/nginx.conf:2: there is no block that \"}\" would end"),
            ("a b }", "/etc/nginx/nginx.conf:1: \"a\" has no \";\" at its end"),
            ("\n;", "/etc/nginx/nginx.conf:2: there is nothing before \";\""),
            ("a 'b\n\n", "/etc/nginx/nginx.conf:1: the text in quotes does not end"),
            ("a \"b\"c;", "/etc/nginx/nginx.conf:1: there is no space after a text in quotes"),
            ("a;\ninclude gone.conf;", "/etc/nginx/nginx.conf:2: no such file"),
            ("include;", "/etc/nginx/nginx.conf:1: include takes one name"),
        ] {
            assert_eq!(read(text).map(|found| shown(&found)), Err(expected.into()), "{text:?}");
        }
    }

    #[test]
    fn a_file_that_includes_itself_is_an_error() {
        let itself = |path: &Path| Ok(vec![(path.to_owned(), "include a;".to_owned())]);
        let error = file(Path::new("/a"), "include a;", &itself).expect_err("it has no end");
        assert_eq!(error.to_string(), "/a:1: blocks or included files are nested too deeply");
        let deep = "a {".repeat(10_000);
        assert!(read(&deep).is_err());
    }

    proptest! {
        /// Words that are quoted come back as they are, with the lines that they were on.
        #[test]
        fn what_is_quoted_is_read_back(words in prop::collection::vec("[^\\x00]{0,12}", 1..6)) {
            let quote = |word: &String| format!("\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\""));
            let text = format!("\n\na {};", words.iter().map(quote).collect::<Vec<_>>().join(" "));
            let found = read(&text).map_err(TestCaseError::fail)?;
            prop_assert_eq!(&found[0].words, &words);
        }

        #[test]
        fn no_text_is_too_much(text in "[ -~\n{};'\"\\\\$#]{0,200}") {
            if let Err(error) = read(&text) {
                let line = error.split(':').nth(1).and_then(|line| line.parse::<usize>().ok());
                prop_assert!(line.is_some_and(|line| (1..=text.split('\n').count()).contains(&line)), "{}", error);
            }
        }
    }
}
