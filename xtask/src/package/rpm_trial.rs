//! The .rpm packages are whole, and have the same files as the .deb packages. They install, serve and go in the chroot. Left
//! out are their dependencies: only a system of the other family can judge them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, ensure};

use super::chroot::Chroot;
use super::trial;
use crate::cargo::succeed;

/// Paths that differ, and why: only Debian has a changelog of the package, and zsh looks elsewhere.
const ONLY_DEB: &str = "/changelog.Debian.gz";
const ZSH: [&str; 2] = ["/usr/share/zsh/vendor-completions/", "/usr/share/zsh/site-functions/"];

/// Tries the packages, beside which stand those of Debian.
///
/// # Errors
/// When something is not as it must be.
pub(super) fn run(rpms: &[PathBuf], debs: &[PathBuf], chroot: &Chroot) -> Result<()> {
    for (rpm, deb) in rpms.iter().zip(debs) {
        succeed(Command::new("rpm").args(["--checksig", "--nosignature"]).arg(rpm))?;
        let (found, wanted) = (files(rpm)?, files_of_deb(deb)?);
        ensure!(
            found == wanted,
            "{} differs: {:?}",
            rpm.display(),
            found.symmetric_difference(&wanted).collect::<Vec<_>>()
        );
    }
    succeed(in_root(chroot).args(["--nodeps", "--ignoreos", "--install"]).args(rpms))?;
    // The triggers of systemd's own package, which is not there.
    chroot.run(&["systemd-sysusers", "flash.conf"])?;
    chroot.run(&["systemd-tmpfiles", "--create", "flash.conf"])?;
    chroot.run(&["flash", "check"])?;
    chroot.run(&["flash", "load", "--version"])?;
    trial::welcome(chroot)?;
    succeed(in_root(chroot).args(["--nodeps", "--erase", "flash", "flash-tools"]))?;
    ensure!(!chroot.path("/usr/bin/flash").exists(), "the program outlives its package");
    Ok(())
}

/// `rpm`, which keeps its books in the chroot too.
fn in_root(chroot: &Chroot) -> Command {
    let mut rpm = Command::new("rpm");
    rpm.arg("--root").arg(&chroot.root);
    rpm
}

fn files(rpm: &Path) -> Result<BTreeSet<String>> {
    Ok(succeed(Command::new("rpm").args(["--query", "--package", "--list"]).arg(rpm))?
        .lines()
        .map(str::to_owned)
        .collect())
}

/// The files of a package of Debian, where the other family has them.
fn files_of_deb(deb: &Path) -> Result<BTreeSet<String>> {
    let listed = succeed(Command::new("dpkg-deb").arg("--contents").arg(deb))?;
    // The path is the last word, and that of a folder ends in a stroke.
    let paths = listed.lines().filter_map(|line| line.rsplit(" .").next());
    let files = paths.filter(|path| !path.ends_with('/') && !path.ends_with(ONLY_DEB));
    Ok(files.map(|path| path.replace(ZSH[0], ZSH[1])).collect())
}
