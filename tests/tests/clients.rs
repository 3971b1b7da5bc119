//! Programs that people use: curl, wrk, and a browser, on the example site and a listing.

#![forbid(unsafe_code)]

use std::path::Path;
use std::process::Command;

use flash_tests::{ARCHITECTURES, Server, need, site};

fn example() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/site"))
}

fn run(program: &str, package: &str, args: &[&str]) -> String {
    let output = Command::new(need(program, package)).args(args).output().expect("it runs");
    assert!(output.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn curl() {
    let site = site::make();
    for arch in ARCHITECTURES {
        let server = Server::start(arch, site.path(), &["--processes", "4"]);
        let url = |path: &str| format!("http://{}{path}", server.address);
        let ask = |args: &[&str]| run("curl", "curl", &[&["-sS", "--max-time", "10"], args].concat());
        assert_eq!(ask(&[&url("/a.txt")]), "0123456789", "{arch}");
        assert_eq!(ask(&["-r", "2-4", &url("/a.txt")]), "234", "{arch}");
        assert_eq!(ask(&["-0", &url("/a.txt")]), "0123456789", "{arch}");
        assert_eq!(ask(&["-L", &url("/sub")]), "sub\n", "{arch}");
        assert!(ask(&["-I", &url("/a.txt")]).starts_with("HTTP/1.1 200"), "{arch}");
        assert_eq!(ask(&["-z", "1 Jan 2020", "-w", "%{http_code}", &url("/a.txt")]), "304", "{arch}");
        assert_eq!(
            ask(&["-X", "GET", "-d", &"x".repeat(2000), "-H", "Expect: 100-continue", &url("/a.txt")]),
            "0123456789",
            "{arch}"
        );
        server.stop();
    }
}

#[test]
fn wrk() {
    for arch in ARCHITECTURES {
        let server = Server::start(arch, example(), &["--processes", "8"]);
        let said = run("wrk", "wrk", &["-t1", "-c8", "-d1", &format!("http://{}/", server.address)]);
        assert!(!said.contains("Socket errors") && !said.contains("Non-2xx"), "{arch}: {said}");
        assert!(said.contains("requests in"), "{arch}: {said}");
        server.stop();
    }
}

#[test]
fn a_browser() {
    let server = Server::start("amped", example(), &["--list"]);
    let folder = tempfile::tempdir().unwrap();
    let profile = format!("--user-data-dir={}", folder.path().join("profile").display());
    let picture = folder.path().join("page.png");
    let flags = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--timeout=20000",
        &profile,
    ];
    let page = |extra: &str, path: &str| {
        let url = format!("http://{}{path}", server.address);
        run("chromium", "chromium", &[&flags[..], &[extra, &url]].concat())
    };
    assert!(page("--dump-dom", "/").contains("<h1"), "the example's first page");
    assert!(page("--dump-dom", "/docs/").contains(".txt</a>"), "a listing");
    page(&format!("--screenshot={}", picture.display()), "/");
    assert!(std::fs::metadata(&picture).expect("a picture").len() > 5_000);
    server.stop();
}
