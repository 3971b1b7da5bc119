//! No sentence of a page (Markdown) or doc comment (`//!`, `///`) has more words than a reader takes in at once. A code span is
//! one word. An item of a list and a cell of a table are sentences of their own. Headings and code blocks are left out.
//!
//! The rule knows the Markdown that this project writes, and counts. It cannot tell whether a sentence is plain.

use std::collections::BTreeMap;

use super::Finding;
use super::source::Source;

const WORDS_MAX: usize = 25;

/// Longer sentences that a crate has today. The number may only shrink; at none the crate's line goes.
const KNOWN: &[(&str, usize)] = &[];

/// A full stop after one of these ends no sentence.
const ABBREVIATIONS: [&str; 4] = ["cf.", "e.g.", "i.e.", "vs."];

/// Checks the doc comments of our crates, and the pages.
pub(crate) fn check(sources: &[Source], pages: &[Source]) -> Vec<Finding> {
    let mut by_crate: BTreeMap<&str, Vec<Finding>> = BTreeMap::new();
    for source in sources {
        by_crate.entry(package(&source.path)).or_default().extend(check_comments(source));
    }
    let mut findings: Vec<Finding> = pages.iter().flat_map(check_page).collect();
    for (package, found) in by_crate {
        let known = KNOWN.iter().find(|(name, _)| *name == package).map_or(0, |(_, known)| *known);
        if found.len() > known {
            findings.extend(found);
        } else if found.len() < known {
            let message = format!(
                "{} long sentences, and KNOWN in check/sentences.rs says {known}: lower it",
                found.len()
            );
            findings.push(Finding { place: package.to_owned(), message });
        }
    }
    findings
}

/// `flash-core` of `crates/flash-core/src/path.rs`; `xtask` of `xtask/src/main.rs`.
fn package(path: &str) -> &str {
    let path = path.strip_prefix("crates/").unwrap_or(path);
    path.split('/').next().unwrap_or(path)
}

/// The long sentences of a page.
fn check_page(page: &Source) -> Vec<Finding> {
    let lines = (1..).zip(page.text.lines()).map(|(number, line)| (number, Some(line)));
    find_long(page, paragraphs(lines))
}

/// The long sentences of a file's doc comments.
fn check_comments(source: &Source) -> Vec<Finding> {
    let lines = source.numbered().map(|(number, line)| {
        let doc = line.comment.strip_prefix('!').or_else(|| line.comment.strip_prefix('/'));
        let doc = doc.filter(|doc| line.code.trim().is_empty() && !doc.starts_with('/'));
        (number, doc.map(|doc| doc.strip_prefix(' ').unwrap_or(doc)))
    });
    find_long(source, paragraphs(lines))
}

fn find_long(source: &Source, paragraphs: Vec<Paragraph>) -> Vec<Finding> {
    let long = paragraphs.iter().flat_map(Paragraph::sentences).filter(|found| found.words > WORDS_MAX);
    long.map(|Sentence { line, words, first }| {
        let message = format!("a sentence of {words} words, {WORDS_MAX} at most: {first} ...");
        Finding::at(source, line, message)
    })
    .collect()
}

/// Lines that are one text.
#[derive(Default)]
struct Paragraph {
    /// The number of its first line.
    line: usize,
    text: String,
}

/// A sentence, measured.
struct Sentence {
    line: usize,
    words: usize,
    /// Its first words.
    first: String,
}

/// Takes lines apart. A line without a text (code beside comments) ends a paragraph.
fn paragraphs<'a>(lines: impl Iterator<Item = (usize, Option<&'a str>)>) -> Vec<Paragraph> {
    let mut found = vec![Paragraph::default()];
    let (mut fenced, mut in_list) = (false, false);
    for (number, line) in lines {
        let text = line.map_or("", str::trim);
        let is_new = found.last().is_none_or(|paragraph| paragraph.text.is_empty());
        let is_item = is_item(text);
        let is_indented = is_new && !in_list && line.is_some_and(|line| line.starts_with("    "));
        if text.starts_with("```") {
            fenced = !fenced;
        }
        if fenced || text.is_empty() || text.starts_with("```") || is_heading(text) || is_indented {
            found.push(Paragraph::default());
            in_list &= line.is_some() && (text.is_empty() || fenced);
            continue;
        }
        if text.starts_with('|') {
            let text = without_markup(text).replace("\\|", " ");
            let cells = text.split('|').map(|cell| Paragraph { line: number, text: cell.to_owned() });
            found.extend(cells);
            found.push(Paragraph::default());
            continue;
        }
        if is_item {
            found.push(Paragraph::default());
        }
        in_list |= is_item;
        let paragraph = found.last_mut().expect("it begins with one");
        if paragraph.text.is_empty() {
            paragraph.line = number;
            paragraph.text = text.to_owned();
        } else {
            paragraph.text = format!("{}\n{text}", paragraph.text);
        }
    }
    found
}

/// `# A heading`, which `#[attribute]` is not.
fn is_heading(text: &str) -> bool {
    text.starts_with('#') && text.trim_start_matches('#').starts_with(' ')
}

/// `- an item`, `* an item`, `1. an item`.
fn is_item(text: &str) -> bool {
    let number = text.trim_start_matches(|c: char| c.is_ascii_digit());
    text.starts_with("- ")
        || text.starts_with("* ")
        || (number.len() < text.len() && number.starts_with(". "))
}

