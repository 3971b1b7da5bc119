//! A text as the rules see it: each line's code, with and without what stands in quotes, and its comment. It
//! knows Rust's comments, strings and characters, and nothing else of Rust.

/// A file's text, by lines.
#[derive(Debug)]
pub(crate) struct Source {
    /// From the workspace's root.
    pub(crate) path: String,
    pub(crate) text: String,
    pub(crate) lines: Vec<Line>,
}

/// One line, taken apart.
#[derive(Debug, Default)]
pub(crate) struct Line {
    /// Without comments.
    pub(crate) code: String,
    /// Without comments and without what stands in quotes.
    pub(crate) bare: String,
    /// What the comment says, without its slashes.
    pub(crate) comment: String,
}

#[derive(Clone, Copy)]
enum State {
    Code,
    LineComment,
    BlockComment { depth: usize },
    Text { raw: Option<usize> },
}

impl Source {
    pub(crate) fn new(path: &str, text: &str) -> Source {
        let mut lines = vec![Line::default()];
        let chars: Vec<char> = text.chars().collect();
        let mut state = State::Code;
        let mut at = 0;
        while at < chars.len() {
            if chars[at] == '\n' {
                lines.push(Line::default());
                if let State::LineComment = state {
                    state = State::Code;
                }
                at += 1;
                continue;
            }
            let line = lines.last_mut().expect("it begins with one");
            let length;
            (state, length) = step(state, &chars, at, line);
            at += length;
        }
        if text.ends_with('\n') {
            lines.pop();
        }
        Source { path: path.into(), text: text.into(), lines }
    }

    /// Lines with their numbers, from 1.
    pub(crate) fn numbered(&self) -> impl Iterator<Item = (usize, &Line)> {
        self.lines.iter().enumerate().map(|(n, line)| (n + 1, line))
    }
}

/// Takes one token's beginning at `at`: the state after it, and how many characters it was.
fn step(state: State, chars: &[char], at: usize, line: &mut Line) -> (State, usize) {
    let here = |text: &str| text.chars().enumerate().all(|(n, c)| chars.get(at + n) == Some(&c));
    match state {
        State::LineComment => {
            line.comment.push(chars[at]);
            (State::LineComment, 1)
        }
        State::BlockComment { depth } if here("*/") => match depth {
            1 => (State::Code, 2),
            _ => (State::BlockComment { depth: depth - 1 }, 2),
        },
        State::BlockComment { depth } if here("/*") => (State::BlockComment { depth: depth + 1 }, 2),
        State::BlockComment { depth } => {
            line.comment.push(chars[at]);
            (State::BlockComment { depth }, 1)
        }
        State::Text { raw: None } if chars[at] == '\\' && chars.get(at + 1) != Some(&'\n') => {
            line.code.extend(chars.iter().skip(at).take(2));
            (state, 2)
        }
        State::Text { raw } => {
            line.code.push(chars[at]);
            let hashes = raw.unwrap_or(0);
            if here(&format!("\"{}", "#".repeat(hashes))) {
                line.bare.push('"');
                return (State::Code, 1 + hashes);
            }
            (state, 1)
        }
        State::Code if here("//") => (State::LineComment, 2),
        State::Code if here("/*") => (State::BlockComment { depth: 1 }, 2),
        State::Code if chars[at] == '\'' => {
            // 'a' and '\n' are characters; 'a alone is a lifetime.
            let length = match (chars.get(at + 1), chars.get(at + 2)) {
                (Some('\\'), _) => chars[at + 3..].iter().position(|&c| c == '\'').map_or(1, |n| n + 4),
                (Some(_), Some('\'')) => 3,
                _ => 1,
            };
            line.code.extend(chars.iter().skip(at).take(length));
            line.bare.push('\'');
            (State::Code, length)
        }
        State::Code => {
            let quote = quote(chars, at);
            let length = quote.map_or(1, |hashes| hashes.map_or(1, |hashes| hashes + 2));
            line.code.extend(chars.iter().skip(at).take(length));
            line.bare.push(if quote.is_some() { '"' } else { chars[at] });
            (quote.map_or(State::Code, |raw| State::Text { raw }), length)
        }
    }
}

/// Whether a string opens here: none, or some with the number of hashes if it is a raw one.
fn quote(chars: &[char], at: usize) -> Option<Option<usize>> {
    if chars[at] == '"' {
        return Some(None);
    }
    let within_word = |c: &char| c.is_alphanumeric() || *c == '_';
    let before = at.checked_sub(1).map(|before| chars[before]);
    // `r` opens a raw string alone or after `b` or `c`; `var"` is no Rust.
    if chars[at] != 'r' || before.is_some_and(|c| within_word(&c) && c != 'b' && c != 'c') {
        return None;
    }
    let hashes = chars[at + 1..].iter().take_while(|&&c| c == '#').count();
    (chars.get(at + 1 + hashes) == Some(&'"')).then_some(Some(hashes))
}
