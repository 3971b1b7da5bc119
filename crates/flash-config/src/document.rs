//! The file's TOML, with all errors of its form.

use toml::Spanned;
use toml::de::DeTable;

use crate::problem::Location;
use crate::{File, Problem};

/// What was understood, and what was not. A wrong line leaves the lines after it readable.
pub(crate) fn parse(file: &File, number: usize) -> (Spanned<DeTable<'_>>, Vec<Problem>) {
    let (table, errors) = DeTable::parse_recoverable(file.text());
    let problem = |error: &toml::de::Error| {
        let message = error.message().replace('\n', "; ");
        let label =
            error.span().map(|bytes| advice(&message, &file.text()[bytes.start..])).unwrap_or_default();
        let place = error.span().map(|bytes| Location { file: number, bytes });
        Problem { place, message, label: label.into(), is_warning: false }
    };
    let mut problems: Vec<Problem> = errors.iter().map(problem).collect();
    // What follows on the same line may be a consequence.
    problems.sort_by_key(|problem| problem.place.as_ref().map(|place| place.bytes.start));
    problems.dedup_by_key(|problem| problem.place.as_ref().map(|place| file.line(place.bytes.start)));
    (table, problems)
}

/// What to write instead, where the parser's words are not enough. `rest` is the text from the error on.
fn advice(message: &str, rest: &str) -> &'static str {
    match message {
        _ if rest.starts_with(';') || rest.lines().next().is_some_and(|line| line.ends_with(';')) => {
            "a line ends without a semicolon"
        }
        _ if message.contains("must be quoted") => "write it in quotes",
        _ if message.contains("key with no value") => "write KEY = VALUE",
        _ if message.contains("missing comma") => "is there a closing bracket on the lines before?",
        _ => "",
    }
}

/// Leaves out what only follows from an error on the same line.
pub(crate) fn without_consequences(file: &File, syntax: Vec<Problem>, others: Vec<Problem>) -> Vec<Problem> {
    let line =
        |at: usize| file.text()[..at.min(file.text().len())].bytes().filter(|&byte| byte == b'\n').count();
    let wrong: Vec<usize> =
        syntax.iter().filter_map(|problem| Some(line(problem.place.as_ref()?.bytes.start))).collect();
    let follows = |problem: &Problem| {
        problem.place.as_ref().is_some_and(|place| wrong.contains(&line(place.bytes.start)))
    };
    let others: Vec<Problem> = others.into_iter().filter(|problem| !follows(problem)).collect();
    syntax.into_iter().chain(others).collect()
}
