//! What the kernel knows files by: a number for each that it has looked up, until it forgets it. The numbers are
//! the folder's own inode numbers, so that a file that is replaced gets another one here too.

use std::collections::HashMap;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use fuser::INodeNo;
use parking_lot::Mutex;

/// A folder may contain mounts, whose files get numbers from up here.
const ELSEWHERE: u64 = 1 << 63;

pub(crate) struct Nodes {
    device: u64,
    root: u64,
    known: Mutex<HashMap<u64, Node>>,
}

struct Node {
    /// Where it was seen last, from the mount's root.
    path: Arc<Path>,
    lookups: u64,
    opened: Option<Version>,
}

/// Size, time of writing and time of change.
type Version = (u64, i64, i64, i64, i64);

impl Nodes {
    pub(crate) fn new(root: &Metadata) -> Nodes {
        let node = Node { path: Path::new("/").into(), lookups: 1, opened: None };
        let known = Mutex::new(HashMap::from([(INodeNo::ROOT.0, node)]));
        Nodes { device: root.dev(), root: root.ino(), known }
    }

    pub(crate) fn number(&self, metadata: &Metadata) -> INodeNo {
        if metadata.dev() == self.device {
            return self.number_here(metadata.ino());
        }
        let mixed = metadata.dev().wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ metadata.ino();
        INodeNo(mixed | ELSEWHERE)
    }

    /// The number of an inode on the root's own device.
    pub(crate) fn number_here(&self, inode: u64) -> INodeNo {
        if inode == self.root { INodeNo::ROOT } else { INodeNo(inode) }
    }

    pub(crate) fn path(&self, number: INodeNo) -> Option<Arc<Path>> {
        self.known.lock().get(&number.0).map(|node| Arc::clone(&node.path))
    }

    /// The kernel is about to be told of it once more.
    pub(crate) fn looked_up(&self, number: INodeNo, path: Arc<Path>) {
        let mut known = self.known.lock();
        let node = known.entry(number.0);
        let node = node.or_insert_with(|| Node { path: Arc::clone(&path), lookups: 0, opened: None });
        node.path = path;
        node.lookups += 1;
    }

    /// Opens it. Whether it is what it was when it was opened before, so that pages kept since are good.
    pub(crate) fn opened(&self, number: INodeNo, found: &Metadata) -> bool {
        let version = (found.size(), found.mtime(), found.mtime_nsec(), found.ctime(), found.ctime_nsec());
        let mut known = self.known.lock();
        known.get_mut(&number.0).is_some_and(|node| node.opened.replace(version) == Some(version))
    }

    pub(crate) fn forget(&self, number: INodeNo, lookups: u64) {
        let mut known = self.known.lock();
        if let Some(node) = known.get_mut(&number.0) {
            node.lookups = node.lookups.saturating_sub(lookups);
            if node.lookups == 0 && number != INodeNo::ROOT {
                known.remove(&number.0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_known_until_it_is_forgotten_as_often_as_looked_up() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().metadata().expect("it is there");
        let nodes = Nodes::new(&root);
        assert_eq!(nodes.number(&root), INodeNo::ROOT);
        std::fs::write(folder.path().join("a"), "a").expect("a file");
        let number = nodes.number(&folder.path().join("a").metadata().expect("it is there"));
        nodes.looked_up(number, Path::new("/a").into());
        nodes.looked_up(number, Path::new("/b").into());
        nodes.forget(number, 1);
        assert_eq!(nodes.path(number).as_deref(), Some(Path::new("/b")));
        nodes.forget(number, 1);
        assert_eq!(nodes.path(number), None);
        nodes.forget(INodeNo::ROOT, 100);
        assert!(nodes.path(INodeNo::ROOT).is_some());
    }
}
