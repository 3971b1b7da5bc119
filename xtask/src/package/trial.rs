//! The .deb packages are installed, used, upgraded, removed and purged in a chroot, as an administrator would do it. There is
//! no systemd in it, so the server is started by hand. It leaves out how a running system restarts services.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

use super::chroot::Chroot;
use crate::cargo::succeed;

const CONFIGURATION: &str = "/etc/flash/flash.toml";
const OWN_SITE: &str = "/etc/flash/sites/own.toml";
const OWN_PAGE: &str = "/srv/www/index.html";
const PATIENCE: Duration = Duration::from_secs(120);

/// Tries the packages: that of the server first. What it gives is the chroot, without them.
///
/// # Errors
/// When something is not as an administrator may expect.
pub(super) fn run(debs: &[PathBuf], folder: &Path) -> Result<Chroot> {
    lintian(debs)?;
    let chroot = Chroot::make(folder)?;
    fs::create_dir_all(chroot.path("/srv/www"))?;
    fs::write(chroot.path(OWN_PAGE), "our page")?;
    install(&chroot, debs)?;
    welcome(&chroot)?;
    serve(&chroot)?;
    upgrade(&chroot, &debs[0])?;
    remove(&chroot)?;
    let page = fs::read_to_string(chroot.path(OWN_PAGE)).context("the site's page is gone")?;
    ensure!(page == "our page", "the packages changed the site's page");
    Ok(chroot)
}

fn lintian(debs: &[PathBuf]) -> Result<()> {
    let mut lintian = Command::new("lintian");
    let output = lintian.args(["--allow-root", "--fail-on", "error"]).args(debs).output();
    let output = output.context("starting lintian")?;
    ensure!(output.status.success(), "lintian complains:\n{}", String::from_utf8_lossy(&output.stdout));
    Ok(())
}

fn install(chroot: &Chroot, debs: &[PathBuf]) -> Result<()> {
    dpkg(chroot, &[], debs)?;
    chroot.run(&["flash", "check"])?;
    chroot.run(&["getent", "passwd", "flash"]).context("there is no user flash")?;
    let owner = chroot.run(&["stat", "--format=%U %a", "/var/log/flash"])?;
    ensure!(owner.trim() == "flash 2750", "the logs' folder is of {owner}");
    // The server's program finds the others.
    let said = chroot.run(&["flash", "load", "--version"])?;
    ensure!(said.contains("load"), "flash load says {said}");
    for page in ["flash", "flash-serve", "flash-load", "flash-lab-run"] {
        let file = chroot.path(&format!("/usr/share/man/man1/{page}.1.gz"));
        ensure!(file.is_file(), "the packages have no page {page}(1)");
    }
    Ok(())
}

/// Starts the server with the package's file, and asks for its page.
pub(super) fn welcome(chroot: &Chroot) -> Result<()> {
    let answer = Server::start(chroot)?.ask("anything.example")?;
    ensure!(answer.contains("Flash works"), "the server answers: {answer}");
    Ok(())
}

/// Starts the server with a site of the administrator's, and asks for its page.
fn serve(chroot: &Chroot) -> Result<()> {
    fs::write(chroot.path(OWN_SITE), "[site.\"own.example\"]\nroot = \"/srv/www\"\n")?;
    chroot.run(&["flash", "check"])?;
    let server = Server::start(chroot)?;
    let answer = server.ask("own.example")?;
    ensure!(answer.ends_with("our page"), "the site's answer is: {answer}");
    let answer = server.ask("anything.example")?;
    ensure!(answer.contains("Flash works"), "a host without a site gets: {answer}");
    Ok(())
}

fn upgrade(chroot: &Chroot, deb: &Path) -> Result<()> {
    let file = chroot.path(CONFIGURATION);
    let ours = fs::read_to_string(&file)? + "# ours\n";
    fs::write(&file, &ours)?;
    // The package's file is as it was: dpkg has nothing to ask.
    dpkg(chroot, &[], &[next_version(chroot, deb, "2", "")?])?;
    ensure!(fs::read_to_string(&file)? == ours, "an upgrade changed {CONFIGURATION}");
    // Both have changed: the administrator's answer to the question is to keep theirs.
    let deb = next_version(chroot, deb, "3", "# new in the package\n")?;
    dpkg(chroot, &["--force-confold"], &[deb])?;
    ensure!(fs::read_to_string(&file)? == ours, "an upgrade did not keep {CONFIGURATION}");
    let beside = fs::read_to_string(file.with_extension("toml.dpkg-dist")).context("the package's file")?;
    ensure!(beside.ends_with("# new in the package\n"), "beside {CONFIGURATION} is another file: {beside}");
    let version = chroot.run(&["dpkg-query", "--show", "--showformat=${Version}", "flash"])?;
    ensure!(version.ends_with("-3"), "the version after the upgrade is {version}");
    chroot.run(&["flash", "check"]).map(drop)
}

