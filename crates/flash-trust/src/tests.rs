//! Attacks by a user who owns a folder. They take root to arrange, and say so where there is none.

use std::fs::{self, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rustix::fs::{CWD, FileType, Mode, RenameFlags, mknodat, renameat_with};
use rustix::net::{AddressFamily, SocketType, socket};
use tempfile::TempDir;

use super::refusal::is_root;
use super::*;

/// An ordinary user, whom Debian calls nobody.
const NOBODY: u32 = 65_534;
const RACES: usize = 20_000;

/// A folder of root's, with one of nobody's in it.
fn folders() -> Option<(TempDir, PathBuf)> {
    if !is_root() {
        println!("NOT TESTED: giving files to other users takes root");
        return None;
    }
    // On some machines anybody may replace what is in /tmp.
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    set_mode(folder.path(), 0o755);
    let theirs = folder.path().join("theirs");
    fs::create_dir(&theirs).unwrap();
    give(&theirs);
    Some((folder, theirs))
}

fn give(path: &Path) {
    lchown(path, Some(NOBODY), Some(NOBODY)).unwrap();
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn file(path: &Path, text: &str) -> PathBuf {
    fs::write(path, text).unwrap();
    path.to_owned()
}

fn link(target: impl AsRef<Path>, path: &Path, is_theirs: bool) -> PathBuf {
    symlink(target, path).unwrap();
    if is_theirs {
        give(path);
    }
    path.to_owned()
}

fn fifo(path: &Path) -> PathBuf {
    mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o666), 0).unwrap();
    path.to_owned()
}

fn said<T>(result: io::Result<T>) -> String {
    result.map(drop).expect_err("it is refused").to_string()
}

fn append_line(path: &Path) -> io::Result<()> {
    open_log(path)?.write_all(b"line\n")
}

fn text_of(mut file: fs::File) -> String {
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap();
    text
}

/// Two names in a folder change places for as long as this is done.
fn while_exchanged(one: &Path, other: &Path, work: impl FnOnce()) {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).unwrap();
            }
        });
        work();
        is_over.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_log_is_made_in_a_folder_of_roots_alone() {
    let Some((folder, theirs)) = folders() else { return };
    let log = folder.path().join("log");
    append_line(&log).unwrap();
    append_line(&log).unwrap();
    assert_eq!(fs::read_to_string(&log).unwrap(), "line\nline\n");
    assert_eq!(log.metadata().unwrap().mode() & 0o137, 0, "for root and its group");
    // As Ubuntu's /var/log.
    let shared = folder.path().join("shared");
    fs::create_dir(&shared).unwrap();
    chown(&shared, None, Some(NOBODY)).unwrap();
    set_mode(&shared, 0o775);
    append_line(&shared.join("log")).unwrap();
    let theirs_said = said(append_line(&theirs.join("log")));
    assert!(theirs_said.contains("theirs is another user's, and the file does not exist"), "{theirs_said}");
    assert!(!theirs.join("log").exists());
    assert_eq!(append_line(&folder.path().join("none/log")).unwrap_err().kind(), io::ErrorKind::NotFound);
}

#[test]
fn a_log_in_anothers_folder_is_no_way_to_other_files() {
    let Some((folder, theirs)) = folders() else { return };
    let at = |name: &str| theirs.join(name);
    let secret = file(&folder.path().join("secret"), "root's");
    let new = folder.path().join("new");
    for (log, why) in [
        (link(&secret, &at("link"), true), "link is another user's link"),
        (link(&new, &at("dangling"), true), "dangling is another user's link"),
        (link("../secret", &at("relative"), true), "relative is another user's link"),
        (link(folder.path(), &at("folder"), true).join("secret"), "folder is another user's link"),
        (link(at("link"), &at("chain"), false), "link is another user's link"),
        (fifo(&at("fifo")), "fifo is not a file"),
    ] {
        let said = said(append_line(&log));
        assert!(said.contains(why), "{said}");
    }
    fs::hard_link(&secret, at("second")).unwrap();
    let third = file(&at("third"), "");
    chown(&third, Some(1), Some(1)).unwrap();
    // And what root has put there, which may be moved to any name.
    let (roots, inner) = (file(&at("roots"), ""), at("inner"));
    fs::create_dir(&inner).unwrap();
    for log in [at("second"), third, roots, file(&inner.join("old"), ""), inner.join("new")] {
        let said = said(append_line(&log));
        assert!(
            said.contains("is not of the user who decides") || said.contains("is another user's"),
            "{said}"
        );
    }
    assert!(!inner.join("new").exists());
    assert!(!new.exists());
    assert_eq!(fs::read_to_string(&secret).unwrap(), "root's");
    // What is that user's own.
    let own = file(&at("own"), "");
    give(&own);
    fs::hard_link(&own, at("own too")).unwrap();
    append_line(&own).unwrap();
    assert_eq!(fs::read_to_string(&own).unwrap(), "line\n");
    // A link of root's may be moved to any name, too.
    assert!(said(append_line(&link(&new, &at("roots link"), false))).contains("theirs is another user's"));
    assert!(!new.exists());
}

