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

/// Fills the folder anew with these packages. With a key of `gpg`, what it has is signed.
///
/// # Errors
/// When a program fails, or a file cannot be written.
pub(super) fn make(debs: &[PathBuf], out: &Path, key: Option<&str>) -> Result<()> {
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
    let Some(key) = key else { return Ok(()) };
    for (form, name) in [("--clearsign", "InRelease"), ("--detach-sign", "Release.gpg")] {
        let mut sign = Command::new("gpg");
        sign.args(["--batch", "--yes", "--armor", "--local-user", key, form, "--output"]);
        succeed(sign.arg(suite.join(name)).arg(suite.join("Release")))?;
    }
    Ok(())
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
    use super::*;
    use crate::package::needs;

    /// apt itself reads the repository: in folders of its own, from files.
    #[test]
    fn apt_finds_the_packages() {
        if let Err(missing) = needs(&[PROGRAMS, &[("apt-get", "apt")]]) {
            println!("NOT TESTED: {missing}");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for folder in
            ["package/DEBIAN", "package/usr/share/flash", "root/etc/apt", "root/lists/partial", "root/cache"]
        {
            fs::create_dir_all(path(folder)).unwrap();
        }
        let control = "Package: flash\nVersion: 9.8-7\nArchitecture: amd64\nMaintainer: a <a@example.org>\nDescription: a server\n";
        fs::write(path("package/DEBIAN/control"), control).unwrap();
        let deb = path("flash_9.8-7_amd64.deb");
        succeed(Command::new("dpkg-deb").arg("--build").arg(path("package")).arg(&deb)).unwrap();
        let repository = path("repository");
        make(&[deb], &repository, None).unwrap();
        let line =
            format!("deb [trusted=yes arch=amd64] file:{} {SUITE} {COMPONENT}\n", repository.display());
        fs::write(path("root/sources.list"), line).unwrap();
        fs::write(path("root/status"), "").unwrap();
        let options = [
            ("Dir::Etc::sourcelist", path("root/sources.list")),
            ("Dir::Etc::sourceparts", path("root/none")),
            ("Dir::State::lists", path("root/lists")),
            ("Dir::State::status", path("root/status")),
            ("Dir::Cache", path("root/cache")),
        ];
        let apt = |program: &str, words: &[&str]| {
            let mut apt = Command::new(program);
            apt.env("LC_ALL", "C");
            for (name, path) in &options {
                apt.arg("-o").arg(format!("{name}={}", path.display()));
            }
            // Another user could not read the folder of the test.
            apt.args(["-o", "APT::Sandbox::User=root", "-o", "APT::Architecture=amd64"]).args(words);
            succeed(&mut apt)
        };
        apt("apt-get", &["update"]).unwrap();
        assert!(apt("apt-cache", &["madison", "flash"]).unwrap().contains("9.8-7"));
        let lists = ["Packages", "Packages.gz"].map(|name| format!("main/binary-amd64/{name}"));
        let release = fs::read_to_string(repository.join("dists/stable/Release")).unwrap();
        for name in &lists {
            let list = repository.join("dists/stable").join(name);
            let mut bytes = fs::read(&list).unwrap();
            assert!(release.contains(&format!(" {} {name}", bytes.len())));
            *bytes.last_mut().unwrap() ^= 1;
            fs::write(list, bytes).unwrap();
        }
        fs::remove_dir_all(path("root/lists")).unwrap();
        fs::create_dir_all(path("root/lists/partial")).unwrap();
        let refused = apt("apt-get", &["update"]).expect_err("a list that was changed is refused");
        assert!(format!("{refused:#}").contains("Hash Sum mismatch"), "{refused:#}");
    }
}
