//! `flash helper`: what askers get, and what becomes of those that the daemon must not trust.

#![forbid(unsafe_code)]

use std::fs::{self, File};
use std::io::{Seek, SeekFrom};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, symlink};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use flash_helper::protocol::{Answer, AnswerKind, MESSAGE_BYTES_MAX, Question, QuestionKind, accept, flag};
use flash_rig::{Limits, Machine};
use flash_slowdisk::{Kind, SlowDisk};
use flash_tests::asker::{Asker, Daemon, Message, Rooted, content, find, memory};
use flash_tests::{PATIENCE, program, site, wait_for};
use rustix::io::Errno;
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use tempfile::TempDir;

fn large(bytes: u64) -> Vec<u8> {
    site::pattern(bytes as usize)
}

fn window(path: &str, window: std::ops::Range<u64>) -> Question {
    Question { window, ..find(path) }
}

#[test]
fn a_file_comes_open_with_its_metadata() {
    let rooted = Rooted::make();
    let daemon = rooted.daemon(&[]);
    let mut asker = daemon.asker();
    assert_eq!(asker.roots[0].0.path, rooted.path().as_os_str().as_encoded_bytes());
    let (answer, file) = asker.answer(&window("/a.html", 0..100));
    assert_eq!((answer.kind, answer.window.clone()), (AnswerKind::File, 0..8));
    assert_eq!(answer.media, b"text/html; charset=utf-8");
    assert!(answer.etag.starts_with(b"\"") && answer.stamp.size == 8 && answer.stamp.inode > 0);
    assert_eq!(content(file), b"<p>a</p>");
    let known = Question { known: Some(answer.stamp), ..find("/a.html") };
    let (unchanged, file) = asker.answer(&known);
    assert!(unchanged.kind == AnswerKind::Unchanged && file.is_none());
    for (path, kind) in [
        ("/none", AnswerKind::Missing),
        ("/sub", AnswerKind::Redirect),
        ("/a.html/", AnswerKind::Missing),
        ("/", AnswerKind::Folder),
    ] {
        assert_eq!(asker.kind(path), kind, "{path}");
    }
    let (index, file) = asker.answer(&find("/sub/"));
    assert_eq!((index.kind, index.flags & flag::INDEX), (AnswerKind::File, flag::INDEX));
    assert_eq!(content(file), b"index");
}

#[test]
fn a_compressed_copy_comes_to_those_who_accept_it() {
    let rooted = Rooted::make();
    site::write(&rooted.path().join("a.html.gz"), b"gzipped");
    let daemon = rooted.daemon(&[]);
    let mut asker = daemon.asker();
    let (answer, file) = asker.answer(&Question { accepts: accept::GZIP, ..find("/a.html") });
    assert!(answer.coding.is_some() && content(file) == b"gzipped");
    let (answer, file) = asker.answer(&Question { accepts: accept::BROTLI, ..find("/a.html") });
    assert!(answer.coding.is_none() && content(file) == b"<p>a</p>");
}

#[test]
fn windows_of_an_open_file_are_loaded_or_copied() {
    let rooted = Rooted::make();
    let whole = large(3_000_000);
    site::write(&rooted.path().join("large"), &whole);
    let daemon = rooted.daemon(&[]);
    let mut asker = daemon.asker();
    let file = File::open(rooted.path().join("large")).unwrap();
    let load = Question { kind: QuestionKind::Load, window: 1_000_000..1_100_000, ..find("") };
    let (answer, none) = asker.answer_about(&load, Some(file.as_fd()));
    assert_eq!((answer.kind, answer.window), (AnswerKind::Window, 1_000_000..1_100_000));
    assert!(none.is_none());
    let copy = Question { copy: true, ..load.clone() };
    let (answer, bytes) = asker.answer_about(&copy, Some(file.as_fd()));
    assert_eq!((answer.kind, answer.flags & flag::MEMORY), (AnswerKind::Window, flag::MEMORY));
    let bytes = bytes.unwrap();
    assert!(bytes.write_at(b"x", 0).is_err(), "it is sealed");
    assert_eq!(memory(Some(bytes)), whole[1_000_000..1_100_000]);
    // By its path.
    let (found, _) = asker.answer(&find("/large"));
    let by_path = Question { path: b"/large".to_vec(), known: Some(found.stamp), ..copy.clone() };
    let (_, bytes) = asker.answer(&by_path);
    assert_eq!(memory(bytes), whole[1_000_000..1_100_000]);
    let mut other = found.stamp;
    other.modified_ns -= 1;
    let (changed, _) = asker.answer(&Question { known: Some(other), ..by_path });
    assert_eq!(changed.kind, AnswerKind::Changed);
    // Beyond the end there is nothing, and that is no fault.
    let beyond = Question { window: 5_000_000..6_000_000, ..load };
    assert!(asker.answer_about(&beyond, Some(file.as_fd())).0.window.is_empty());
}