#[test]
fn no_race_has_a_log_written_elsewhere() {
    let Some((folder, theirs)) = folders() else { return };
    let secret = file(&folder.path().join("secret"), "root's");
    let new = folder.path().join("new");
    let [log, other, inner] = ["log", "other", "inner"].map(|name| theirs.join(name));
    file(&log, "");
    let race = |log: &Path| (0..RACES).for_each(|_| drop(append_line(log)));
    for target in [&secret, &new] {
        link(target, &other, true);
        while_exchanged(&log, &other, || race(&log));
        fs::remove_file(&other).unwrap();
        fs::remove_file(&log).unwrap();
        file(&log, "");
    }
    // A second name that is gone when it is asked for.
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let _ = fs::hard_link(&secret, &other);
                let _ = fs::remove_file(&other);
            }
        });
        race(&other);
        is_over.store(true, Ordering::Relaxed);
    });
    // A folder on the way.
    fs::create_dir(&inner).unwrap();
    file(&inner.join("secret"), "");
    link(folder.path(), &other, true);
    while_exchanged(&inner, &other, || race(&inner.join("secret")));
    assert_eq!(fs::read_to_string(&secret).unwrap(), "root's");
    assert!(!new.exists());
}

#[test]
fn logs_that_are_no_files() {
    let folder = tempfile::tempdir().unwrap();
    append_line(&fifo(&folder.path().join("fifo"))).expect("nobody reads it, and it stops nothing");
    append_line(Path::new("/dev/null")).unwrap();
    assert!(append_line(folder.path()).is_err());
    // Where a container's output goes. The file is one that this process has open.
    let open = fs::File::create(folder.path().join("open")).unwrap();
    let through = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&open));
    let log = link(through, &folder.path().join("stdout"), false);
    append_line(&log).unwrap();
    assert_eq!(fs::read_to_string(folder.path().join("open")).unwrap(), "line\n");
}

#[test]
fn what_is_read_was_chosen_by_root_or_is_the_choosers_own() {
    let Some((folder, theirs)) = folders() else { return };
    let at = |name: &str| theirs.join(name);
    let secret = file(&folder.path().join("secret"), "root's");
    set_mode(&secret, 0o600);
    let own = file(&at("own"), "own");
    give(&own);
    for (path, why) in [
        (link(&secret, &at("link"), true), "link to what is not that user's"),
        (link(folder.path(), &at("folder"), true).join("secret"), "link to what is not that user's"),
        (link(at("link"), &folder.path().join("chain"), false), "link to what is not that user's"),
        (fifo(&at("fifo")), "it is not a file"),
        (link("/dev/zero", &at("zero"), false), "it is not a file"),
        (theirs.clone(), "it is not a file"),
    ] {
        let said = said(open(&path));
        assert!(said.contains(why), "{}: {said}", path.display());
    }
    let second = at("second");
    fs::hard_link(&secret, &second).unwrap();
    let inner = at("inner");
    fs::create_dir(&inner).unwrap();
    let moved = file(&inner.join("key"), "root's");
    set_mode(&moved, 0o640);
    for path in [&second, &moved] {
        assert!(said(open(path)).contains("is not of the user who decides what is there, nor for everyone"));
    }
    set_mode(&moved, 0o644);
    assert_eq!(text_of(open(&moved).unwrap()), "root's");
    for path in [link(&own, &at("own link"), true), link(&own, &folder.path().join("own"), false), own] {
        assert_eq!(text_of(open(&path).unwrap()), "own");
    }
    assert!(said(open(&link(&secret, &at("roots link"), false))).contains("is not of the user who decides"));
    // A link to a second user's file is no more its owner's than one to root's.
    let others = file(&folder.path().join("others"), "");
    chown(&others, Some(1), Some(1)).unwrap();
    assert!(said(open(&link(&others, &at("others"), true))).contains("not that user's"));
}

