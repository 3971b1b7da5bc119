//! Compares bodies with the expected content, byte by byte, as they arrive. Opening a file may wait for a disk, and all other
//! clients of the thread wait too. So waits are not exact to the microsecond in runs that verify.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use flash_traffic::FileId;
use flash_traffic::content::Content;

use crate::reply::{Body, Reply};

/// Files that a thread keeps open.
const OPEN_FILES_MAX: usize = 64;

/// What bodies are compared with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Verify {
    #[default]
    Nothing,
    /// The files below a folder, by the targets' names.
    Root(PathBuf),
    /// What `flash load make-site` has written, from the same seed.
    Made { seed: u64 },
}

impl Verify {
    pub(crate) fn looks(&self) -> bool {
        *self != Verify::Nothing
    }
}

/// What a thread needs to compare with.
#[derive(Default)]
pub(crate) struct Originals {
    open: HashMap<FileId, Option<File>>,
    bytes: Vec<u8>,
}

/// Looks at the body of one answer.
pub(crate) struct Look<'a> {
    pub(crate) verify: &'a Verify,
    pub(crate) originals: &'a mut Originals,
    pub(crate) file: FileId,
    pub(crate) target: &'a str,
    /// Only the length of such an answer is known.
    pub(crate) by_program: bool,
    /// Where in the file the body begins.
    pub(crate) from: u64,
    pub(crate) wrong: &'a mut bool,
}

impl Body for Look<'_> {
    fn take(&mut self, reply: &Reply, bytes: &[u8]) {
        if self.by_program || reply.coded || !matches!(reply.status, 200 | 206) || bytes.is_empty() {
            return;
        }
        // An answer to a request for a range may be the whole.
        let from = if reply.status == 206 { self.from } else { 0 };
        match self.verify {
            Verify::Nothing => {}
            Verify::Made { seed } => {
                let content = Content::new(*seed, self.target);
                *self.wrong |= content.first_difference(from + reply.body_bytes, bytes).is_some();
            }
            Verify::Root(root) => {
                let originals = &mut *self.originals;
                if originals.open.len() >= OPEN_FILES_MAX && !originals.open.contains_key(&self.file) {
                    originals.open.clear();
                }
                let file = originals.open.entry(self.file).or_insert_with(|| {
                    let path = flash_traffic::name::path_of(self.target).ok()?;
                    File::open(root.join(path)).ok()
                });
                let expected = &mut originals.bytes;
                expected.resize(bytes.len(), 0);
                let read = |file: &File| file.read_exact_at(expected, from + reply.body_bytes).is_ok();
                let right = file.as_ref().is_some_and(read) && originals.bytes == bytes;
                *self.wrong |= !right;
            }
        }
    }
}
