//! Regular expressions about paths, as far as Flash has the same in other words: prefixes, ends of names, single paths.

use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Class, Hir, HirKind, Look, Repetition};

/// What one alternative of an expression covers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    All,
    Exact(String),
    /// This prefix, whatever follows. A slash at its end is a part of it.
    Begins(String),
    /// A name below any folder, with what it begins.
    Ends(String),
    /// A file of this name in any folder.
    Name(String),
    BelowEnds(String, String),
    /// Below each folder of this name, with this end.
    InEnds(String, String),
    /// Scripts of this suffix with a path after them.
    Info(String),
    /// Names that begin with a dot, and then with this.
    Hidden(String),
}

/// What follows a prefix, and which group it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tail {
    pub(crate) prefix: String,
    pub(crate) group: Option<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Text(String),
    /// A part of a name: one character of many, or several.
    One,
    /// Anything.
    Any,
    Start,
    End,
    Open(u32),
    Close(u32),
}

type Alternative = Vec<Token>;

/// Alternatives of one expression. What has more is not read.
const ALTERNATIVES_MAX: usize = 128;
/// Classes of characters that count as their characters.
const CLASS_MAX: usize = 4;

/// What the expression covers, each alternative for itself. `None` if some of it has no other words.
pub(crate) fn shapes(expression: &str) -> Option<Vec<Shape>> {
    alternatives(expression)?.into_iter().map(shape).collect()
}

/// The same of those alternatives that have other words, and whether these are all.
pub(crate) fn known_shapes(expression: &str) -> (Vec<Shape>, bool) {
    let all: Vec<Option<Shape>> =
        alternatives(expression).unwrap_or_default().into_iter().map(shape).collect();
    let is_all = !all.is_empty() && all.iter().all(Option::is_some);
    (all.into_iter().flatten().collect(), is_all)
}

/// The prefix that each alternative begins with, if all else is a group of whatever follows.
pub(crate) fn tails(expression: &str) -> Option<Vec<(Tail, bool)>> {
    alternatives(expression)?.into_iter().map(tail).collect()
}

fn alternatives(expression: &str) -> Option<Vec<Alternative>> {
    // What Flash serves of hidden names anyway.
    let known =
        ["(?!well-known/)", "(?!well-known)", "(?!\\.well-known)", "(?!/?well-known)", "(?!well-known\\/)"];
    let plain = known.iter().fold(expression.to_owned(), |text, known| text.replace(known, ""));
    let plain = plain.replace("\\/", "/").replace("++", "+");
    let hir = ParserBuilder::new().utf8(false).unicode(false).build().parse(&plain).ok()?;
    expand(&hir)
}

fn expand(hir: &Hir) -> Option<Vec<Alternative>> {
    let alternatives = match hir.kind() {
        HirKind::Empty => vec![Vec::new()],
        HirKind::Literal(text) => vec![vec![Token::Text(String::from_utf8(text.0.to_vec()).ok()?)]],
        HirKind::Look(Look::Start | Look::StartLF) => vec![vec![Token::Start]],
        HirKind::Look(Look::End | Look::EndLF) => vec![vec![Token::End]],
        HirKind::Look(_) => return None,
        HirKind::Class(class) => match members(class) {
            // People forget the backslash before a dot.
            None if is_any(class) => vec![vec![Token::Text(".".into())]],
            Some(members) => members.into_iter().map(|one| vec![Token::Text(one)]).collect(),
            None => vec![vec![Token::One]],
        },
        HirKind::Capture(group) => {
            let wrap = |inner: Alternative| {
                [vec![Token::Open(group.index)], inner, vec![Token::Close(group.index)]].concat()
            };
            expand(&group.sub)?.into_iter().map(wrap).collect()
        }
        HirKind::Repetition(repetition) => repeat(repetition)?,
        HirKind::Concat(parts) => {
            let mut all = vec![Vec::new()];
            for part in parts {
                let next = expand(part)?;
                if all.len() * next.len() > ALTERNATIVES_MAX {
                    return None;
                }
                all = all
                    .iter()
                    .flat_map(|before: &Alternative| {
                        next.iter().map(move |after| [&before[..], after].concat())
                    })
                    .collect();
            }
            all
        }
        HirKind::Alternation(parts) => {
            parts.iter().map(expand).collect::<Option<Vec<_>>>()?.into_iter().flatten().collect()
        }
    };
    (alternatives.len() <= ALTERNATIVES_MAX).then_some(alternatives)
}

