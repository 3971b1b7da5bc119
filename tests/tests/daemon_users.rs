//! `flash helper` and askers of other users.

#![forbid(unsafe_code)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use flash_helper::protocol::AnswerKind;
use flash_tests::asker::Daemon;
use flash_tests::site;
use tempfile::TempDir;

const USER: u32 = 4242;

/// A root with a file in a folder, and a folder for the socket. Anybody may go there.
fn rooted() -> (TempDir, TempDir) {
    let folders = (TempDir::new().unwrap(), TempDir::new().unwrap());
    for folder in [&folders.0, &folders.1] {
        fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
    }
    fs::create_dir(folders.0.path().join("sub")).unwrap();
    site::write(&folders.0.path().join("sub/a.html"), b"<p>a</p>");
    folders
}

/// What a program of another user prints.
fn says(user: u32, script: &str, argument: &std::path::Path) -> String {
    let output =
        Command::new("perl").args(["-e", script]).arg(argument).uid(user).gid(user).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_foreign_user_is_told_so_and_disconnected() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("NOT TESTED: only root can be several users");
        return;
    }
    let (root, beside) = rooted();
    let flags = ["--sandbox", "required", "--allow-user", &USER.to_string()];
    let daemon = Daemon::start(&[root.path()], beside.path(), &flags);
    // This process stays root, so a program of another user connects. It prints what it gets.
    let script = "use Socket; socket(my $s, AF_UNIX, SOCK_SEQPACKET, 0) or die; \
        connect($s, pack_sockaddr_un($ARGV[0])) or die $!; recv($s, my $m, 9999, 0); print ord(substr($m, 1, 1));";
    let kind = |user| says(user, script, &daemon.socket);
    assert_eq!(kind(USER), (AnswerKind::Hello as u8).to_string());
    assert_eq!(kind(USER + 1), (AnswerKind::Refused as u8).to_string());
    assert_eq!(daemon.asker().kind("/sub/a.html"), AnswerKind::File, "its own user may ask");
}

/// Who asks first opens names that are in memory. The kernel lets others than the owner do so if it has the access rules there.
#[test]
fn askers_of_another_user_open_what_the_daemon_has_found() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("NOT TESTED: only root can be several users");
        return;
    }
    let (root, beside) = rooted();
    let daemon = Daemon::start(&[root.path()], beside.path(), &["--sandbox", "required"]);
    let mut asker = daemon.asker();
    // The folder that is open itself is looked up by name here.
    let script = "chdir($ARGV[0]) or die; my ($name, $how) = ('sub/a.html', pack('QQQ', 0, 0, 0x20)); \
        print syscall(437, -100, $name, $how, 24) >= 0 ? 'open' : $!;";
    let open = || says(USER, script, root.path());
    flash_rig::empty_caches().unwrap();
    assert_eq!(open(), "Resource temporarily unavailable", "it is not in memory");
    assert_eq!(asker.kind("/sub/a.html"), AnswerKind::File);
    assert_eq!(open(), "open");
}
