//! HTTP/2 over TLS with clients that speak it well: a browser, nghttp, and Python's h2.

use std::process::Command;

use flash_tests::{PATIENCE, Server, each, need, site};
use tempfile::TempDir;

use crate::client::Secured;
use crate::real_clients::run;

const IMAGES: usize = 200;

/// A page with many pictures, each as wide as its number, and what the browser itself says about them when all are there.
const PAGE: &str = "<!doctype html><title>-</title><script>
performance.setResourceTimingBufferSize(1000);
for (let number = 1; number <= 200; number++) document.write(`<img src=\"/${number}.svg\">`);
onload = () => {
    const shown = [...document.images].filter((image, at) => image.complete && image.naturalWidth == at + 1).length;
    const timings = performance.getEntriesByType('resource').filter(entry => entry.name.endsWith('.svg'));
    const by = name => timings.filter(entry => entry.nextHopProtocol == name && entry.responseEnd > 0).length;
    document.title = `shown ${shown}, by h2 ${by('h2')}, by http/1.1 ${by('http/1.1')}`;
};
</script>";

fn pictures() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    site::write(&folder.path().join("index.html"), PAGE.as_bytes());
    for number in 1..=IMAGES {
        let picture = format!("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{number}\" height=\"1\"/>");
        site::write(&folder.path().join(format!("{number}.svg")), picture.as_bytes());
    }
    folder
}

/// The title that a browser has given to the page.
fn browse(server: &Server) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let mut chromium = Command::new(need("chromium", "chromium"));
    chromium.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]);
    chromium.args(["--disable-background-networking", "--disable-component-update", "--disable-sync"]);
    // It trusts the authorities of the system alone.
    chromium.args(["--ignore-certificate-errors", "--timeout=60000", "--dump-dom"]);
    chromium.arg(format!("--user-data-dir={}", folder.path().display()));
    let output = run(chromium.arg(format!("https://localhost:{}/", server.address.port())), b"");
    let page = String::from_utf8_lossy(&output.stdout);
    let title = page.split("<title>").nth(1).and_then(|rest| rest.split("</title>").next());
    title.unwrap_or_else(|| panic!("no title: {output:?}")).to_owned()
}

#[test]
fn a_browser_gets_two_hundred_pictures() {
    let folder = pictures();
    // One browser at a time: each is many processes.
    for (arch, flags, expected) in [
        ("amped", &[][..], "shown 200, by h2 200, by http/1.1 0"),
        ("uring", &[], "shown 200, by h2 200, by http/1.1 0"),
        ("mt", &[], "shown 200, by h2 200, by http/1.1 0"),
        ("amped", &["--http2", "off"], "shown 200, by h2 0, by http/1.1 200"),
    ] {
        let secured = Secured::start(arch, folder.path(), flags);
        assert_eq!(browse(&secured.server), expected, "{arch} {flags:?}");
        secured.server.stop();
    }
}

/// All pictures at once over one connection.
const PYTHON: &str = "\
import asyncio, ssl, sys, httpx
async def main(base, authority, patience):
    context = ssl.create_default_context(cafile=authority)
    async with httpx.AsyncClient(http2=True, verify=context, timeout=float(patience)) as client:
        paths = [f'/{n}.svg' for n in range(1, 201)]
        for path, answer in zip(paths, await asyncio.gather(*(client.get(base + path) for path in paths))):
            assert answer.http_version == 'HTTP/2' and answer.status_code == 200, (path, answer)
            assert f'width=\"{path[1:-4]}\"' in answer.text, path
asyncio.run(main(*sys.argv[1:]))
";

#[test]
fn nghttp_and_python_get_all_over_one_connection() {
    let folder = pictures();
    let nghttp = need("nghttp", "nghttp2-client");
    // 200 jobs at once may wait for a crowded machine.
    let patience = format!("{}s", PATIENCE.as_secs());
    each(|arch| {
        let flags = ["--processes", "4", "--disk-deadline", &patience];
        let secured = Secured::start(arch, folder.path(), &flags);
        let base = format!("https://localhost:{}", secured.server.address.port());
        let mut python = Command::new("/usr/bin/python3");
        python.args(["-c", PYTHON, &base]).arg(secured.authority.path("authority.pem"));
        let output = run(python.arg(PATIENCE.as_secs().to_string()), b"");
        assert!(output.status.success(), "{arch}: {output:?}");
        let urls = (1..=IMAGES).map(|number| format!("{base}/{number}.svg"));
        let output = run(Command::new(&nghttp).arg("-ns").args(urls), b"");
        let said = String::from_utf8_lossy(&output.stdout);
        let whole = said.lines().filter(|line| line.contains(" 200 ") && line.ends_with(".svg")).count();
        assert!(output.status.success() && whole == IMAGES, "{arch}: {whole}: {said}");
        secured.server.stop();
    });
}

#[test]
fn h2load_fails_no_request() {
    let folder = pictures();
    let h2load = need("h2load", "nghttp2-client");
    each(|arch| {
        let secured = Secured::start(arch, folder.path(), &["--processes", "4"]);
        let url = format!("https://localhost:{}/7.svg", secured.server.address.port());
        let output = run(Command::new(&h2load).args(["-n", "1000", "-c", "4", "-m", "32", &url]), b"");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(
            said.contains("1000 succeeded, 0 failed") && said.contains("Application protocol: h2"),
            "{arch}: {said}"
        );
        secured.server.stop();
    });
}
