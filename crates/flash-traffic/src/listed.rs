//! Named targets, requested in turn: a list of URLs, one file, a sweep of file sizes.

use std::collections::HashMap;
use std::sync::Arc;

use crate::name;
use crate::round_robin::RoundRobin;
use crate::workload::{Catalogue, File, FileId, Part, Sequence, Workload};

/// Beyond what any server takes for a request line.
const TARGET_BYTES_MAX: usize = 64 << 10;

/// A list of targets. What stands in it twice is asked for twice as often.
#[derive(Clone, Debug)]
pub struct Listed {
    catalogue: Arc<Catalogue>,
    order: Arc<[FileId]>,
}

/// Why a line of a list is no target, and which line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ListError {
    /// Neither a path nor a URL, or with bytes that no request line may hold.
    #[error(
        "line {line}: expected a URL (http://host/path) or a path (/path), without spaces or control characters"
    )]
    NoTarget {
        /// From 1.
        line: usize,
    },
    /// More than 64 KiB.
    #[error("line {line}: longer than any server reads ({TARGET_BYTES_MAX} bytes)")]
    TooLong {
        /// From 1.
        line: usize,
    },
    /// Nothing but comments.
    #[error("no targets in the list")]
    Empty,
}

impl Listed {
    /// A URL or a path on each line; empty lines, and those that begin with `#`, are left out. Targets are asked for as
    /// they stand there, with their queries and without hosts and fragments; their sizes are not known.
    pub fn parse<'a>(lines: impl IntoIterator<Item = &'a str>) -> Result<Self, ListError> {
        let mut files = Vec::new();
        let mut order = Vec::new();
        let mut known = HashMap::new();
        for (line, text) in (1..).zip(lines) {
            let text = text.trim();
            if text.is_empty() || text.starts_with('#') {
                continue;
            }
            if text.len() > TARGET_BYTES_MAX {
                return Err(ListError::TooLong { line });
            }
            let target = target(text).ok_or(ListError::NoTarget { line })?;
            let file = *known.entry(target.clone()).or_insert_with(|| {
                files.push(File { target, bytes: None, class: 0, program: false });
                files.len() as FileId - 1
            });
            order.push(file);
        }
        if files.is_empty() {
            return Err(ListError::Empty);
        }
        Ok(Self::new(files, vec!["files".into()], order))
    }

    /// One file of so many bytes, made up: `/one/1024.bin`.
    pub fn one(bytes: u64) -> Self {
        Self::sized("one", &[bytes])
    }

    /// One target that a program answers, with so many bytes.
    pub fn program(target: &str, bytes: u64) -> Self {
        let file = File { target: target.into(), bytes: Some(bytes), class: 0, program: true };
        Self::new(vec![file], vec!["programs".into()], vec![0])
    }

    /// A file of each of these sizes, each in a class of its own: `/sweep/1024.bin`, in the class `1024 B`.
    pub fn sweep(sizes: &[u64]) -> Self {
        Self::sized("sweep", sizes)
    }

    /// The same files, of which only this one is asked for; None where it is not among them.
    pub fn only(&self, file: FileId) -> Option<Self> {
        self.catalogue.files.get(file as usize)?;
        Some(Self { catalogue: Arc::clone(&self.catalogue), order: [file].into() })
    }

    fn sized(folder: &str, sizes: &[u64]) -> Self {
        let file = |(class, bytes): (u16, &u64)| {
            let target = format!("/{folder}/{bytes}.bin").into();
            File { target, bytes: Some(*bytes), class, program: false }
        };
        let files: Vec<File> = (0..).zip(sizes).map(file).collect();
        let classes = sizes.iter().map(|bytes| format!("{bytes} B")).collect();
        let order = (0..files.len() as FileId).collect();
        Self::new(files, classes, order)
    }

    fn new(files: Vec<File>, classes: Vec<String>, order: Vec<FileId>) -> Self {
        Self { catalogue: Arc::new(Catalogue { files, classes }), order: order.into() }
    }
}

/// The request target for a URL or a path.
fn target(text: &str) -> Option<Box<str>> {
    let text = text.split('#').next().unwrap_or_default();
    if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return None;
    }
    match name::after_host(text.as_bytes()) {
        // A URL without a path asks for the root (RFC 9112 §3.2.1).
        Some(after) if !after.starts_with(b"/") => Some(format!("/{}", str::from_utf8(after).ok()?).into()),
        Some(after) => Some(str::from_utf8(after).ok()?.into()),
        None => text.starts_with('/').then(|| text.into()),
    }
}

impl Workload for Listed {
    fn catalogue(&self) -> &Arc<Catalogue> {
        &self.catalogue
    }

    /// There is nothing to draw: all seeds are alike.
    fn sequence(&self, part: Part, _seed: u64) -> Box<dyn Sequence> {
        Box::new(RoundRobin::new(&self.order, part))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::targets;

    #[test]
    fn a_list_is_asked_for_in_turn() {
        let text = "# my site\nhttp://h:80/a?b=1#top\n\n /c \nHTTPS://h\nhttp://h?q\n/a?b=1\n/d";
        let listed = Listed::parse(text.lines()).unwrap();
        assert_eq!(listed.catalogue().files.len(), 5);
        assert_eq!(targets(&listed, Part::WHOLE, 7), ["/a?b=1", "/c", "/", "/?q", "/a?b=1", "/d", "/a?b=1"]);
        assert_eq!(targets(&listed, Part { index: 1, of: 3 }, 3), ["/c", "/a?b=1", "/c"]);
    }

    #[test]
    fn odd_lines_of_a_list_are_named() {
        for (line, text) in [(1, "a"), (2, "/x\n/a b"), (3, "\n#\nhttp:/h"), (1, "/\u{e9}"), (1, "ftp://h/")]
        {
            assert_eq!(Listed::parse(text.lines()).unwrap_err(), ListError::NoTarget { line }, "{text}");
        }
        assert_eq!(Listed::parse(["# a"]).unwrap_err(), ListError::Empty);
        let long = format!("/{}", "x".repeat(TARGET_BYTES_MAX));
        assert_eq!(Listed::parse([&*long]).unwrap_err(), ListError::TooLong { line: 1 });
    }

    #[test]
    fn a_sweep_has_a_class_for_each_size() {
        let sweep = Listed::sweep(&[0, 1_024]);
        assert_eq!(sweep.catalogue().classes, ["0 B", "1024 B"]);
        assert_eq!(targets(&sweep, Part::WHOLE, 3), ["/sweep/0.bin", "/sweep/1024.bin", "/sweep/0.bin"]);
        assert_eq!(targets(&sweep.only(1).unwrap(), Part::WHOLE, 2), ["/sweep/1024.bin", "/sweep/1024.bin"]);
        assert!(sweep.only(2).is_none());
        assert!(Listed::program("/cgi-bin/x?y", 6).catalogue().files[0].program);
        assert_eq!(Listed::one(7).catalogue().files[0].bytes, Some(7));
    }
}