#[test]
fn no_path_leads_out_of_the_root() {
    let rooted = Rooted::make();
    site::write(&rooted.beside.path().join("secret"), b"secret");
    symlink(rooted.beside.path().join("secret"), rooted.path().join("absolute")).unwrap();
    let beside = rooted.beside.path().file_name().unwrap().to_str().unwrap();
    symlink(format!("../{beside}/secret"), rooted.path().join("relative")).unwrap();
    symlink("a.html", rooted.path().join("inside")).unwrap();
    let daemon = rooted.daemon(&[]);
    let mut asker = daemon.asker();
    for path in ["/../secret", "/sub/../../secret", "/./a.html", "//a.html", "a.html", "", "/a\0.html"] {
        assert_eq!(asker.kind(path), AnswerKind::Refused, "{path:?}");
    }
    for path in ["/absolute", "/relative"] {
        assert_eq!(asker.kind(path), AnswerKind::Forbidden, "{path}");
    }
    // An absolute path is one below the root.
    assert_eq!(asker.kind("/etc/passwd"), AnswerKind::Missing);
    assert_eq!(asker.kind("/inside"), AnswerKind::File);
    let elsewhere = Question { root: 7, ..find("/a.html") };
    assert_eq!(asker.answer(&elsewhere).0.kind, AnswerKind::Refused);
}

#[test]
fn a_message_that_is_no_question_ends_its_connection_alone() {
    let rooted = Rooted::make();
    let daemon = rooted.daemon(&[]);
    let mut other = daemon.asker();
    let whole = find("/a.html").encode();
    let mut later = whole.clone();
    later[0] = 2;
    for message in [&whole[..50], &[&whole[..], b"more"].concat(), &vec![1; MESSAGE_BYTES_MAX * 2], &later] {
        let asker = daemon.asker();
        asker.send(message, None).unwrap();
        let Message::Answer(answer, None) = asker.receive() else { panic!("it is told why") };
        assert_eq!(answer.kind, AnswerKind::Refused);
        assert!(matches!(asker.receive(), Message::Gone));
    }
    assert_eq!(other.kind("/a.html"), AnswerKind::File);
}

/// A mount that is not there for a moment is no reason for search engines to drop its pages.
#[test]
fn what_is_in_a_root_that_is_gone_is_not_missing() {
    let rooted = Rooted::make();
    let daemon = rooted.daemon(&["--revalidate", "100ms"]);
    let mut asker = daemon.asker();
    assert_eq!(asker.kind("/none"), AnswerKind::Missing);
    let away = rooted.beside.path().join("away");
    fs::rename(rooted.path(), &away).unwrap();
    wait_for("the root to be gone", || asker.kind("/a.html") == AnswerKind::Failed);
    assert_eq!(asker.kind("/none"), AnswerKind::Failed);
    fs::rename(&away, rooted.path()).unwrap();
    wait_for("the root to be back", || asker.kind("/a.html") == AnswerKind::File);
}