fn remove(chroot: &Chroot) -> Result<()> {
    chroot.run(&["dpkg", "--remove", "flash", "flash-tools"])?;
    ensure!(!chroot.path("/usr/bin/flash").exists(), "the program outlives its package");
    ensure!(!chroot.path("/usr/bin/flash-load").exists(), "a tool outlives its package");
    ensure!(chroot.path(CONFIGURATION).exists(), "{CONFIGURATION} went with the package");
    fs::write(chroot.path("/var/log/flash/access.log"), "a line\n")?;
    chroot.run(&["dpkg", "--purge", "flash", "flash-tools"])?;
    for gone in [CONFIGURATION, "/etc/logrotate.d/flash", "/var/log/flash", "/usr/share/flash"] {
        ensure!(!chroot.path(gone).exists(), "{gone} outlives a purge");
    }
    ensure!(chroot.path(OWN_SITE).exists(), "a purge removed {OWN_SITE}, which is not the package's");
    Ok(())
}

/// Installs packages, without anybody to answer questions.
fn dpkg(chroot: &Chroot, flags: &[&str], debs: &[PathBuf]) -> Result<()> {
    let mut words = [&["dpkg"], flags, &["--install"]].concat();
    let inside: Vec<String> = debs.iter().map(|deb| bring(chroot, deb)).collect::<Result<_>>()?;
    words.extend(inside.iter().map(String::as_str));
    chroot.run(&words).map(drop)
}

/// Copies a package into the chroot.
fn bring(chroot: &Chroot, deb: &Path) -> Result<String> {
    let inside = format!("/tmp/{}", deb.file_name().context("a package has a name")?.to_string_lossy());
    fs::copy(deb, chroot.path(&inside)).with_context(|| format!("copying {}", deb.display()))?;
    Ok(inside)
}

/// The package with another revision, and with a line more in its configuration.
fn next_version(chroot: &Chroot, deb: &Path, revision: &str, line: &str) -> Result<PathBuf> {
    let folder = chroot.root.with_file_name("repacked");
    succeed(Command::new("dpkg-deb").arg("--raw-extract").arg(deb).arg(&folder))?;
    let control = folder.join("DEBIAN/control");
    let text = fs::read_to_string(&control)?;
    let version =
        text.lines().find(|line| line.starts_with("Version: ")).context("a package has a version")?;
    let (upstream, _) = version.rsplit_once('-').context("a version has a revision")?;
    fs::write(&control, text.replace(version, &format!("{upstream}-{revision}")))?;
    let configuration = folder.join(CONFIGURATION.trim_start_matches('/'));
    fs::write(&configuration, fs::read_to_string(&configuration)? + line)?;
    let repacked = chroot.root.with_file_name(format!("flash-{revision}.deb"));
    succeed(Command::new("dpkg-deb").args(["-Zgzip", "-z1", "--build"]).arg(&folder).arg(&repacked))?;
    fs::remove_dir_all(&folder)?;
    Ok(repacked)
}

/// A server at a port of its own. It ends with the value.
pub(super) struct Server {
    child: Child,
    address: String,
}

impl Server {
    fn start(chroot: &Chroot) -> Result<Server> {
        let flags = ["--config", CONFIGURATION, "--user", "flash", "--listen", "127.0.0.1:0"];
        let mut command = chroot.command(&[&["flash", "serve"], &flags[..]].concat());
        Server::spawn(&mut command)
    }

    /// Starts a server, and waits until it says its address.
    pub(super) fn spawn(command: &mut Command) -> Result<Server> {
        let mut child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn()?;
        let mut said = String::new();
        let mut lines = BufReader::new(child.stderr.take().expect("it is a pipe")).lines();
        while let Some(line) = lines.next().transpose()? {
            let address = line.split_once(" at http://").and_then(|(_, rest)| rest.split_once('/'));
            if let Some((address, _)) = address {
                // It may say more, and must not wait for a reader.
                std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
                return Ok(Server { child, address: address.to_owned() });
            }
            said += &(line + "\n");
        }
        bail!("the server ended ({}):\n{said}", child.wait()?)
    }

    /// Asks for the page of a host.
    pub(super) fn ask(&self, host: &str) -> Result<String> {
        let mut stream =
            TcpStream::connect(&self.address).with_context(|| format!("reaching {}", self.address))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        write!(stream, "GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).context("reading the answer")?;
        Ok(answer)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let _ = kill_process(pid.expect("it is the number of a process"), Signal::TERM);
        let _ = self.child.wait();
    }
}
