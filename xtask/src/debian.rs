//! Packages of any release of Debian: downloaded and unpacked into a folder, never installed. They come from the mirror that apt
//! uses here.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use flash_system::{find, folder, install};

use crate::cargo::{self, succeed};

/// The name of the release that runs here, such as `bookworm`.
pub(crate) fn codename() -> Result<String> {
    let release = fs::read_to_string("/etc/os-release").context("reading /etc/os-release")?;
    let name = release.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    name.map(str::to_owned).context("/etc/os-release has no VERSION_CODENAME")
}

/// Where apt gets this release from.
pub(crate) fn mirror(codename: &str) -> Result<String> {
    let mut apt_get = Command::new("apt-get");
    apt_get.args(["indextargets", "--format", "$(RELEASE) $(SITE)", "Created-By: Packages"]);
    let output = apt_get.output().context("starting apt-get")?;
    let said = String::from_utf8_lossy(&output.stdout);
    match said.lines().find_map(|line| line.strip_prefix(codename)?.strip_prefix(' ')) {
        Some(mirror) => Ok(mirror.to_owned()),
        None => bail!("apt has no source of packages for {codename}"),
    }
}

/// A release with its list of packages, which is fetched once.
pub(crate) struct Release {
    folder: PathBuf,
    options: Vec<String>,
}

impl Release {
    /// For a kind of processor, as Debian names it.
    ///
    /// # Errors
    /// When its list of packages cannot be had.
    pub(crate) fn open(root: &Path, name: &str, processor: &str) -> Result<Self> {
        let folder = cargo::target_folder(root).join("tools/debian").join(format!("{name}-{processor}"));
        fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
        let folder = folder.canonicalize()?;
        let at = |path: &str| folder.join(path).display().to_string();
        let release = Self {
            options: [
                format!("Dir::Etc::sourcelist={}", at("sources.list")),
                "Dir::Etc::sourceparts=/dev/null".into(),
                format!("Dir::State::Lists={}", at("lists")),
                format!("Dir::Cache={}", at("cache")),
                format!("APT::Architecture={processor}"),
                format!("APT::Architectures={processor}"),
                // What is installed here is another machine's.
                "Dir::State::status=/dev/null".into(),
                "APT::Sandbox::User=root".into(),
                "Acquire::Languages=none".into(),
            ]
            .map(|option| format!("-o{option}"))
            .to_vec(),
            folder: folder.clone(),
        };
        if !folder.join("fetched").exists() {
            println!("fetching the list of packages of Debian {name}");
            fs::create_dir_all(folder.join("lists/partial"))?;
            fs::create_dir_all(folder.join("cache/archives/partial"))?;
            fs::write(folder.join("sources.list"), format!("deb {} {name} main\n", mirror(&codename()?)?))?;
            succeed(release.apt("apt-get").arg("update"))?;
            fs::write(folder.join("fetched"), "")?;
        }
        Ok(release)
    }

    fn apt(&self, program: &str) -> Command {
        let mut apt = Command::new(program);
        apt.args(&self.options).arg("--quiet=2").current_dir(&self.folder).env("LC_ALL", "C");
        apt
    }

    /// The newest version of a package; none where the release does not have it.
    pub(crate) fn version(&self, package: &str) -> Result<Option<String>> {
        let said = succeed(self.apt("apt-cache").args(["madison", package]))?;
        Ok(said
            .lines()
            .next()
            .and_then(|line| line.split('|').nth(1))
            .map(|version| version.trim().to_owned()))
    }

    /// The first package that this one depends on: what a package without content stands for.
    pub(crate) fn meant_by(&self, package: &str) -> Result<String> {
        let said = succeed(self.apt("apt-cache").args(["depends", package]))?;
        let meant = said.lines().find_map(|line| line.trim().strip_prefix("Depends: "));
        meant.map(str::to_owned).with_context(|| format!("{package} depends on nothing"))
    }

    /// These packages and all that they depend on.
    pub(crate) fn with_all_they_need(&self, packages: &[&str]) -> Result<Vec<String>> {
        let no = ["recommends", "suggests", "conflicts", "breaks", "replaces", "enhances"]
            .map(|kind| format!("--no-{kind}"));
        let said = succeed(self.apt("apt-cache").args(["depends", "--recurse"]).args(no).args(packages))?;
        // What is named in angle brackets is a name for several packages; what is indented depends.
        let names = said.lines().filter(|line| line.starts_with(|first: char| first.is_ascii_alphanumeric()));
        Ok(names.map(str::to_owned).collect())
    }

    /// The files of a package, in a folder of their own.
    ///
    /// # Errors
    /// When it cannot be downloaded or unpacked.
    pub(crate) fn unpacked(&self, package: &str) -> Result<PathBuf> {
        let into = self.folder.join(package);
        if into.exists() {
            return Ok(into);
        }
        println!("fetching {package}");
        let part = self.folder.join("part");
        folder::make_empty(&part)?;
        succeed(self.apt("apt-get").current_dir(&part).args(["download", package]))?;
        let deb = fs::read_dir(&part)?.next().context("apt-get download brought nothing")??.path();
        let files = part.join("files");
        succeed(Command::new("dpkg-deb").arg("--extract").arg(&deb).arg(&files))?;
        ensure!(files.exists(), "{} is empty", deb.display());
        fs::rename(&files, &into)?;
        folder::remove(&part)?;
        Ok(into)
    }
}

/// Installs programs that are not there, each with its package.
pub(crate) fn need(programs: &[(&'static str, &'static str)]) -> Result<()> {
    let missing = programs.iter().filter(|(program, _)| find(program).is_err());
    let missing: Vec<&str> = missing.map(|(_, package)| *package).collect();
    if missing.is_empty() { Ok(()) } else { install(&missing) }
}
