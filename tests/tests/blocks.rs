//! What the server says of its own loops' sleeps: the cause and the kernel's functions, in the error log and in its reports.
//!
//! sped waits for the disk by design, so a slow disk puts its loop to sleep. amped waits for it only if it is told to assume that all
//! files are in memory.

#![forbid(unsafe_code)]

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use flash_slowdisk::SlowImage;
use flash_tests::{PATIENCE, PROCESSES, Server, admin, family, set_mode, site};

const FILES: usize = 40;

fn path(number: usize) -> String {
    format!("/{}/{number}.txt", number % 8)
}

/// Serves cold files from a slow disk, twice. What the server said when it was asked, and at its end.
fn serve_cold(wrapper: &[&str], arch: &str, flags: &[&str]) -> Option<[String; 2]> {
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
    set_mode(folder.path(), 0o755);
    let image = SlowImage::mount(folder.path(), mountpoint.path(), 16, "").unwrap();
    let socket = mountpoint.path().with_extension("admin");
    let admin = format!("unix:{}", socket.display());
    let flags = [&["--loops", "1", "--admin", &admin], flags].concat();
    let server = Server::start_under(wrapper, arch, image.mountpoint(), &flags);
    image.disk().rule("read delay fixed:2ms").unwrap();
    for _ in 0..2 {
        fs::write("/proc/sys/vm/drop_caches", "3").unwrap();
        for number in 0..FILES {
            assert_eq!(server.get(&path(number)).body, b"cold\n");
            if number == 0 {
                wait_for_a_line(&server);
            }
        }
    }
    admin::log_counters(&socket);
    let asked = Instant::now();
    while !server.said().contains("\nflash: blocks: ") {
        assert!(asked.elapsed() < PATIENCE, "no causes: {}", server.said());
        thread::sleep(Duration::from_millis(10));
    }
    let serving = server.said();
    let recorders =
        family::of(&server).into_iter().filter(|process| process.name() == "flash-sleeps").count();
    assert_eq!(recorders > 0, rights_go(&flags), "{recorders} processes that record sleeps");
    Some([serving, server.stop()])
}

/// Sleeps are recorded from the first line on. amped has none before its files turn cold again.
fn wait_for_a_line(server: &Server) {
    let asked = Instant::now();
    while !server.said().contains("slept outside its wait") && asked.elapsed() < Duration::from_secs(1) {
        thread::sleep(Duration::from_millis(10));
    }
}

/// Whether the server gives up the right to kernel stacks, if it has it.
fn rights_go(flags: &[&str]) -> bool {
    flags.contains(&"--user") || flags.contains(&"--sandbox")
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

/// The lines about blocks, of which the first had no stack.
fn explained(said: &str) -> String {
    let mut lines = said.lines().filter(|line| line.contains("slept outside its wait"));
    let first = lines.next().expect("a line");
    assert!(first.ends_with(": kernel stacks are recorded from now on"), "{first}");
    let second = lines.next().unwrap_or_else(|| panic!("another one: {said}"));
    assert!(second.contains(" < ") && !second.contains("io_schedule"), "the kernel's functions: {second}");
    second.into()
}

#[test]
fn a_sleep_is_told_with_its_cause_and_functions() {
    // Both have the rights of root to begin with. The second one gives them up.
    for flags in [&[][..], &["--user", "nobody"]] {
        let Some([serving, stopped]) = serve_cold(&[], "sped", flags) else { return };
        let metadata = sleeps(&serving, "metadata read");
        let reads = sleeps(&serving, "page-cache read");
        let blocks = count(&stopped, "loop_blocks");
        assert!(metadata > 5 && reads > 10, "{flags:?}: {metadata} and {reads} of {blocks}: {serving}");
        // The first one, at least, was not recorded.
        assert!(metadata + reads < blocks && (metadata + reads) * 10 > blocks * 9, "{flags:?}: {stopped}");
        let second = explained(&stopped);
        let known = ["txt: metadata read in ", "txt: page-cache read in "];
        assert!(known.iter().any(|cause| second.contains(cause)), "{second}");
        // The same in one word of the totals.
        let word = stopped.rsplit(" block_causes=").next().and_then(|rest| rest.split_whitespace().next());
        let word = word.expect("a word with causes");
        assert!(word.contains(&format!("page-cache-read:{reads}")), "{word}: {serving}");
        assert!(word.contains("metadata-read:") && word.contains("no-stack:"), "{word}");
    }
}

#[test]
fn a_server_in_a_sandbox_knows_the_causes_too() {
    let flags = ["--sandbox", "required", "--residency", "assumed", "--file-cache", "descriptor"];
    let Some([serving, stopped]) = serve_cold(&[], PROCESSES, &flags) else { return };
    let (reads, blocks) = (sleeps(&serving, "page-cache read"), count(&stopped, "loop_blocks"));
    assert!(reads > 20 && blocks < reads * 2, "{reads} of {blocks}: {serving}");
    let second = explained(&stopped);
    assert!(second.contains(": page-cache read in "), "{second}");
}

#[test]
fn without_the_right_to_kernel_stacks_it_says_so() {
    let nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
    if fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").is_ok_and(|level| level.trim() < "2") {
        return eprintln!(
            "NOT TESTED, kernel stacks that are forbidden: perf_event_paranoid allows them to all"
        );
    }
    let Some([serving, stopped]) = serve_cold(&nobody, "sped", &[]) else { return };
    let line = serving.lines().find(|line| line.starts_with("flash: blocks: ")).expect("it was asked");
    assert!(line.contains("no kernel stack: ") && line.contains("CAP_PERFMON"), "{line}");
    assert!(count(&stopped, "loop_blocks") > 15, "{stopped}");
    let line = stopped.lines().find(|line| line.contains("slept outside its wait")).expect("a line");
    assert!(line.contains("no kernel stack: Permission denied"), "{line}");
}
