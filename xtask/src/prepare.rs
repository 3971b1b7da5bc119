//! `cargo xtask prepare`: what the tests need from the system, in one place. It installs what is missing
//! where it may, and otherwise says by name what is missing and how to get it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use flash_system::{apt_get, find, find_newest};

use crate::{cargo, package, pip};

/// A real tree of HTML, at least this many files.
const TREE_FILES_MIN: usize = 900;

/// The folder of the tree, and the name of a package that only depends on the one that holds it.
const TREE: &str = "postgresql-doc";

/// Programs in Go, which no distribution packages: a test of conformance to HTTP/2, a certificate authority for tests, and the names and
/// records that it looks up. The proxy of Go modules serves these versions.
const GO_TOOLS: [(&str, &str); 3] = [
    ("h2spec", "github.com/summerwind/h2spec/cmd/h2spec@v2.2.1+incompatible"),
    ("pebble", "github.com/letsencrypt/pebble/v2/cmd/pebble@v2.10.3"),
    ("pebble-challtestsrv", "github.com/letsencrypt/pebble/v2/cmd/pebble-challtestsrv@v2.10.3"),
];

/// A program in Go of the tests' own, which speaks gRPC: its name, and its folder. Its `go.sum` says which modules it is made of.
const GO_APP: (&str, &str) = ("grpc-app", "tests/tests/proxying/grpc");

/// The schemas of Kubernetes.
const SCHEMAS: &str = "xtask/schemas.txt";

/// The Go module that has the schemas of Prometheus' resources in Kubernetes, and the one that a manifest here needs.
const OPERATOR: &str = "github.com/prometheus-operator/prometheus-operator@v0.76.2";
const MONITORS: &str = "servicemonitors-crd.json";

struct Need {
    package: &'static str,
    present: fn() -> bool,
}

const NEEDS: [Need; 35] = [
    Need { package: "curl", present: || find("curl").is_ok() },
    Need { package: "wrk", present: || find("wrk").is_ok() },
    // Clients of HTTP/2.
    Need { package: "nghttp2-client", present: || find("nghttp").is_ok() && find("h2load").is_ok() },
    Need { package: "python3-httpx", present: || python_has("httpx") },
    Need { package: "python3-h2", present: || python_has("h2") },
    // A client that downloads over many connections.
    Need { package: "aria2", present: || find("aria2c").is_ok() },
    // Clients that mirror folders by their listings.
    Need { package: "wget", present: || find("wget").is_ok() },
    Need { package: "wget2", present: || find("wget2").is_ok() },
    Need { package: "lftp", present: || find("lftp").is_ok() },
    Need { package: "httpdirfs", present: || find("httpdirfs").is_ok() },
    Need { package: "runsc", present: || find("runsc").is_ok() },
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
    // It compiles the kernel's side of `flash why`, which is compared with the one that lies here.
    Need { package: "clang", present: || find("clang").is_ok() },
    Need { package: "llvm", present: || find("llvm-strip").is_ok() },
    Need { package: "perl", present: || find("perl").is_ok() },
    Need { package: "php-fpm", present: || find_newest("php-fpm").is_ok() },
    Need { package: "php-cgi", present: || find("php-cgi").is_ok() },
    // What runs the shipped unit, and what rotates its logs.
    Need { package: "systemd", present: || Path::new("/lib/systemd/systemd").exists() },
    Need { package: "man-db", present: || find("man").is_ok() },
    Need { package: "logrotate", present: || find("logrotate").is_ok() },
    // What reads the shipped manifests and their schemas, and checks alerts.
    Need { package: "python3-yaml", present: || python_has("yaml") },
    Need { package: "python3-jsonschema", present: || python_has("jsonschema") },
    Need { package: "prometheus", present: || find("promtool").is_ok() },
    // Packages are looked through, and installed in a system of their own.
    Need { package: "debootstrap", present: || find("debootstrap").is_ok() },
    Need { package: "lintian", present: || find("lintian").is_ok() },
    Need { package: "rpm", present: || find("rpm").is_ok() },
    Need { package: "umoci", present: || find("umoci").is_ok() },
    // It reads what the server tells of itself.
    Need { package: "python3-prometheus-client", present: || python_has("prometheus_client") },
    // 1,169 pages in 2 MB.
    Need { package: TREE, present: || tree().is_some() },
];