#[test]
fn folders_of_certbot_and_kubernetes() {
    let Some((folder, _)) = folders() else { return };
    let [live, archive, mounted] = ["live", "archive", "mounted"].map(|name| folder.path().join(name));
    for path in [&live, &archive, &mounted] {
        fs::create_dir(path).unwrap();
    }
    file(&archive.join("privkey1.pem"), "key");
    chown(&archive, None, Some(NOBODY)).unwrap();
    set_mode(&archive, 0o750);
    link("../archive/privkey1.pem", &live.join("privkey.pem"), false);
    assert_eq!(text_of(open(&live.join("privkey.pem")).unwrap()), "key");
    // A volume: files change all at once, with the link `..data`.
    chown(&mounted, None, Some(NOBODY)).unwrap();
    set_mode(&mounted, 0o3777);
    fs::create_dir(mounted.join("..2025")).unwrap();
    let inner = file(&mounted.join("..2025/flash.toml"), "list = true");
    chown(&inner, None, Some(NOBODY)).unwrap();
    set_mode(&inner, 0o640);
    link("..2025", &mounted.join("..data"), false);
    let outer = link("..data/flash.toml", &mounted.join("flash.toml"), false);
    assert_eq!(text_of(open(&outer).unwrap()), "list = true");
    assert_eq!(text_of(open_configuration(&outer, Purpose::Serve).unwrap()), "list = true");
}

#[test]
fn at_most_one_other_user_decides_what_a_configuration_says() {
    let Some((folder, theirs)) = folders() else { return };
    let [good, inner] = ["flash.toml", "inner"].map(|name| folder.path().join(name));
    file(&good, "list = true");
    fs::create_dir(&inner).unwrap();
    let serve = |path: &Path| open_configuration(path, Purpose::Serve).map(text_of);
    let look = |path: &Path| open_configuration(path, Purpose::Look).map(text_of);
    assert_eq!(serve(&good).unwrap(), "list = true");
    assert_eq!(serve(&link(&good, &inner.join("roots"), false)).unwrap(), "list = true");
    let in_theirs = file(&theirs.join("flash.toml"), "list = true");
    let in_inner = file(&inner.join("flash.toml"), "list = true");
    for path in [in_theirs.clone(), link(&in_theirs, &inner.join("way"), false)] {
        assert_eq!(serve(&path).unwrap(), "list = true", "one user decides");
        assert_eq!(user_of_configuration(&path).unwrap(), Some(NOBODY));
    }
    chown(&in_theirs, Some(NOBODY - 1), None).unwrap();
    assert!(said(serve(&in_theirs)).contains("flash.toml is another user's"));
    let link = link(&good, &inner.join("link"), true);
    for read in [serve(&link), look(&link)] {
        assert!(said(read).contains("link is another user's link to what is not that user's"));
    }
    for (path, mode, why) in [
        (&in_inner, 0o664, "flash.toml can be written by others"),
        (&in_inner, 0o646, "flash.toml can be written by others"),
        (&inner, 0o775, "inner can be written by others"),
        (&inner, 0o777, "inner can be written by others"),
    ] {
        set_mode(path, mode);
        assert!(said(serve(&in_inner)).contains(why));
        look(&in_inner).unwrap();
        set_mode(path, 0o755);
    }
    set_mode(&inner, 0o1777);
    assert_eq!(serve(&in_inner).unwrap(), "list = true", "as in /tmp, nobody else can replace it");
    assert_eq!(user_of_configuration(&in_inner).unwrap(), None);
    give(&in_inner);
    assert_eq!(user_of_configuration(&in_inner).unwrap(), Some(NOBODY));
}

