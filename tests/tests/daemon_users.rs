//! `flash helper` and askers of other users.

#![forbid(unsafe_code)]

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use flash_helper::protocol::AnswerKind;
use flash_tests::{asker::Rooted, is_superuser};

const USER: u32 = 4242;

/// `None`, and says so, if this process cannot be several users.
fn rooted() -> Option<Rooted> {
    is_superuser("being several users").then(Rooted::make)
}

/// What a program of another user prints.
fn says(user: u32, script: &str, argument: &Path) -> String {
    let output =
        Command::new("perl").args(["-e", script]).arg(argument).uid(user).gid(user).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_foreign_user_is_told_so_and_disconnected() {
    let Some(rooted) = rooted() else { return };
    let daemon = rooted.daemon(&["--allow-user", &USER.to_string()]);
    // This process stays root, so a program of another user connects. It prints what it gets.
    let script = "use Socket; socket(my $s, AF_UNIX, SOCK_SEQPACKET, 0) or die; \
        connect($s, pack_sockaddr_un($ARGV[0])) or die $!; recv($s, my $m, 9999, 0); print ord(substr($m, 1, 1));";
    let kind = |user| says(user, script, &daemon.socket);
    assert_eq!(kind(USER), (AnswerKind::Hello as u8).to_string());
    assert_eq!(kind(USER + 1), (AnswerKind::Refused as u8).to_string());
    assert_eq!(daemon.asker().kind("/a.html"), AnswerKind::File, "its own user may ask");
}

/// Who asks first opens names that are in memory. The kernel lets others than the owner do so if it has the access rules there.
#[test]
fn askers_of_another_user_open_what_the_daemon_has_found() {
    let Some(rooted) = rooted() else { return };
    let daemon = rooted.daemon(&[]);
    let mut asker = daemon.asker();
    // The folder that is open itself is looked up by name here.
    let script = "chdir($ARGV[0]) or die; my ($name, $how) = ('sub/index.html', pack('QQQ', 0, 0, 0x20)); \
        print syscall(437, -100, $name, $how, 24) >= 0 ? 'open' : $!;";
    let open = || says(USER, script, rooted.path());
    flash_rig::empty_caches().unwrap();
    assert_eq!(open(), "Resource temporarily unavailable", "it is not in memory");
    assert_eq!(asker.kind("/sub/index.html"), AnswerKind::File);
    assert_eq!(open(), "open");
}
