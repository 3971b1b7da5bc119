//! Rules about fields of requests: words of a list, such as the names of crawlers in `User-Agent`, that refuse a request or count it for a
//! limit.
//!
//! A field is read once, however many words there are. Whether a letter is large or small makes no difference.

use aho_corasick::{AhoCorasick, MatchKind};
use flash_http::fields::Fields;

use super::redirect_table::WrongLine;
use crate::clients::Rate;

/// The lists of a site or a place. Sites with the same files share them.
#[derive(Debug)]
pub struct FieldRules(pub Box<[FieldList]>);

/// A field, and the words that are looked for in it.
#[derive(Debug)]
pub struct FieldList {
    field: String,
    words: AhoCorasick,
    /// The limit of each word. A word without one refuses.
    limits: Box<[Option<Rate>]>,
}

/// What a request's fields come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldVerdict<'r> {
    Refused,
    /// All requests with this word have one limit. Its list and its number name it.
    Limited(usize, usize, &'r Rate),
}

/// As many words of a length that people write fit into some megabytes.
const WORDS_MAX: usize = 100_000;

impl FieldList {
    /// Reads the lines of a list: a word, or a word and a limit, as in `Bytespider 10/m`. A line may be a comment that begins with `#`.
    ///
    /// # Errors
    /// What is wrong with each line that is not right.
    pub fn parse(field: &str, text: &str) -> Result<Self, Vec<WrongLine>> {
        let (mut words, mut limits, mut wrong) = (Vec::new(), Vec::new(), Vec::new());
        for (number, line) in (1..).zip(text.lines().map(str::trim)) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let limited = line.rsplit_once([' ', '\t']).filter(|(_, last)| looks_like_rate(last));
            let (word, limit) = match limited.map(|(word, rate)| (word.trim_end(), rate.parse::<Rate>())) {
                None => (line, None),
                Some((word, Ok(rate))) => (word, Some(rate)),
                Some((_, Err(why))) => {
                    wrong.push(WrongLine { number, why });
                    continue;
                }
            };
            words.push(word);
            limits.push(limit);
        }
        if words.len() > WORDS_MAX {
            wrong.push(WrongLine { number: WORDS_MAX, why: format!("a list has {WORDS_MAX} words at most") });
        }
        let built = AhoCorasick::builder()
            .ascii_case_insensitive(true)
            .match_kind(MatchKind::LeftmostLongest)
            .build(&words);
        match built {
            _ if !wrong.is_empty() => Err(wrong),
            Ok(words) => Ok(Self { field: field.into(), words, limits: limits.into() }),
            Err(error) => Err(vec![WrongLine { number: 1, why: error.to_string() }]),
        }
    }
}

/// `10/m`, right or wrong.
fn looks_like_rate(text: &str) -> bool {
    let number = text.split_once('/').map(|(number, _)| number);
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

impl FieldRules {
    /// Whether some word has a limit.
    pub fn have_limits(&self) -> bool {
        self.0.iter().any(|list| list.limits.iter().any(Option::is_some))
    }

    /// What these fields come to. A word that refuses wins over all limits.
    pub(crate) fn verdict(&self, fields: Fields<'_>) -> Option<FieldVerdict<'_>> {
        let mut limited = None;
        for (name, value) in fields {
            let lists = self.0.iter().enumerate();
            for (number, list) in lists.filter(|(_, list)| name.eq_ignore_ascii_case(list.field.as_bytes())) {
                for found in list.words.find_iter(value) {
                    let word = found.pattern().as_usize();
                    match &list.limits[word] {
                        None => return Some(FieldVerdict::Refused),
                        Some(rate) => {
                            limited.get_or_insert(FieldVerdict::Limited(number, word, rate));
                        }
                    }
                }
            }
        }
        limited
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "# crawlers\nGPTBot\n\nBytespider 10/m\nbot of the week\t2/s\nBytespider-Image\n";

    fn verdict(agent: &str) -> Option<String> {
        let rules = FieldRules([FieldList::parse("User-Agent", LIST).unwrap()].into());
        let block = format!("User-Agent: {agent}\r\n\r\n");
        rules.verdict(Fields::of_checked(block.as_bytes())).map(|verdict| match verdict {
            FieldVerdict::Refused => "refused".into(),
            FieldVerdict::Limited(list, word, _) => format!("limited {list} {word}"),
        })
    }

    #[test]
    fn words_refuse_or_limit_wherever_they_stand() {
        for (agent, expected) in [
            ("Mozilla/5.0 (compatible; gptbot/1.2)", Some("refused")),
            ("Bytespider", Some("limited 0 1")),
            ("x Bytespider-Image", Some("refused")),
            ("Bytespider and GPTBot", Some("refused")),
            ("the BOT of the week/2", Some("limited 0 2")),
            ("Firefox", None),
            ("", None),
        ] {
            assert_eq!(verdict(agent).as_deref(), expected, "{agent}");
        }
    }

    #[test]
    fn a_line_that_is_wrong_is_named() {
        let wrong = FieldList::parse("User-Agent", "a\nb 0/s\nc 5/x\n").unwrap_err();
        assert_eq!(wrong.iter().map(|line| line.number).collect::<Vec<_>>(), [2, 3]);
        assert!(FieldList::parse("User-Agent", "Mozilla/5.0 (X11)\na/b\n").is_ok(), "neither is a limit");
    }
}