#[test]
fn another_user_is_left_to_the_kernel() {
    let Some((folder, theirs)) = folders() else { return };
    let own = file(&theirs.join("own"), "own");
    give(&own);
    let secret = file(&folder.path().join("secret"), "root's");
    set_mode(&secret, 0o600);
    let [to_own, to_secret] = [(&own, "to own"), (&secret, "to secret")]
        .map(|(target, name)| link(target, &folder.path().join(name), false));
    let nobody = flash_os::user::User { id: NOBODY, group: NOBODY, home: "/".into() };
    flash_os::user::as_user(None, &nobody, || {
        assert_eq!(text_of(open(&to_own).unwrap()), "own");
        assert_eq!(text_of(open_configuration(&to_own, Purpose::Serve).unwrap()), "own");
        append_line(&to_own).unwrap();
        append_line(&theirs.join("log")).unwrap();
        assert_eq!(open(&to_secret).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        assert_eq!(open_log(&to_secret).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        make_folder(&theirs.join("run"), 0o700).unwrap();
        let stream = socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
        let access = SocketAccess { mode: Some(0o660), ..SocketAccess::default() };
        bind(&stream, &theirs.join("run/socket"), access).unwrap();
    })
    .unwrap();
    let bound = theirs.join("run/socket").symlink_metadata().unwrap();
    assert_eq!((bound.uid(), bound.mode() & 0o777), (NOBODY, 0o660));
}

#[test]
fn a_name_without_a_listener_is_taken_over_and_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let [name, other] = ["socket", "file"].map(|name| folder.path().join(name));
    file(&other, "");
    let listener = UnixListener::bind(&name).unwrap();
    let stream = || socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
    let bind = |path: &Path| bind(stream(), path, SocketAccess::default());
    for path in [&name, &other] {
        remove_abandoned(path).unwrap();
        assert!(path.exists());
    }
    assert_eq!(bind(&name).unwrap_err().kind(), io::ErrorKind::AddrInUse);
    assert!(said(bind(&other)).contains("which is not a socket"));
    drop(listener);
    bind(&name).unwrap();
    remove_abandoned(&name).unwrap();
    assert!(!name.exists());
    remove_abandoned(&name).unwrap();
}

#[test]
fn a_socket_has_its_mode_and_owners_and_nothing_else_has() {
    let Some((folder, theirs)) = folders() else { return };
    let access = SocketAccess { mode: Some(0o666), user: Some(NOBODY), group: Some(1) };
    let stream = socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
    let name = theirs.join("socket");
    bind(&stream, &name, SocketAccess { mode: Some(0o666), ..SocketAccess::default() }).unwrap();
    assert_eq!(name.symlink_metadata().unwrap().mode() & 0o777, 0o666);
    assert!(
        said(set_access(&name, access)).contains("is not of the user who decides"),
        "it may be another of root's"
    );
    give(&name);
    set_access(&name, access).unwrap();
    let of =
        |path: &Path| path.symlink_metadata().map(|found| (found.uid(), found.gid(), found.mode() & 0o777));
    assert_eq!(of(&name).unwrap(), (NOBODY, 1, 0o666));
    let secret = file(&folder.path().join("secret"), "root's");
    set_mode(&secret, 0o600);
    let roots = folder.path().join("roots");
    let _roots = UnixListener::bind(&roots).unwrap();
    set_mode(&roots, 0o600);
    for (at, why) in [
        (link(&secret, &theirs.join("to file"), true), "is another user's link"),
        (link(&roots, &theirs.join("to socket"), true), "is another user's link"),
        (link(folder.path(), &theirs.join("folder"), true).join("roots"), "is another user's link"),
        (file(&theirs.join("file"), ""), "which is not a socket"),
    ] {
        let said = said(set_access(&at, access));
        assert!(said.contains(why), "{said}");
    }
    fs::hard_link(&roots, theirs.join("second")).unwrap();
    assert!(said(set_access(&theirs.join("second"), access)).contains("is not of the user who decides"));
    let other = theirs.join("other");
    for target in [&secret, &roots] {
        link(target, &other, true);
        while_exchanged(&name, &other, || (0..RACES).for_each(|_| drop(set_access(&name, access))));
        fs::remove_file(if other.is_symlink() { &other } else { &name }).unwrap();
        let _ = fs::rename(&other, &name);
    }
    assert_eq!((of(&secret).unwrap(), of(&roots).unwrap()), ((0, 0, 0o600), (0, 0, 0o600)));
}

#[test]
fn no_socket_or_folder_is_made_where_another_user_has_the_path_lead() {
    let Some((folder, theirs)) = folders() else { return };
    let [inner, other, target] = [theirs.join("inner"), theirs.join("other"), folder.path().join("target")];
    fs::create_dir(&inner).unwrap();
    fs::create_dir(&target).unwrap();
    link(&target, &other, true);
    let stream = || socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
    while_exchanged(&inner, &other, || {
        for _ in 0..RACES {
            assert!(bind(stream(), &inner.join("socket"), SocketAccess::default()).is_err());
            let _ = make_folder(&inner.join("made"), 0o700);
        }
    });
    assert_eq!(target.read_dir().unwrap().count(), 0);
    // An abandoned socket of root's stays.
    drop(UnixListener::bind(target.join("socket")).unwrap());
    fs::create_dir_all(&inner).unwrap();
    while_exchanged(&inner, &other, || {
        (0..RACES).for_each(|_| drop(remove_abandoned(&inner.join("socket"))));
    });
    assert!(target.join("socket").exists());
    assert!(said(make_folder(&theirs.join("made"), 0o700)).contains("theirs is another user's"));
    assert!(said(check_folder(&theirs)).contains("theirs is another user's"));
    make_folder(&folder.path().join("made"), 0o755).unwrap();
    check_folder(&folder.path().join("made")).unwrap();
}
