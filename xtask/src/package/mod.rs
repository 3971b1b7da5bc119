//! `cargo xtask package` makes the packages that people install, as .deb and .rpm: `flash` is the server, and `flash-tools` has the
//! programs that study servers. An image for containers has the server alone. Everything comes into `target/package`.

mod chroot;
mod image;
mod packers;
mod repository;
mod rpm_trial;
mod stage;
mod trial;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use self::packers::{DEB, RPM};
use self::repository::{Gpg, Signer};
use self::stage::{Programs, TOOLS};
use crate::cargo::{self, succeed};
use crate::summary::Summary;
use flash_system::{find, folder};

pub(crate) const HELP: &str = "\
cargo xtask package [OPTIONS]  packages for Debian and Fedora and an image for containers, in target/package

  --repository       also make a repository for apt, in target/package/apt
  --sign KEY         sign it with this key of gpg
  --programs DIR     pack the programs of this folder, such as target/release, instead of optimised ones
  --test             also try them: installed, upgraded, removed and purged in a chroot, as root
";

/// What packing starts, with the Debian package that has it; and what trying the packages starts.
const PACKERS: &[(&str, &str)] =
    &[("strip", "binutils"), ("gzip", "gzip"), ("ldd", "libc-bin"), ("tar", "tar"), ("umoci", "umoci")];
const TRIALS: &[(&str, &str)] = &[
    ("debootstrap", "debootstrap"),
    ("dpkg-deb", "dpkg"),
    ("lintian", "lintian"),
    ("rpm", "rpm"),
    ("unshare", "util-linux"),
];

/// Names every program that is missing, before any work begins.
fn needs(lists: &[&[(&'static str, &'static str)]]) -> Result<()> {
    let missing: Vec<&str> = lists
        .concat()
        .iter()
        .filter(|(program, _)| find(program).is_err())
        .map(|(_, package)| *package)
        .collect();
    ensure!(missing.is_empty(), "apt-get install {}: packing needs it", missing.join(" "));
    Ok(())
}

/// Installs what packs.
///
/// # Errors
/// When cargo cannot.
pub(crate) fn prepare(root: &Path) -> Result<()> {
    DEB.get(root)?;
    RPM.get(root).map(drop)
}

/// Packs and tries what CI has built: the release build of the server, and the tools as tests have built them.
///
/// # Errors
/// When something cannot be packed, or when a trial fails.
pub(crate) fn check(root: &Path, summary: &mut Summary) -> Result<()> {
    let target = cargo::target_folder(root);
    let packages = make(root, &Programs { server: target.join("release"), tools: target.join("debug") })?;
    if !rustix::process::geteuid().is_root() {
        summary.notice("NOT TESTED: only the superuser can install the packages in a chroot");
        return Ok(());
    }
    packages.try_them(root)
}

/// Builds the programs and packs them.
///
/// # Errors
/// When an option is unknown, or when something cannot be built or packed.
pub(crate) fn run(root: &Path, args: &[&str]) -> Result<bool> {
    let (mut programs, mut test, mut repository, mut key) = (None, false, false, None);
    let mut args = args.iter();
    while let Some(flag) = args.next() {
        match *flag {
            "--programs" => programs = Some(PathBuf::from(args.next().context("--programs needs a folder")?)),
            "--test" => test = true,
            "--repository" => repository = true,
            "--sign" => key = Some(*args.next().context("--sign needs a key")?),
            _ => bail!("no such option: {flag}\n{HELP}"),
        }
    }
    ensure!(repository || key.is_none(), "--sign needs --repository");
    let mut lists = vec![PACKERS];
    lists.extend(test.then_some(TRIALS));
    lists.extend(repository.then_some(repository::PROGRAMS));
    lists.extend(key.map(|_| repository::SIGNERS));
    needs(&lists)?;
    let signer = key.map(|key| Signer { gpg: Gpg::default(), key });
    signer.as_ref().map_or(Ok(()), Signer::check)?;
    let programs = match programs {
        Some(folder) => folder,
        None => build(root)?,
    };
    let packages = make(root, &Programs { server: programs.clone(), tools: programs })?;
    let made = packages.debs.iter().chain(&packages.rpms).chain([&packages.image]);
    made.for_each(|package| println!("{}", package.display()));
    if repository {
        let folder = cargo::target_folder(root).join("package/apt");
        repository::make(&packages.debs, &folder, signer.as_ref())?;
        println!("{}", folder.display());
    }
    if test {
        packages.try_them(root)?;
    }
    Ok(true)
}

