//! Rules about fields of requests: words of a list, such as the names of crawlers in `User-Agent`, that refuse a request or count it for a
//! limit.
//!
//! A field is read once, however many words there are. Whether a letter is large or small makes no difference.

use std::sync::Arc;

use aho_corasick::{AhoCorasick, AhoCorasickBuilder, BuildError, PatternID};
use flash_http::fields::Fields;

use super::redirect_table::WrongLine;
use crate::clients::Rate;

/// The lists of a site or a place. Sites with the same files share them.
#[derive(Debug)]
pub struct FieldRules(pub Box<[FieldList]>);

/// A field, and the words that are looked for in it.
#[derive(Debug)]
pub struct FieldList {
    field: Arc<str>,
    refused: AhoCorasick,
    limited: AhoCorasick,
    /// In the order of the words in `limited`.
    limits: Box<[Arc<WordLimit>]>,
}

/// The limit that all requests with a word in a field have together, whichever list names it. Field and word are in small letters.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct WordLimit {
    field: Arc<str>,
    word: Box<str>,
    pub(crate) rate: Rate,
}

/// What a request's fields come to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FieldVerdict<'r> {
    Refused,
    /// The limits of all words that were found.
    Limited(Vec<&'r Arc<WordLimit>>),
}

/// As many words of a length that people write fit into some megabytes.
const WORDS_MAX: usize = 100_000;

impl FieldList {
    /// Reads the lines of a list: a word, or a word and a limit, as in `Bytespider 10/m burst 5`. A line may be a comment that begins
    /// with `#`.
    ///
    /// # Errors
    /// What is wrong with each line that is not right.
    pub fn parse(field: &str, text: &str) -> Result<Self, Vec<WrongLine>> {
        let field: Arc<str> = field.to_ascii_lowercase().into();
        let (mut refused, mut limits, mut wrong) = (Vec::new(), Vec::new(), Vec::new());
        for (number, line) in (1..).zip(text.lines().map(str::trim)) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if refused.len() + limits.len() == WORDS_MAX {
                wrong.push(WrongLine { number, why: format!("a list has {WORDS_MAX} words at most") });
                return Err(wrong);
            }
            match split(line) {
                (word, None) => refused.push(word),
                (word, Some(rate)) => match rate.parse() {
                    Ok(rate) => {
                        let (field, word) = (Arc::clone(&field), word.to_ascii_lowercase().into());
                        limits.push(Arc::new(WordLimit { field, word, rate }));
                    }
                    Err(why) => wrong.push(WrongLine { number, why }),
                },
            }
        }
        if !wrong.is_empty() {
            return Err(wrong);
        }
        let failed = |error: BuildError| vec![WrongLine { number: 1, why: error.to_string() }];
        let mut builder = AhoCorasickBuilder::new();
        builder.ascii_case_insensitive(true);
        let refused = builder.build(refused).map_err(failed)?;
        let limited = builder.build(limits.iter().map(|limit| &*limit.word)).map_err(failed)?;
        Ok(Self { field, refused, limited, limits: limits.into() })
    }
}

/// A word, and the limit behind it, right or wrong: from what looks like `10/m` on.
fn split(line: &str) -> (&str, Option<&str>) {
    let mut gaps = line.match_indices([' ', '\t']).map(|(gap, _)| gap + 1);
    let limit = gaps.find(|at| begins_with_rate(&line[*at..]));
    limit.map_or((line, None), |at| (line[..at].trim_end(), Some(&line[at..])))
}

fn begins_with_rate(text: &str) -> bool {
    let unit = text.trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == '.');
    unit.len() < text.len() && unit.starts_with('/')
}

impl FieldRules {
    /// Whether some word has a limit.
    pub fn have_limits(&self) -> bool {
        self.0.iter().any(|list| !list.limits.is_empty())
    }

    /// What these fields come to. A word that refuses wins over all limits.
    pub(crate) fn verdict(&self, fields: Fields<'_>) -> FieldVerdict<'_> {
        let mut limits = Vec::new();
        for (name, value) in fields {
            for list in self.0.iter().filter(|list| name.eq_ignore_ascii_case(list.field.as_bytes())) {
                if list.refused.is_match(value) {
                    return FieldVerdict::Refused;
                }
                let found = list.limited.find_overlapping_iter(value);
                let mut words: Vec<PatternID> = found.map(|found| found.pattern()).collect();
                words.sort_unstable();
                words.dedup();
                limits.extend(words.into_iter().map(|word| &list.limits[word]));
            }
        }
        FieldVerdict::Limited(limits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(list: &str, agent: &str) -> String {
        let rules = FieldRules([FieldList::parse("User-Agent", list).unwrap()].into());
        let block = format!("User-Agent: {agent}\r\n\r\n");
        match rules.verdict(Fields::of_checked(block.as_bytes())) {
            FieldVerdict::Refused => "refused".into(),
            FieldVerdict::Limited(limits) => {
                limits.iter().map(|limit| &*limit.word).collect::<Vec<_>>().join(", ")
            }
        }
    }

    #[test]
    fn words_refuse_or_limit_wherever_they_stand() {
        let list = "# crawlers\nGPTBot\n\nBytespider 10/m\nbot of the week\t2/s\nBytespider-Image\n";
        for (agent, expected) in [
            ("Mozilla/5.0 (compatible; gptbot/1.2)", "refused"),
            ("Bytespider", "bytespider"),
            ("x Bytespider-Image", "refused"),
            ("Bytespider and GPTBot", "refused"),
            ("the BOT of the week/2", "bot of the week"),
            ("Bytespider, bytespider, bot of the week", "bytespider, bot of the week"),
            ("Firefox", ""),
            ("", ""),
        ] {
            assert_eq!(verdict(list, agent), expected, "{agent}");
        }
    }

    #[test]
    fn no_word_hides_another() {
        assert_eq!(verdict("abc 100/m\ncde", "abcde"), "refused");
        assert_eq!(verdict("abc 100/m\ncde 1/m\nbcd 3/m", "abcde"), "abc, cde, bcd");
        assert_eq!(verdict("Googlebot 10/m\nbot", "Googlebot"), "refused");
    }

    #[test]
    fn limits_have_the_syntax_of_the_key() {
        let list = FieldList::parse("User-Agent", "Bytespider 1/m burst 1\nbot of  the week\t2/s  burst 40")
            .unwrap();
        let of = |limit: &Arc<WordLimit>| (limit.word.to_string(), limit.rate);
        let expected = [("bytespider", "1/m burst 1"), ("bot of  the week", "2/s burst 40")]
            .map(|(word, rate)| (word.to_owned(), rate.parse().unwrap()));
        assert_eq!(list.limits.iter().map(of).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_line_that_is_wrong_is_named() {
        let lines = "a\nb 0/s\nc 5/x\nd 5/m burst\ne 5/m brust 3\nf 0.5/m\n";
        let wrong = FieldList::parse("User-Agent", lines).unwrap_err();
        assert_eq!(wrong.iter().map(|line| line.number).collect::<Vec<_>>(), [2, 3, 4, 5, 6]);
        assert!(FieldList::parse("User-Agent", "Mozilla/5.0 (X11)\na/b\n").is_ok(), "neither is a limit");
    }

    #[test]
    fn a_list_that_is_too_long_says_where() {
        let text = "# more\n".to_owned() + &"word\n".repeat(WORDS_MAX + 2);
        let wrong = FieldList::parse("User-Agent", &text).unwrap_err();
        assert_eq!(wrong.iter().map(|line| line.number).collect::<Vec<_>>(), [WORDS_MAX + 2]);
    }
}
