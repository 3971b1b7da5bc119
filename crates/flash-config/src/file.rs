//! The file as text, and where it lies.

use std::io;
use std::path::{Path, PathBuf};

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};

use crate::Problem;

/// A configuration file that was read.
#[derive(Debug)]
pub struct File {
    /// As the operator named it.
    path: PathBuf,
    /// Where relative paths in the file begin.
    folder: PathBuf,
    text: String,
}

impl File {
    /// # Errors
    /// The file cannot be read, or is not UTF-8.
    pub fn read(path: &Path) -> io::Result<File> {
        Ok(Self::new(path, std::path::absolute(path)?, std::fs::read_to_string(path)?))
    }

    fn new(path: &Path, absolute: PathBuf, text: String) -> File {
        let folder = absolute.parent().map_or_else(|| "/".into(), Path::to_owned);
        File { path: path.into(), folder, text }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// A path as the file names it, made absolute.
    pub(crate) fn absolute(&self, path: &str) -> PathBuf {
        self.folder.join(path)
    }

    /// The problems in the order of their places: each with its line of the file, and a mark under the place.
    pub fn report(&self, problems: &[Problem]) -> String {
        let path = self.path.to_string_lossy();
        let mut problems: Vec<&Problem> = problems.iter().collect();
        problems.sort_by_key(|problem| problem.place.as_ref().map(|place| (place.start, place.end)));
        let render = |problem: &&Problem| {
            let title = Level::ERROR.primary_title(&*problem.message);
            let group = match &problem.place {
                Some(place) => {
                    let mark = AnnotationKind::Primary.span(place.clone()).label(&*problem.label);
                    title.element(Snippet::source(&*self.text).path(&*path).annotation(mark))
                }
                None => title.element(annotate_snippets::Origin::path(&*path)),
            };
            Renderer::plain().render(&[group]) + "\n"
        };
        problems.iter().map(render).collect()
    }
}

#[cfg(test)]
pub(crate) fn of_text(text: &str) -> File {
    File::new(Path::new("flash.toml"), "/etc/flash/flash.toml".into(), text.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_has_line_column_mark_and_label() {
        let file = of_text("list = true\nlisen = 80\n");
        let problems = [
            Problem::at(12..17, "unknown key `lisen`".into(), "did you mean `listen`?".into()),
            Problem::at(0..4, "first".into(), "here".into()),
        ];
        let report = file.report(&problems);
        assert!(report.starts_with("error: first\n --> flash.toml:1:1\n"), "{report}");
        let second = "error: unknown key `lisen`\n --> flash.toml:2:1\n  |\n2 | lisen = 80\n  | ^^^^^ did you mean `listen`?\n";
        assert!(report.contains(second), "{report}");
    }

    #[test]
    fn relative_paths_begin_at_the_file() {
        let file = of_text("");
        assert_eq!(file.absolute("site"), Path::new("/etc/flash/site"));
        assert_eq!(file.absolute("/srv"), Path::new("/srv"));
    }

    #[test]
    fn a_file_that_is_not_there() {
        assert_eq!(File::read(Path::new("/nowhere/flash.toml")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
