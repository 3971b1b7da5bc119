//! `redirects`: single paths that moved, as a file lists them.
//!
//! A line has the old path, the new path or URL, and perhaps a status. Quotes and a semicolon at the end of a line mean nothing, so
//! most tables of nginx's `map` and Apache's `RewriteMap` are read as they are.

use std::collections::HashMap;

use flash_http::head::{RequestHead, Target};
use hashbrown::DefaultHashBuilder;

use super::redirect::Redirect;
use crate::path::SitePath;

/// Old paths, decoded, with the query behind them if the line has one, and where each leads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RedirectTable {
    targets: HashMap<Box<[u8]>, Box<str>, DefaultHashBuilder>,
    /// Some line has a query.
    has_queries: bool,
}

/// A line that is not right, by its number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrongLine {
    pub number: usize,
    pub why: String,
}

/// What a line has if it says nothing else.
const STATUS: &str = "301";

impl RedirectTable {
    /// # Errors
    /// All lines that are not right.
    pub fn parse(text: &str) -> Result<Self, Vec<WrongLine>> {
        let (mut table, mut wrong) = (Self::default(), Vec::new());
        for (number, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if let Err(why) = table.add(line) {
                wrong.push(WrongLine { number: number + 1, why });
            }
        }
        if wrong.is_empty() { Ok(table) } else { Err(wrong) }
    }

    pub fn len(&self) -> usize {
        self.targets.len()
    }

    pub fn is_empty(&self) -> bool {
        self.targets.is_empty()
    }

    fn add(&mut self, line: &str) -> Result<(), String> {
        let words: Vec<&str> = line.trim_end_matches(';').split_whitespace().collect();
        let (from, to, status) = match words[..] {
            [from, to] => (from, to, STATUS),
            [from, to, status] => (from, to, status),
            _ => return Err("write an old path, and a new path or URL, with a space between them".into()),
        };
        let (from, to) = (from.trim_matches(['"', '\'']), to.trim_matches(['"', '\'']));
        if !from.starts_with('/') {
            return Err(format!("'{}' is no path: it begins with a slash", from.escape_debug()));
        }
        let (path, query) = from.split_once('?').map_or((from, None), |(path, query)| (path, Some(query)));
        let path = SitePath::parse(path.as_bytes())
            .ok()
            .filter(|_| !from.contains('#'))
            .ok_or_else(|| format!("'{}' is no path that a request has", from.escape_debug()))?;
        // A query that was looked for is not passed on.
        let target = match query {
            Some(_) => format!("{status} {}", without_query(to)),
            None => format!("{status} {to}"),
        };
        let redirect = Redirect::parse(&target)?;
        if query.is_none() && redirect.fill(&path, None).is_some_and(|to| to == from.as_bytes()) {
            return Err("this leads to itself".into());
        }
        let key = key(&path, query.map(str::as_bytes));
        self.has_queries |= query.is_some();
        match self.targets.insert(key, target.clone().into()) {
            Some(before) if *before != *target => {
                Err(format!("another line has '{}', too", from.escape_debug()))
            }
            _ => Ok(()),
        }
    }

    /// Where a request is sent: as the line with its path and query says, or else the one with its path.
    pub(crate) fn find(&self, head: &RequestHead<'_>) -> Option<Redirect> {
        let Target::Origin { path, query } = head.target else { return None };
        let path = SitePath::parse(path).ok()?;
        let with_query = query.filter(|_| self.has_queries);
        let target = with_query.and_then(|query| self.targets.get(&key(&path, Some(query))));
        let target = target.or_else(|| self.targets.get(path.as_bytes()))?;
        Redirect::parse(target).ok()
    }
}

fn key(path: &SitePath<'_>, query: Option<&[u8]>) -> Box<[u8]> {
    match query {
        // No path has this byte between them.
        Some(query) => [path.as_bytes(), b"\0", query].concat().into(),
        None => path.as_bytes().into(),
    }
}

/// With the sign that no query follows, in front of a fragment.
fn without_query(to: &str) -> String {
    let (to, fragment) = to.split_at(to.find('#').unwrap_or(to.len()));
    format!("{}?{fragment}", to.trim_end_matches('?'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use flash_http::head::{self, Limits, Parsed};

    fn leads_to(table: &RedirectTable, target: &str) -> Option<(u16, String)> {
        let bytes = format!("GET {target} HTTP/1.1\r\nHost: a.example\r\n\r\n");
        let Ok(Parsed::Complete { head, .. }) = head::parse(bytes.as_bytes(), &Limits::NONE) else {
            panic!("{target}")
        };
        let redirect = table.find(&head)?;
        Some((redirect.status().0, String::from_utf8(redirect.location(&head, None)?).expect("it is ASCII")))
    }

    #[test]
    fn lines_lead_from_paths_to_paths() {
        let table = RedirectTable::parse(
            "# moved\n/old /new\n\n  /a%20b\thttps://b.example/c 308\n\"/quoted\" \"/q\";\n/page?id=7 /seven#part\n/page /pages\n/ä /ae",
        )
        .expect("all lines are right");
        assert_eq!(table.len(), 6);
        for (target, expected) in [
            ("/old", Some((301, "/new"))),
            ("/old?a=1", Some((301, "/new?a=1"))),
            ("/a%20b", Some((308, "https://b.example/c"))),
            ("/%61%20b", Some((308, "https://b.example/c"))),
            ("//old", Some((301, "/new"))),
            ("/quoted", Some((301, "/q"))),
            ("/page?id=7", Some((301, "/seven#part"))),
            ("/page?id=8", Some((301, "/pages?id=8"))),
            ("/page", Some((301, "/pages"))),
            ("/page%3Fid=7", None),
            ("/%C3%A4", Some((301, "/ae"))),
            ("/old/", None),
            ("/older", None),
            ("/", None),
        ] {
            let found = leads_to(&table, target);
            assert_eq!(found.as_ref().map(|(status, to)| (*status, &**to)), expected, "{target}");
        }
    }

    #[test]
    fn each_wrong_line_has_its_number() {
        for (line, why) in [
            ("/old", "write an old path"),
            ("/a /b 301 c", "write an old path"),
            ("old /new", "'old' is no path"),
            ("~^/a /b", "'~^/a' is no path"),
            ("default /b;", "'default' is no path"),
            ("/old new", "write a path such as"),
            ("/old /new 200", "the status of a redirection"),
            ("/old //evil.example", "write a path such as"),
            ("/%00 /new", "is no path that a request has"),
            ("/x#y /new", "is no path that a request has"),
            ("/a /a", "this leads to itself"),
            ("/a /b\n/a /c", "another line has '/a'"),
        ] {
            let wrong = RedirectTable::parse(&format!("\n{line}")).expect_err(line);
            assert_eq!(wrong.len(), 1, "{line}");
            assert_eq!(wrong[0].number, 1 + line.lines().count(), "{line}");
            assert!(wrong[0].why.starts_with(why) || wrong[0].why.contains(why), "{line}: {}", wrong[0].why);
        }
        assert!(RedirectTable::parse("/a /b\n/a /b").is_ok(), "the same twice");
        assert_eq!(RedirectTable::parse("a\n/b /c\nd").map_err(|wrong| wrong.len()), Err(2));
    }
}
