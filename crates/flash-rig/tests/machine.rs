//! The machine as root: limits limit, and everything is put back, also when the process is killed in between.
//!
//! Nothing here touches the machine's own disk: each test has an image of its own on a loop device.

#![forbid(unsafe_code)]

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use flash_rig::{Cpus, Disk, Limits, Machine, Setup, Slow, interrupt, make_image};
use rustix::process::{Pid, Signal, geteuid, kill_process};
use tempfile::TempDir;

/// Where the child below finds its folder.
const HELD: &str = "FLASH_RIG_HELD_IN";
const KIBI: u64 = 1024;

/// A folder with a journal, an image of a few files, and a place to mount it.
struct Bench {
    folder: TempDir,
}

impl Bench {
    /// None, and a line that says so, without the rights.
    fn new() -> Option<Bench> {
        if !geteuid().is_root() || !Path::new("/dev/loop-control").exists() {
            eprintln!("NOT TESTED: limits, read-ahead and mounts need root and loop devices");
            return None;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        for name in ["journal", "site", "mount"] {
            fs::create_dir(at(name)).expect("a new folder");
        }
        fs::write(at("site/large"), vec![b'x'; 4 << 20]).expect("a file");
        fs::write(at("site/small"), b"small").expect("a file");
        make_image(&at("site"), &at("image"), 16).expect("mke2fs");
        Some(Bench { folder })
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn machine(&self) -> Machine {
        Machine::take_with(&self.at("journal")).expect("a journal of our own")
    }

    /// The journal is there and says nothing.
    fn journal_is_empty(&self) -> bool {
        fs::read(self.at("journal/journal")).expect("a journal").is_empty()
    }

    /// Whether the image is still on a loop device.
    fn is_attached(&self) -> bool {
        let list = Command::new("losetup").arg("-j").arg(self.at("image")).output();
        !list.expect("losetup").stdout.is_empty()
    }

    fn is_mounted(&self) -> bool {
        let mounts = fs::read_to_string("/proc/self/mounts").expect("a list");
        mounts.contains(&format!(" {} ", self.at("mount").display()))
    }
}

/// Runs a script inside, and returns what it printed and how long it took.
fn inside(wrapper: &[String], script: &str, word: &Path) -> (String, Duration) {
    let begun = Instant::now();
    let words = [wrapper, &["/bin/sh".into(), "-c".into(), script.into(), "sh".into()]].concat();
    let output = Command::new(&words[0]).args(&words[1..]).arg(word).output().expect("a shell");
    (String::from_utf8_lossy(&output.stdout).trim().to_owned(), begun.elapsed())
}

#[test]
fn a_group_limits_memory_and_reads() {
    let Some(bench) = Bench::new() else { return };
    let machine = bench.machine();
    let image = machine.image(&bench.at("image"), &bench.at("mount")).expect("mounted");
    let disk = Disk::below(image.mountpoint()).expect("a loop device");
    let group = |limits: Limits| machine.group(&limits, &disk).expect("root and cgroups");

    // tail keeps all that it may have to print.
    let hold = "head -c 150000000 /dev/zero | tail -c 150000000 | wc -c";
    let wide = group(Limits { memory_bytes: Some(400 << 20), ..Limits::default() });
    assert_eq!(inside(&wide.wrapper(), hold, Path::new("")).0, "150000000");
    drop(wide);
    let narrow = group(Limits { memory_bytes: Some(64 << 20), ..Limits::default() });
    assert_ne!(inside(&narrow.wrapper(), hold, Path::new("")).0, "150000000", "64 MiB hold 150 MB");
    drop(narrow);

    let read = "dd if=\"$1\" of=/dev/null bs=4k count=100 iflag=direct 2>/dev/null && echo read";
    let large = image.mountpoint().join("large");
    assert!(machine.group(&Limits { reads_per_second: Some(1), ..Limits::default() }, None).is_err());
    let free = group(Limits::default());
    let (said, unlimited) = inside(&free.wrapper(), read, &large);
    assert_eq!(said, "read");
    drop(free);
    for limits in [
        Limits { reads_per_second: Some(50), ..Limits::default() },
        Limits { read_bytes_per_second: Some(200 * KIBI), ..Limits::default() },
    ] {
        let held = group(limits.clone());
        let (said, took) = inside(&held.wrapper(), read, &large);
        assert_eq!(said, "read");
        // Two seconds, of which the first reads are free; a busy machine only makes it longer.
        assert!(took > Duration::from_millis(1_400), "{limits:?} took {took:?}, without {unlimited:?}");
    }
    assert!(
        unlimited < Duration::from_millis(1_400),
        "{unlimited:?}: the disk itself is as slow as the limit"
    );
    drop(image);
    assert!(bench.journal_is_empty() && !bench.is_mounted());
}

#[test]
fn a_group_ends_what_is_inside() {
    let Some(bench) = Bench::new() else { return };
    let machine = bench.machine();
    let image = machine.image(&bench.at("image"), &bench.at("mount")).expect("mounted");
    let disk = Disk::below(image.mountpoint()).expect("a loop device");
    let group = machine.group(&Limits::default(), &disk).expect("root and cgroups");
    let words = group.wrapper();
    let mut child = Command::new(&words[0]).args(&words[1..]).args(["sleep", "60"]).spawn().expect("a shell");
    // It is inside once its program has begun.
    let end = Instant::now() + Duration::from_secs(10);
    while fs::read_to_string(format!("/proc/{}/comm", child.id())).unwrap_or_default() != "sleep\n" {
        assert!(Instant::now() < end, "no sleep");
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(group);
    assert!(!child.wait().expect("our child").success());
}

#[test]
fn read_ahead_goes_back() {
    let Some(bench) = Bench::new() else { return };
    let machine = bench.machine();
    let image = machine.image(&bench.at("image"), &bench.at("mount")).expect("mounted");
    let disk = Disk::below(image.mountpoint()).expect("a loop device");
    let now = || disk.read_ahead_kilobytes().expect("a number");
    let before = now();
    assert_ne!(before, 64);
    let outer = machine.read_ahead(&disk, 64).expect("root");
    assert_eq!(now(), 64);
    let inner = machine.read_ahead(&disk, 32).expect("root");
    assert_eq!(now(), 32);
    drop(inner);
    assert_eq!(now(), 64);
    drop(outer);
    assert_eq!(now(), before);
}

#[test]
fn images_are_cold_disks_of_their_own() {
    let Some(bench) = Bench::new() else { return };
    let machine = bench.machine();
    let image = machine.image(&bench.at("image"), &bench.at("mount")).expect("mounted");
    assert_eq!(fs::read(image.mountpoint().join("small")).expect("a file"), b"small");
    let again = machine.image(&bench.at("image"), &bench.at("mount")).err().expect("it is taken");
    assert!(again.to_string().contains("already"), "{again:#}");
    // Reads of the disk, in sectors: warm files cost none, cold ones do.
    let name = Disk::below(image.mountpoint()).expect("a loop device").name();
    let sectors = || {
        let stat = fs::read_to_string(format!("/sys/block/{name}/stat")).expect("a disk");
        stat.split_whitespace().nth(2).expect("sectors read").parse::<u64>().expect("a number")
    };
    let read = || fs::read(image.mountpoint().join("large")).expect("a file").len();
    read();
    flash_rig::empty_caches().expect("root");
    let before = sectors();
    read();
    assert!(sectors() >= before + (4 << 20) / 512);
    assert!(bench.is_attached());
    drop(image);
    assert!(!bench.is_mounted() && !bench.is_attached() && bench.journal_is_empty());
}

#[test]
fn slow_disks_are_slow_and_go() {
    let Some(bench) = Bench::new() else { return };
    if let Some(missing) = flash_slowdisk::missing() {
        return eprintln!("NOT TESTED: slow disks: {missing}");
    }
    let machine = bench.machine();
    for slow in [Slow::Network, Slow::Local { mebibytes: 16 }] {
        let mount = machine
            .slow(&bench.at("site"), &bench.at("mount"), slow, "read delay fixed:200ms")
            .expect("mounted");
        let begun = Instant::now();
        assert_eq!(fs::read(mount.mountpoint().join("small")).expect("a file"), b"small");
        assert!(begun.elapsed() >= Duration::from_millis(200), "{slow:?}: {:?}", begun.elapsed());
        mount.disk().clear();
        drop(mount);
        assert!(!bench.is_mounted(), "{slow:?}");
    }
    assert!(bench.journal_is_empty());
    let wrong = machine.slow(&bench.at("site"), &bench.at("mount"), Slow::Network, "read delay often");
    assert!(format!("{:#}", wrong.err().expect("no rule")).contains("often"));
    assert!(bench.journal_is_empty());
}

#[test]
fn a_killed_run_is_put_back_by_the_next() {
    let Some(bench) = Bench::new() else { return };
    let mut child = Holder::start(&bench);
    let groups = groups(child.process.id());
    assert!(!groups.is_empty() && bench.is_mounted());
    let refused = Machine::take_with(&bench.at("journal")).err().expect("it is held");
    assert!(refused.to_string().contains("another run"), "{refused:#}");

    child.process.kill().and_then(|()| child.process.wait()).expect("our child");
    // The kernel keeps no promise for us: all is as it was left.
    assert!(bench.is_mounted());
    assert_eq!(child.read_ahead(), "64");
    assert!(TcpStream::connect(("127.0.0.1", child.port)).is_ok());

    let machine = bench.machine();
    assert!(machine.restored().len() >= 5, "{:?}", machine.restored());
    assert!(!bench.is_mounted() && !bench.is_attached() && bench.journal_is_empty());
    assert_eq!(child.read_ahead(), child.read_ahead_before);
    assert!(TcpStream::connect(("127.0.0.1", child.port)).is_err());
    assert!(groups.iter().all(|group| !group.exists()));
    drop(machine);
    assert!(bench.machine().restored().is_empty());
}

#[test]
fn an_interrupted_run_puts_back_by_itself() {
    let Some(bench) = Bench::new() else { return };
    let mut child = Holder::start(&bench);
    let groups = groups(child.process.id());
    let pid = Pid::from_child(&child.process);
    kill_process(pid, Signal::INT).expect("our child");
    child.process.wait().expect("our child");
    assert!(!bench.is_mounted() && !bench.is_attached() && bench.journal_is_empty());
    assert_eq!(child.read_ahead(), child.read_ahead_before);
    assert!(TcpStream::connect(("127.0.0.1", child.port)).is_err());
    assert!(groups.iter().all(|group| !group.exists()));
    assert!(bench.machine().restored().is_empty());
}

#[test]
fn an_ordinary_user_is_told_what_is_missing() {
    if geteuid().is_root() {
        // Once more as nobody, from a place where nobody may be.
        let folder = tempfile::tempdir_in("/tmp").expect("a folder");
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("our folder");
        let copy = folder.path().join("test");
        fs::copy(std::env::current_exe().expect("our program"), &copy).expect("room");
        let nobody = ["--reuid=65534", "--regid=65534", "--clear-groups"];
        let mut again = Command::new("setpriv");
        again.args(nobody).arg(copy).args(["--exact", "an_ordinary_user_is_told_what_is_missing"]);
        let output = again.current_dir("/tmp").output().expect("setpriv, of util-linux");
        let said = String::from_utf8_lossy(&output.stdout);
        return assert!(output.status.success() && said.contains("1 passed"), "{said}");
    }
    let folder = tempfile::tempdir_in("/tmp").expect("a folder");
    let machine = Machine::take_with(&folder.path().join("journal")).expect("an ordinary user's own");
    let told = |error: Option<anyhow::Error>| {
        let error = format!("{:#}", error.expect("no rights"));
        assert!(error.contains("root") && !error.contains('\n'), "{error}");
    };
    told(machine.group(&Limits::default(), None).err());
    told(machine.image(folder.path(), folder.path()).err());
    told(machine.slow(folder.path(), folder.path(), Slow::Network, "").err());
    told(flash_rig::empty_caches().err());
    match Disk::below(Path::new("/")) {
        Ok(disk) => told(machine.read_ahead(&disk, 1).err()),
        Err(error) => eprintln!("NOT TESTED: read-ahead: {error}"),
    }
}

/// The cgroups that a process has made.
fn groups(pid: u32) -> Vec<PathBuf> {
    let hierarchies = fs::read_dir("/sys/fs/cgroup").expect("cgroups").flatten();
    let folders = [PathBuf::from("/sys/fs/cgroup")].into_iter().chain(hierarchies.map(|entry| entry.path()));
    folders.map(|folder| folder.join(format!("flash-rig-{pid}-0"))).filter(|folder| folder.exists()).collect()
}

/// A process that holds one of everything.
struct Holder {
    process: Child,
    /// Open, so that it may say more.
    _output: BufReader<ChildStdout>,
    port: u16,
    disk: String,
    read_ahead_before: String,
}

impl Holder {
    fn start(bench: &Bench) -> Holder {
        let us = std::env::current_exe().expect("our program");
        let mut process = Command::new(us)
            .args(["--exact", "holds_one_of_everything", "--ignored", "--nocapture"])
            .env(HELD, bench.folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .expect("our program");
        let mut output = BufReader::new(process.stdout.take().expect("a pipe"));
        let mut lines = output.by_ref().lines().map_while(Result::ok);
        let line = lines.find_map(|line| Some(line.split_once("holds ")?.1.to_owned())).expect("it holds");
        let words: Vec<&str> = line.split(' ').collect();
        let [port, disk, read_ahead_before] = words[..] else { panic!("{line}") };
        Holder {
            process,
            _output: output,
            port: port.parse().expect("a port"),
            disk: disk.into(),
            read_ahead_before: read_ahead_before.into(),
        }
    }

    fn read_ahead(&self) -> String {
        let file = format!("/sys/block/{}/queue/read_ahead_kb", self.disk);
        fs::read_to_string(file).expect("a disk").trim().to_owned()
    }
}

#[test]
#[ignore = "the process that two tests above start, and kill or interrupt"]
fn holds_one_of_everything() {
    let folder = std::env::var_os(HELD).expect("it is started by the tests above");
    let bench = |name: &str| Path::new(&folder).join(name);
    interrupt::register().expect("handlers");
    let machine = Machine::take_with(&bench("journal")).expect("a journal");
    let image = machine.image(&bench("image"), &bench("mount")).expect("mounted");
    let disk = Disk::below(image.mountpoint()).expect("a loop device");
    let before = disk.read_ahead_kilobytes().expect("a number");
    let _read_ahead = machine.read_ahead(&disk, 64).expect("root");
    let group = machine.group(&Limits::default(), &disk).expect("root and cgroups");
    let cpus = Cpus::shared().expect("processors");
    let setup = Setup {
        group: Some(&group),
        program: Some(env!("CARGO_BIN_EXE_flash-floor").as_ref()),
        answer: b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        ..Setup::new(image.mountpoint(), folder.as_ref(), &cpus)
    };
    let server = machine.start(&"floor".parse().expect("a server"), &setup).expect("it starts");
    println!("\nholds {} {} {before}", server.port, disk.name());
    let _ = interrupt::sleep(Duration::from_secs(60));
}
