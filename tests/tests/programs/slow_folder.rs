//! A folder of scripts on a mount that hangs: it delays no other folder's programs, and its own requests end in time.

use std::io::{Read, Write};
use std::thread;
use std::time::{Duration, Instant};

use flash_slowdisk::SlowDisk;
use flash_tests::{ARCHITECTURES, PATIENCE, Server, read_all, scripts, site};

const DEADLINE: Duration = Duration::from_secs(4);
/// A program of a healthy folder starts within a millisecond; a loaded machine may take longer.
const AT_ONCE: Duration = Duration::from_millis(1500);

#[test]
fn a_folder_that_hangs_delays_no_other_folder() {
    if let Some(missing) = flash_slowdisk::missing() {
        return eprintln!("NOT TESTED, a slow disk cannot be mounted: {missing}");
    }
    let (site, near, behind) = (site::make(), scripts::make(), scripts::make());
    let mountpoint = tempfile::tempdir().unwrap();
    for folder in [&near, &behind] {
        scripts::script(folder.path(), "hello", "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\nhello'");
    }
    let far = SlowDisk::mount(behind.path(), mountpoint.path(), "").unwrap();
    for arch in ARCHITECTURES {
        let (near, far_flag) =
            (format!("/near={}", near.path().display()), format!("/far={}", mountpoint.path().display()));
        let deadline = format!("{}s", DEADLINE.as_secs());
        let flags = ["--processes", "8", "--program-deadline", &deadline, "--cgi", &near, "--cgi", &far_flag];
        let server = Server::start(arch, site.path(), &flags);
        let status = |path: &str| server.get(path).status;
        assert_eq!((status("/near/hello"), status("/far/hello")), (200, 200), "{arch}");
        far.rule("hang prefix /").unwrap();
        thread::scope(|scope| {
            let late = scope.spawn(|| {
                let asked = Instant::now();
                (status("/far/hello"), asked.elapsed())
            });
            while !late.is_finished() {
                let asked = Instant::now();
                let near = status("/near/hello");
                assert_eq!(near, 200, "{arch}");
                assert!(asked.elapsed() < AT_ONCE, "{arch}: {:?}", asked.elapsed());
            }
            let (status, waited) = late.join().unwrap();
            assert_eq!(status, 504, "{arch}");
            assert!((DEADLINE / 2..DEADLINE * 2).contains(&waited), "{arch}: {waited:?}");
        });
        far.clear();
        let give_up = Instant::now() + PATIENCE;
        while status("/far/hello") != 200 {
            assert!(Instant::now() < give_up, "{arch}: the folder answers again, its programs do not");
        }
        let said = server.stop();
        assert!(said.contains("the disk did not answer for 2s"), "{arch}: {said}");
    }
}

/// Its client was told that the program did not start, so that it must not get the head of another response.
#[test]
fn a_program_that_was_given_up_never_writes_to_its_client() {
    if let Some(missing) = flash_slowdisk::missing() {
        return eprintln!("NOT TESTED, a slow disk cannot be mounted: {missing}");
    }
    let (site, behind, mountpoint) = (site::make(), scripts::make(), tempfile::tempdir().unwrap());
    let trace = behind.path().join("started");
    let script = format!("#!/bin/sh\n: > {}\nprintf 'Content-Type: text/plain\\n\\nlate'", trace.display());
    scripts::script(behind.path(), "late", &script);
    let far = SlowDisk::mount(behind.path(), mountpoint.path(), "").unwrap();
    let direct = format!("/far={}", mountpoint.path().display());
    let server = Server::start("amped", site.path(), &["--cgi-direct", &direct, "--program-deadline", "2s"]);
    far.rule("hang prefix /").unwrap();
    let mut client = server.connect();
    client.write_all(b"GET /far/late HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    let mut first = [0; 12];
    client.read_exact(&mut first).unwrap();
    assert_eq!(&first, b"HTTP/1.1 504");
    far.clear();
    // The folder is served again, so that what was begun there is over.
    let give_up = Instant::now() + PATIENCE;
    while !server.raw(b"GET /far/perl HTTP/1.1\r\nHost: h\r\n\r\n").starts_with(b"HTTP/1.1 200") {
        assert!(Instant::now() < give_up, "the folder answers again, its programs do not");
    }
    client.write_all(b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").unwrap();
    let rest = read_all(&mut client);
    let rest = String::from_utf8_lossy(&rest);
    assert_eq!(rest.matches("HTTP/1.1").count(), 1, "{rest}");
    assert!(!trace.exists(), "nobody waits for it");
}
