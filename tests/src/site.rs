//! A site with one of everything.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, SystemTime};

use crate::open_folder;
use flash_os::residency::{self, Residency};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use tempfile::TempDir;

/// Sizes around every threshold: inline bodies, copies in memory, windows.
pub const SIZES: [usize; 11] =
    [1, 4095, 4096, 4097, 262_143, 262_144, 262_145, 1 << 20, (1 << 20) + 1, 3_000_000, 20_000_000];

/// Bytes that differ from place to place.
pub fn pattern(size: usize) -> Vec<u8> {
    (0..size).map(|at| (at ^ (at >> 8) ^ (at >> 16)) as u8).collect()
}

/// All users may read it, as they may a real one.
pub fn make() -> TempDir {
    let folder = open_folder();
    let root = folder.path();
    for name in ["sub", "plain/inner", "many", ".git", ".well-known", "colon:dir"] {
        fs::create_dir_all(root.join(name)).expect("a folder");
    }
    for (name, content) in [
        ("index.html", "home\n"),
        ("a.txt", "0123456789"),
        ("empty", ""),
        ("page.html", "<p>identity</p>\n"),
        ("page.html.gz", "gzip bytes"),
        ("page.html.br", "br bytes"),
        ("page.html.zst", "zstd bytes"),
        ("sub/index.html", "sub\n"),
        ("plain/b.txt", "bb"),
        ("plain/a&<b>\".txt", "odd"),
        ("plain/.secret", "no"),
        (".git/config", "no"),
        (".well-known/x", "yes"),
    ] {
        write(&root.join(name), content.as_bytes());
    }
    for size in SIZES {
        write(&root.join(format!("{size}.bin")), &pattern(size));
    }
    write(&root.join(OsStr::from_bytes(b"\xff.txt")), b"latin");
    symlink("a.txt", root.join("link-in")).expect("a link");
    symlink("/etc/passwd", root.join("link-out")).expect("a link");
    symlink("../../../etc/passwd", root.join("sub/link-up")).expect("a link");
    let real = root.canonicalize().expect("the folder is there");
    symlink(real.join("a.txt"), root.join("link-absolute")).expect("a link");
    symlink("loop", root.join("loop")).expect("a link");
    mknodat(CWD, root.join("fifo"), FileType::Fifo, Mode::from_raw_mode(0o644), 0).expect("a FIFO");
    folder
}

/// Writes a file that looks as if it had been there for a while.
pub fn write(path: &Path, content: &[u8]) {
    fs::write(path, content).expect("a file");
    let file = fs::File::options().write(true).open(path).expect("the file");
    // With a part of a second, as an editor leaves it: one time for a whole tree says nothing otherwise.
    let then = SystemTime::UNIX_EPOCH + Duration::new(784_111_777, 123_456_789);
    file.set_modified(then).expect("its time");
}

/// Drops a file's pages from memory. The kernel keeps those that somebody is just using, so it may take more than one try.
pub fn make_cold(path: &Path) {
    let file = fs::File::open(path).expect("the file");
    let bytes = file.metadata().expect("its size").len();
    let pages = Residency::new(&file, bytes).expect("a map");
    crate::wait_for("its pages to leave memory", || {
        residency::evict(&file).expect("an advice");
        (0..bytes).step_by(4096).all(|at| pages.resident_bytes(at..at + 1) == 0)
    });
}
