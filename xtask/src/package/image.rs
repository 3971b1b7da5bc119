//! An image for containers in the format of the Open Container Initiative, made without a daemon. It has the server and the
//! libraries that it is linked with. The Containerfile says how it is started. It leaves out what only people at a terminal need.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::chroot::enter;
use super::trial;
use crate::cargo::succeed;
use flash_system::folder;

const CONTAINERFILE: &str = "deploy/packages/Containerfile";

/// Folders that are there before anything is mounted, with their rights. The admin socket goes into `run/flash`.
const FOLDERS: [(&str, u32); 6] = [
    ("dev", 0o755),
    ("proc", 0o755),
    ("run/flash", 0o1777),
    ("sys", 0o755),
    ("tmp", 0o1777),
    ("var/tmp", 0o1777),
];

/// What the Containerfile says of the image itself.
struct Settings {
    user: String,
    port: String,
    stop_signal: String,
    entrypoint: Vec<String>,
    command: Vec<String>,
}

impl Settings {
    fn parse(text: &str) -> Result<Settings> {
        let last = text.rsplit("\nFROM ").next().unwrap_or_default();
        let value = |key: &str| {
            let mut values = last.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
            values.next().with_context(|| format!("{CONTAINERFILE} has no {key}"))
        };
        let words =
            |key: &str| serde_json::from_str(value(key)?).with_context(|| format!("{key} is no list"));
        Ok(Settings {
            user: value("USER")?.to_owned(),
            port: value("EXPOSE")?.to_owned(),
            stop_signal: value("STOPSIGNAL")?.to_owned(),
            entrypoint: words("ENTRYPOINT")?,
            command: words("CMD")?,
        })
    }
}

/// Makes `flash-oci.tar` of the files of the server's package.
///
/// # Errors
/// When umoci or another program fails.
pub(super) fn make(root: &Path, out: &Path) -> Result<PathBuf> {
    let text =
        fs::read_to_string(root.join(CONTAINERFILE)).with_context(|| format!("reading {CONTAINERFILE}"))?;
    let settings = Settings::parse(&text)?;
    let (tree, layout) = (out.join("image"), out.join("oci"));
    folder::remove(&tree)?;
    folder::remove(&layout)?;
    fill(&tree, &out.join("release/server"))?;
    let image = format!("{}:latest", layout.display());
    succeed(umoci("init").arg("--layout").arg(&layout))?;
    succeed(umoci("new").args(["--image", &image]))?;
    let rootless = (!rustix::process::geteuid().is_root()).then_some("--rootless");
    succeed(umoci("insert").args(rootless).args(["--image", &image]).arg(&tree).arg("/"))?;
    let mut config = umoci("config");
    config.args([
        "--image",
        &image,
        "--config.user",
        &settings.user,
        "--config.exposedports",
        &settings.port,
    ]);
    config.args(["--config.stopsignal", &settings.stop_signal]);
    config.args(settings.entrypoint.iter().flat_map(|word| ["--config.entrypoint", word]));
    config.args(settings.command.iter().flat_map(|word| ["--config.cmd", word]));
    succeed(&mut config)?;
    let tar = out.join("flash-oci.tar");
    succeed(
        Command::new("tar")
            .args(["--sort=name", "--owner=0", "--group=0", "--create", "--file"])
            .arg(&tar)
            .arg("-C")
            .arg(&layout)
            .arg("."),
    )?;
    Ok(tar)
}

fn umoci(task: &str) -> Command {
    let mut umoci = Command::new("umoci");
    umoci.arg(task);
    umoci
}

/// Makes what will be the root of a container.
fn fill(tree: &Path, server: &Path) -> Result<()> {
    for (folder, mode) in FOLDERS {
        fs::create_dir_all(tree.join(folder)).with_context(|| format!("making {folder}"))?;
        fs::set_permissions(tree.join(folder), fs::Permissions::from_mode(mode))?;
    }
    copy(&server.join("usr/bin/flash"), &tree.join("usr/bin/flash"))?;
    copy(&server.join("usr/share/flash/welcome/index.html"), &tree.join("srv/www/index.html"))?;
    copy(&server.join("usr/share/doc/flash/copyright"), &tree.join("usr/share/doc/flash/copyright"))?;
    for library in libraries(&server.join("usr/bin/flash"))? {
        copy(Path::new(&library), &tree.join(library.trim_start_matches('/')))?;
    }
    Ok(())
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to.parent().expect("it is a file's path"))?;
    fs::copy(from, to).with_context(|| format!("copying {}", from.display())).map(drop)
}

/// The files that the loader of programs will look for, and the loader itself.
fn libraries(program: &Path) -> Result<Vec<String>> {
    let listed = succeed(Command::new("ldd").arg(program))?;
    let words = listed.lines().filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/')));
    Ok(words.map(str::to_owned).collect())
}

/// Unpacks the image, starts it as its user, and asks for a page.
///
/// # Errors
/// When the image does not serve, or would serve as root.
pub(super) fn test(tar: &Path) -> Result<()> {
    let unpacked = tar.with_file_name("unpacked");
    let (layout, bundle) = (unpacked.join("oci"), unpacked.join("bundle"));
    folder::remove(&unpacked)?;
    folder::make_empty(&layout)?;
    succeed(Command::new("tar").arg("--extract").arg("--file").arg(tar).arg("-C").arg(&layout))?;
    succeed(umoci("unpack").args(["--image", &format!("{}:latest", layout.display())]).arg(&bundle))?;
    let config: Value = serde_json::from_slice(&fs::read(bundle.join("config.json"))?)?;
    let process = &config["process"];
    let (user, group) = (&process["user"]["uid"], &process["user"]["gid"]);
    ensure!(user.as_u64().is_some_and(|user| user != 0), "the image's user is {user}");
    let words = process["args"].as_array().context("the image starts nothing")?;
    let mut server = enter(&bundle.join("rootfs"), Some(&format!("--userspec={user}:{group}")));
    // Only the port is another one: that of the image may be in use here.
    let words = words.iter().filter_map(Value::as_str);
    server.args(words.map(|word| if word == ":8080" { "127.0.0.1:0" } else { word }));
    let answer = trial::Server::spawn(&mut server)?.ask("anything.example")?;
    ensure!(answer.contains("Flash works"), "the image's server answers: {answer}");
    folder::remove(&unpacked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_image_is_what_the_last_stage_says() {
        let text = "FROM a AS build\nUSER 0:0\nFROM b\nUSER 5:6\nEXPOSE 80/tcp\nSTOPSIGNAL SIGTERM\nENTRYPOINT [\"f\", \"s\"]\nCMD []\n";
        let settings = Settings::parse(text).expect("nothing is missing");
        assert_eq!((&*settings.user, &*settings.port), ("5:6", "80/tcp"));
        assert_eq!(settings.entrypoint, ["f", "s"]);
        assert!(settings.command.is_empty());
        assert!(Settings::parse(&text.replace("STOPSIGNAL", "STOP")).is_err());
    }
}
