//! A repository for apt: the packages of Debian with the lists by which apt finds and verifies them. It is a folder of files, so any web
//! server serves it. Where it is published, and with whose key it is signed, is the operator's business.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::cargo::succeed;
use flash_system::folder;

/// The names by which a line of `sources.list` asks for it.
const SUITE: &str = "stable";
const COMPONENT: &str = "main";
/// What makes the lists, with the Debian package that has it.
pub(super) const PROGRAMS: &[(&str, &str)] =
    &[("dpkg-scanpackages", "dpkg-dev"), ("dpkg-deb", "dpkg"), ("gzip", "gzip"), ("sha256sum", "coreutils")];
pub(super) const SIGNERS: &[(&str, &str)] = &[("gpg", "gpg")];

/// Fills the folder anew with these packages.
///
/// # Errors
/// When a program fails, or a file cannot be written.
pub(super) fn make(debs: &[PathBuf], out: &Path, signer: Option<&Signer<'_>>) -> Result<()> {
    folder::remove(out)?;
    let pool = out.join("pool");
    fs::create_dir_all(&pool).with_context(|| format!("making {}", pool.display()))?;
    for deb in debs {
        let name = deb.file_name().context("a package has a name")?;
        fs::copy(deb, pool.join(name)).with_context(|| format!("copying {}", deb.display()))?;
    }
    let mut architectures = debs.iter().map(|deb| field(deb, "Architecture")).collect::<Result<Vec<_>>>()?;
    architectures.sort();
    architectures.dedup();
    let suite = out.join("dists").join(SUITE);
    let mut lists = Vec::new();
    for architecture in &architectures {
        let name = format!("{COMPONENT}/binary-{architecture}/Packages");
        let list = suite.join(&name);
        fs::create_dir_all(list.parent().expect("it is in a folder"))?;
        // It names the packages by their paths below this folder.
        let mut scan = Command::new("dpkg-scanpackages");
        scan.args(["--arch", architecture, "pool"]).current_dir(out);
        fs::write(&list, succeed(&mut scan)?)?;
        succeed(Command::new("gzip").args(["-9nk"]).arg(&list))?;
        lists.extend([name.clone(), name + ".gz"]);
    }
    fs::write(suite.join("Release"), release(&suite, &architectures, &lists)?)?;
    signer.map_or(Ok(()), |signer| signer.sign(&suite))
}

/// `gpg` with the keys of its folder.
#[derive(Default)]
pub(super) struct Gpg {
    /// `None` for that of the user.
    home: Option<PathBuf>,
}

impl Gpg {
    fn command(&self) -> Command {
        let mut gpg = Command::new("gpg");
        gpg.args(["--batch", "--yes"]);
        self.home.iter().for_each(|home| _ = gpg.arg("--homedir").arg(home));
        gpg
    }
}

/// A key that signs.
pub(super) struct Signer<'k> {
    pub(super) gpg: Gpg,
    pub(super) key: &'k str,
}

impl Signer<'_> {
    /// # Errors
    /// When `gpg` does not have the key.
    pub(super) fn check(&self) -> Result<()> {
        let Self { gpg, key } = self;
        let has_key = succeed(gpg.command().args(["--list-secret-keys", key])).is_ok();
        ensure!(has_key, "gpg has no secret key {key}: gpg --list-secret-keys shows those that it has");
        Ok(())
    }

    /// Signs the lists of a suite.
    fn sign(&self, suite: &Path) -> Result<()> {
        for (form, name) in [("--clearsign", "InRelease"), ("--detach-sign", "Release.gpg")] {
            let mut sign = self.gpg.command();
            sign.args(["--armor", "--local-user", self.key, form, "--output"]);
            succeed(sign.arg(suite.join(name)).arg(suite.join("Release")))?;
        }
        Ok(())
    }
}

/// A field of a package.
fn field(deb: &Path, name: &str) -> Result<String> {
    let value = succeed(Command::new("dpkg-deb").arg("--field").arg(deb).arg(name))?;
    ensure!(!value.trim().is_empty(), "{} has no field {name}", deb.display());
    Ok(value.trim().to_owned())
}