#[test]
fn ten_thousand_questions_are_answered_or_refused_and_hold_up_nobody() {
    let rooted = Rooted::make();
    let daemon = rooted.daemon(&["--questions-max", "64"]);
    let flooder = daemon.asker();
    let count = 10_000_u64;
    let (files, others) = thread::scope(|scope| {
        let sender = scope.spawn(|| {
            for id in 1..=count {
                let question = Question { id, ..find(&format!("/none-{id}")) };
                flooder.send(&question.encode(), None).unwrap();
            }
        });
        let asked = Instant::now();
        let mut polite = daemon.asker();
        assert_eq!(polite.kind("/a.html"), AnswerKind::File);
        assert!(asked.elapsed() < Duration::from_secs(2), "{:?}", asked.elapsed());
        let mut kinds = (0, 0);
        for _ in 0..count {
            match flooder.receive() {
                Message::Answer(Answer { kind: AnswerKind::Missing, .. }, None) => kinds.0 += 1,
                Message::Answer(Answer { kind: AnswerKind::Busy, .. }, None) => kinds.1 += 1,
                other => panic!("{other:?}"),
            }
        }
        sender.join().unwrap();
        kinds
    });
    assert_eq!(files + others, count);
    assert!(files > 0, "{files} answered, {others} refused");
}

