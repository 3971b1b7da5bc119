//! HTTP/2 over plain connections, under every architecture: real clients, conformance, programs, and the off switch.

#![forbid(unsafe_code)]

use std::fs;
use std::path::Path;
use std::process::Command;

use flash_tests::{ARCHITECTURES, Server, h2spec, need, scripts, site};

fn run(program: &Path, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{} {args:?}: {said}{complaint}", program.display());
    said
}

/// Asks once: Debian's curl cannot use a connection of HTTP/2 again without TLS, with whatever server.
fn curl(args: &[&str]) -> String {
    let all = [&["-sS", "--max-time", "20", "--http2-prior-knowledge"], args].concat();
    run(&need("curl", "curl"), &all)
}

/// A connection goes from step to step while its client takes what there is, and gives room for more: none of that is missed.
#[test]
fn large_responses_come_to_their_end_each_time() {
    let (site, folder) = (site::make(), tempfile::tempdir().unwrap());
    let got = folder.path().join("got");
    for arch in ["pipelined", "amped"] {
        let server = Server::start(arch, site.path(), &[]);
        let url = format!("http://{}/20000000.bin", server.address);
        for _ in 0..30 {
            curl(&["-o", got.to_str().unwrap(), &url]);
            assert_eq!(fs::metadata(&got).unwrap().len(), 20_000_000, "{arch}");
        }
        server.stop();
    }
}

#[test]
fn curl_gets_the_same_bytes_and_programs_get_their_uploads() {
    let (site, scripts) = (site::make(), scripts::make());
    let folder = tempfile::tempdir().unwrap();
    let upload = folder.path().join("upload");
    fs::write(&upload, site::pattern(700_000)).unwrap();
    let (got, posted) = (folder.path().join("got"), format!("@{}", upload.display()));
    let cgi = format!("/cgi={}", scripts.path().display());
    for arch in ARCHITECTURES {
        let server = Server::start(arch, site.path(), &["--cgi", &cgi, "--list", "--processes", "4"]);
        let url = |path: &str| format!("http://{}{path}", server.address);
        for size in site::SIZES {
            curl(&["-o", got.to_str().unwrap(), &url(&format!("/{size}.bin"))]);
            assert!(fs::read(&got).unwrap() == site::pattern(size), "{arch}: {size} bytes");
        }
        assert_eq!(
            curl(&["-w", " %{http_version} %{http_code}", &url("/a.txt")]),
            "0123456789 2 200",
            "{arch}"
        );
        assert_eq!(curl(&["-r", "2-4", &url("/a.txt")]), "234", "{arch}");
        assert_eq!(curl(&["-z", "1 Jan 2030", "-w", "%{http_code}", &url("/a.txt")]), "304", "{arch}");
        let to = ["-o", "/dev/null", "-w", "%{redirect_url}", &url("/sub")];
        assert_eq!(curl(&to), url("/sub/"), "{arch}");
        assert!(curl(&["-I", &url("/20000000.bin")]).contains("content-length: 20000000"), "{arch}");
        assert!(curl(&[&url("/many/")]).contains("</html>"), "{arch}: a listing");
        assert_eq!(
            curl(&["-o", "/dev/null", "-w", "%{http_code}", "-d", "a", &url("/a.txt")]),
            "405",
            "{arch}"
        );
        let (echoed, echo) = (got.to_str().unwrap(), url("/cgi/echo"));
        for more in [&[][..], &["-H", "Expect: 100-continue"]] {
            let args = [&["-o", echoed, "--data-binary", &posted], more, &[&echo]].concat();
            curl(&args);
            assert!(fs::read(&got).unwrap() == site::pattern(700_000), "{arch}: {more:?}");
        }
        // Without its length, the body is stored first.
        let unmeasured = ["-o", echoed, "-T", "-", &echo];
        let all =
            [&["-sS", "--max-time", "20", "--http2-prior-knowledge", "-X", "POST"], &unmeasured[..]].concat();
        let mut command = Command::new(need("curl", "curl"));
        let status = command.args(all).stdin(fs::File::open(&upload).unwrap()).status().unwrap();
        assert!(
            status.success() && fs::read(&got).unwrap() == site::pattern(700_000),
            "{arch}: without a length"
        );
        assert!(curl(&[&url("/cgi/env")]).contains("SERVER_PROTOCOL=HTTP/2.0"), "{arch}");
        assert_eq!(curl(&[&url("/cgi/local")]), "0123456789", "{arch}: a local redirection");
        server.stop();
    }
}