/// The file that names all lists with their digests.
fn release(suite: &Path, architectures: &[String], lists: &[String]) -> Result<String> {
    let date = succeed(Command::new("date").args(["--utc", "+%a, %d %b %Y %H:%M:%S UTC"]))?;
    let architectures = architectures.join(" ");
    let mut text = format!(
        "Origin: Flash\nLabel: Flash\nSuite: {SUITE}\nCodename: {SUITE}\nDate: {}\nArchitectures: {architectures}\n\
         Components: {COMPONENT}\nDescription: The Flash web server\nSHA256:\n",
        date.trim()
    );
    for list in lists {
        let path = suite.join(list);
        let said = succeed(Command::new("sha256sum").arg(&path))?;
        let digest = said.split_whitespace().next().context("sha256sum says a digest")?;
        text += &format!(" {digest} {} {list}\n", fs::metadata(&path)?.len());
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use tempfile::TempDir;

    use super::*;
    use crate::package::needs;

    /// apt itself reads repositories: in folders of its own, from files.
    struct Apt {
        folder: TempDir,
    }

    impl Apt {
        /// With a package to publish.
        fn new() -> Self {
            let apt = Self { folder: tempfile::tempdir().unwrap() };
            for folder in ["package/DEBIAN", "package/usr/share/flash", "root/etc/apt", "root/cache", "gpg"] {
                fs::create_dir_all(apt.path(folder)).unwrap();
            }
            fs::set_permissions(apt.path("gpg"), fs::Permissions::from_mode(0o700)).unwrap();
            fs::write(apt.path("root/status"), "").unwrap();
            let control = "Package: flash\nVersion: 9.8-7\nArchitecture: amd64\nMaintainer: a <a@example.org>\nDescription: a server\n";
            fs::write(apt.path("package/DEBIAN/control"), control).unwrap();
            let mut build = Command::new("dpkg-deb");
            succeed(build.arg("--build").arg(apt.path("package")).arg(apt.deb())).unwrap();
            apt
        }

        fn path(&self, name: &str) -> PathBuf {
            self.folder.path().join(name)
        }

        fn deb(&self) -> PathBuf {
            self.path("flash_9.8-7_amd64.deb")
        }

        fn gpg(&self) -> Gpg {
            Gpg { home: Some(self.path("gpg")) }
        }

        /// Asks for the lists of the repository anew, with this word of its line in `sources.list`.
        fn update(&self, repository: &Path, word: &str) -> Result<String> {
            folder::remove(&self.path("root/lists"))?;
            fs::create_dir_all(self.path("root/lists/partial"))?;
            let line = format!("deb [{word} arch=amd64] file:{} {SUITE} {COMPONENT}\n", repository.display());
            fs::write(self.path("root/sources.list"), line)?;
            // Without this, apt warns of a signature that it cannot verify, and goes on without the list.
            self.run("apt-get", &["-o", "APT::Update::Error-Mode=any", "update"])
        }

        fn run(&self, program: &str, words: &[&str]) -> Result<String> {
            let options = [
                ("Dir::Etc::sourcelist", "root/sources.list"),
                ("Dir::Etc::sourceparts", "root/none"),
                ("Dir::Etc::trusted", "root/none.gpg"),
                ("Dir::Etc::trustedparts", "root/none"),
                ("Dir::State::lists", "root/lists"),
                ("Dir::State::status", "root/status"),
                ("Dir::Cache", "root/cache"),
            ];
            let mut apt = Command::new(program);
            apt.env("LC_ALL", "C");
            for (name, path) in options {
                apt.arg("-o").arg(format!("{name}={}", self.path(path).display()));
            }
            // Another user could not read the folder of the test.
            apt.args(["-o", "APT::Sandbox::User=root", "-o", "APT::Architecture=amd64"]).args(words);
            succeed(&mut apt)
        }
    }

    fn can_run(more: &[(&'static str, &'static str)]) -> bool {
        let needed = needs(&[PROGRAMS, &[("apt-get", "apt")], more]);
        if let Err(missing) = &needed {
            println!("NOT TESTED: {missing}");
        }
        needed.is_ok()
    }

    #[test]
    fn apt_finds_the_packages() {
        if !can_run(&[]) {
            return;
        }
        let apt = Apt::new();
        let repository = apt.path("repository");
        make(&[apt.deb()], &repository, None).unwrap();
        apt.update(&repository, "trusted=yes").unwrap();
        assert!(apt.run("apt-cache", &["madison", "flash"]).unwrap().contains("9.8-7"));
        let refused = apt.update(&repository, "trusted=no").expect_err("nobody has signed it");
        assert!(format!("{refused:#}").contains("is not signed"), "{refused:#}");
        let lists = ["Packages", "Packages.gz"].map(|name| format!("main/binary-amd64/{name}"));
        let release = fs::read_to_string(repository.join("dists/stable/Release")).unwrap();
        for name in &lists {
            let list = repository.join("dists/stable").join(name);
            let mut bytes = fs::read(&list).unwrap();
            assert!(release.contains(&format!(" {} {name}", bytes.len())));
            *bytes.last_mut().unwrap() ^= 1;
            fs::write(list, bytes).unwrap();
        }
        let refused = apt.update(&repository, "trusted=yes").expect_err("a list that was changed is refused");
        assert!(format!("{refused:#}").contains("Hash Sum mismatch"), "{refused:#}");
    }

    #[test]
    fn apt_trusts_what_the_key_has_signed_and_nothing_else() {
        if !can_run(&[SIGNERS, &[("gpgv", "gpgv")]].concat()) {
            return;
        }
        let apt = Apt::new();
        let gpg = apt.gpg();
        for key in ["flash@example.org", "other@example.org"] {
            let make = ["--passphrase", "", "--quick-generate-key", key, "ed25519", "sign", "never"];
            succeed(gpg.command().args(make)).unwrap();
            let public = apt.path(&format!("{key}.asc"));
            succeed(gpg.command().args(["--armor", "--output"]).arg(public).args(["--export", key])).unwrap();
        }
        let signed_by = |key: &str| format!("signed-by={}", apt.path(&format!("{key}.asc")).display());
        let (ours, other) = (signed_by("flash@example.org"), signed_by("other@example.org"));
        let repository = apt.path("repository");
        let signer = Signer { gpg, key: "flash@example.org" };
        signer.check().unwrap();
        make(&[apt.deb()], &repository, Some(&signer)).unwrap();
        apt.update(&repository, &ours).unwrap();
        assert!(apt.run("apt-cache", &["madison", "flash"]).unwrap().contains("9.8-7"));
        assert!(apt.update(&repository, &other).is_err(), "it is another key");
        // Each of the two signatures is enough.
        let suite = repository.join("dists/stable");
        fs::rename(suite.join("InRelease"), apt.path("InRelease")).unwrap();
        apt.update(&repository, &ours).unwrap();
        fs::remove_file(suite.join("Release.gpg")).unwrap();
        assert!(apt.update(&repository, &ours).is_err(), "nobody has signed it");
        fs::rename(apt.path("InRelease"), suite.join("InRelease")).unwrap();
        apt.update(&repository, &ours).unwrap();
        let signed = fs::read_to_string(suite.join("InRelease")).unwrap();
        fs::write(suite.join("InRelease"), signed.replace("Label: Flash", "Label: flash")).unwrap();
        assert!(apt.update(&repository, &ours).is_err(), "it was changed");
        let unknown = Signer { gpg: apt.gpg(), key: "nobody@example.org" };
        let said = unknown.check().unwrap_err().to_string();
        assert_eq!(
            said,
            "gpg has no secret key nobody@example.org: gpg --list-secret-keys shows those that it has"
        );
    }
}
