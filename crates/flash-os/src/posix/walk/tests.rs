//! The walk beside the kernel's own, over made-up trees, and while somebody renames what it walks through.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use proptest::prelude::*;
use tempfile::TempDir;

use super::*;
use crate::system;

/// The device and the inode of what was opened, or why nothing was.
type Found = Result<(libc::dev_t, libc::ino_t), Errno>;

fn found(opened: Result<OwnedFd, Errno>) -> Found {
    let stat = fstat(opened?).unwrap();
    Ok((stat.st_dev, stat.st_ino))
}

/// Tries again if the kernel saw something renamed anywhere.
fn by_kernel(root: &OwnedFd, name: &[u8], flags: OFlags, resolve: Resolve) -> Found {
    loop {
        match found(system::walk::open(root.as_fd(), name, flags, resolve)) {
            Err(Errno::AGAIN) => {}
            found => return found,
        }
    }
}

fn folder(path: &Path) -> OwnedFd {
    rustix::fs::open(path, SEARCH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).unwrap()
}

const FLAGS: [OFlags; 4] = [
    OFlags::PATH,
    OFlags::PATH.union(OFlags::DIRECTORY),
    OFlags::RDONLY.union(OFlags::NONBLOCK),
    OFlags::RDONLY.union(OFlags::DIRECTORY),
];

const RESOLVES: [Resolve; 5] = [
    Resolve::NO_MAGICLINKS.union(Resolve::BENEATH),
    Resolve::NO_MAGICLINKS.union(Resolve::BENEATH).union(Resolve::NO_XDEV),
    Resolve::NO_MAGICLINKS,
    Resolve::NO_MAGICLINKS.union(Resolve::NO_XDEV),
    Resolve::NO_SYMLINKS.union(Resolve::BENEATH),
];

/// What a place in a tree is.
#[derive(Clone, Debug)]
enum Made {
    Folder,
    File,
    Link(String),
}

/// Names of few parts, so that they meet what is there.
fn name(parts: usize) -> impl Strategy<Value = String> {
    let part = prop_oneof![6 => "[abc]", 2 => Just("..".to_owned()), 1 => Just(".".to_owned())];
    (prop::collection::vec(part, 1..=parts), prop::sample::select(vec!["", "", "", "/", "//", "/."]), "/?")
        .prop_map(|(parts, end, between)| parts.join(&format!("/{between}")) + end)
}

fn made() -> impl Strategy<Value = Made> {
    prop_oneof![
        4 => Just(Made::Folder),
        2 => Just(Made::File),
        // TOP stands for the folder above the root.
        4 => (prop::sample::select(vec!["", "", "", "", "TOP/root/", "TOP/", "/"]), name(4))
            .prop_map(|(start, name)| Made::Link(format!("{start}{name}"))),
    ]
}

