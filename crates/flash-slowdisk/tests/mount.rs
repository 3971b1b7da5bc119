//! The slow disk as a program meets it: mounted, slow, faulty, told otherwise while it runs, and gone.

#![forbid(unsafe_code)]

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use flash_slowdisk::{CONTROL, Kind, SlowDisk};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(120);

/// A folder, and where to mount it; none, and a line about it, where nothing can be mounted.
struct Place {
    folder: TempDir,
    mountpoint: TempDir,
}

impl Place {
    fn new() -> Option<Place> {
        if let Some(missing) = flash_slowdisk::missing() {
            eprintln!("NOT TESTED, the slow disk cannot be mounted: {missing}");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("sub/deep")).unwrap();
        fs::write(folder.path().join("a.txt"), "alpha\n").unwrap();
        fs::write(folder.path().join("sub/b.txt"), "beta\n").unwrap();
        fs::write(folder.path().join("sub/deep/big.bin"), bytes(3_000_001)).unwrap();
        std::os::unix::fs::symlink("sub/b.txt", folder.path().join("link")).unwrap();
        Some(Place { folder, mountpoint: tempfile::tempdir().unwrap() })
    }

    fn mount(&self, rules: &str) -> SlowDisk {
        SlowDisk::mount(self.folder.path(), self.mountpoint.path(), rules).unwrap()
    }

    fn at(&self, path: &str) -> PathBuf {
        self.mountpoint.path().join(path)
    }

    fn is_mounted(&self) -> bool {
        is_mounted(self.mountpoint.path())
    }
}

fn bytes(count: usize) -> Vec<u8> {
    (0..count).map(|n| ((n / 1000) ^ n) as u8).collect()
}

fn is_mounted(path: &Path) -> bool {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    mounts.lines().any(|line| line.split(' ').nth(1) == path.to_str())
}

fn timed<T>(what: impl FnOnce() -> T) -> (T, Duration) {
    let begun = Instant::now();
    (what(), begun.elapsed())
}

/// Does it on a thread of its own, which may never come back.
fn aside<T: Send + 'static>(what: impl FnOnce() -> T + Send + 'static) -> Receiver<T> {
    let (sender, receiver) = channel();
    thread::spawn(move || sender.send(what()));
    receiver
}

fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let given_up = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < given_up, "never: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

fn errno<T>(result: io::Result<T>) -> Option<rustix::io::Errno> {
    result.err().and_then(|error| rustix::io::Errno::from_io_error(&error))
}

#[test]
fn it_shows_the_folder_as_it_is() {
    let Some(place) = Place::new() else { return };
    let private = place.folder.path().join("sub/private");
    fs::write(&private, "p").unwrap();
    fs::set_permissions(&private, fs::Permissions::from_mode(0o640)).unwrap();
    let old =
        fs::FileTimes::new().set_modified(std::time::UNIX_EPOCH + Duration::new(1_000_000, 123_456_789));
    File::options().write(true).open(&private).unwrap().set_times(old).unwrap();
    let disk = place.mount("");
    let said = |m: &Metadata| {
        (m.mode(), m.nlink(), m.uid(), m.gid(), m.size(), m.blocks(), m.mtime(), m.mtime_nsec(), m.ino())
    };
    for path in ["a.txt", "sub", "sub/private", "sub/deep/big.bin", "link"] {
        let real = fs::symlink_metadata(place.folder.path().join(path)).unwrap();
        let shown = fs::symlink_metadata(place.at(path)).unwrap();
        assert_eq!(said(&shown), said(&real), "{path}");
        assert_eq!((shown.ctime(), shown.ctime_nsec()), (real.ctime(), real.ctime_nsec()), "{path}");
    }
    assert_eq!(fs::read(place.at("sub/deep/big.bin")).unwrap(), bytes(3_000_001));
    assert_eq!(fs::read_to_string(place.at("link")).unwrap(), "beta\n");
    assert_eq!(fs::read_link(place.at("link")).unwrap(), Path::new("sub/b.txt"));
    for n in 0..2000 {
        fs::write(place.folder.path().join(format!("sub/deep/{n:04}")), "").unwrap();
    }
    let list = |path: &str| -> Vec<_> {
        let mut names: Vec<_> =
            fs::read_dir(place.at(path)).unwrap().map(|row| row.unwrap().file_name()).collect();
        names.sort();
        names
    };
    assert_eq!(list(""), ["a.txt", "link", "sub"]);
    assert_eq!(list("sub/deep").len(), 2001);
    let space = |path: &Path| rustix::fs::statvfs(path).unwrap().f_blocks;
    assert_eq!(space(place.mountpoint.path()), space(place.folder.path()));
    assert_eq!(errno(fs::read(place.at("none"))), Some(rustix::io::Errno::NOENT));
    assert_eq!(errno(fs::write(place.at("a.txt"), "")), Some(rustix::io::Errno::ROFS));
    assert!(fs::write(place.at("new"), "").is_err() && fs::remove_file(place.at("a.txt")).is_err());
    assert_eq!(fs::read_to_string(place.folder.path().join("a.txt")).unwrap(), "alpha\n");
    assert!(disk.counters().answered(Kind::Lookup) > 0);
}

