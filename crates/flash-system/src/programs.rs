//! Programs on this machine: found, named with their package where they are missing, and installed when asked.

use std::env;
use std::fmt;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use rustix::process::geteuid;

/// A program that is not there, and the Debian package that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missing {
    pub program: &'static str,
    /// None for programs of our own, which `cargo build` makes.
    pub package: Option<&'static str>,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is not there", self.program)?;
        match self.package {
            Some(package) => write!(f, " (Debian's package {package} has it)"),
            None if self.program.ends_with(".so") => write!(f, " (make -C modules makes it)"),
            None => write!(f, " (cargo build --profile dist makes it)"),
        }
    }
}

impl std::error::Error for Missing {}

/// Programs whose name differs from their package's.
const PACKAGES: [(&str, &str); 3] =
    [("apache2", "apache2-bin"), ("mke2fs", "e2fsprogs"), ("losetup", "mount")];

/// A program of the system, in PATH or where Debian keeps programs for the superuser.
///
/// # Errors
/// When it is missing.
pub fn find(program: &'static str) -> Result<PathBuf, Missing> {
    let path = env::var_os("PATH").unwrap_or_default();
    let mut folders = env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    let named = PACKAGES.iter().find(|(of, _)| *of == program).map(|(_, package)| *package);
    let missing = Missing { program, package: Some(named.unwrap_or(program)) };
    folders.find_map(|folder| file(&folder, program)).ok_or(missing)
}

/// A program of the system whose name ends in its version, such as `php-fpm8.2`: the newest one.
///
/// # Errors
/// When none is there.
pub fn find_newest(program: &'static str) -> Result<PathBuf, Missing> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).chain(["/usr/sbin".into()]);
    let files = folders.filter_map(|folder| folder.read_dir().ok()).flatten().flatten();
    let versions = files.filter_map(|file| {
        let name = file.file_name();
        let version = name.to_str()?.strip_prefix(program)?;
        let numbers: Option<Vec<u32>> = version.split('.').map(|number| number.parse().ok()).collect();
        numbers.or((version.is_empty()).then(Vec::new)).map(|numbers| (numbers, file.path()))
    });
    versions.max().map(|(_, path)| path).ok_or(Missing { program, package: Some(program) })
}

/// A program of our own: beside the one that runs, or beside the folder in which it lies, where cargo puts tests.
///
/// # Errors
/// When it is missing.
pub fn find_own(program: &'static str) -> Result<PathBuf, Missing> {
    let us = env::current_exe().unwrap_or_default();
    let folders = us.ancestors().skip(1).take(2);
    folders.into_iter().find_map(|folder| file(folder, program)).ok_or(Missing { program, package: None })
}

/// A module of our own for another server: where `make` leaves it in the source, or where Debian keeps modules.
///
/// # Errors
/// When it is missing.
pub fn find_module(name: &'static str, source: &str) -> Result<PathBuf, Missing> {
    let us = env::current_exe().unwrap_or_default();
    let built = us.ancestors().map(|above| above.join("modules").join(source));
    let installed = ["/usr/lib/nginx/modules", "/usr/lib/apache2/modules"].map(PathBuf::from);
    let mut folders = built.chain(installed);
    folders.find_map(|folder| file(&folder, name)).ok_or(Missing { program: name, package: None })
}

fn file(folder: &Path, program: &str) -> Option<PathBuf> {
    Some(folder.join(program)).filter(|file| file.is_file())
}

/// Installs packages with `apt-get`, whose output goes where ours does.
///
/// # Errors
/// Without root or `apt-get`, which the error says with what to do; or when it fails.
pub fn install(packages: &[&str]) -> Result<()> {
    let names = packages.join(" ");
    let command = format!("apt-get install --no-install-recommends {names}");
    if !geteuid().is_root() || find("apt-get").is_err() {
        bail!("missing: {names}; as the superuser: {command}");
    }
    let _ = writeln!(
        io::stderr(),
        "installing {names} (where Debian starts services by itself, it starts those of servers too)"
    );
    apt_get(&["update"])?;
    apt_get(&[&["install", "--yes", "--no-install-recommends"], packages].concat())
}

/// Runs `apt-get`, without questions.
///
/// # Errors
/// When it fails.
pub fn apt_get(args: &[&str]) -> Result<()> {
    let mut command = Command::new("apt-get");
    command.args(["--quiet=2", "-o", "Dpkg::Use-Pty=0"]).args(args).env("DEBIAN_FRONTEND", "noninteractive");
    if !command.status().context("starting apt-get")?.success() {
        bail!("apt-get {} failed", args.join(" "));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named_with_its_package() {
        assert!(find("sh").is_ok());
        let missing = find("flash-no-such-program").expect_err("nobody has it");
        assert!(missing.to_string().contains("package flash-no-such-program"), "{missing}");
        assert!(find_newest("flash-no-such-program").is_err());
        assert!(find_own("flash-no-such-program").expect_err("nobody has it").to_string().contains("cargo"));
    }
}