impl Paragraph {
    fn sentences(&self) -> Vec<Sentence> {
        let text = without_markup(&self.text);
        let mut found = Vec::new();
        let mut words: Vec<(usize, &str)> = Vec::new();
        for (number, line) in (self.line..).zip(text.lines()) {
            for word in line.split_whitespace() {
                if word.contains(char::is_alphanumeric) {
                    words.push((number, word));
                }
                if ends_sentence(word) {
                    found.extend(measured(&words));
                    words.clear();
                }
            }
        }
        found.extend(measured(&words));
        found
    }
}

fn measured(words: &[(usize, &str)]) -> Option<Sentence> {
    let first: Vec<&str> = words.iter().take(5).map(|(_, word)| *word).collect();
    words.first().map(|(line, _)| Sentence { line: *line, words: words.len(), first: first.join(" ") })
}

/// Whether the word is a sentence's last.
fn ends_sentence(word: &str) -> bool {
    let word = word.trim_end_matches(['"', '\'', ')', ']', '”', '*']);
    word.ends_with(['.', '!', '?']) && !ABBREVIATIONS.contains(&word.trim_start_matches('('))
}

/// Without asterisks and links' targets, and with a word in the place of each code span. Line breaks stay.
fn without_markup(text: &str) -> String {
    let mut plain = String::new();
    for (n, part) in text.split('`').enumerate() {
        if n % 2 == 0 {
            plain.push_str(part);
        } else {
            plain.push_str("code");
            plain.extend(part.chars().filter(|c| *c == '\n'));
        }
    }
    let mut plain = plain.replace('*', "");
    while let Some(at) = plain.find("](") {
        let end = plain[at..].find(')').map_or(plain.len(), |end| at + end + 1);
        plain.replace_range(at..end, "");
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No line.
    const NONE: [usize; 0] = [];

    /// A sentence of so many words, without its end.
    fn sentence(words: usize) -> String {
        vec!["word"; words].join(" ")
    }

    /// The lines that the findings of a page name.
    fn page(text: &str) -> Vec<usize> {
        lines(check(&[], &[Source::new("docs/page.md", text)]))
    }

    fn comments(text: &str) -> Vec<usize> {
        lines(check(&[Source::new("crates/flash-core/src/path.rs", text)], &[]))
    }

    fn lines(findings: Vec<Finding>) -> Vec<usize> {
        findings.iter().filter_map(|finding| finding.place.rsplit(':').next()?.parse().ok()).collect()
    }

    #[test]
    fn a_sentence_has_25_words_at_most() {
        assert_eq!(page(&format!("{}.\n", sentence(25))), NONE);
        assert_eq!(page(&format!("{}.\n", sentence(26))), [1]);
        assert_eq!(page(&format!("Short.\n{}\n{}.\n", sentence(13), sentence(13))), [2]);
        assert_eq!(
            page(&format!("{}! {}? ({}.) {}.\n", sentence(25), sentence(25), sentence(25), sentence(25))),
            NONE
        );
        assert_eq!(page(&format!("{}; {}: {}.\n", sentence(9), sentence(9), sentence(9))), [1]);
        assert_eq!(page(&format!("{}, e.g. {}.\n", sentence(13), sentence(13))), [1]);
    }

    #[test]
    fn a_code_span_is_a_word_and_a_link_is_its_text() {
        let (four, span) = ("[a b c](d.md#e)", format!("`{}\n{}`", sentence(30), sentence(30)));
        assert_eq!(page(&format!("{} {span} {four}.\n", sentence(21))), NONE);
        assert_eq!(page(&format!("{} {span} {four}.\n", sentence(22))), [1]);
        assert_eq!(page(&format!("**{}.** {} – = .\n", sentence(25), sentence(25))), NONE);
    }

    #[test]
    fn items_cells_and_paragraphs_are_apart() {
        let (half, long) = (sentence(13), sentence(26));
        assert_eq!(page(&format!("{half}\n\n{half}\n- {half}\n  1. {half}\n")), NONE);
        assert_eq!(page(&format!("- {half}\n  {half}\n")), [1]);
        assert_eq!(page(&format!("| {half} | {half} |\n|---|---|\n| {half} | `a|b` {half} |\n")), NONE);
        assert_eq!(page(&format!("| {half} |\n| {long} |\n")), [2]);
    }

    #[test]
    fn headings_and_code_are_left_out() {
        let long = sentence(26);
        assert_eq!(page(&format!("# {long}\n\n```\n{long}\n```\n\n    {long}\n\n")), NONE);
        assert_eq!(page(&format!("# x\n{long}\n\n```\ny\n```\n{long}\n\n- a\n\n    {long}\n")), [2, 7, 11]);
    }

    #[test]
    fn doc_comments_are_read_and_other_comments_are_not() {
        let (half, long) = (sentence(13), sentence(26));
        assert_eq!(comments(&format!("//! {half}\n//! {half}\n")), [1]);
        assert_eq!(comments(&format!("    /// {long}\n    field: u8,\n")), [1]);
        assert_eq!(comments(&format!("/// {half}\na: u8,\n/// {half}\nb: u8,\n")), NONE);
        assert_eq!(comments(&format!("// {long}\n//// {long}\nlet a = \"/// {long}\"; /// {long}\n")), NONE);
    }

    #[test]
    fn a_finding_names_the_place_and_the_sentence() {
        let text = format!("Fine.\nHere is {}.\n", sentence(30));
        let findings = check_page(&Source::new("docs/page.md", &text));
        assert_eq!(
            findings[0].to_string(),
            "docs/page.md:2: a sentence of 32 words, 25 at most: Here is word word word ..."
        );
    }
}
