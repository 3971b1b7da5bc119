//! A Debian of its own in a folder, by debootstrap from the mirror that apt uses. It is installed once, and each trial works in
//! a copy. It leaves out what is tried.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::debian::{codename, mirror};
use flash_system::folder;

/// Besides the packages that every Debian has: what makes users and folders where systemd does not run.
const INCLUDED: &str = "--include=systemd-standalone-sysusers,systemd-standalone-tmpfiles";

/// Runs a program with the folder as its root and with a `/proc` that goes with it.
const ENTER: &str = "mount -t proc proc \"$0/proc\" && exec chroot \"$@\"";

pub(super) struct Chroot {
    pub(super) root: PathBuf,
}

impl Chroot {
    /// A fresh copy, inside this folder. The Debian that it is a copy of stays there for the next trial.
    ///
    /// # Errors
    /// When apt names no mirror for this version of Debian, or when debootstrap fails.
    pub(super) fn make(folder: &Path) -> Result<Chroot> {
        // The programs are built against its libraries.
        let codename = codename()?;
        let (pristine, root) = (folder.join(&codename), folder.join("trial"));
        if !pristine.exists() {
            bootstrap(&codename, &pristine)?;
        }
        folder::remove(&root)?;
        let copy =
            Command::new("cp").args(["--archive", "--reflink=auto"]).arg(&pristine).arg(&root).status();
        ensure!(copy.context("starting cp")?.success(), "cannot copy {}", pristine.display());
        Ok(Chroot { root })
    }

    /// What will run there.
    pub(super) fn command(&self, words: &[&str]) -> Command {
        let mut command = enter(&self.root, None);
        command.args(words).env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("LC_ALL", "C.UTF-8");
        command.env("DEBIAN_FRONTEND", "noninteractive").stdin(Stdio::null());
        command
    }

    /// Runs a program there to its end, and gives what it said.
    ///
    /// # Errors
    /// When it fails.
    pub(super) fn run(&self, words: &[&str]) -> Result<String> {
        let output = self.command(words).output().context("starting unshare")?;
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        ensure!(output.status.success(), "{} failed:\n{said}", words.join(" "));
        Ok(said)
    }

    /// Removes the copy.
    pub(super) fn end(self) -> Result<()> {
        folder::remove(&self.root)
    }

    /// The place of a file of the chroot, named as it is named there.
    pub(super) fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }
}

/// What runs the program that is still to be named with this folder as its root. The flag is one of chroot's.
pub(super) fn enter(root: &Path, flag: Option<&str>) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", ENTER]).arg(root).args(flag).arg(root);
    command
}

fn bootstrap(codename: &str, to: &Path) -> Result<()> {
    println!("installing Debian {codename} into {}", to.display());
    let (part, debs) = (to.with_extension("part"), to.with_file_name("debs"));
    if part.exists() {
        fs::remove_dir_all(&part)?;
    }
    fs::create_dir_all(&debs).with_context(|| format!("making {}", debs.display()))?;
    let mut debootstrap = Command::new("debootstrap");
    debootstrap.args(["--variant=minbase", INCLUDED]).arg(format!("--cache-dir={}", debs.display()));
    let output = debootstrap.arg(codename).arg(&part).arg(mirror(codename)?).output();
    let output = output.context("starting debootstrap")?;
    ensure!(output.status.success(), "debootstrap failed:\n{}", String::from_utf8_lossy(&output.stdout));
    fs::rename(&part, to).with_context(|| format!("making {}", to.display()))
}
