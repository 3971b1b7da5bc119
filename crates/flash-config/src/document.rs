//! The file's TOML, with all errors of its form.

use toml::Spanned;
use toml::de::DeTable;

use crate::problem::Location;
use crate::{File, Problem};

/// What was understood, and what was not. A wrong line leaves the lines after it readable.
pub(crate) fn parse(file: &File, number: usize) -> (Spanned<DeTable<'_>>, Vec<Problem>) {
    let (table, errors) = DeTable::parse_recoverable(file.text());
    let problem = |error: &toml::de::Error| Problem {
        place: error.span().map(|bytes| Location { file: number, bytes }),
        message: error.message().replace('\n', "; "),
        label: String::new(),
    };
    let problems = errors.iter().map(problem).collect();
    (table, problems)
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
