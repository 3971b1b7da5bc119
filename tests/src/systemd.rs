//! A systemd of its own, with Flash installed as an administrator has it: the shipped unit, user, folders and log rotation. It is
//! process 1 of its namespaces, so the machine needs no systemd that runs, and notices nothing. It needs the superuser's rights.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::{PATIENCE, program};

/// Where its standard error goes in [`Systemd`].
const ERRORS: &str = "/run/flash-errors";

/// The shipped files for systemd.
pub fn deploy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../deploy/systemd")
        .canonicalize()
        .expect("deploy/systemd is there")
}

/// What keeps one from running here, if anything.
pub fn missing() -> Option<&'static str> {
    if !rustix::process::geteuid().is_root() {
        return Some("it needs the superuser's rights");
    }
    let namespaces = ["--fork", "--pid", "--mount", "--cgroup", "--uts", "--ipc", "--net", "true"];
    let allowed =
        Command::new("unshare").args(namespaces).output().is_ok_and(|output| output.status.success());
    if !allowed {
        return Some("this system allows no namespaces");
    }
    (!Path::new("/lib/systemd/systemd").exists()).then_some("systemd is not installed")
}

pub struct Systemd {
    script: Child,
    /// The machine's number of its process 1.
    init: u32,
    _work: tempfile::TempDir,
}

impl Systemd {
    /// Starts it without a running service.
    pub fn start() -> Self {
        let work = tempfile::tempdir().expect("a temporary folder");
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/systemd.sh");
        let mut command = Command::new("unshare");
        command.arg("--mount").arg("sh").arg(script).arg(work.path()).arg(program()).arg(deploy());
        let said = tempfile::NamedTempFile::new().expect("a temporary file");
        let file = said.reopen().expect("a file");
        let script =
            command.stdin(Stdio::null()).stderr(file).process_group(0).spawn().expect("unshare starts");
        let mut systemd = Self { script, init: 0, _work: work };
        let give_up = Instant::now() + PATIENCE;
        while !systemd.is_ready() {
            let ended = systemd.script.try_wait().expect("it is a child");
            let said = || fs::read_to_string(said.path()).unwrap_or_default();
            assert!(
                ended.is_none() && Instant::now() < give_up,
                "systemd does not start: {ended:?}, {}",
                said()
            );
            thread::sleep(Duration::from_millis(20));
        }
        systemd.write(
            "/etc/systemd/system/flash.service.d/test.conf",
            &format!(
                "[Unit]\nStartLimitIntervalSec=0\n[Service]\nStandardError=append:{ERRORS}\nRestart=no\n"
            ),
        );
        systemd.succeed("systemctl daemon-reload");
        systemd
    }

    /// Process 1 is the child of `unshare`, which is a child of the script.
    fn is_ready(&mut self) -> bool {
        let Some(init) = child_of(self.script.id()).and_then(child_of) else { return false };
        let runs = fs::read_to_string(format!("/proc/{init}/comm")).is_ok_and(|name| name == "systemd\n");
        self.init = init;
        runs && self.run("systemctl is-active basic.target").status.success()
    }

    /// A path as processes outside reach it.
    pub fn path(&self, inside: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root{inside}", self.init))
    }

    pub fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().expect("it is in a folder")).expect("a folder");
        fs::write(&path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }

    /// A drop-in of those that are shipped as examples.
    pub fn install(&self, example: &str) {
        let text = fs::read_to_string(deploy().join("examples").join(example)).expect("an example");
        self.write(&format!("/etc/systemd/system/flash.service.d/{example}"), &text);
        self.succeed("systemctl daemon-reload");
    }

    /// The words of a shell, to be run inside.
    pub fn command(&self, words: &str) -> Command {
        let mut command = Command::new("nsenter");
        command
            .args(["--target", &self.init.to_string()])
            .args(["--mount", "--pid", "--net", "--uts", "--ipc", "--cgroup"]);
        command.args(["timeout", &PATIENCE.as_secs().to_string(), "sh", "-c", words]).stdin(Stdio::null());
        command
    }

    pub fn run(&self, words: &str) -> Output {
        self.command(words).output().expect("nsenter starts")
    }

    /// Standard output of a command that has to succeed.
    pub fn succeed(&self, words: &str) -> String {
        let output = self.run(words);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (out, error) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "{words}: {}\n{out}{error}\n{}", output.status, self.said());
        out
    }

    /// Configures the server, and starts it anew.
    pub fn serve(&self, configuration: &str) {
        self.write("/etc/flash/flash.toml", configuration);
        self.succeed("systemctl restart flash");
    }

    /// What the server has written to standard error.
    pub fn said(&self) -> String {
        fs::read_to_string(self.path(ERRORS)).unwrap_or_default()
    }
}

impl Drop for Systemd {
    fn drop(&mut self) {
        // The end of process 1 is the end of all its processes.
        let _ = Command::new("kill").args(["-9", &self.init.to_string()]).status();
        let _ = self.script.wait();
    }
}

fn child_of(process: u32) -> Option<u32> {
    let children = fs::read_to_string(format!("/proc/{process}/task/{process}/children")).ok()?;
    children.split_whitespace().next()?.parse().ok()
}