/// RFC 9113 and RFC 7541 by h2spec, without one of its cases: bytes that are no preface are a request of HTTP/1 here.
#[test]
fn h2spec_finds_no_fault() {
    const ALL: [&str; 8] =
        ["generic", "hpack", "http2/3.5/1", "http2/4", "http2/5", "http2/6", "http2/7", "http2/8"];
    let site = site::make();
    let h2spec = h2spec();
    for arch in ARCHITECTURES {
        let server = Server::start(arch, site.path(), &["--processes", "4"]);
        let (host, port) = (server.address.ip().to_string(), server.address.port().to_string());
        let said = run(&h2spec, &[&["-h", &host, "-p", &port, "-o", "5"], &ALL[..]].concat());
        assert!(said.contains(" 0 failed"), "{arch}: {said}");
        server.stop();
    }
}

#[test]
fn many_streams_on_few_connections() {
    let site = site::make();
    let h2load = need("h2load", "nghttp2-client");
    for arch in ARCHITECTURES {
        let server = Server::start(arch, site.path(), &["--processes", "8"]);
        for (path, count) in [("/a.txt", "2000"), ("/262145.bin", "100")] {
            let url = format!("http://{}{path}", server.address);
            let said = run(&h2load, &["-n", count, "-c", "4", "-m", "32", &url]);
            assert!(said.contains(&format!("{count} succeeded, 0 failed")), "{arch} {path}: {said}");
        }
        server.stop();
    }
}

/// Two hundred small files at once over one connection, by Python's h2, and priorities by nghttp.
#[test]
fn other_clients() {
    const SCRIPT: &str = "\
import asyncio, sys, httpx
async def main(base):
    async with httpx.AsyncClient(http1=False, http2=True) as client:
        paths = [f'/{n}' for n in range(200)]
        for path, answer in zip(paths, await asyncio.gather(*(client.get(base + path) for path in paths))):
            assert answer.http_version == 'HTTP/2' and answer.status_code == 200, (path, answer)
            assert answer.content == bytes([int(path[1:])]) * (int(path[1:]) * 50 + 1), path
asyncio.run(main(sys.argv[1]))
";
    let folder = tempfile::tempdir().unwrap();
    for number in 0..200u8 {
        let content = vec![number; usize::from(number) * 50 + 1];
        site::write(&folder.path().join(number.to_string()), &content);
    }
    for arch in ARCHITECTURES {
        let server = Server::start(arch, folder.path(), &["--processes", "4"]);
        let base = format!("http://{}", server.address);
        run(Path::new("/usr/bin/python3"), &["-c", SCRIPT, &base]);
        let said = run(&need("nghttp", "nghttp2-client"), &["-ans", &format!("{base}/199")]);
        assert!(said.contains(" 200 "), "{arch}: {said}");
        server.stop();
    }
}

#[test]
fn a_switch_turns_it_off() {
    let site = site::make();
    let server = Server::start("amped", site.path(), &["--http2", "off"]);
    let url = format!("http://{}/a.txt", server.address);
    let curl = need("curl", "curl");
    let refused = Command::new(&curl).args(["-sS", "--http2-prior-knowledge", &url]).status().unwrap();
    assert!(!refused.success());
    assert_eq!(run(&curl, &["-sS", "--http2", &url]), "0123456789", "an upgrade is ignored");
    server.stop();
}
