//! What the server's user has put into the place of a log or a socket gains nothing from an upgrade, which root's process does.

use std::fs;
use std::os::unix::fs::{MetadataExt, lchown, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use crate::setup::Setup;
use flash_tests::{is_superuser, set_mode};

const NOBODY: u32 = 65_534;

/// A server whose log and socket lie in a folder of its user, and a file of root's that nobody else may read. `None`, and says so,
/// without root.
fn setup(arch: &str) -> Option<(Setup, PathBuf, PathBuf)> {
    if !is_superuser("becoming another user") {
        return None;
    }
    let setup = Setup::with(arch, &["--user", "nobody"], |command, folder| {
        let theirs = folder.join("theirs");
        fs::create_dir(&theirs).unwrap();
        lchown(&theirs, Some(NOBODY), Some(NOBODY)).unwrap();
        command.arg("--access-log").arg(theirs.join("access.log"));
        command.arg("--listen").arg(format!("unix:{},mode=666", theirs.join("web.sock").display()));
    });
    let (theirs, secret) = (setup.path("theirs"), setup.path("secret"));
    fs::write(&secret, "root's own").unwrap();
    set_mode(&secret, 0o600);
    Some((setup, theirs, secret))
}

fn replace(path: &Path, link: impl FnOnce(&Path)) {
    fs::remove_file(path).unwrap();
    link(path);
    lchown(path, Some(NOBODY), Some(NOBODY)).unwrap();
}

/// The mode, the owner and the group.
fn access(path: &Path) -> (u32, u32, u32) {
    let found = fs::metadata(path).unwrap();
    (found.mode() & 0o777, found.uid(), found.gid())
}

#[test]
fn an_upgrade_opens_no_log_through_a_link_of_the_servers_user() {
    for arch in ["amped", "mp", "amped --helpers process --sandbox required"] {
        let Some((mut setup, theirs, secret)) = setup(arch) else { return };
        let new = setup.path("new");
        for target in [&secret, &new] {
            replace(&theirs.join("access.log"), |at| symlink(target, at).unwrap());
            let said = setup.refused(&[]);
            assert!(
                said.contains("root does not use it") && said.contains("another user's link"),
                "{arch}: {said}"
            );
            assert_eq!(fs::read_to_string(&secret).unwrap(), "root's own", "{arch}");
            assert!(!new.exists(), "{arch}");
        }
        fs::remove_file(theirs.join("access.log")).unwrap();
        setup.upgraded();
        setup.stop();
    }
}

#[test]
fn an_upgrade_changes_nothing_that_the_servers_user_has_put_in_a_sockets_place() {
    for arch in ["amped", "mp"] {
        let Some((mut setup, theirs, secret)) = setup(arch) else { return };
        let socket = theirs.join("web.sock");
        let of_root = setup.path("root.sock");
        let _listener = UnixListener::bind(&of_root).unwrap();
        set_mode(&of_root, 0o600);
        for put in [&(|at: &Path| symlink(&secret, at).unwrap()) as &dyn Fn(&Path), &|at: &Path| {
            symlink(&of_root, at).unwrap()
        }] {
            replace(&socket, put);
            setup.upgraded();
            assert_eq!(access(&secret), (0o600, 0, 0), "{arch}");
            assert_eq!(access(&of_root), (0o600, 0, 0), "{arch}");
        }
        // A second name of root's own socket.
        fs::remove_file(&socket).unwrap();
        fs::hard_link(&of_root, &socket).unwrap();
        setup.upgraded();
        assert_eq!(access(&of_root), (0o600, 0, 0), "{arch}");
        setup.stop();
    }
}
