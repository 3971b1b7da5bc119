//! What the server says of its own loops' sleeps: the cause and the kernel's functions, in the error log and in its reports.
//!
//! sped waits for the disk by design, so a slow disk puts its loop to sleep.

#![forbid(unsafe_code)]

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use flash_slowdisk::SlowImage;
use flash_tests::{PATIENCE, Server, site};
use rustix::process::Signal;

const FILES: usize = 40;

fn path(number: usize) -> String {
    format!("/{}/{number}.txt", number % 8)
}

/// Serves cold files from a slow disk. What the server said when it was asked, and at its end.
fn serve_cold(wrapper: &[&str]) -> Option<[String; 2]> {
    if let Some(missing) = flash_slowdisk::missing() {
        eprintln!("NOT TESTED, causes of loops' sleeps: {missing}");
        return None;
    }
    let (folder, mountpoint) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for number in 0..FILES {
        let file = folder.path().join(&path(number)[1..]);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        site::write(&file, b"cold\n");
    }
    allow_everybody(folder.path());
    let image = SlowImage::mount(folder.path(), mountpoint.path(), 16, "").unwrap();
    let server = Server::start_under(wrapper, "sped", image.mountpoint(), &["--loops", "1"]);
    fs::write("/proc/sys/vm/drop_caches", "3").unwrap();
    image.disk().rule("read delay fixed:2ms").unwrap();
    for number in 0..FILES {
        assert_eq!(server.get(&path(number)).body, b"cold\n");
    }
    server.signal(Signal::USR2);
    let asked = Instant::now();
    while !server.said().contains("\nflash: blocks: ") {
        assert!(asked.elapsed() < PATIENCE, "no causes: {}", server.said());
        thread::sleep(Duration::from_millis(10));
    }
    let serving = server.said();
    Some([serving, server.stop()])
}

/// Temporary folders are their owner's alone.
fn allow_everybody(folder: &Path) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
}

/// The sleeps of a cause in a report, without regard to the functions.
fn sleeps(said: &str, cause: &str) -> u64 {
    let lines = said.lines().filter_map(|line| line.strip_prefix("flash: blocks: sleeps="));
    let of_cause = lines.filter(|line| line.contains(&format!(" {cause} in ")));
    of_cause.filter_map(|line| line.split(' ').next()?.parse::<u64>().ok()).sum()
}

fn count(said: &str, name: &str) -> u64 {
    let value = said.rsplit(&format!("{name}=")).next().and_then(|rest| rest.split_whitespace().next());
    value.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no {name}: {said}"))
}

#[test]
fn a_sleep_is_told_with_its_cause_and_functions() {
    let Some([serving, stopped]) = serve_cold(&[]) else { return };
    let metadata = sleeps(&serving, "metadata read");
    let reads = sleeps(&serving, "page-cache read");
    let blocks = count(&stopped, "loop_blocks");
    assert!(metadata > 5 && reads > 10, "{metadata} and {reads} of {blocks}: {serving}");
    // The first one, at least, was not recorded.
    assert!(metadata + reads < blocks && (metadata + reads) * 10 > blocks * 9, "{stopped}");
    let mut lines = stopped.lines().filter(|line| line.contains("slept outside its wait"));
    let (first, second) = (lines.next().expect("a line"), lines.next().expect("another one"));
    assert!(first.ends_with(": kernel stacks are recorded from now on"), "{first}");
    assert!(
        second.contains("txt: metadata read in ") || second.contains("txt: page-cache read in "),
        "{second}"
    );
    assert!(second.contains(" < ") && !second.contains("io_schedule"), "the kernel's functions: {second}");
}

#[test]
fn without_the_right_to_kernel_stacks_it_says_so() {
    let nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
    if fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").is_ok_and(|level| level.trim() < "2") {
        return eprintln!(
            "NOT TESTED, kernel stacks that are forbidden: perf_event_paranoid allows them to all"
        );
    }
    let Some([serving, stopped]) = serve_cold(&nobody) else { return };
    let line = serving.lines().find(|line| line.starts_with("flash: blocks: ")).expect("it was asked");
    assert!(line.contains("no kernel stack: ") && line.contains("CAP_PERFMON"), "{line}");
    assert!(count(&stopped, "loop_blocks") > 15, "{stopped}");
    let line = stopped.lines().find(|line| line.contains("slept outside its wait")).expect("a line");
    assert!(line.contains("no kernel stack: Permission denied"), "{line}");
}