fn repeat(Repetition { min, max, sub, .. }: &Repetition) -> Option<Vec<Alternative>> {
    match (min, max, sub.kind()) {
        (0, Some(1), _) => Some([vec![Vec::new()], expand(sub)?].concat()),
        (0 | 1, None, HirKind::Class(class)) if members(class).is_none() => {
            Some(vec![vec![if has_slash(class) { Token::Any } else { Token::One }]])
        }
        // Slashes, one after another: paths have one.
        (1, None, HirKind::Literal(text)) if *text.0 == *b"/" => Some(vec![vec![Token::Text("/".into())]]),
        _ => None,
    }
}

/// Whether the class is that of a dot.
fn is_any(class: &Class) -> bool {
    matches!(class, Class::Bytes(class) if class.iter().map(|range| range.len()).sum::<usize>() == 255)
        && has_slash(class)
}

fn has_slash(class: &Class) -> bool {
    match class {
        Class::Unicode(class) => class.iter().any(|range| (range.start()..=range.end()).contains(&'/')),
        Class::Bytes(class) => class.iter().any(|range| (range.start()..=range.end()).contains(&b'/')),
    }
}

/// The characters of a small class.
fn members(class: &Class) -> Option<Vec<String>> {
    let all: Vec<char> = match class {
        Class::Unicode(class) => {
            class.iter().flat_map(|range| range.start()..=range.end()).take(CLASS_MAX + 1).collect()
        }
        Class::Bytes(class) => class
            .iter()
            .flat_map(|range| (range.start()..=range.end()).map(char::from))
            .take(CLASS_MAX + 1)
            .collect(),
    };
    (all.len() <= CLASS_MAX).then(|| all.into_iter().map(String::from).collect())
}

/// Without groups, and with neighbouring texts as one.
fn plain(tokens: Alternative) -> Alternative {
    let mut plain: Alternative = Vec::new();
    for token in tokens {
        match (token, plain.last_mut()) {
            (Token::Open(_) | Token::Close(_), _) => {}
            (Token::Text(text), Some(Token::Text(before))) => before.push_str(&text),
            (Token::Any, Some(Token::Any)) => {}
            (token, _) => plain.push(token),
        }
    }
    plain
}

