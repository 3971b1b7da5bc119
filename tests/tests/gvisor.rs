//! In gVisor, whose kernel is another one than Linux: the server serves, with what there is.

#![forbid(unsafe_code)]

use std::time::Duration;

use flash_tests::{ARCHITECTURES, PATIENCE, PROCESSES, Server, need, scripts, site};
use rustix::process::Signal;

#[test]
fn every_architecture_serves_files_and_programs() {
    let (site, programs) = (site::make(), scripts::make());
    site::write(&site.path().join("large.bin"), &site::pattern(6_000_000));
    scripts::script(programs.path(), "say", "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\nit ran'\n");
    let cgi = format!("/cgi={}", programs.path().display());
    let runsc = need("runsc", "runsc");
    let wrapper = [
        runsc.to_str().unwrap(),
        "--platform=ptrace",
        "--network=host",
        "--ignore-cgroups",
        "--rootless",
        "do",
    ];
    for arch in ARCHITECTURES {
        let sandbox: &[&str] = if arch == PROCESSES { &["--sandbox", "off"] } else { &[] };
        let flags = [&["--list", "--cgi", &cgi, "--processes", "2", "--threads", "4"], sandbox].concat();
        let mut server = Server::start_under(&wrapper, arch, site.path(), &flags);
        assert!(server.said().contains("serving"), "{arch}");
        for _ in 0..2 {
            let large = server.get("/large.bin");
            assert!(large.status == 200 && large.body == site::pattern(6_000_000), "{arch}");
            let part = server.raw(b"GET /large.bin HTTP/1.1\r\nHost: h\r\nRange: bytes=2000000-2000009\r\nConnection: close\r\n\r\n");
            assert!(part.ends_with(&site::pattern(6_000_000)[2_000_000..2_000_010]), "{arch}");
            assert_eq!(server.get("/cgi/say").body, b"it ran", "{arch}");
            assert_eq!((server.get("/none").status, server.get("/").status), (404, 200), "{arch}");
        }
        // What it says of its end, the sandbox keeps for itself.
        server.signal(Signal::TERM);
        assert!(server.wait(PATIENCE.min(Duration::from_secs(60))).is_some(), "{arch}: it ends");
        assert!(server.said().contains("openat2 is missing"), "{arch}: {}", server.said());
    }
}