#[test]
fn changes_of_the_folder_are_seen() {
    let Some(place) = Place::new() else { return };
    let _disk = place.mount("");
    let mut old = File::open(place.at("a.txt")).unwrap();
    let inode = old.metadata().unwrap().ino();
    let next = place.folder.path().join("next");
    fs::write(&next, "a new file\n").unwrap();
    fs::rename(next, place.folder.path().join("a.txt")).unwrap();
    assert_eq!(fs::read_to_string(place.at("a.txt")).unwrap(), "a new file\n");
    assert_ne!(fs::metadata(place.at("a.txt")).unwrap().ino(), inode);
    let mut text = String::new();
    old.read_to_string(&mut text).unwrap();
    assert_eq!(
        (text.as_str(), old.metadata().unwrap().ino()),
        ("alpha\n", inode),
        "the open file stays what it was"
    );
    for text in ["written in place\n", "written again at\n"] {
        fs::write(place.folder.path().join("a.txt"), text).unwrap();
        assert_eq!(fs::read_to_string(place.at("a.txt")).unwrap(), text);
        // Times of the folder's files move in steps.
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn operations_are_slow_and_pages_are_kept() {
    let Some(place) = Place::new() else { return };
    let disk = place.mount("read delay fixed:80ms\nopen delay uniform:30ms-40ms");
    let path = place.at("sub/b.txt");
    let (mut file, opening) = timed(|| File::open(&path).unwrap());
    assert!(opening >= Duration::from_millis(30), "{opening:?}");
    let (_, reading) = timed(|| file.read_to_end(&mut Vec::new()).unwrap());
    assert!(reading >= Duration::from_millis(80), "{reading:?}");
    assert_eq!(disk.counters().answered(Kind::Read), 1);
    let mut again = File::open(&path).unwrap();
    disk.rule("hang").unwrap();
    let kept = aside(move || again.read(&mut [0; 3]).unwrap());
    assert_eq!(kept.recv_timeout(PATIENCE), Ok(3), "the page cache has it");
    disk.rule("remove hang").unwrap();
    assert_eq!(disk.counters().answered(Kind::Read), 1);
    disk.rule("direct-io on").unwrap();
    fs::read(&path).unwrap();
    assert!(disk.counters().answered(Kind::Read) > 1, "nothing is kept");
    let looked = disk.counters().answered(Kind::Lookup);
    fs::metadata(&path).unwrap();
    assert!(disk.counters().answered(Kind::Lookup) > looked, "names are asked for each time");
    disk.rule("clear\nttl 100s").unwrap();
    fs::metadata(&path).unwrap();
    let looked = disk.counters().answered(Kind::Lookup);
    fs::metadata(&path).unwrap();
    assert_eq!(disk.counters().answered(Kind::Lookup), looked, "names are kept");
}

#[test]
fn files_fail_and_reads_are_short() {
    let Some(place) = Place::new() else { return };
    let disk =
        place.mount("open fail EIO prefix /sub/\nlookup fail ESTALE glob /l*\nshort 1000 glob /**.bin");
    assert_eq!(errno(File::open(place.at("sub/b.txt"))), Some(rustix::io::Errno::IO));
    assert_eq!(errno(fs::symlink_metadata(place.at("link"))), Some(rustix::io::Errno::STALE));
    disk.rule("remove open fail EIO prefix /sub/").unwrap();
    let mut big = File::open(place.at("sub/deep/big.bin")).unwrap();
    let mut buffer = vec![0; 100_000];
    assert_eq!(big.read(&mut buffer).unwrap(), 1000);
    assert_eq!(big.metadata().unwrap().len(), 3_000_001);
    assert_eq!(buffer[..1000], bytes(1000));
    disk.clear();
    assert_eq!(big.read(&mut buffer).unwrap(), 100_000);
    assert_eq!(buffer[..], bytes(101_000)[1000..]);
}

#[test]
fn what_hangs_stops_nobody_else_and_goes_on_when_told() {
    let Some(place) = Place::new() else { return };
    for n in 0..6 {
        fs::write(place.folder.path().join(format!("sub/b{n}")), "beta\n").unwrap();
    }
    let disk = place.mount("concurrent 2\nhang prefix /sub/b\nread hang prefix /a");
    let hang = |path: &str| {
        let path = place.at(path);
        aside(move || fs::read_to_string(path).unwrap())
    };
    let hung: Vec<_> = (0..6).map(|n| hang(&format!("sub/b{n}"))).chain([hang("a.txt")]).collect();
    wait_until("all hang", || disk.counters().hung == 7);
    let (_, others) = timed(|| fs::read(place.at("sub/deep/big.bin")).unwrap());
    assert!(others < Duration::from_secs(5), "{others:?}");
    assert!(hung.iter().all(|hung| hung.try_recv().is_err()));
    tell(&place, "remove hang prefix /sub/b").unwrap();
    for freed in &hung[..6] {
        assert_eq!(freed.recv_timeout(PATIENCE).unwrap(), "beta\n");
    }
    wait_until("one is left", || disk.counters().hung == 1);
    disk.clear();
    assert_eq!(hung[6].recv_timeout(PATIENCE).unwrap(), "alpha\n");
}

fn tell(place: &Place, lines: &str) -> io::Result<()> {
    OpenOptions::new().write(true).open(place.at(CONTROL))?.write_all(lines.as_bytes())
}

#[test]
fn the_control_file_answers_when_all_else_hangs() {
    let Some(place) = Place::new() else { return };
    let disk = place.mount("");
    tell(&place, "read delay fixed:1ms\nconcurrent 3").unwrap();
    let text = fs::read_to_string(place.at(CONTROL)).unwrap();
    assert!(text.contains("\nconcurrent 3\n") && text.contains("\nread delay fixed:1ms\n"), "{text}");
    assert!(text.contains("# answered: lookup="), "{text}");
    assert_eq!(errno(tell(&place, "hang\nread delay soon")), Some(rustix::io::Errno::INVAL));
    let refused = fs::read_to_string(place.at(CONTROL)).unwrap();
    assert!(refused.contains("# refused: \"read delay soon\"") && !refused.contains("\nhang"), "{refused}");
    assert_eq!(disk.rule("hang nowhere").unwrap_err().kind(), io::ErrorKind::InvalidInput);
    tell(&place, &text).unwrap();
    tell(&place, "hang").unwrap();
    let path = place.at("a.txt");
    let hung = aside(move || fs::read_to_string(path).unwrap());
    wait_until("it hangs", || disk.counters().hung == 1);
    let control = place.at(CONTROL);
    let asked = aside(move || fs::read_to_string(control).unwrap()).recv_timeout(PATIENCE).unwrap();
    assert!(asked.contains("\nhang\n") && asked.contains("hung=1"), "{asked}");
    // As a shell does it.
    let shell = format!("echo clear > {}", place.at(CONTROL).display());
    assert!(Command::new("sh").arg("-c").arg(shell).status().unwrap().success());
    assert_eq!(hung.recv_timeout(PATIENCE).unwrap(), "alpha\n");
}

#[test]
fn killed_processes_leave_a_hung_disk() {
    let Some(place) = Place::new() else { return };
    let disk = place.mount("hang prefix /a");
    let mut child = Command::new("cat").arg(place.at("a.txt")).stdout(Stdio::null()).spawn().unwrap();
    wait_until("it hangs", || disk.counters().hung == 1);
    child.kill().unwrap();
    let ended = aside(move || child.wait().unwrap());
    assert!(!ended.recv_timeout(PATIENCE).unwrap().success());
    assert_eq!(disk.counters().hung, 0);
}

#[test]
fn it_unmounts_while_operations_hang_and_files_are_open() {
    let Some(place) = Place::new() else { return };
    let disk = place.mount("read hang prefix /a");
    let path = place.at("a.txt");
    let hung = aside(move || fs::read(path).is_err());
    let open = File::open(place.at("sub/b.txt")).unwrap();
    wait_until("it hangs", || disk.counters().hung == 1);
    let (_, took) = timed(|| drop(disk));
    assert!(took < Duration::from_secs(5), "{took:?}");
    assert!(!place.is_mounted());
    assert!(hung.recv_timeout(PATIENCE).unwrap(), "the kernel ended the read");
    assert!(open.metadata().is_err());
    // The place can be used again.
    let again = place.mount("");
    assert_eq!(fs::read_to_string(place.at("a.txt")).unwrap(), "alpha\n");
    drop(again);
    assert!(!place.is_mounted());
}

#[test]
fn a_mount_may_cover_its_own_folder() {
    let Some(place) = Place::new() else { return };
    let disk = SlowDisk::mount(place.folder.path(), place.folder.path(), "read delay fixed:50ms").unwrap();
    let (text, took) = timed(|| fs::read_to_string(place.folder.path().join("a.txt")).unwrap());
    assert_eq!(text, "alpha\n");
    assert!(took >= Duration::from_millis(50), "{took:?}");
    drop(disk);
    assert!(!is_mounted(place.folder.path()));
}

/// The program, ready.
fn program(place: &Place, flags: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_flash-slowdisk"));
    command.arg(place.folder.path()).arg(place.mountpoint.path()).args(flags);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = [0; 512];
    let length = child.stdout.as_mut().unwrap().read(&mut line).unwrap();
    let line = String::from_utf8_lossy(&line[..length]);
    assert!(line.starts_with("flash slowdisk: ") && line.ends_with("/.slowdisk\n"), "{line:?}");
    child
}

#[test]
fn the_program_ends_as_told_and_leaves_no_mount_even_when_killed() {
    let Some(place) = Place::new() else { return };
    for signal in [Signal::TERM, Signal::INT, Signal::KILL] {
        let mut child = program(&place, &["--concurrent", "4", "--rule", "read hang"]);
        let path = place.at("a.txt");
        let hung = aside(move || fs::read(path).is_err());
        wait_until("it hangs", || fs::read_to_string(place.at(CONTROL)).unwrap().contains("hung=1"));
        kill_process(Pid::from_child(&child), signal).unwrap();
        let status = child.wait().unwrap();
        assert_eq!(status.success(), signal != Signal::KILL, "{signal:?}: {status}");
        wait_until("it is unmounted", || !place.is_mounted());
        assert!(hung.recv_timeout(PATIENCE).unwrap(), "{signal:?}");
    }
    let mut child = program(&place, &[]);
    assert!(Command::new("umount").arg(place.mountpoint.path()).status().unwrap().success());
    assert!(child.wait().unwrap().success(), "somebody else unmounted it");
}

#[test]
fn the_program_says_in_one_line_what_is_wrong() {
    let Some(place) = Place::new() else { return };
    let (folder, mountpoint) =
        (place.folder.path().to_str().unwrap(), place.mountpoint.path().to_str().unwrap());
    let cases: [(&[&str], i32, &str); 5] = [
        (&[], 2, "required arguments were not provided"),
        (&[folder, mountpoint, "--rule", "read slowly"], 2, "\"read slowly\": expected delay"),
        (&[folder, mountpoint, "--concurrent", "0"], 2, "from 1 to 1024"),
        (&["/nonexistent", mountpoint], 1, "/nonexistent: No such file or directory"),
        (&[folder, mountpoint, "--image", "1"], 1, "mke2fs"),
    ];
    for (flags, code, what) in cases {
        let output = Command::new(env!("CARGO_BIN_EXE_flash-slowdisk")).args(flags).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{flags:?}: {said}");
        assert!(said.starts_with("flash slowdisk: ") && said.contains(what), "{flags:?}: {said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
    assert!(!place.is_mounted());
}

#[test]
fn ordinary_users_get_what_modes_allow() {
    let Some(place) = Place::new() else { return };
    let _disk = place.mount("");
    let secret = place.folder.path().join("secret");
    OpenOptions::new().create_new(true).write(true).mode(0o600).open(secret).unwrap();
    for folder in [place.folder.path(), place.mountpoint.path()] {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).ok();
    }
    let read = |name: &str| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "cat"]).arg(place.at(name));
        command.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap().success()
    };
    assert!(read("a.txt"));
    assert!(!read("secret") && !read(CONTROL));
}