fn shape(tokens: Alternative) -> Option<Shape> {
    use Token::{Any, End, Start, Text};
    let mut tokens = plain(tokens);
    // A name has something before its end.
    if matches!(&tokens[..], [Token::One, Text(end), ..] if end.starts_with('.')) {
        tokens.remove(0);
    }
    let anywhere = |text: &str, is_end: bool| match (text, is_end) {
        (text, true) if text.starts_with('.') && !text.contains('/') => Some(Shape::Ends(text.into())),
        (text, _)
            if text.strip_prefix("/.").is_some_and(|rest| !rest.contains('/'))
                && !(is_end && text.len() > 2) =>
        {
            Some(Shape::Hidden(text[2..].into()))
        }
        (text, true) if text.starts_with('/') && !text[1..].contains('/') => {
            Some(Shape::Name(text[1..].into()))
        }
        (text, false) if text.starts_with('.') && text.ends_with('/') && text.matches('/').count() == 1 => {
            Some(Shape::Info(text[..text.len() - 1].into()))
        }
        // Wherever it is in a name. Of scripts it is the end.
        (text, false) if text.starts_with('.') && !text.contains('/') => Some(Shape::Info(text.into())),
        _ => None,
    };
    match &tokens[..] {
        [] | [Start] | [Any] | [Start, Any] | [Start, Any, End] => Some(Shape::All),
        [Start, Text(path), End] if path.starts_with('/') => Some(Shape::Exact(path.clone())),
        [Start, Text(path)] | [Start, Text(path), Any] | [Start, Text(path), Any, End] if path == "/" => {
            Some(Shape::All)
        }
        [Start, Text(path)] if path.starts_with("/.") => Some(Shape::Hidden(path[2..].into())),
        [Start, Text(path)] | [Start, Text(path), Any] | [Start, Text(path), Any, End]
            if path.starts_with('/') =>
        {
            Some(Shape::Begins(path.clone()))
        }
        [Start, Text(path), Any, Text(end), End] if path == "/" || path.is_empty() => anywhere(end, true),
        [Start, Text(path), Any, Text(end), Any, End] if path == "/" => anywhere(end, false),
        [Start, Text(path), Any, Text(end), End] | [Start, Text(path), Any, Text(end)]
            if path.ends_with('/') && end.starts_with('.') =>
        {
            Some(Shape::BelowEnds(path[..path.len() - 1].into(), end.trim_end_matches('/').into()))
        }
        [Text(folder), Any, Text(end), End] | [Start, Any, Text(folder), Any, Text(end), End]
            if folder.len() > 2
                && folder.starts_with('/')
                && folder.ends_with('/')
                && end.starts_with('.')
                && folder.matches('/').count() == 2 =>
        {
            Some(Shape::InEnds(folder.trim_matches('/').into(), end.clone()))
        }
        [Text(text), End] | [Any, Text(text), End] | [Start, Any, Text(text), End] => anywhere(text, true),
        [Text(slash), Any, Text(end), End] if slash == "/" => anywhere(end, true),
        [Text(text)] | [Text(text), Any] | [Text(text), Any, End] => anywhere(text, false),
        [Any, Text(text)] | [Any, Text(text), Any] => anywhere(text, false),
        [Start, Any, Text(text)] | [Start, Any, Text(text), Any] | [Start, Any, Text(text), Any, End] => {
            match anywhere(text, false) {
                None if text.starts_with('.') => Some(Shape::Info(text.clone())),
                found => found,
            }
        }
        _ => None,
    }
}

/// The prefix, and whether nothing may follow it.
fn tail(tokens: Alternative) -> Option<(Tail, bool)> {
    let mut tokens = tokens.into_iter().peekable();
    if tokens.next() != Some(Token::Start) {
        return None;
    }
    let (mut prefix, mut group, mut open) = (String::new(), None, None);
    let mut has_any = false;
    for token in tokens {
        match token {
            Token::Text(text) if !has_any => {
                if open.is_some() {
                    return None;
                }
                prefix.push_str(&text);
            }
            Token::Any if !has_any => (has_any, group) = (true, open),
            Token::Open(of) if !has_any && open.is_none() => open = Some(of),
            Token::Close(_) => open = None,
            Token::End => return Some((Tail { prefix, group }, !has_any)),
            _ => return None,
        }
    }
    Some((Tail { prefix, group }, false))
}

/// The words that an expression looks for anywhere in a text: `(GPTBot|Bytespider)`. `None` if it looks for something else.
pub(crate) fn words(expression: &str) -> Option<Vec<String>> {
    let inner = expression.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')).unwrap_or(expression);
    inner.split('|').map(word).collect()
}

