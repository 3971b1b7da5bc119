//! `cargo xtask prepare`: what the tests need from the system, in one place. It installs what is missing
//! where it may, and otherwise says by name what is missing and how to get it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use flash_rig::{apt_get, find};

/// A real tree of HTML, at least this many files.
const TREE_FILES_MIN: usize = 900;

/// The folder of the tree, and the name of a package that only depends on the one that holds it.
const TREE: &str = "postgresql-doc";

/// The proxy of Go modules serves this version.
const H2SPEC: &str = "github.com/summerwind/h2spec/cmd/h2spec@v2.2.1+incompatible";

struct Need {
    package: &'static str,
    present: fn() -> bool,
}

const NEEDS: [Need; 17] = [
    Need { package: "curl", present: || find("curl").is_ok() },
    Need { package: "wrk", present: || find("wrk").is_ok() },
    // Clients of HTTP/2.
    Need { package: "nghttp2-client", present: || find("nghttp").is_ok() && find("h2load").is_ok() },
    Need { package: "python3-httpx", present: || python_has("httpx") },
    Need { package: "python3-h2", present: || python_has("h2") },
    Need { package: "chromium", present: || find("chromium").is_ok() },
    // Filesystems in a file, for slow disks and cold trees.
    Need { package: "e2fsprogs", present: || find("mke2fs").is_ok() },
    Need { package: "mount", present: || find("losetup").is_ok() },
    // Another implementation of TLS.
    Need { package: "openssl", present: || find("openssl").is_ok() },
    // What looks for weak points of TLS.
    Need { package: "sslscan", present: || find("sslscan").is_ok() },
    Need { package: "testssl.sh", present: || find("testssl").is_ok() },
    // Programs behind the server; Rust brings no C compiler.
    Need { package: "gcc", present: || find("cc").is_ok() },
    // It compiles the kernel's side of `flash why`, which is left out without it.
    Need { package: "clang", present: || find("clang").is_ok() },
    Need { package: "perl", present: || find("perl").is_ok() },
    Need { package: "php-fpm", present: || flash_rig::Php::find().is_ok() },
    Need { package: "php-cgi", present: || find("php-cgi").is_ok() },
    // 1,169 pages in 2 MB.
    Need { package: TREE, present: || tree().is_some() },
];

/// Servers to compare with. Tests do without those that are not there, and say so.
const PEERS: [Need; 8] = [
    Need { package: "apache2-bin", present: || find("apache2").is_ok() },
    Need { package: "caddy", present: || find("caddy").is_ok() },
    Need { package: "h2o", present: || find("h2o").is_ok() },
    Need { package: "lighttpd", present: || find("lighttpd").is_ok() },
    // A server of HTTP/2 for the tests of `flash load`.
    Need { package: "nghttp2-server", present: || find("nghttpd").is_ok() },
    Need { package: "nginx", present: || find("nginx").is_ok() },
    // What Flash's modules for them are built with.
    Need { package: "apache2-dev", present: || find("apxs").is_ok() },
    Need { package: "nginx-dev", present: || Path::new("/usr/share/nginx/src/configure").exists() },
];

/// Sees that everything is there that the tests need, and, where it may install packages, the servers that they compare with.
/// What it gives is a line for each of these that is not there.
///
/// # Errors
/// When something that is needed is missing and cannot be installed.
pub(crate) fn run() -> Result<Vec<String>> {
    let peers = || missing(&PEERS);
    let not_tested =
        |peers: Vec<&str>| peers.iter().map(|name| format!("NOT TESTED: {name} is not installed")).collect();
    build_h2spec()?;
    let needed = missing(&NEEDS);
    if !rustix::process::geteuid().is_root() || find("apt-get").is_err() {
        if needed.is_empty() {
            return Ok(not_tested(peers()));
        }
        let names = needed.join(" ");
        bail!("missing: {names}; as the superuser: apt-get install --no-install-recommends {names}");
    }
    let missing: Vec<&str> = needed.into_iter().chain(peers()).collect();
    if missing.is_empty() {
        return Ok(Vec::new());
    }
    let names = missing.join(" ");
    println!("installing {names}");
    apt_get(&["update"])?;
    let tree = tree_package()?;
    let packages = missing.iter().map(|&name| if name == TREE { tree.as_str() } else { name });
    apt_get(
        &["install", "--yes", "--no-install-recommends"].into_iter().chain(packages).collect::<Vec<_>>(),
    )?;
    let missing = self::missing(&NEEDS);
    if !missing.is_empty() {
        bail!("still missing after their installation: {}", missing.join(" "));
    }
    Ok(not_tested(peers()))
}

/// Builds the test of conformance to HTTP/2 where it is not installed: a Go module, which no distribution packages.
fn build_h2spec() -> Result<()> {
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/tools");
    if find("h2spec").is_ok() || tools.join("h2spec").exists() {
        return Ok(());
    }
    let Ok(go) = find("go") else { bail!("missing: h2spec, and go to build it: install golang-go") };
    fs::create_dir_all(&tools).context("making target/tools")?;
    let tools = tools.canonicalize().context("target/tools")?;
    println!("building h2spec");
    let status =
        Command::new(go).args(["install", H2SPEC]).env("GOBIN", tools).status().context("starting go")?;
    if status.success() { Ok(()) } else { bail!("go could not build {H2SPEC}") }
}

/// Whether Debian's Python has a module.
fn python_has(module: &str) -> bool {
    let import = format!("import {module}");
    Command::new("/usr/bin/python3")
        .args(["-c", &import])
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

fn missing(needs: &[Need]) -> Vec<&'static str> {
    needs.iter().filter(|need| !(need.present)()).map(|need| need.package).collect()
}

/// `postgresql-doc-15` or what the distribution has. It stands alone, where `postgresql-doc` would bring newer
/// versions of whatever else of its family is installed.
fn tree_package() -> Result<String> {
    let output = Command::new("apt-cache").args(["depends", TREE]).output().context("starting apt-cache")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let package = text.lines().find_map(|line| line.trim().strip_prefix("Depends: "));
    package.map(str::to_owned).with_context(|| format!("apt-cache knows no package {TREE}"))
}

/// The documentation's folder, when it is there and whole: some systems install packages without it.
fn tree() -> Option<PathBuf> {
    let entries = fs::read_dir("/usr/share/doc").ok()?.flatten();
    let folders = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(TREE));
    folders.map(|entry| entry.path().join("html")).find(|html| files(html) >= TREE_FILES_MIN)
}

fn files(folder: &Path) -> usize {
    fs::read_dir(folder).map_or(0, |entries| entries.flatten().count())
}