#[test]
fn an_asker_that_takes_nothing_is_disconnected_and_leaves_nothing_behind() {
    let rooted = Rooted::make();
    let daemon = rooted.daemon(&["--disk-deadline", "500ms"]);
    let mut polite = daemon.asker();
    assert_eq!(polite.kind("/a.html"), AnswerKind::File);
    let before = daemon.descriptors();
    let silent = daemon.asker();
    let message = Question { id: 1, ..find("/a.html") }.encode();
    let give_up = Instant::now() + PATIENCE;
    let gone = loop {
        match silent.try_send(&message) {
            Ok(()) => {}
            Err(Errno::AGAIN) => thread::sleep(Duration::from_millis(5)),
            Err(error) => break error,
        }
        assert!(Instant::now() < give_up, "it stays connected");
    };
    assert!(matches!(gone, Errno::PIPE | Errno::CONNRESET), "{gone}");
    assert_eq!(polite.kind("/a.html"), AnswerKind::File);
    drop(silent);
    while daemon.descriptors() > before + 1 {
        assert!(Instant::now() < give_up, "{} descriptors, {before} before", daemon.descriptors());
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn an_asker_for_whom_no_descriptor_is_free_waits_and_costs_nothing() {
    let rooted = Rooted::make();
    let daemon = rooted.daemon(&[]);
    // It is ready, with all descriptors that it needs itself.
    assert_eq!(daemon.asker().kind("/a.html"), AnswerKind::File);
    let pid = Pid::from_raw(daemon.pid() as i32);
    // Enough for those who wait for a few descriptors, and none is free.
    let none = Rlimit { current: Some(3), maximum: rustix::process::getrlimit(Resource::Nofile).maximum };
    let usual = prlimit(pid, Resource::Nofile, none).unwrap();
    let waiting = Asker::connect_silently(&daemon.socket);
    let before = daemon.computed();
    thread::sleep(Duration::from_millis(500));
    let ticks = daemon.computed() - before;
    prlimit(pid, Resource::Nofile, usual).unwrap();
    assert!(matches!(waiting.receive(), Message::Hello(_)), "it is accepted later");
    assert!(ticks < 15, "{ticks} hundredths of a second for nothing");
}

/// A root with a local file, and a slow mount below it.
fn with_slow_mount(rooted: &Rooted, rules: &str) -> Option<(SlowDisk, TempDir)> {
    if let Some(missing) = flash_slowdisk::missing() {
        eprintln!("NOT TESTED, a slow disk cannot be mounted: {missing}");
        return None;
    }
    let behind = TempDir::new().unwrap();
    for n in 0..20 {
        site::write(&behind.path().join(n.to_string()), &large(1000 + n));
    }
    site::write(&behind.path().join("middle"), &large(1 << 20));
    site::write(&behind.path().join("huge"), &large(6 << 20));
    let point = rooted.path().join("slow");
    fs::create_dir(&point).unwrap();
    Some((SlowDisk::mount(behind.path(), &point, rules).unwrap(), behind))
}

#[test]
fn a_hung_mount_costs_its_own_questions_one_deadline_and_no_others() {
    let rooted = Rooted::make();
    let Some((disk, _behind)) = with_slow_mount(&rooted, "lookup delay fixed:0ms") else { return };
    let daemon = rooted.daemon(&["--disk-deadline", "4s"]);
    let mut asker = daemon.asker();
    assert_eq!(asker.kind("/slow/0"), AnswerKind::File);
    disk.rule("hang prefix /").unwrap();
    let asked = Instant::now();
    let ids: Vec<u64> = (1..10).map(|n| asker.ask(&find(&format!("/slow/{n}")), None)).collect();
    let mut polite = daemon.asker();
    for _ in 0..20 {
        let begun = Instant::now();
        assert_eq!(polite.kind("/a.html"), AnswerKind::File);
        assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    }
    for _ in ids {
        let Message::Answer(answer, None) = asker.receive() else { panic!("each is answered") };
        assert!(matches!(answer.kind, AnswerKind::TimedOut | AnswerKind::Down), "{answer:?}");
    }
    assert!(asked.elapsed() < Duration::from_secs(3 * 4), "{:?}", asked.elapsed());
    let short = Question { deadline_ms: 100, ..find("/slow/15") };
    let asked = Instant::now();
    let (answer, _) = polite.answer(&short);
    assert!(matches!(answer.kind, AnswerKind::TimedOut | AnswerKind::Down));
    assert!(
        asked.elapsed() < Duration::from_millis(900),
        "a question may ask for less: {:?}",
        asked.elapsed()
    );
    disk.clear();
    asker.wait_for("/slow/16", AnswerKind::File);
}

#[test]
fn a_small_machine_has_few_helpers() {
    let journal = TempDir::new().unwrap();
    let machine = Machine::take_with(journal.path()).unwrap();
    let limits = Limits { memory_bytes: Some(64 << 20), ..Limits::default() };
    let group = match machine.group(&limits, None) {
        Ok(group) => group,
        Err(why) => return eprintln!("NOT TESTED, memory cannot be limited: {why:#}"),
    };
    let rooted = Rooted::make();
    let Some((_disk, _behind)) = with_slow_mount(&rooted, "lookup delay fixed:300ms") else { return };
    let flags = ["--sandbox", "required"];
    let daemon = Daemon::start_under(&group.wrapper(), &[rooted.path()], rooted.beside.path(), &flags);
    let mut asker = daemon.asker();
    let count = 50;
    for number in 0..count {
        asker.ask(&find(&format!("/slow/none-{number}")), None);
    }
    for _ in 0..count {
        let Message::Answer(answer, None) = asker.receive() else { panic!("each is answered") };
        assert_eq!(answer.kind, AnswerKind::Missing);
    }
    let tasks = fs::read_dir(format!("/proc/{}/task", daemon.pid())).unwrap();
    let names = tasks.map(|task| fs::read_to_string(task.unwrap().path().join("comm")).unwrap());
    let helpers = names.filter(|name| name.starts_with("helper-")).count();
    // One for each 8 MiB, for this device and for others.
    assert!((4..=16).contains(&helpers), "{helpers} helpers in 64 MiB");
}

#[test]
fn files_of_a_remote_mount_come_as_sealed_memory() {
    let rooted = Rooted::make();
    let Some((_disk, _behind)) = with_slow_mount(&rooted, "lookup delay fixed:0ms") else { return };
    let daemon = rooted.daemon(&[]);
    let mut asker = daemon.asker();
    for (name, bytes) in [("3", 1003), ("middle", 1 << 20)] {
        let (answer, file) = asker.answer(&find(&format!("/slow/{name}")));
        assert_eq!((answer.kind, answer.flags & flag::MEMORY), (AnswerKind::File, flag::MEMORY), "{name}");
        assert_eq!(answer.window, 0..bytes, "{name}");
        assert!(memory(file) == large(bytes), "{name}");
    }
    let (_, one) = asker.answer(&find("/slow/middle"));
    one.unwrap().seek(SeekFrom::Start(7)).unwrap();
    assert!(
        content(asker.answer(&find("/slow/middle")).1) == large(1 << 20),
        "each has a position of its own"
    );
    let (answer, none) = asker.answer(&find("/slow/huge"));
    assert!(none.is_none() && answer.flags & flag::REMOTE != 0, "{answer:?}");
    let load = Question {
        kind: QuestionKind::Load,
        known: Some(answer.stamp),
        window: 5 << 20..(5 << 20) + 100_000,
        ..find("/slow/huge")
    };
    let (answer, bytes) = asker.answer(&load);
    assert_eq!(answer.kind, AnswerKind::Window);
    let bytes = memory(bytes);
    assert!(!bytes.is_empty() && bytes[..] == large(6 << 20)[5 << 20..(5 << 20) + bytes.len()]);
}

#[test]
fn two_hundred_askers_of_a_cold_file_open_it_once() {
    let rooted = Rooted::make();
    let Some((disk, _behind)) = with_slow_mount(&rooted, "lookup delay fixed:0ms") else { return };
    let daemon = rooted.daemon(&[]);
    // The mount's own helpers start after its first question.
    daemon.asker().wait_for("/slow/0", AnswerKind::File);
    thread::sleep(Duration::from_millis(200));
    let opened = disk.counters().answered(Kind::Open);
    disk.rule("open delay fixed:300ms").unwrap();
    let mut askers: Vec<Asker> = (0..200).map(|_| daemon.asker()).collect();
    for asker in &mut askers {
        asker.ask(&find("/slow/7"), None);
    }
    for asker in &askers {
        let Message::Answer(answer, file) = asker.receive() else { panic!("each is answered") };
        assert_eq!(answer.kind, AnswerKind::File);
        assert!(memory(file) == large(1007));
    }
    assert_eq!(disk.counters().answered(Kind::Open) - opened, 1, "one open for all");
}

#[test]
fn a_file_that_is_replaced_meanwhile_is_still_the_one_that_was_found() {
    let rooted = Rooted::make();
    let old = large(400_000);
    site::write(&rooted.path().join("f"), &old);
    let daemon = rooted.daemon(&["--revalidate", "0"]);
    let mut asker = daemon.asker();
    let id = asker.ask(&window("/f", 0..1000), None);
    thread::sleep(Duration::from_millis(100));
    // The descriptor is in the socket.
    site::write(&rooted.path().join("new"), b"new");
    fs::rename(rooted.path().join("new"), rooted.path().join("f")).unwrap();
    let Message::Answer(answer, file) = asker.receive() else { panic!("it is answered") };
    assert_eq!((answer.id, answer.stamp.size), (id, 400_000));
    let file = file.unwrap();
    let load = Question { kind: QuestionKind::Load, window: 300_000..400_000, copy: true, ..find("") };
    let (answer, bytes) = asker.answer_about(&load, Some(file.as_fd()));
    assert_eq!(answer.kind, AnswerKind::Window);
    assert!(memory(bytes) == old[300_000..], "no mixture");
    assert_eq!(content(asker.answer(&find("/f")).1), b"new");
}

#[test]
fn a_root_that_leads_elsewhere_is_told_to_all_askers() {
    let rooted = Rooted::make();
    let (one, two) = (rooted.path().join("one"), rooted.path().join("two"));
    fs::create_dir(&one).unwrap();
    fs::create_dir(&two).unwrap();
    site::write(&one.join("f"), b"one");
    site::write(&two.join("f"), b"two");
    let link = rooted.path().join("current");
    symlink(&one, &link).unwrap();
    let daemon = Daemon::start(
        &[&link, rooted.beside.path()],
        rooted.beside.path(),
        &["--sandbox", "required", "--revalidate", "100ms"],
    );
    let mut asker = daemon.asker();
    assert_eq!(content(asker.answer(&find("/f")).1), b"one");
    symlink(&two, rooted.path().join("next")).unwrap();
    fs::rename(rooted.path().join("next"), &link).unwrap();
    let Message::Root(root, folder) = asker.receive() else { panic!("the new root is told") };
    assert_eq!(root.number, 0);
    let f = rustix::fs::openat(&folder, "f", rustix::fs::OFlags::RDONLY, rustix::fs::Mode::empty()).unwrap();
    assert_eq!(content(Some(f.into())), b"two");
    assert_eq!(content(asker.answer(&find("/f")).1), b"two");
}

#[test]
fn a_daemon_that_is_killed_is_replaced_at_the_same_place() {
    let rooted = Rooted::make();
    let daemon = rooted.daemon(&[]);
    let asker = daemon.asker();
    let socket = daemon.kill();
    assert!(matches!(asker.receive(), Message::Gone));
    assert!(socket.exists(), "its name stays");
    let successor = rooted.daemon(&[]);
    assert_eq!(successor.asker().kind("/a.html"), AnswerKind::File);
}

#[test]
fn the_folder_of_its_socket_may_be_missing() {
    let rooted = Rooted::make();
    let socket = rooted.beside.path().join("run/helper.sock");
    let mut command = Command::new(program());
    command.arg("helper").arg(rooted.path()).arg("--listen").arg(format!("unix:{}", socket.display()));
    let daemon = Daemon::of(command, socket);
    assert_eq!(daemon.asker().kind("/a.html"), AnswerKind::File);
}

#[test]
fn a_service_manager_passes_the_socket() {
    let rooted = Rooted::make();
    let socket = rooted.beside.path().join("passed.sock");
    let activate = |kind: &str| {
        let script = format!(
            "use Socket; use POSIX; socket(my $s, AF_UNIX, {kind}, 0) or die; \
             bind($s, pack_sockaddr_un(shift)) or die $!; listen($s, 9) or die; \
             POSIX::dup2(fileno($s), 3) == 3 or die; fcntl($s, 2, 0) if fileno($s) == 3; \
             $ENV{{LISTEN_PID}} = $$; $ENV{{LISTEN_FDS}} = 1; exec @ARGV or die;"
        );
        let mut command = Command::new("perl");
        command.args(["-e", &script]).arg(&socket).arg(program()).arg("helper").arg(rooted.path());
        // It must not be used.
        command.args(["--listen", "unix:/none/such/helper.sock"]);
        command
    };
    let daemon = Daemon::of(activate("SOCK_SEQPACKET"), socket.clone());
    assert_eq!(daemon.asker().kind("/a.html"), AnswerKind::File);
    drop(daemon);
    fs::remove_file(&socket).unwrap();
    let output = activate("SOCK_STREAM").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(1) && said.contains("ListenSequentialPacket"), "{said}");
}

#[test]
fn bad_flags_and_folders_are_one_line_that_helps() {
    let rooted = Rooted::make();
    let root = rooted.path().to_str().unwrap();
    let file = rooted.path().join("a.html");
    for (words, code, says) in [
        (vec![], 2, "ROOT"),
        (vec!["/none/such"], 1, "there is no such folder"),
        (vec![file.to_str().unwrap()], 1, "it is not a folder"),
        (vec![root, "--listen", "127.0.0.1:80"], 2, "unix:PATH"),
        (vec![root, "--listen", "unix:/none/such/helper.sock"], 1, "cannot listen at unix:/none/such"),
        (vec![root, "--allow-user", "nobody-of-that-name"], 1, "cannot allow user nobody-of-that-name"),
        (vec![root, "--user", "nobody-of-that-name", "--listen"], 2, "--listen"),
        (vec![root, "--questions-max", "0"], 2, "from 1"),
        (vec![root, "--disk-deadline", "0"], 2, "longer than 0"),
    ] {
        let output = Command::new(program()).arg("helper").args(&words).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{words:?}: {said}");
        assert!(said.contains(says) && said.lines().count() == 1, "{words:?}: {said}");
    }
}