/// Servers to compare with. Tests do without those that are not there, and say so.
const PEERS: [Need; 9] = [
    Need { package: "apache2-bin", present: || find("apache2").is_ok() },
    Need { package: "caddy", present: || find("caddy").is_ok() },
    Need { package: "h2o", present: || find("h2o").is_ok() },
    // What stands before several servers.
    Need { package: "haproxy", present: || find("haproxy").is_ok() },
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
pub(crate) fn run(root: &Path) -> Result<Vec<String>> {
    let peers = || missing(&PEERS);
    let not_tested =
        |peers: Vec<&str>| peers.iter().map(|name| format!("NOT TESTED: {name} is not installed")).collect();
    GO_TOOLS.iter().try_for_each(|(name, module)| build_go_tool(root, name, module))?;
    build_go_app(root)?;
    package::prepare(root)?;
    fetch_schemas(root)?;
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

/// Builds a program in Go where it is not installed.
fn build_go_tool(root: &Path, name: &'static str, module: &str) -> Result<()> {
    let tools = tools(root)?;
    if find(name).is_ok() || tools.join(name).exists() {
        return Ok(());
    }
    let Ok(go) = find("go") else { bail!("missing: {name}, and go to build it: install golang-go") };
    println!("building {name}");
    let status =
        Command::new(go).args(["install", module]).env("GOBIN", tools).status().context("starting go")?;
    if status.success() { Ok(()) } else { bail!("go could not build {module}") }
}

/// Builds the program of the tests' own. Go builds again only what has changed.
fn build_go_app(root: &Path) -> Result<()> {
    let (name, folder) = GO_APP;
    let Ok(go) = find("go") else { bail!("missing: {name}, and go to build it: install golang-go") };
    let built = tools(root)?.join(name);
    let mut build = Command::new(go);
    build.args(["build", "-o"]).arg(built).arg(".").current_dir(root.join(folder));
    let status = build.status().context("starting go")?;
    if status.success() { Ok(()) } else { bail!("go could not build {folder}") }
}

/// Brings the schemas that the manifests for Kubernetes are held to.
fn fetch_schemas(root: &Path) -> Result<()> {
    let tools = tools(root)?;
    let kubernetes = tools.join("kubernetes");
    if !kubernetes.exists() {
        pip::install(root, SCHEMAS, &kubernetes)?;
    }
    let monitors = tools.join("crds").join(MONITORS);
    if monitors.exists() {
        return Ok(());
    }
    let Ok(go) = find("go") else { bail!("missing: {MONITORS}, and go to fetch it: install golang-go") };
    let output = Command::new(go).args(["mod", "download", "-json", OPERATOR]).current_dir(&tools).output();
    let output = output.context("starting go")?;
    let folder = serde_json::from_slice::<serde_json::Value>(&output.stdout)
        .ok()
        .and_then(|module| Some(PathBuf::from(module.get("Dir")?.as_str()?)))
        .with_context(|| {
            format!("go could not fetch {OPERATOR}: {}", String::from_utf8_lossy(&output.stderr))
        })?;
    fs::create_dir_all(tools.join("crds")).context("making target/tools/crds")?;
    fs::copy(folder.join("jsonnet/prometheus-operator").join(MONITORS), &monitors)
        .with_context(|| format!("copying {MONITORS}"))?;
    Ok(())
}

/// The folder of what is built for tests.
fn tools(root: &Path) -> Result<PathBuf> {
    let tools = cargo::target_folder(root).join("tools");
    fs::create_dir_all(&tools).with_context(|| format!("making {}", tools.display()))?;
    tools.canonicalize().context("target/tools")
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