/// What cannot be made, since something else is there or nothing is below, is left out.
fn make(top: &Path, tree: &[(String, Made)]) {
    fs::create_dir(top.join("root")).unwrap();
    fs::write(top.join("a"), "outside").unwrap();
    for (place, made) in tree {
        let path = top.join("root").join(place);
        let _ = match made {
            Made::Folder => fs::create_dir(path),
            Made::File => fs::write(path, ""),
            Made::Link(to) => symlink(to.replace("TOP", top.to_str().unwrap()), path),
        };
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn the_walk_finds_what_the_kernel_finds(
        mut tree in prop::collection::vec(("[abc](/[abc]){0,3}", made()), 0..24),
        names in prop::collection::vec(name(6), 1..16),
    ) {
        tree.sort_by_key(|(place, _)| place.len());
        let top = TempDir::new().unwrap();
        make(top.path(), &tree);
        let root = folder(&top.path().join("root"));
        for name in names.iter().map(|name| name.as_bytes()).chain([&b""[..], b".", b".."]) {
            for (flags, resolve) in FLAGS.iter().flat_map(|flags| RESOLVES.map(|resolve| (*flags, resolve))) {
                let flags = flags | OFlags::CLOEXEC;
                let kernel = by_kernel(&root, name, flags, resolve);
                let ours = found(open(root.as_fd(), name, flags, resolve));
                // Linux lets some absolute links pass that stay on the mount: those after a `..`.
                let is_refused = ours == Err(Errno::XDEV) && resolve.contains(Resolve::NO_XDEV);
                if is_refused && !resolve.contains(Resolve::BENEATH) {
                    continue;
                }
                prop_assert_eq!(ours, kernel, "{:?} {:?} {:?}", String::from_utf8_lossy(name), flags, resolve);
            }
        }
    }
}

fn both(root: &OwnedFd, name: &[u8], resolve: Resolve) -> [Found; 2] {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    [found(open(root.as_fd(), name, flags, resolve)), by_kernel(root, name, flags, resolve)]
}

#[test]
fn forty_links_are_followed_and_no_more() {
    let top = TempDir::new().unwrap();
    fs::write(top.path().join("0"), "").unwrap();
    (0..41).for_each(|at| symlink(at.to_string(), top.path().join((at + 1).to_string())).unwrap());
    let root = folder(top.path());
    assert!(both(&root, b"40", Resolve::BENEATH).iter().all(Result::is_ok));
    assert_eq!(both(&root, b"41", Resolve::BENEATH), [Err(Errno::LOOP); 2]);
}

#[test]
fn names_may_be_too_long() {
    let root = folder(Path::new("/"));
    let (part, whole) = ("a".repeat(256), "./".repeat(2048));
    for name in [part, whole] {
        assert_eq!(both(&root, name.as_bytes(), Resolve::BENEATH), [Err(Errno::NAMETOOLONG); 2]);
    }
}

#[test]
fn links_that_the_system_makes_up_are_refused() {
    let top = TempDir::new().unwrap();
    for (name, to) in
        [("cwd", "/proc/self/cwd"), ("program", "/proc/self/exe"), ("under", "/proc/self/root/etc")]
    {
        symlink(to, top.path().join(name)).unwrap();
        let root = folder(top.path());
        assert_eq!(both(&root, name.as_bytes(), Resolve::NO_MAGICLINKS), [Err(Errno::LOOP); 2], "{name}");
    }
}

#[test]
fn another_mount_is_not_entered() {
    let root = folder(Path::new("/"));
    for name in ["proc", "proc/version", "proc/.."] {
        assert_eq!(both(&root, name.as_bytes(), Resolve::NO_XDEV), [Err(Errno::XDEV); 2], "{name}");
    }
}

/// Somebody moves folders out of the root, swaps them with links that lead out, and back, as fast as possible.
#[test]
fn who_renames_meanwhile_never_gets_a_walk_out_of_the_root() {
    let top = TempDir::new().unwrap();
    let path = |name: &str| top.path().join(name);
    fs::create_dir_all(path("root/a/b")).unwrap();
    fs::create_dir_all(path("secret/b")).unwrap();
    fs::write(path("root/a/b/file"), "").unwrap();
    fs::write(path("secret/b/file"), "").unwrap();
    fs::write(path("secret/file"), "").unwrap();
    fs::write(path("file"), "").unwrap();
    symlink("../secret", path("root/out")).unwrap();
    let secrets: Vec<Found> = ["secret/b/file", "secret/file", "file", "secret", "secret/b", "", ".."]
        .iter()
        .map(|name| found(rustix::fs::open(path(name), OFlags::PATH, Mode::empty())))
        .collect();
    let root = folder(&path("root"));
    std::thread::scope(|scope| {
        let renaming = scope.spawn(|| {
            for _ in 0..20_000 {
                for (from, to) in [
                    ("root/a", "root/held"),
                    ("root/out", "root/a"),
                    ("root/a", "root/out"),
                    ("root/held", "root/a"),
                    ("root/a/b", "moved"),
                    ("moved", "root/a/b"),
                    ("root/a", "taken"),
                    ("taken", "root/a"),
                ] {
                    fs::rename(path(from), path(to)).unwrap();
                }
            }
        });
        let mut arrived = 0;
        while !renaming.is_finished() {
            for name in
                ["a/b/file", "a/b/../b/file", "a/b/../../a/b/file", "a/b/../../file", "a/b/../..", "a/b"]
            {
                for flags in [OFlags::PATH, OFlags::RDONLY] {
                    let opened = open(root.as_fd(), name.as_bytes(), flags | OFlags::CLOEXEC, RESOLVES[0]);
                    arrived += usize::from(opened.is_ok());
                    let found = found(opened);
                    assert!(found.is_err() || !secrets.contains(&found), "{name}");
                }
            }
        }
        assert!(arrived > 0);
    });
}
