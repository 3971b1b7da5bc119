//! The file as text, and where it lies. It may include others.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};

use crate::Problem;
use crate::problem::Location;

/// A configuration file that was read.
#[derive(Debug)]
pub struct File {
    /// As the operator named it.
    path: PathBuf,
    /// Where relative paths in the file begin.
    folder: PathBuf,
    text: String,
    /// Where each line but the first begins.
    lines: Vec<u32>,
    /// The variables of the environment that it has values of.
    variables: RefCell<BTreeSet<String>>,
}

impl File {
    /// `path` is as the operator named it, and `absolute` is where that lies.
    ///
    /// # Errors
    /// The file cannot be read, is too large, or is not UTF-8.
    fn read(path: &Path, absolute: &Path, open: Open) -> io::Result<File> {
        let mut text = String::new();
        if open(absolute)?.take(BYTES_MAX + 1).read_to_string(&mut text)? as u64 > BYTES_MAX {
            return Err(io::Error::other(format!("it is larger than {BYTES_MAX} bytes")));
        }
        Ok(Self::new(path, &std::path::absolute(absolute)?, text))
    }

    fn new(path: &Path, absolute: &Path, text: String) -> File {
        let folder = absolute.parent().map_or_else(|| "/".into(), Path::to_owned);
        let lines = text.match_indices('\n').map(|(at, _)| at as u32 + 1).collect();
        File { path: path.into(), folder, text, lines, variables: RefCell::default() }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// The line of this byte, as `FILE:LINE`.
    pub(crate) fn line(&self, at: usize) -> String {
        let line = self.lines.partition_point(|&begin| begin as usize <= at) + 1;
        format!("{}:{line}", self.path.display())
    }

    /// Notes that it has the value of this variable.
    pub(crate) fn has_variable(&self, name: &str) {
        self.variables.borrow_mut().insert(name.to_owned());
    }

    /// A path as the file names it, made absolute.
    pub(crate) fn absolute(&self, path: &str) -> PathBuf {
        self.folder.join(path)
    }
}

/// Opens a configuration file.
pub type Open = fn(&Path) -> io::Result<fs::File>;

/// How many bytes a file may have.
const BYTES_MAX: u64 = 64 << 20;

/// A configuration file, and behind it those that it includes.
#[derive(Debug)]
pub struct Files {
    files: Vec<File>,
    open: Open,
}

impl Files {
    /// Reads the first file. `path` is as the operator named it, and `absolute` is where that lies. Those that it includes are opened
    /// by `open`, too.
    ///
    /// # Errors
    /// The file cannot be read, is too large, or is not UTF-8.
    pub fn read(path: &Path, absolute: &Path, open: Open) -> io::Result<Self> {
        Ok(Self { files: vec![File::read(path, absolute, open)?], open })
    }

    /// Reads another one.
    pub(crate) fn read_more(&self, path: &Path) -> Result<File, String> {
        File::read(path, path, self.open).map_err(|error| format!("cannot read {}: {error}", path.display()))
    }

    /// The variables of the environment that they have values of.
    pub fn variables(&self) -> Vec<String> {
        self.files.iter().flat_map(|file| file.variables.borrow().clone()).collect()
    }

    /// All that were read.
    pub fn all(&self) -> &[File] {
        &self.files
    }

    /// The file that includes the others.
    pub fn first(&self) -> &File {
        &self.files[0]
    }

    pub(crate) fn get(&self, number: usize) -> &File {
        &self.files[number]
    }

    /// Adds an included file. Returns its number.
    pub(crate) fn add(&mut self, file: File) -> usize {
        self.files.push(file);
        self.files.len() - 1
    }

    /// Where this is, as `FILE:LINE`.
    pub fn line(&self, location: &Location) -> String {
        self.files[location.file].line(location.bytes.start)
    }

    /// The problems in the order of their places: each with its line of the file, and a mark under the place.
    pub fn report(&self, problems: &[Problem]) -> String {
        let mut problems: Vec<&Problem> = problems.iter().collect();
        let key = |place: &Location| (place.file, place.bytes.start, place.bytes.end);
        problems.sort_by_key(|problem| problem.place.as_ref().map(key));
        let render = |problem: &&Problem| {
            let file = problem.place.as_ref().map_or(self.first(), |place| &self.files[place.file]);
            let path = file.path.to_string_lossy();
            let level = if problem.is_warning { Level::WARNING } else { Level::ERROR };
            let title = level.primary_title(&*problem.message);
            let group = match &problem.place {
                Some(place) => {
                    let mark = AnnotationKind::Primary.span(place.bytes.clone()).label(&*problem.label);
                    title.element(Snippet::source(&*file.text).path(&*path).annotation(mark))
                }
                None => title.element(annotate_snippets::Origin::path(&*path)),
            };
            Renderer::plain().render(&[group]) + "\n"
        };
        problems.iter().map(render).collect()
    }
}

#[cfg(test)]
pub(crate) fn of_text(text: &str) -> Files {
    let file = File::new(Path::new("flash.toml"), Path::new("/etc/flash/flash.toml"), text.into());
    Files { files: vec![file], open: |path| fs::File::open(path) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_has_line_column_mark_and_label() {
        let file = of_text("list = true\nlisen = 80\n");
        let at = |bytes| Location { file: 0, bytes };
        let problems = [
            Problem::at(at(12..17), "unknown key `lisen`".into(), "did you mean `listen`?".into()),
            Problem::at(at(0..4), "first".into(), "here".into()),
            Problem::of_file("third".into()).into_warning(),
        ];
        let report = file.report(&problems);
        let first = "warning: third\n--> flash.toml\nerror: first\n --> flash.toml:1:1\n";
        assert!(report.starts_with(first), "{report}");
        let second = "error: unknown key `lisen`\n --> flash.toml:2:1\n  |\n2 | lisen = 80\n  | ^^^^^ did you mean `listen`?\n";
        assert!(report.contains(second), "{report}");
    }

    #[test]
    fn relative_paths_begin_at_the_file() {
        let files = of_text("");
        let file = files.first();
        assert_eq!(file.absolute("site"), Path::new("/etc/flash/site"));
        assert_eq!(file.absolute("/srv"), Path::new("/srv"));
    }

    #[test]
    fn a_line_is_counted() {
        let files = of_text("a\n\nb");
        let lines = [0, 1, 2, 3, 9].map(|at| files.line(&Location { file: 0, bytes: at..at }));
        assert_eq!(lines, [1, 1, 2, 3, 3].map(|line| format!("flash.toml:{line}")));
    }

    #[test]
    fn a_file_that_is_not_there() {
        let nowhere = Path::new("/nowhere/flash.toml");
        let read = Files::read(nowhere, nowhere, |path| fs::File::open(path));
        assert_eq!(read.unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