/// Builds all programs for people to install, and gives their folder.
fn build(root: &Path) -> Result<PathBuf> {
    let mut build = vec!["build", "--profile", cargo::DIST, "--package", "flash"];
    build.extend(TOOLS.iter().flat_map(|tool| ["--package", tool]));
    cargo::run(root, &build)?;
    Ok(cargo::target_folder(root).join(cargo::DIST))
}

/// Packs built programs, and gives the packages.
fn make(root: &Path, programs: &Programs) -> Result<Packages> {
    let out = cargo::target_folder(root).join("package");
    fs::create_dir_all(&out).with_context(|| format!("making {}", out.display()))?;
    let out = out.canonicalize()?;
    // Packers take this folder for that of a release build.
    stage::fill(root, programs, &out.join("release"))?;
    let debs: Vec<_> =
        ["flash", "flash-lab"].iter().map(|name| deb(root, name, &out)).collect::<Result<_>>()?;
    let rpms = ["flash", "flash-lab"].iter().map(|name| rpm(root, name, &out)).collect::<Result<_>>()?;
    let image = image::make(root, &out)?;
    Ok(Packages { debs, rpms, image })
}

/// What was made: for each format the server, then the tools.
struct Packages {
    debs: Vec<PathBuf>,
    rpms: Vec<PathBuf>,
    image: PathBuf,
}

impl Packages {
    /// Installs and removes them all in a chroot, and starts the image.
    fn try_them(&self, root: &Path) -> Result<()> {
        let chroot = trial::run(&self.debs, &cargo::target_folder(root).join("package/chroot"))?;
        rpm_trial::run(&self.rpms, &self.debs, &chroot)?;
        chroot.end()?;
        image::test(&self.image)
    }
}

/// Packs what the manifest of a package of cargo describes.
fn deb(root: &Path, package: &str, out: &Path) -> Result<PathBuf> {
    let mut pack = Command::new(DEB.get(root)?);
    pack.args([
        "deb",
        "--quiet",
        "--no-build",
        "--no-strip",
        "--compress-system",
        "--package",
        package,
        "--output",
    ]);
    let output = pack
        .arg(out)
        .current_dir(root)
        .env("CARGO_TARGET_DIR", out)
        .output()
        .context("starting cargo-deb")?;
    let said = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "cargo-deb failed: {}", String::from_utf8_lossy(&output.stderr));
    eprint!("{}", String::from_utf8_lossy(&output.stderr));
    said.lines().next_back().map(PathBuf::from).context("cargo-deb names no package")
}

/// As above, in the other format.
fn rpm(root: &Path, package: &str, out: &Path) -> Result<PathBuf> {
    // The packer does not say what it has written, so it writes into an empty folder.
    let written = out.join("rpm");
    folder::make_empty(&written)?;
    let mut pack = Command::new(RPM.get(root)?);
    pack.args(["generate-rpm", "--auto-req", "builtin", "--package", &format!("crates/{package}")]);
    pack.arg("--target-dir").arg(out).arg("--output").arg(&written);
    succeed(pack.current_dir(root))?;
    let made = fs::read_dir(&written)?.next().context("cargo-generate-rpm made nothing")??;
    let package = out.join(made.file_name());
    fs::rename(made.path(), &package)?;
    Ok(package)
}
