//! `cargo xtask prepare`: what the tests need from the system, in one place. It installs what is missing
//! where it may, and otherwise says by name what is missing and how to get it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use flash_rig::{apt_get, find};

/// A real tree of HTML, at least this many files.
const TREE_FILES_MIN: usize = 900;

/// The folder of the tree, and the name of a package that only depends on the one that holds it.
const TREE: &str = "postgresql-doc";

struct Need {
    package: &'static str,
    present: fn() -> bool,
}

const NEEDS: [Need; 10] = [
    Need { package: "curl", present: || find("curl").is_ok() },
    Need { package: "wrk", present: || find("wrk").is_ok() },
    Need { package: "chromium", present: || find("chromium").is_ok() },
    // Filesystems in a file, for slow disks and cold trees.
    Need { package: "e2fsprogs", present: || find("mke2fs").is_ok() },
    Need { package: "mount", present: || find("losetup").is_ok() },
    // Programs behind the server; Rust brings no C compiler.
    Need { package: "gcc", present: || find("cc").is_ok() },
    Need { package: "perl", present: || find("perl").is_ok() },
    Need { package: "php-fpm", present: || flash_rig::Php::find().is_ok() },
    Need { package: "php-cgi", present: || find("php-cgi").is_ok() },
    // 1,169 pages in 2 MB.
    Need { package: TREE, present: || tree().is_some() },
];

/// Sees that everything is there.
pub(crate) fn run() -> Result<()> {
    let missing = missing();
    if missing.is_empty() {
        return Ok(());
    }
    let names = missing.join(" ");
    if !rustix::process::geteuid().is_root() || find("apt-get").is_err() {
        bail!("missing: {names}; as the superuser: apt-get install --no-install-recommends {names}");
    }
    println!("installing {names}");
    apt_get(&["update"])?;
    let tree = tree_package()?;
    let packages = missing.iter().map(|&name| if name == TREE { tree.as_str() } else { name });
    apt_get(
        &["install", "--yes", "--no-install-recommends"].into_iter().chain(packages).collect::<Vec<_>>(),
    )?;
    let missing = self::missing();
    if !missing.is_empty() {
        bail!("still missing after their installation: {}", missing.join(" "));
    }
    Ok(())
}

fn missing() -> Vec<&'static str> {
    NEEDS.iter().filter(|need| !(need.present)()).map(|need| need.package).collect()
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
