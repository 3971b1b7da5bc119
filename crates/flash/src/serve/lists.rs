//! Lists of lines, read from their files: redirections, and words in fields.

use std::io::Read;
use std::path::Path;

use flash_core::site::field_rules::FieldList;
use flash_core::site::redirect_table::{RedirectTable, WrongLine};

use super::named_files::OpenNamed;
use crate::failure::{Failure, cannot};
use crate::flags::{FieldFile, FieldWords};

/// A million lines of moderate length.
const BYTES_MAX: u64 = 128 << 20;
/// As many wrong lines are shown.
const WRONG_MAX: usize = 10;

pub(super) fn redirect_table(path: &Path, open: &OpenNamed<'_>) -> Result<RedirectTable, Failure> {
    lines(path, open, RedirectTable::parse)
}

/// The words that are looked for in a field.
pub(super) fn field_list(of: &FieldFile, open: &OpenNamed<'_>) -> Result<FieldList, Failure> {
    let FieldFile { field, words } = of;
    let parse = |text: &str| FieldList::parse(field, text);
    match words {
        FieldWords::File(path) => lines(path, open, parse),
        FieldWords::Lines(text) => {
            parse(text).map_err(|wrong| failure(&format!("the list of {field}"), &wrong))
        }
    }
}

fn lines<T>(
    path: &Path,
    open: &OpenNamed<'_>,
    parse: impl Fn(&str) -> Result<T, Vec<WrongLine>>,
) -> Result<T, Failure> {
    let mut text = String::new();
    let read = open(path).and_then(|file| file.take(BYTES_MAX + 1).read_to_string(&mut text));
    read.map_err(|error| cannot(format_args!("read {}", path.display()), &error))?;
    if text.len() as u64 > BYTES_MAX {
        return Err(Failure::Run(format!("{}: a list has 128M at most", path.display())));
    }
    parse(&text).map_err(|wrong| failure(&path.display().to_string(), &wrong))
}

fn failure(name: &str, wrong: &[WrongLine]) -> Failure {
    let lines = wrong.iter().take(WRONG_MAX).map(|line| format!("{name}:{}: {}", line.number, line.why));
    let more = wrong.len().saturating_sub(WRONG_MAX);
    let more = (more > 0).then(|| format!("and {more} lines more"));
    Failure::Run(lines.chain(more).collect::<Vec<_>>().join("\n"))
}