fn word(expression: &str) -> Option<String> {
    let (mut word, mut escaped) = (String::new(), false);
    for c in expression.trim_start_matches(".*").trim_end_matches(".*").chars() {
        match c {
            '\\' if !escaped => {
                escaped = true;
                continue;
            }
            c if escaped && c.is_ascii_alphanumeric() => return None,
            c if !escaped && r".^$*+?()[]{}|#".contains(c) => return None,
            c => word.push(c),
        }
        escaped = false;
    }
    // A number behind a gap and before a stroke would be a limit.
    let is_plain = !escaped && !word.trim().is_empty() && word.trim() == word;
    let may_have_limit = word.contains(' ') && word.contains('/');
    (is_plain && !word.starts_with('#') && !may_have_limit).then_some(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_write_has_other_words() {
        let text = |text: &str| text.to_owned();
        for (expression, expected) in [
            (r"\.php$", vec![Shape::Ends(text(".php"))]),
            (r"\.(?:js|css)$", vec![Shape::Ends(text(".js")), Shape::Ends(text(".css"))]),
            (r"\.(jpe?g)$", vec![Shape::Ends(text(".jpg")), Shape::Ends(text(".jpeg"))]),
            (r"^.+\.php$", vec![Shape::Ends(text(".php"))]),
            (r"\.php(?:$|/)", vec![Shape::Ends(text(".php")), Shape::Info(text(".php"))]),
            (r"[^/]\.php(/|$)", vec![Shape::Info(text(".php")), Shape::Ends(text(".php"))]),
            (r"^/a[0-9]$", vec![]),
            (r"\.php", vec![Shape::Info(text(".php"))]),
            (r"^(.+\.php)(.*)$", vec![Shape::Info(text(".php"))]),
            (r"^/(.*\.php(/.*)?)$", vec![Shape::Ends(text(".php")), Shape::Info(text(".php"))]),
            (r"/\.", vec![Shape::Hidden(text(""))]),
            (r"/\.(?!well-known).*", vec![Shape::Hidden(text(""))]),
            (r"/\.ht", vec![Shape::Hidden(text("ht"))]),
            (r"^/(data|config)/", vec![Shape::Begins(text("/data/")), Shape::Begins(text("/config/"))]),
            (r"^/a$", vec![Shape::Exact(text("/a"))]),
            (r"^/old/(.*)$", vec![Shape::Begins(text("/old/"))]),
            (r"/wp-config\.php$", vec![Shape::Name(text("wp-config.php"))]),
            (r"^/uploads/.*\.php$", vec![Shape::BelowEnds(text("/uploads"), text(".php"))]),
            (
                r"/(?:uploads|files)/.*\.php$",
                vec![
                    Shape::InEnds(text("uploads"), text(".php")),
                    Shape::InEnds(text("files"), text(".php")),
                ],
            ),
            (r"^", vec![Shape::All]),
            (r"^/(.*)$", vec![Shape::All]),
        ] {
            assert_eq!(shapes(expression).unwrap_or_default(), expected, "{expression}");
        }
    }

    #[test]
    fn prefixes_and_the_group_behind_them() {
        for (expression, expected) in [
            (r"^/old/(.*)$", Some(("/old/", Some(1), false))),
            (r"^/old(.*)", Some(("/old", Some(1), false))),
            (r"^/old$", Some(("/old", None, true))),
            (r"^(.*)$", Some(("", Some(1), false))),
            (r"^", Some(("", None, false))),
            (r"old", None),
            (r"^/a/(\d+)/b$", None),
        ] {
            let found = tails(expression).map(|found| found[0].clone());
            let found = found.as_ref().map(|(tail, is_whole)| (&*tail.prefix, tail.group, *is_whole));
            assert_eq!(found, expected, "{expression}");
        }
    }

    #[test]
    fn expressions_that_are_lists_of_words() {
        let found = |expression| words(expression).map(|words| words.join(","));
        assert_eq!(found("GPTBot"), Some("GPTBot".into()));
        assert_eq!(
            found(r"(GPTBot|Sogou web spider|python\-requests/2\.|.*Bytespider.*)"),
            Some("GPTBot,Sogou web spider,python-requests/2.,Bytespider".into())
        );
        for other in
            ["^$", "^curl", "bot$", "a.c", "(a|b)c|d", "[a-z]bot", r"\bbot", "a|", "", "bot 10/m", "a (b"]
        {
            assert_eq!(found(other), None, "{other}");
        }
    }
}
